"""The outcomes of tests that pytest ran in a process of its own, and the tests that may run once more.

Also a plugin of pytest (`-p integration.harness.pytest_outcomes`), which writes the outcomes down. Real routers act
partly by chance: in their choice of tunnels, and in the load on these. So a failed test runs once more, on routers of
its own. The first failure is printed whole, with the name of the test: a test that often needs a second run has a
fault. More failures than `MAX_AGAIN` at once are not due to chance.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

OUTCOMES_VARIABLE: Final = "GF_I2P_OUTCOMES"
"""Names the file into which pytest writes the outcome of each test."""
PYTEST_OPTIONS: Final = ("-rfEs", "-p", "no:cacheprovider", "-p", "integration.harness.pytest_outcomes")
MAX_AGAIN: Final = 2
"""Most tests that may run once more; a group whose network did not come up counts as one test."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a group of tests."""

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    """Arguments for pytest to run the failures again: the whole group when the group did not end."""
    ended: bool = True
    """False: the tests failed together, for one reason; most likely their network did not come up."""

    @property
    def again(self) -> list[tuple[str, ...]]:
        """Groups that may run once more, each on a network of its own."""
        return [(each,) for each in self.failed] if self.ended else [self.failed]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write down the outcome of each test (a hook of pytest)."""
    if (told := os.environ.get(OUTCOMES_VARIABLE)) is None:
        return
    stats = terminalreporter.stats
    failed = list(dict.fromkeys(each.nodeid for each in stats.get("failed", []) + stats.get("error", [])))
    passed = [each.nodeid for each in stats.get("passed", []) if each.nodeid not in failed]
    Path(told).write_text(json.dumps({"passed": passed, "failed": failed}))


def read_outcome(told: Path, status: int, group: Sequence[str]) -> Outcome:
    """Read pytest's file, if it exists. If pytest failed and named no failure, the whole group counts as failed."""
    try:
        outcomes = json.loads(told.read_text())
    except (OSError, ValueError):
        outcomes = None
    if outcomes is None or (status != 0 and not outcomes["failed"]):
        return Outcome((), tuple(group), ended=False)
    return Outcome(tuple(outcomes["passed"]), tuple(outcomes["failed"]))


def summary(what: str, seconds: float, passed: int, failed: Sequence[str], again: Sequence[str]) -> str:
    """Write the last lines of a run. `again`: all tests that ran once more, passed or failed."""
    lines = [f"{seconds:6.1f} s  {what}: {passed} passed, {len(failed)} failed"]
    lines += [f"FAILED {each}" for each in failed]
    lines += [f"PASSED ONLY WHEN IT RAN ONCE MORE: {each}" for each in again if each not in failed]
    return "\n".join(lines)
