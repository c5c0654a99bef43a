"""`python -m integration.bench`: a farm of gf-i2p beside etcd, ZooKeeper and PySyncObj.

Exit codes: 0 measured (whether or not the goals are met), 1 failed, also when only the farm did, 2 wrong usage,
130 interrupted.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from integration.bench.chart import chart
from integration.bench.markdown import markdown
from integration.bench.measures import MEASURES
from integration.bench.report import report_table
from integration.bench.suite import BUILD, Settings, Suite
from integration.bench.systems.etcd import ETCD
from integration.bench.systems.farm import FARM, LARGER
from integration.bench.systems.h2load import ETCD_C_CLIENT
from integration.bench.systems.pysyncobj import PYSYNCOBJ
from integration.bench.systems.system import BenchError, System
from integration.bench.systems.zookeeper import ZOOKEEPER
from integration.bench.workloads import WORKLOADS
from integration.harness.processes import ProcessEndedError

SYSTEMS = (FARM, ETCD, ETCD_C_CLIENT, ZOOKEEPER, PYSYNCOBJ)
LIMITS = "limits"
DEFAULT_PROFILE = BUILD / "bench-profile.txt"


def arguments(line: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    systems = [system.name for system in (*SYSTEMS, *LARGER)]
    names = [*systems, *(each.name for each in (*WORKLOADS, *MEASURES)), LIMITS]
    parser = argparse.ArgumentParser(
        prog="python -m integration.bench",
        description="Measure a gf-i2p farm (TLS, fsync) beside others: three nodes each on loopback, values of 1 KiB.",
    )
    add = parser.add_argument
    add("--seconds", type=_positive, default=5.0, help="length of each run, without warm-up (default 5)")
    add("--warmup", type=_positive, default=1.0, help="seconds before each run that do not count (default 1)")
    add("--repeats", type=_count, default=5, help="repeats, interleaved between the systems (default 5)")
    add("--only", action="append", choices=names, default=[], help="only this system, load or measure; repeatable")
    add("--bulk-writers", type=_count, help="writers of requests of 100 entries (default: what suits each system)")
    add("--json", action="store_true", help="print JSON, not the table")
    add("--output", type=Path, metavar="FILE", help="write the JSON to this file too")
    add("--chart", type=Path, metavar="FILE", help="write a chart to this file, as SVG")
    add("--markdown", type=Path, metavar="FILE", help="write the tables to this file, in Markdown")
    add(
        "--profile",
        type=Path,
        nargs="?",
        const=DEFAULT_PROFILE,
        metavar="FILE",
        help="profile the farm's leader under 64 writers afterwards, into this file (default build/bench-profile.txt)",
    )
    add("--directory", type=Path, default=BUILD, help="where the nodes' data goes meanwhile (default build)")
    options = parser.parse_args(line)
    if options.profile is not None and FARM not in _systems(options.only):
        parser.error("--profile looks at the farm's leader: add --only farm")
    return options


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 3600 seconds")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 1000")
    return value


def _systems(only: Sequence[str]) -> tuple[System, ...]:
    return tuple(system for system in (*SYSTEMS, *LARGER) if system.name in only) or SYSTEMS


def settings(options: argparse.Namespace) -> Settings:
    """Turn options into settings."""
    only = options.only
    workloads = tuple(workload for workload in WORKLOADS if workload.name in only)
    measures = tuple(measure for measure in MEASURES if measure.name in only)
    everything = not workloads and not measures and LIMITS not in only
    return Settings(
        systems=_systems(only),
        workloads=WORKLOADS if everything else workloads,
        measures=MEASURES if everything else measures,
        limits=everything or LIMITS in only,
        directory=options.directory,
        seconds=options.seconds,
        warmup=options.warmup,
        repeats=options.repeats,
        bulk_writers=options.bulk_writers,
        profile=options.profile,
    )


def main(line: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    options = arguments(line)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT otherwise
    for name in ("SIGTERM", "SIGHUP"):  # the same clean end as by Ctrl-C
        signal.signal(getattr(signal, name), lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        report = Suite(settings(options)).run()
    except (BenchError, ProcessEndedError) as error:
        if options.json:
            print(json.dumps({"error": str(error)}))
        else:
            print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: interrupted; everything is stopped and removed.", file=sys.stderr)
        return 130
    text = json.dumps(report, indent=2)
    if options.output is not None:
        options.output.write_text(text + "\n")
    if options.chart is not None:
        options.chart.write_text(chart(report))
    if options.markdown is not None:
        options.markdown.write_text(markdown(report) + "\n")
    print(text if options.json else "\n" + report_table(report))
    return int(any(failure.startswith(FARM.title) for failure in report["failures"]))


if __name__ == "__main__":
    sys.exit(main())
