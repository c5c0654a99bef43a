"""Checks and their results, and the function that runs checks side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import structlog

PROGRESS_SECONDS: Final = 2.0
"""Seconds after which a person is told which checks are still running."""
_TICK_SECONDS: Final = 0.25

logger = structlog.get_logger()


class CheckState(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    """The thing works, and may hurt."""
    FAIL = "fail"
    SKIP = "skip"
    """The check was not made: a thing that the check needs is missing, or not configured. It says nothing else."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Advice that mends a fault, for the operator of each kind of router."""

    i2pd: str
    java: str

    @classmethod
    def either(cls, text: str) -> Self:
        """Make advice that is the same for both kinds of router."""
        return cls(text, text)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The words of a check: one line, and a remedy unless all is well."""

    state: CheckState
    text: str
    remedy: Remedy | None = None


def ok(text: str) -> CheckResult:
    """All is well."""
    return CheckResult(CheckState.OK, text)


def warn(text: str, remedy: Remedy | None = None) -> CheckResult:
    """The thing works, and may hurt."""
    return CheckResult(CheckState.WARN, text, remedy)


def fail(text: str, remedy: Remedy) -> CheckResult:
    """The thing does not work."""
    return CheckResult(CheckState.FAIL, text, remedy)


def skip(text: str) -> CheckResult:
    """The check was not made, for this reason."""
    return CheckResult(CheckState.SKIP, text)


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

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
    """Whether nothing fails."""
    return all(finding.result.state is not CheckState.FAIL for finding in findings)


async def examine(
    checks: Sequence[Check],
    found: Callable[[Finding], None],
    waiting: Callable[[list[str], float], None],
) -> list[Finding]:
    """Make all checks side by side, and report the findings in the order of the checks.

    Args:
        checks: with unique names; a check stands behind the checks that it needs.
        found: called for each finding, as soon as that finding and all earlier ones are there.
        waiting: called during a long wait, with the names of the running checks and the seconds so far.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    tasks: dict[str, asyncio.Task[CheckResult]] = {}
    running: dict[str, None] = {}
    findings = []
    for check in checks:
        tasks[check.name] = asyncio.create_task(_make(check, dict(tasks), running))
    try:  # no task group: `found` raises when its output is closed, and that exception must leave as it is
        for name, task in tasks.items():
            while not task.done():
                await asyncio.wait([task], timeout=_TICK_SECONDS)
                if not task.done() and loop.time() - began >= PROGRESS_SECONDS:
                    waiting(list(running), loop.time() - began)
            findings.append(Finding(name, task.result()))
            found(findings[-1])
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return findings


async def _make(check: Check, before: dict[str, asyncio.Task[CheckResult]], running: dict[str, None]) -> CheckResult:
    results = {name: await before[name] for name in (*check.needs, *check.after)}
    missing = [name for name in check.needs if results[name].state in {CheckState.FAIL, CheckState.SKIP}]
    if missing:
        return skip(f"not looked at: it needs {missing[0]}")
    running[check.name] = None
    try:
        async with asyncio.timeout(check.seconds):
            return await check.look()
    except TimeoutError:
        return fail(f"no result within {check.seconds:g} s", check.late or Remedy.either("Try again."))
    except Exception as error:
        logger.exception("a defect in a check", check=check.name)
        text = f"could not be looked at: a defect in this program ({type(error).__name__})"
        return fail(text, Remedy.either("Report it, with the lines that stand on standard error."))
    finally:
        del running[check.name]
