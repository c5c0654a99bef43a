"""What became of tests that pytest ran in a process of its own, and what of it may run once more.

Also a plugin of pytest (`-p integration.harness.pytest_outcomes`), which writes it down. What real routers do is partly
chance: whom a tunnel leads through, and whether one of these is busy then. So what failed runs once more, on routers
that nobody else uses. What it said when it failed is printed whole, and it is named: one that needs this often has a
fault. More than `MAX_AGAIN` at once are no chance.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

OUTCOMES_VARIABLE: Final = "GF_I2P_OUTCOMES"
"""Names the file into which pytest writes what has become of each test."""
PYTEST_OPTIONS: Final = ("-rfEs", "-p", "no:cacheprovider", "-p", "integration.harness.pytest_outcomes")
MAX_AGAIN: Final = 2
"""So many tests may run once more, of all; a group whose network did not come up counts as one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group of tests."""

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    """What pytest is given to run them again: the whole group when it did not get to an end."""
    ended: bool = True
    """Otherwise they failed together, and for one reason: most likely their network did not come up."""

    @property
    def again(self) -> list[tuple[str, ...]]:
        """What may run once more, each on a network of its own."""
        return [(each,) for each in self.failed] if self.ended else [self.failed]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write down what became of each test (a hook of pytest)."""
    if (told := os.environ.get(OUTCOMES_VARIABLE)) is None:
        return
    stats = terminalreporter.stats
    failed = list(dict.fromkeys(each.nodeid for each in stats.get("failed", []) + stats.get("error", [])))
    passed = [each.nodeid for each in stats.get("passed", []) if each.nodeid not in failed]
    Path(told).write_text(json.dumps({"passed": passed, "failed": failed}))


def read_outcome(told: Path, status: int, group: Sequence[str]) -> Outcome:
    """Read what pytest has written, if it has: a group that ended badly and names no failure failed as a whole."""
    try:
        outcomes = json.loads(told.read_text())
    except (OSError, ValueError):
        outcomes = None
    if outcomes is None or (status != 0 and not outcomes["failed"]):
        return Outcome((), tuple(group), ended=False)
    return Outcome(tuple(outcomes["passed"]), tuple(outcomes["failed"]))


def summary(what: str, seconds: float, passed: int, failed: Sequence[str], again: Sequence[str]) -> str:
    """Say in the last lines how it ended. `again`: all that ran once more, whatever came of it."""
    lines = [f"{seconds:6.1f} s  {what}: {passed} passed, {len(failed)} failed"]
    lines += [f"FAILED {each}" for each in failed]
    lines += [f"PASSED ONLY WHEN IT RAN ONCE MORE: {each}" for each in again if each not in failed]
    return "\n".join(lines)
