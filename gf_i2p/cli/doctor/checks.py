"""Checks: what one is, what it says, and how they are made side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import structlog

PROGRESS_SECONDS: Final = 2.0
"""Who waits longer is told what for."""
_TICK_SECONDS: Final = 0.25

logger = structlog.get_logger()


class State(StrEnum):
    """What has come of a check."""

    OK = "ok"
    WARN = "warn"
    """It works, and may hurt."""
    FAIL = "fail"
    SKIP = "skip"
    """Not made: what it needs is not there, or not configured. Nothing is said about what it would have shown."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What mends it, for the operator of each router."""

    i2pd: str
    java: str

    @classmethod
    def either(cls, text: str) -> Self:
        """Make one that has nothing to do with which router it is."""
        return cls(text, text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says: one line, and a remedy unless all is well."""

    state: State
    text: str
    remedy: Remedy | None = None


def ok(text: str) -> Verdict:
    """All is well."""
    return Verdict(State.OK, text)


def warn(text: str, remedy: Remedy | None = None) -> Verdict:
    """It works, and may hurt."""
    return Verdict(State.WARN, text, remedy)


def fail(text: str, remedy: Remedy) -> Verdict:
    """It does not work."""
    return Verdict(State.FAIL, text, remedy)


def skip(text: str) -> Verdict:
    """It was not looked at, for this reason."""
    return Verdict(State.SKIP, text)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at."""

    name: str
    look: Callable[[], Awaitable[Verdict]]
    seconds: float = 5.0
    """Its deadline."""
    needs: tuple[str, ...] = ()
    """Checks that stand before it; unless they are well it is not made, for it would only blame their fault again."""
    after: tuple[str, ...] = ()
    """Checks that stand before it, whose findings it uses if there are any."""
    late: Remedy | None = None
    """For when it takes longer than its deadline."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check that was made."""

    name: str
    verdict: Verdict


def is_well(findings: Sequence[Finding]) -> bool:
    """Whether nothing fails."""
    return all(finding.verdict.state is not State.FAIL for finding in findings)


async def examine(
    checks: Sequence[Check],
    found: Callable[[Finding], None],
    waiting: Callable[[list[str], float], None],
) -> list[Finding]:
    """Make all checks side by side, and say what they found in their order.

    Args:
        checks: with names of their own; what one needs stands before it.
        found: called for each, as soon as it and those before it are there.
        waiting: called while it takes long, with the names of the checks that run and the seconds so far.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    tasks: dict[str, asyncio.Task[Verdict]] = {}
    running: dict[str, None] = {}
    findings = []
    for check in checks:
        tasks[check.name] = asyncio.create_task(_make(check, dict(tasks), running))
    try:  # no group: what `found` raises, when nobody reads what it prints, is to come out as it is
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


async def _make(check: Check, before: dict[str, asyncio.Task[Verdict]], running: dict[str, None]) -> Verdict:
    verdicts = {name: await before[name] for name in (*check.needs, *check.after)}
    missing = [name for name in check.needs if verdicts[name].state in {State.FAIL, State.SKIP}]
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
