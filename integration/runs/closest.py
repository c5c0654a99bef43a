"""How long it takes to find the closest floodfills in a whole netDb, and whether they are those: by brute force.

    python -m integration.runs.closest [--routers 50000] [--hashes 10000] [--sample 200] [--seed 1] [--json]

A netDb of correctly signed RouterInfos is made, parsed, and searched for three days, as `gf-i2p pipeline floodfills`
does. Of some targets all distances are looked at, one by one, for each day. Exit 1: another answer was found.
"""

import argparse
import heapq
import json
import random
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.dataset as ds

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.routing_key import distance, routing_key
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.floodfills.given_hashes import Target
from gf_i2p.pipeline.floodfills.job import CLOSEST, FloodfillFigures, FloodfillOptions, find_closest
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.session import SessionOptions, session
from integration.harness.long_run import STOPPED, Figures, between, say, show
from integration.harness.made_up_netdb import NetDb, write

if TYPE_CHECKING:
    from datetime import date

_MOST: Final = 1_000_000

Answer = dict[tuple[str, str], list[tuple[int, str, str]]]
"""By hash and day: ranks, floodfills, distances."""


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m integration.runs.closest", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--routers", type=between(1, _MOST), default=50_000, metavar="N")
    parser.add_argument("--hashes", type=between(1, _MOST), default=10_000, metavar="N")
    parser.add_argument("--floodfills", type=between(0, 1), default=0.25, metavar="SHARE", help="of the routers")
    parser.add_argument("--sample", type=between(1, _MOST), default=200, metavar="N", help="targets to look at all of")
    parser.add_argument("--seed", type=between(0, 2**32), default=1, metavar="S")
    parser.add_argument("--master", default="local[2]", metavar="URL", help="as spark-submit's (default: local[2])")
    parser.add_argument("--memory", type=between(512, 1 << 20), default=2048, metavar="MB", help="of Spark's heap")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="gf-i2p-closest-") as directory:
            figures = _measure(options, Path(directory))
    except KeyboardInterrupt:
        return STOPPED
    except PipelineError as error:
        print(f"closest: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"ok": not figures["wrong"], **figures}))
    else:
        show(figures)
    return 1 if figures["wrong"] else 0


def _measure(options: argparse.Namespace, directory: Path) -> Figures:
    today = datetime.now(UTC).date()
    chance = random.Random(options.seed)
    netdb = NetDb(options.routers, options.seed, time.time_ns() // 1_000_000, options.floodfills)
    say(f"making {options.routers} RouterInfos")
    began = time.monotonic()
    written = write(directory / "netDb", netdb)
    made = time.monotonic()
    targets = [Target(chance.randbytes(32), f"target {number}") for number in range(options.hashes)]
    lake = Lake(str(directory / "lake"))
    say("starting Spark")
    with session(SessionOptions(options.master, memory_mb=options.memory, scratch=directory)) as spark:
        started = time.monotonic()
        asked = FloodfillOptions([str(directory / "netDb")], today, targets=targets)
        found = find_closest(spark, lake, asked, netdb.now_ms, say)
        ended = time.monotonic()
    sample = chance.sample(targets, min(options.sample, len(targets)))
    say(f"looking at all {len(written.floodfills)} floodfills for {len(sample)} hashes and three days")
    looking = time.monotonic()
    wrong = _compare(lake, sample, today, written.floodfills)
    looked = time.monotonic()
    pairs = options.hashes * 3
    if found.routers != options.routers or found.floodfills != len(written.floodfills):
        wrong.append(f"{found.routers} routers and {found.floodfills} floodfills were found, not all that were made")
    if found.rows != pairs * min(CLOSEST, found.floodfills):
        wrong.append(f"there are {found.rows} rows for {pairs} keys")
    return {
        "routers": f"{found.routers}, {written.size / 2**20:.1f} MiB, {found.floodfills} of them floodfills",
        "hashes": f"{options.hashes}, for 3 days each: {found.rows} rows",
        "spark": f"{options.master}, {options.memory} MB",
        "generate_seconds": round(made - began, 1),
        "start_spark_seconds": round(started - made, 1),
        **_rates(found, pairs),
        "whole_job_seconds": round(ended - started, 1),
        "compared": f"{len(sample)} hashes x 3 days, by brute force in {looked - looking:.1f} s",
        "wrong": wrong,
    }


def _rates(found: FloodfillFigures, pairs: int) -> Figures:
    return {
        "parse_seconds": round(found.parse_seconds, 1),
        "routers_a_second": round(found.routers / found.parse_seconds),
        "closest_seconds": round(found.closest_seconds, 1),
        "keys_a_second": round(pairs / found.closest_seconds),
    }


def _compare(lake: Lake, sample: list[Target], today: "date", floodfills: list[bytes]) -> list[str]:
    """Say of which hashes and days the table has another answer than looking at every floodfill."""
    names = [to_base64(target.hash) for target in sample]
    table = ds.dataset(lake.path("closest")).to_table(filter=ds.field("hash").isin(names))
    found: Answer = {}
    for row in table.to_pylist():
        found.setdefault((row["hash"], row["day"]), []).append((row["rank"], row["floodfill"], row["distance"]))
    wrong = []
    for target, name in zip(sample, names, strict=True):
        for day in (today + timedelta(step) for step in (-1, 0, 1)):
            key = routing_key(target.hash, f"{day:%Y%m%d}")
            near = heapq.nsmallest(CLOSEST, ((distance(key, each), each) for each in floodfills))
            expected = [(rank, to_base64(who), f"{far:064x}") for rank, (far, who) in enumerate(near, 1)]
            if sorted(found.get((name, day.isoformat()), [])) != expected:
                wrong.append(f"{name} on {day}: the closest are others")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
