"""`make scenarios`: everything in this folder, on private networks of real I2P routers.

Most of the time is spent waiting for tunnels, so several networks run side by side, in namespaces of their own.

What real routers do is partly chance: whom a tunnel leads through, and whether one of these is busy then. So a
scenario that failed runs once more, on a network that nobody else uses. What it said when it failed is printed whole,
and the last lines name it: one that needs this often has a fault. More than `MAX_AGAIN` at once are no chance.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration.processes import Processes, tail
from integration.testnet.namespace import MissingError, check_programs

FOLDER: Final = Path(__file__).parent
GROUPS: Final = (
    ("test_make_farm.py",),
    ("test_pipeline.py",),
    ("test_farm.py",),
    ("test_doctor.py", "test_sam.py", "test_keys.py"),
    ("test_failover.py", "test_trees.py"),
)
"""What has a network to itself: so many minutes each that none is waited for long. All others share one."""
WITHOUT: Final = {"test_make_farm.py"}
"""These bring networks of their own."""
MUST_VARIABLE: Final = "GF_I2P_MUST_RUN_SCENARIOS"
"""Where it is set, to be skipped is to fail: CI sets it."""
OUTCOMES_VARIABLE: Final = "GF_I2P_OUTCOMES"
"""Names the file into which pytest writes what has become of each scenario; see `conftest.py`."""
MAX_AGAIN: Final = 2
"""So many scenarios may run once more, of all; a group whose network did not come up counts as one."""
_POLL_SECONDS: Final = 0.5
_SHOWN_BYTES: Final = 200_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group."""

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    """What pytest is given to run them again: the whole group when it did not get to an end."""
    ended: bool = True
    """Otherwise they failed together, and for one reason: most likely their network did not come up."""

    @property
    def again(self) -> list[tuple[str, ...]]:
        """What may run once more, each on a network of its own."""
        return [(each,) for each in self.failed] if self.ended else [self.failed]


def groups(arguments: Sequence[str]) -> list[list[str]]:
    """Say what runs together: what pytest is given for each network."""
    if arguments:
        return [list(arguments)]
    files = sorted(path.name for path in FOLDER.glob("test_*.py"))
    grouped = {name for group in GROUPS for name in group}
    parts = [*GROUPS, [name for name in files if name not in grouped]]
    return [[str(FOLDER / name) for name in part] for part in parts]


async def run(directory: Path, arguments: Sequence[str]) -> int:
    """Run all groups; return 0 when all passed. What each has said comes when it has ended."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        first = [
            asyncio.create_task(_outcome(stack, directory / f"{number}", group, began))
            for number, group in enumerate(groups(arguments))
        ]
        outcomes = await asyncio.gather(*first)
        again = [part for outcome in outcomes for part in outcome.again]
        passed = sum(len(outcome.passed) for outcome in outcomes)
        failed: list[str] = []
        if len(again) > MAX_AGAIN:
            again, failed = [], [each for part in again for each in part]
        for number, part in enumerate(again):  # one after the other: with little else on the machine
            outcome = await _outcome(stack, directory / f"again-{number}", part, began)
            passed += len(outcome.passed)
            failed += outcome.failed
    print(f"{time.monotonic() - began:6.1f} s  scenarios: {passed} passed, {len(failed)} failed")
    for each in failed:
        print(f"FAILED {each}")
    for each in (each for part in again for each in part):
        if each not in failed:
            print(f"PASSED ONLY WHEN IT RAN ONCE MORE: {each}")
    return int(bool(failed))


async def _outcome(stack: contextlib.ExitStack, directory: Path, group: Sequence[str], began: float) -> Outcome:
    """Run one group on a network of its own, if it needs one."""
    names = [Path(name.partition("::")[0]).name for name in group if not name.startswith("-")]
    title = ", ".join(names) if len(group) > 1 else group[0].removeprefix(f"{FOLDER}/")
    log, told = directory.with_suffix(".log"), directory.with_suffix(".json")
    testnet = [sys.executable, "-m", "integration.testnet", "run", "--directory", str(directory), "--"]
    pytest = [sys.executable, "-m", "pytest", "-rfEs", "--timeout=600", "-p", "no:cacheprovider", *group]
    # The network takes itself down; it needs the time for it.
    processes = stack.enter_context(Processes(grace=30.0))
    command = pytest if set(names) <= WITHOUT else [*testnet, *pytest]
    process = processes.spawn("scenarios", command, log, {**os.environ, OUTCOMES_VARIABLE: str(told)})
    print(f"{time.monotonic() - began:6.1f} s  {title}: begun", flush=True)
    while process.poll() is None:  # noqa: ASYNC110 -- another process makes it true
        await asyncio.sleep(_POLL_SECONDS)
    outcome = read_outcome(told, process.returncode, group)
    print(f"{time.monotonic() - began:6.1f} s  {title}: {'FAILED' if outcome.failed else 'passed'}", flush=True)
    print(tail(log, _SHOWN_BYTES) if outcome.failed else "\n".join(f"PASSED {each}" for each in outcome.passed))
    return outcome


def read_outcome(told: Path, status: int, group: Sequence[str]) -> Outcome:
    """Read what pytest has written, if it has: a group that ended badly and names no failure failed as a whole."""
    try:
        outcomes = json.loads(told.read_text())
    except (OSError, ValueError):
        return Outcome((), tuple(group), ended=False)
    passed, failed = tuple(outcomes["passed"]), tuple(outcomes["failed"])
    return Outcome(passed, tuple(group), ended=False) if status != 0 and not failed else Outcome(passed, failed)


def main() -> int:
    """Run; what the command line says goes to pytest. 0 when all passed, or when there can be no network here."""
    try:
        check_programs()
    except MissingError as error:
        print(f"Scenarios on real I2P routers: SKIPPED. {error}")
        return int(MUST_VARIABLE in os.environ)
    with tempfile.TemporaryDirectory(prefix="gf-i2p-scenarios-", ignore_cleanup_errors=True) as directory:
        try:
            return asyncio.run(run(Path(directory), sys.argv[1:]))
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
