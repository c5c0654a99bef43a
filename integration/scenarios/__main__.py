"""`make scenarios`: the scenarios of this folder, on private networks of real I2P routers.

The short scenarios share one network; `make farm` and `testnet up` start networks of their own. With
`GF_I2P_TIER=all`, the slow scenarios run, too: tunnels take most of the time, so several networks run side by side,
each in separate namespaces.

Scenarios with Java routers run when `GF_I2P_JAVA` names a build of Java I2P, on networks of both kinds of router.

A scenario that failed may run once more: `integration/harness/pytest_outcomes.py`.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration.harness.processes import Processes, tail
from integration.harness.pytest_outcomes import (
    MAX_AGAIN,
    OUTCOMES_VARIABLE,
    PYTEST_OPTIONS,
    Outcome,
    read_outcome,
    summary,
)
from integration.testnet.java_build import JAVA_VARIABLE, JavaBuild, wants_java
from integration.testnet.namespace import MissingError, check_programs
from tests.tier import is_everything

FOLDER: Final = Path(__file__).parent
GROUPS: Final = (
    ("test_make_farm.py", "test_testnet_up.py"),
    ("test_pipeline.py", "test_far_administrator.py"),
    ("test_farm.py",),
    ("test_pages.py",),
    ("test_machine_pages.py",),
    ("test_doctor.py", "test_sam.py", "test_keys.py"),
    ("test_failover.py", "test_trees.py"),
    ("test_leaf_death.py", "test_leaf_load.py"),
    ("test_steady.py", "test_lease_set_coverage.py", "test_host_lookup.py"),
)
"""Files that share a network when all scenarios run, chosen so that all networks take about as long. All other files
share one network."""
JAVA_FILES: Final = ("test_java.py", "test_failover_table.py", "test_found_words.py")
"""Files whose scenarios need a network with Java routers."""
JAVA_GROUPS: Final = (
    ("test_java.py", "test_leaf_death.py::test_dead_leaves_are_dropped_and_living_ones_listed_again[java]"),
    ("test_failover_table.py", "test_found_words.py"),
    tuple(
        f"test_lease_set_coverage.py::test_floodfills_hold_the_set_at_all_times[{kind}]" for kind in ("i2pd", "java")
    ),
)
"""As `GROUPS`, with Java routers. The name of a test in brackets says the kind of router."""
QUICK_JAVA: Final = (("test_java.py",),)
BOTH_KINDS: Final = ("--routers", "8", "--java", "4")
"""Options for a network with Java routers: of each kind, three or more are no floodfills."""
QUICK: Final = (("test_make_farm.py", "test_testnet_up.py"),)
"""Files of the short scenarios that share a network."""
WITHOUT: Final = {"test_make_farm.py", "test_testnet_up.py"}
"""Files whose scenarios start a network themselves."""
MUST_VARIABLE: Final = "GF_I2P_MUST_RUN_SCENARIOS"
"""With this variable set, a skipped run is a failure. CI sets the variable."""
_POLL_SECONDS: Final = 0.5
_SAY_SECONDS: Final = 20.0
"""Seconds between two lines about a group that runs for long."""
_SHOWN_BYTES: Final = 200_000
_SHOWING: Final = frozenset({"-rP", "-rA", "-s"})
"""Options of pytest that show the output of scenarios that passed."""


def groups(arguments: Sequence[str]) -> list[list[str]]:
    """Give the arguments of pytest for each network."""
    if arguments:
        return [list(arguments)]
    files = sorted(path.name for path in FOLDER.glob("test_*.py") if path.name not in JAVA_FILES)
    chosen = GROUPS if is_everything() else QUICK
    grouped = {name for group in chosen for name in group}
    parts = [*chosen, [name for name in files if name not in grouped]]
    if wants_java():
        parts += JAVA_GROUPS if is_everything() else QUICK_JAVA
    return [[str(FOLDER / name) for name in part] for part in parts]


def network_options(group: Sequence[str]) -> list[str]:
    """Give the options of `integration.testnet` for the network that a group of pytest's arguments needs."""
    needs_java = any(name in each for each in group for name in (*JAVA_FILES, "[java"))
    return list(BOTH_KINDS) if needs_java and wants_java() else []


async def run(directory: Path, arguments: Sequence[str]) -> int:
    """Run all groups; return 0 when all passed. The output of each group is printed when the group has ended."""
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
        for number, part in enumerate(again):  # one after the other, so that little else runs on the machine
            outcome = await _outcome(stack, directory / f"again-{number}", part, began)
            passed += len(outcome.passed)
            failed += outcome.failed
    ran_again = [each for part in again for each in part]
    print(summary("scenarios", time.monotonic() - began, passed, failed, ran_again))
    return int(bool(failed))


async def _outcome(stack: contextlib.ExitStack, directory: Path, group: Sequence[str], began: float) -> Outcome:
    """Run one group, on a network of its own if the group needs one."""
    names = [Path(name.partition("::")[0]).name for name in group if not name.startswith("-")]
    title = ", ".join(names) if len(group) > 1 else group[0].removeprefix(f"{FOLDER}/")
    log, told = directory.with_suffix(".log"), directory.with_suffix(".json")
    network = ["--directory", str(directory), *network_options(group)]
    testnet = [sys.executable, "-m", "integration.testnet", "run", *network, "--"]
    pytest = [sys.executable, "-m", "pytest", *PYTEST_OPTIONS, "--timeout=600", *group]
    # The network needs the grace to take itself down.
    processes = stack.enter_context(Processes(grace=30.0))
    command = pytest if set(names) <= WITHOUT else [*testnet, *pytest]
    process = processes.spawn("scenarios", command, log, {**os.environ, OUTCOMES_VARIABLE: str(told)})
    print(f"{time.monotonic() - began:6.1f} s  {title}: begun", flush=True)
    said = time.monotonic()
    while process.poll() is None:
        await asyncio.sleep(_POLL_SECONDS)
        if time.monotonic() - said >= _SAY_SECONDS:
            said = time.monotonic()
            print(f"{said - began:6.1f} s  {title}: still runs", flush=True)
    outcome = read_outcome(told, process.returncode, group)
    print(f"{time.monotonic() - began:6.1f} s  {title}: {'FAILED' if outcome.failed else 'passed'}", flush=True)
    is_shown = bool(outcome.failed or _SHOWING.intersection(group))
    print(tail(log, _SHOWN_BYTES) if is_shown else "\n".join(f"PASSED {each}" for each in outcome.passed))
    return outcome


def main() -> int:
    """Run with pytest's arguments. Return 0 when all passed, or when this machine cannot have a network."""
    try:
        check_programs()
    except MissingError as error:
        print(f"Scenarios on real I2P routers: SKIPPED. {error}")
        return int(MUST_VARIABLE in os.environ)
    if wants_java():
        try:
            JavaBuild.find()
        except MissingError as error:
            print(f"Scenarios with Java routers: {error}")
            return 1
    else:
        print(f"Scenarios with Java routers: SKIPPED. {JAVA_VARIABLE} is not set (CONTRIBUTING.md, Java routers)")
    with tempfile.TemporaryDirectory(prefix="gf-i2p-scenarios-", ignore_cleanup_errors=True) as directory:
        try:
            return asyncio.run(run(Path(directory), sys.argv[1:]))
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
