"""Checks and their results, and the function that runs checks side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import structlog

PROGRESS_SECONDS: Final = 2.0
"""Seconds after which the terminal shows which checks are still running."""
_TICK_SECONDS: Final = 0.25

logger = structlog.get_logger()


class CheckState(StrEnum):
    """The state that a check has found."""

    OK = "ok"
    WARN = "warn"
    """Something works, but may cause trouble."""
    FAIL = "fail"
    SKIP = "skip"
    """The check was not made, because something that the check needs is missing or not configured."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Advice on how to mend a fault: one text for an i2pd, and one text for a Java router."""

    i2pd: str
    java: str

    @classmethod
    def either(cls, text: str) -> Self:
        """Make advice that is the same for both kinds of router."""
        return cls(text, text)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check: the state, one line of text, and advice when something can be mended."""

    state: CheckState
    text: str
    remedy: Remedy | None = None


def ok(text: str) -> CheckResult:
    """Return the result of a check that found no fault."""
    return CheckResult(CheckState.OK, text)


def warn(text: str, remedy: Remedy | None = None) -> CheckResult:
    """Return the result of a check that found something that works, but may cause trouble."""
    return CheckResult(CheckState.WARN, text, remedy)


def fail(text: str, remedy: Remedy) -> CheckResult:
    """Return the result of a check that found a fault."""
    return CheckResult(CheckState.FAIL, text, remedy)


def skip(text: str) -> CheckResult:
    """Return the result of a check that was not made. `text`: the reason."""
    return CheckResult(CheckState.SKIP, text)


def fault_and_advice(sentence: str) -> tuple[str, str]:
    """Split a message of this program, "fault: advice", into the fault and the advice."""
    fault, _, advice = sentence.partition(": ")
    return fault, advice[:1].upper() + advice[1:]


@dataclass(frozen=True, slots=True)
class Check:
    """One check of `gf-i2p doctor`, with its time limit and the checks that come before."""

    name: str
    look: Callable[[], Awaitable[CheckResult]]
    seconds: float = 5.0
    """Seconds that the check may take."""
    needs: tuple[str, ...] = ()
    """Earlier checks. Unless all of these pass, this check is skipped: it would only find the same fault again."""
    after: tuple[str, ...] = ()
    """Earlier checks whose findings this check uses, if there are any."""
    late: Remedy | None = None
    """Remedy for a check that exceeds its seconds."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The name and the result of a check that was made."""

    name: str
    result: CheckResult


def is_well(findings: Sequence[Finding]) -> bool:
    """Whether no check has failed."""
    return all(finding.result.state is not CheckState.FAIL for finding in findings)


async def examine(
    checks: Sequence[Check],
    on_finding: Callable[[Finding], None],
    on_wait: Callable[[list[str], float], None],
) -> list[Finding]:
    """Make all checks side by side, and report the findings in the order of the checks.

    Args:
        checks: with unique names; each check comes after the checks that it needs.
        on_finding: called for each finding, as soon as that finding and all earlier ones are there.
        on_wait: called during a long wait, with the names of the running checks and the seconds so far.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    tasks: dict[str, asyncio.Task[CheckResult]] = {}
    running: dict[str, None] = {}
    findings = []
    for check in checks:
        tasks[check.name] = asyncio.create_task(_run_check(check, dict(tasks), running))
    try:  # no task group: `on_finding` may raise `BrokenPipeError`, which must not leave in an `ExceptionGroup`
        for name, task in tasks.items():
            while not task.done():
                await asyncio.wait([task], timeout=_TICK_SECONDS)
                if not task.done() and loop.time() - start >= PROGRESS_SECONDS:
                    on_wait(list(running), loop.time() - start)
            findings.append(Finding(name, task.result()))
            on_finding(findings[-1])
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return findings


async def _run_check(
    check: Check, earlier: dict[str, asyncio.Task[CheckResult]], running: dict[str, None]
) -> CheckResult:
    results = {name: await earlier[name] for name in (*check.needs, *check.after)}
    missing = [name for name in check.needs if results[name].state in {CheckState.FAIL, CheckState.SKIP}]
    if missing:
        return skip(f"not looked at: this check needs {missing[0]}")
    running[check.name] = None
    try:
        async with asyncio.timeout(check.seconds):
            return await check.look()
    except TimeoutError:
        return fail(f"no result within {check.seconds:g} s", check.late or Remedy.either("Try again."))
    except Exception as error:
        logger.exception("a defect in a check", check=check.name)
        text = f"could not be looked at, by a defect in this program ({type(error).__name__})"
        return fail(text, Remedy.either("Report the defect, with the lines on standard error."))
    finally:
        del running[check.name]
