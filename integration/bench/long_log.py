"""The cost of an entry as a farm's log grows: `python -m integration.bench.long_log [--most 1000000] [--json]`.

One farm of three nodes on loopback. 64 writers post for five seconds, and the processors' time counts. Then requests of
100 entries fill the log up to the next length, and the 64 writers post again. A log drops old entries when a snapshot
covers them. So the length is the number of all entries that the farm has committed. Exit codes: 0 measured, 1 failed, 2
wrong usage.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gf_i2p.transport.event_loop import loop_factory
from integration.bench import load, measures
from integration.bench.suite import BUILD, say, scratch
from integration.bench.systems.farm import FARM
from integration.bench.systems.system import BenchError, Killable
from integration.bench.workloads import BULK, CONCURRENT
from integration.harness.processes import ProcessEndedError

_SECONDS: Final = 5.0
_WARM_UP: Final = 1.0
_STEP: Final = 10 ** (1 / 2)
"""Factor between two lengths."""
_FIRST: Final = 10_000
_NODES: Final = ("leader", "followers", "children")


async def measure(most: int) -> list[dict[str, float]]:
    """Return a row for each length up to `most` entries. Raises `BenchError` or `ProcessEndedError`."""
    rows: list[dict[str, float]] = []
    with scratch(BUILD) as directory:
        async with FARM.cluster(directory) as cluster:
            assert isinstance(cluster, Killable)
            target = float(_FIRST)
            while target <= most * 1.01:
                while (length := await cluster.position(await cluster.leader()) or 0) < target:
                    await load.run(cluster, BULK.batch, FARM.bulk_writers, warmup=0.0, seconds=1.0)
                sample = await load.run(cluster, 1, CONCURRENT.writers or 1, warmup=_WARM_UP, seconds=_SECONDS)
                rate = sample.entries / sample.seconds
                costs = {f"{who}_us": sample.cpu[who] / rate * 1e6 for who in _NODES}
                rows.append({"entries": length, "rate": rate, **costs, "memory_mb": measures.memory_mb(cluster)})
                say(f"{length:,} entries: {rate:,.0f} entries/s, leader {costs['leader_us']:.0f} µs an entry")
                target *= _STEP
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a table in Markdown."""
    head = (
        "| entries so far | 64 writers, entries/s | leader, µs an entry | both followers | histories | memory, MB |",
        "|---|---|---|---|---|---|",
    )
    body = (
        f"| {row['entries']:,} | {row['rate']:,.0f} | {row['leader_us']:.0f} | {row['followers_us']:.0f} "
        f"| {row['children_us']:.0f} | {row['memory_mb']:.0f} |"
        for row in rows
    )
    return "\n".join((*head, *body))


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m integration.bench.long_log", description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000, metavar="ENTRIES", help="(default: 1000000)")
    parser.add_argument("--json", action="store_true", help="print JSON, not the table")
    options = parser.parse_args()
    if options.most < _FIRST:
        parser.error(f"--most is at least {_FIRST}")
    BUILD.mkdir(exist_ok=True)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            rows = runner.run(measure(options.most))
    except (BenchError, ProcessEndedError) as error:
        print(json.dumps({"error": str(error)}) if options.json else f"long_log: {error}", file=sys.stderr)
        return 1
    print(json.dumps(rows, indent=2) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
