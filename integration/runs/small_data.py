"""The same work by Spark, DuckDB and Polars on one machine: what Spark costs where data are small.

    python -m integration.runs.small_data [--rows 200000] [--lake LAKE] [--memory 2048] [--json]

The hours of servers (`gf_i2p.pipeline.health.server_hours`), made from the same entries of one lake, each time into a
file. DuckDB's and Polars' are written here, from the definition and not from the job. Seen to hold, or exit 1: the same
rows and whole numbers, and all other numbers within one part in 10^9. Times are of the first and the second run in one
process; Spark's start is told beside them.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import duckdb
import polars as pl

from gf_i2p.farm.parameters import Parameters
from gf_i2p.pipeline.session import SessionOptions, session
from integration.harness.long_run import Figures, between, conclude, say
from integration.runs.sizing import count_rows, run_job

FRESH_MS: Final = Parameters().fresh_ms
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
TOLERANCE: Final = 1e-9
"""Of numbers that are not whole, as a part of them, or of 1."""
MOST: Final = 2**53 - 1
"""A router's number that is larger is none."""
KEYS: Final = ("farm", "server", "hour_ms")
WHOLE: Final = ("watched_ms", "records", "up_records", "gaps", "longest_gap_ms", "flaps")
MEANS: Final = {
    "lag_ms": "jobLag",
    "tunnels": "participatingTunnels",
    "in_bytes_s": "currentInboundBandwidth",
    "out_bytes_s": "currentOutboundBandwidth",
    "known_peers": "knownPeers",
}
FRACTIONS: Final = ("availability", "publishing", "skew_ms", *MEANS)
_NUMBERS: Final = ", ".join(
    f"CASE WHEN record.router.{name} BETWEEN 0 AND {MOST} THEN CAST(record.router.{name} AS DOUBLE) END AS {column}"
    for column, name in MEANS.items()
)
_AVERAGES: Final = ", ".join(f"avg({column}) AS {column}" for column in MEANS)

SQL: Final = f"""
WITH report AS (
    SELECT farm, record.id AS server, received_ms AS heard, "index", term, coalesce(record.router.up, false) AS up,
           coalesce(record.meta.publishing, false) AS publishing, record.date - received_ms AS ahead, {_NUMBERS}
    FROM read_parquet($files, hive_partitioning = true, union_by_name = true)
    WHERE kind = 'status' AND misfit IS NULL AND record IS NOT NULL
), reach AS (
    SELECT farm, max(heard) AS reach FROM report GROUP BY farm
), ordered AS (
    SELECT report.*, coalesce(lead(heard) OVER own, reach) AS next_heard,
           lag(heard) OVER own AS last_heard, lag(up) OVER own AS was_up
    FROM report JOIN reach USING (farm)
    WINDOW own AS (PARTITION BY farm, server ORDER BY heard, "index", term)
), stretch AS (
    SELECT farm, server, heard AS began, least(next_heard, heard + {FRESH_MS}) AS ended, up, false AS silent
    FROM ordered
    UNION ALL
    SELECT farm, server, heard + {FRESH_MS}, next_heard, false, true FROM ordered WHERE next_heard > heard + {FRESH_MS}
), piece AS (
    SELECT *, unnest(range(began - began % {HOUR_MS}, ended, {HOUR_MS})) AS hour_ms FROM stretch WHERE ended > began
), measured AS (
    SELECT farm, server, hour_ms, least(ended, hour_ms + {HOUR_MS}) - greatest(began, hour_ms) AS ms, up, silent
    FROM piece
), watched AS (
    SELECT farm, server, hour_ms, sum(ms) AS watched_ms, coalesce(sum(ms) FILTER (up), 0) AS up_ms,
           count(*) FILTER (silent) AS gaps, coalesce(max(ms) FILTER (silent), 0) AS longest_gap_ms
    FROM measured GROUP BY ALL
), said AS (
    SELECT farm, server, heard - heard % {HOUR_MS} AS hour_ms, count(*) AS records, count(*) FILTER (up) AS up_records,
           count(*) FILTER (was_up <> up AND heard - last_heard <= {DAY_MS}) AS flaps, avg(ahead) AS ahead,
           avg(CAST(publishing AS INT)) AS publishing, {_AVERAGES}
    FROM ordered GROUP BY ALL
)
SELECT farm, server, hour_ms, coalesce(watched_ms, 0) AS watched_ms, coalesce(records, 0) AS records,
       coalesce(up_records, 0) AS up_records, coalesce(gaps, 0) AS gaps, coalesce(longest_gap_ms, 0) AS longest_gap_ms,
       coalesce(flaps, 0) AS flaps, coalesce(up_ms / watched_ms, up_records / records) AS availability, publishing,
       ahead - median(ahead) OVER (PARTITION BY farm, hour_ms) AS skew_ms, {", ".join(MEANS)}
FROM watched FULL JOIN said USING (farm, server, hour_ms)
"""


def by_duckdb(lake: Path, out: Path) -> None:
    """Make the hours by DuckDB."""
    with duckdb.connect(config={"threads": os.cpu_count() or 1}) as connection:
        relation = connection.sql(SQL, params={"files": str(lake / "entries" / "**" / "*.parquet")})
        relation.write_parquet(str(out))


def by_polars(lake: Path, out: Path) -> None:
    """Make the hours by Polars."""
    record, each = pl.col("record").struct, [pl.col("farm"), pl.col("server")]
    router = record.field("router").struct
    at, until, up, was = (pl.col(name) for name in ("at", "until", "up", "was"))
    ordered = (
        pl.scan_parquet(lake / "entries" / "**" / "*.parquet", hive_partitioning=True, try_parse_hive_dates=False)
        .filter((pl.col("kind") == "status") & pl.col("misfit").is_null() & pl.col("record").is_not_null())
        .select(
            pl.col("farm").cast(pl.String),
            record.field("id").alias("server"),
            pl.col("received_ms").alias("at"),
            "index",
            "term",
            router.field("up").fill_null(value=False).alias("up"),
            record.field("meta").struct.field("publishing").fill_null(value=False).cast(pl.Float64).alias("publishing"),
            (record.field("date") - pl.col("received_ms")).alias("ahead"),
            *(
                pl.when(router.field(name).is_between(0, MOST)).then(router.field(name).cast(pl.Float64)).alias(column)
                for column, name in MEANS.items()
            ),
        )
        .sort("farm", "server", "at", "index", "term")
        .with_columns(
            at.shift(-1).over(each).fill_null(at.max().over("farm")).alias("until"),
            at.shift(1).over(each).alias("before"),
            up.shift(1).over(each).alias("was"),
        )
    )
    fresh = ordered.select(*KEYS[:2], at.alias("began"), pl.min_horizontal(until, at + FRESH_MS).alias("ended"), "up")
    silent = ordered.filter(until > at + FRESH_MS).select(
        *KEYS[:2], (at + FRESH_MS).alias("began"), until.alias("ended"), pl.lit(None, dtype=pl.Boolean).alias("up")
    )
    hour, began, ended, ms = (pl.col(name) for name in ("hour_ms", "began", "ended", "ms"))
    watched = (
        pl.concat([fresh, silent])
        .filter(ended > began)
        .with_columns(pl.int_ranges(began - began % HOUR_MS, ended, HOUR_MS).alias("hour_ms"))
        .explode("hour_ms")
        .with_columns((pl.min_horizontal(ended, hour + HOUR_MS) - pl.max_horizontal(began, hour)).alias("ms"))
        .group_by(KEYS)
        .agg(
            ms.sum().alias("watched_ms"),
            ms.filter(up).sum().alias("up_ms"),
            up.is_null().sum().alias("gaps"),
            ms.filter(up.is_null()).max().alias("longest_gap_ms"),
        )
    )
    said = (
        ordered.with_columns((at - at % HOUR_MS).alias("hour_ms"))
        .group_by(KEYS)
        .agg(
            pl.len().alias("records"),
            up.sum().alias("up_records"),
            ((was != up) & (at - pl.col("before") <= DAY_MS)).sum().alias("flaps"),
            pl.col("ahead").mean(),
            pl.col("publishing").mean(),
            *(pl.col(name).mean() for name in MEANS),
        )
    )
    share = (pl.col("up_ms") / pl.col("watched_ms")).fill_null(pl.col("up_records") / pl.col("records"))
    skew = pl.col("ahead") - pl.col("ahead").median().over("farm", "hour_ms")
    made = watched.join(said, on=KEYS, how="full", coalesce=True).with_columns(
        share.alias("availability"), skew.alias("skew_ms"), *(pl.col(name).fill_null(0) for name in WHOLE)
    )
    made.select(*KEYS, *WHOLE, *FRACTIONS).collect().write_parquet(out)


def differences(ours: pl.DataFrame, theirs: pl.DataFrame) -> list[str]:
    """Say in what two results differ."""
    if ours.height != theirs.height:
        return [f"{ours.height:,} hours and {theirs.height:,}"]
    both = ours.join(theirs, on=KEYS, suffix="_2", how="inner")
    if both.height != ours.height:
        return [f"{ours.height - both.height:,} hours are not the same"]
    found = []
    for name in (*WHOLE, *FRACTIONS):
        one, other = pl.col(name).cast(pl.Float64), pl.col(f"{name}_2").cast(pl.Float64)
        most = 0.0 if name in WHOLE else TOLERANCE * pl.max_horizontal(one.abs(), pl.lit(1.0))
        same = (one.is_null() & other.is_null()) | ((one - other).abs() <= most).fill_null(value=False)
        if count := both.filter(~same).height:
            found.append(f"{name} in {count:,} hours of {both.height:,}")
    return found


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Do it twice; return the seconds of each."""
    times = []
    for _ in range(2):
        began = time.monotonic()
        work()
        times.append(time.monotonic() - began)
    return times[0], times[1]


def compare(lake: Path, directory: Path, memory_mb: int) -> Figures:
    """Make the hours three times, and compare."""
    times: dict[str, tuple[float, float]] = {}
    for name, make in (("DuckDB", by_duckdb), ("Polars", by_polars)):
        say(name)
        out = directory / f"{name}.parquet"
        times[name] = timed(lambda make=make, out=out: make(lake, out))  # type: ignore[misc]
    say("Spark")
    began = time.monotonic()
    with session(SessionOptions(memory_mb=memory_mb, scratch=directory / "scratch")) as spark:
        from gf_i2p.pipeline.health.server_hours import server_hours  # noqa: PLC0415 -- needs Spark

        started = time.monotonic() - began
        out = directory / "Spark.parquet"

        def work() -> None:
            entries = spark.read.parquet(str(lake / "entries"))
            server_hours(entries).write.mode("overwrite").parquet(str(out))

        times["Spark"] = timed(work)
    results = {name: pl.read_parquet(directory / f"{name}.parquet") for name in ("DuckDB", "Polars")}
    results["Spark"] = pl.read_parquet(out / "*.parquet")
    wrong = [
        f"{one} and {other} differ: {what}"
        for one, other in (("DuckDB", "Polars"), ("DuckDB", "Spark"))
        for what in differences(results[one], results[other])
    ]
    second = times["Spark"][1]
    return {
        "entries": count_rows(lake / "entries"),
        "hours_of_servers": results["Spark"].height,
        "spark_starts_in_seconds": round(started, 2),
        "seconds": [
            {"of": name, "first": round(first, 2), "second": round(again, 2)} for name, (first, again) in times.items()
        ],
        "spark_is": [_ratio(second, times[name][1], name) for name in ("DuckDB", "Polars")],
        "equal_within": TOLERANCE,
        "wrong": wrong,
    }


def _ratio(spark: float, other: float, name: str) -> str:
    return (
        f"{spark / other:.1f} times slower than {name}"
        if spark >= other
        else f"{other / spark:.1f} times faster than {name}"
    )


async def work(options: argparse.Namespace, directory: Path) -> Figures:
    """Make a lake, unless there is one, and compare on it."""
    lake = options.lake
    if lake is None:
        exports, lake = directory / "exports", directory / "lake"
        say("synth")
        await run_job("synth", [exports, "--rows", options.rows, "--farms", 4, "--seed", options.seed], directory)
        say("ingest")
        await run_job("ingest", [lake, exports, "--memory", options.memory], directory)
    return await asyncio.to_thread(compare, lake, directory, options.memory)


def main(arguments: list[str] | None = None) -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=between(1_000, 10**8), default=200_000, metavar="N", help="default: 200,000")
    parser.add_argument("--lake", type=Path, metavar="DIR", help="one that is there, in place of made-up histories")
    parser.add_argument("--memory", type=between(512, 1 << 20), default=2048, metavar="MB", help="of Spark's heap")
    parser.add_argument("--seed", type=between(1, 10**9), default=1, metavar="S", help="of the histories (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="gf-i2p-small-data-"))
    try:
        return conclude(options, "small_data", lambda: work(options, directory), limit=3600.0)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
