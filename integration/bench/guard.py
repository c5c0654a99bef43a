"""The guard of the speed: `python -m integration.bench.guard` fails when an entry costs a quarter more than it did.

The guard measures two checkouts in turn, this one and that of the commit `BASE`. So both meet the same machine in the
same minute. Figures that were kept from another machine gave ratios from 0.64 to 1.6 for unchanged code, although the
unit was measured beside the load.

Exit codes: 0 no cost has grown by a quarter, 1 a cost has, or nothing could be measured. In a shallow clone, which has
no `BASE`, the guard says so and exits with 0.
"""

import argparse
import asyncio
import cProfile
import io
import json
import pstats
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from integration.bench import instructions, profile
from integration.bench.costs import SECONDS, WARMUP, Costs, in_loop, record_cost, run_load
from integration.bench.report import align
from integration.bench.suite import BUILD, scratch
from integration.bench.systems.farm import FARM
from integration.bench.systems.system import BenchError
from integration.bench.workloads import WORKLOADS, Workload
from integration.harness.checkouts import ROOT, CommitMissingError, checkout
from integration.harness.processes import ProcessEndedError

BASE: Final = "a672942a002372410dd0650b58df9f634d02e824"
"""The commit of which an entry's cost counts as the cost that it had: the last release, or a later one."""
ALLOWED: Final = {"leader": 1.25, "follower": 1.25, "history": 2.0, "node": 1.5}
"""A cost that is more than so many times the base's cost fails. The history works in bursts, so its cost varies."""
ROUNDS: Final = 4
"""The most rounds; the guard ends after the first in which no cost has grown. A machine that does other work makes an
entry dearer now and then, and never cheaper, so the cheapest round counts."""
_TITLES: Final = {workload.name: workload.title for workload in WORKLOADS} | {"records": "a server's record"}


def cheapest(rounds: Sequence[Costs]) -> Costs:
    """Return the least of each cost."""
    return {name: {who: min(one[name][who] for one in rounds) for who in each} for name, each in rounds[0].items()}


def grown(now: Costs, base: Costs) -> list[str]:
    """Return the names of the loads of which a cost has grown beyond what is allowed."""
    return [name for name, costs in now.items() if any(costs[who] > ALLOWED[who] * base[name][who] for who in costs)]


def table(now: Costs, base: Costs) -> str:
    """Return the figures as aligned text."""
    lines = [["Cost of an entry, in beats", "", "now", "base", "ratio"]]
    for name, costs in now.items():
        for who, cost in costs.items():
            before = base[name][who]
            lines.append([_TITLES[name], who, f"{cost:.3f}", f"{before:.3f}", f"{cost / before:.2f}"])
    return align(lines, left=2)


def compared(measure: Callable[[Path], Costs], base: Path) -> tuple[Costs, Costs]:
    """Measure this checkout and the base's in turn; return the least of each cost, of this one and of the base."""
    now: list[Costs] = []
    before: list[Costs] = []
    while len(now) < ROUNDS and (not now or grown(cheapest(now), cheapest(before))):
        # Each is first in every other round.
        turns = [(before, base), (now, ROOT)]
        for costs, place in turns if len(now) % 2 == 0 else reversed(turns):
            costs.append(measure(place))
    return cheapest(now), cheapest(before)


def costs_in(place: Path) -> Costs:
    """Return the costs that the code of a checkout has. Raises BenchError."""
    # The working directory comes first where this Python, and each Python that it starts, looks for modules.
    command = [sys.executable, "-m", "integration.bench.costs"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"Nothing was measured in {place}:\n{done.stderr.strip()}")
    costs: Costs = json.loads(done.stdout)
    return costs


def shallow() -> bool:
    """Return whether this clone has only a part of the history."""
    command = ["git", "rev-parse", "--is-shallow-repository"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() == "true"


async def profiled(directory: Path, workload: Workload) -> str:
    """Return the functions in which the leader spends its time under a load, as aligned text."""
    if profile.py_spy() is None:
        return "No profile: py-spy is not installed. Run: .venv/bin/pip install py-spy"
    output = directory / "profile.txt"
    async with FARM.cluster(directory / "farm") as cluster, asyncio.TaskGroup() as group:
        leader = await cluster.leader()
        group.create_task(run_load(cluster, workload, 2 * SECONDS))
        await asyncio.sleep(WARMUP)
        await profile.sample(leader.pid, SECONDS, output)
    rows, _ = profile.read_folded(output)
    return f"The leader under {workload.title}:\n{profile.function_table(rows[: profile.TOP])}"


def _profiled_records() -> str:
    """Return the functions in which a node spends its time when it applies records, as text."""
    profiler, text = cProfile.Profile(), io.StringIO()
    profiler.runcall(record_cost)
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(profile.TOP)
    return text.getvalue()


def main(line: Sequence[str] | None = None) -> int:
    """Run the guard; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m integration.bench.guard", description="Fail when an entry costs a quarter more than it did."
    )
    parser.add_argument("--base", default=BASE, metavar="COMMIT", help="compare with this commit (%(default)s)")
    options = parser.parse_args(line)
    BUILD.mkdir(exist_ok=True)
    try:
        with scratch(BUILD) as directory:
            return _compare(options.base, directory)
    except CommitMissingError as error:
        print(f"guard: nothing was measured. {error}", file=sys.stderr)
        return 0 if shallow() else 1
    except (BenchError, ProcessEndedError) as error:
        print(f"guard: {error}", file=sys.stderr)
        return 1


def _compare(base: str, directory: Path) -> int:
    place = directory / "base"
    checkout(base, place)
    now, before = compared(costs_in, place)
    print(table(now, before))
    counted = instructions.per_decode()
    print(
        "Instructions for a decoded AppendEntries: "
        + ("`perf` cannot count any here" if counted is None else f"{counted:,}")
    )
    worse = grown(now, before)
    for workload in WORKLOADS:
        if workload.name in worse:
            output = directory / workload.name
            output.mkdir()
            print(f"\n{in_loop(profiled(output, workload))}")
    if "records" in worse:
        print(f"\nA node that applies records:\n{_profiled_records()}")
    if worse:
        print(
            "\nAn entry costs a quarter more than it did, a record half more, or an entry's history twice as much: "
            f"{', '.join(worse)}. Find what the changes since {base} added; or, when the cost is wanted, put the "
            "commit that is to count into BASE of integration/bench/guard.py."
        )
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
