"""Sums up the lake for the report, by Spark. Each collected result has a limit, however large the lake is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.paths import TABLES, Lake
from gf_i2p.pipeline.lake.tables import read_entries, read_table
from gf_i2p.pipeline.report import formats
from gf_i2p.pipeline.report.chart_data import (
    MAX_FARMS,
    MAX_HASHES,
    MAX_REASONS,
    Closest,
    FarmReport,
    Floodfills,
    Near,
    Period,
    Quarantine,
    Reason,
    Report,
    TableSize,
)
from gf_i2p.pipeline.report.gather_farm import anomalies, backtest, heat, is_gap, loads, timeline, weights

FIRST_MS: Final = 1_577_836_800_000
"""2020-01-01: a node with an earlier time has a clock that was never set."""
_LEAST_MS: Final = 60_000
"""Least length of a period, because the period of a single record has no length."""
_DAYS: Final = 3
_RANKS: Final = 8
_FIGURES: Final = 6
_OF_CLOSEST: Final = frozenset({"hash", "name", "day", "rank", "floodfill", "distance"})


@dataclass(frozen=True, slots=True)
class ReportScope:
    """The farms and times of the report. Times are in milliseconds since the epoch; None: no limit."""

    farms: tuple[str, ...] = ()
    """The farms in this order; empty: the largest farms."""
    since_ms: int | None = None
    until_ms: int | None = None


def gather(spark: SparkSession, lake: Lake, scope: ReportScope, say: Callable[[str], None] = lambda _: None) -> Report:
    """Sum up the lake. `say`: called with the name of each step.

    Raises `PipelineError` when `scope` names too many farms, when its period is empty, or when the lake has nothing of
    that scope.
    """
    if len(scope.farms) > MAX_FARMS:
        raise PipelineError(f"A report shows up to {MAX_FARMS} farms, not {len(scope.farms)}: make several reports.")
    now = now_ms()
    tables = {
        name: read_entries(spark, lake) if name == "entries" else read_table(spark, lake, name) for name in TABLES
    }
    since = max(scope.since_ms or FIRST_MS, FIRST_MS)
    until = min(scope.until_ms or now + formats.DAY_MS, now + formats.DAY_MS)
    if since >= until:
        raise PipelineError("The period is empty: give a --since that is before --until, and not in the future.")
    say("farms and their sizes")
    sizes = [_size(lake, name, frame) for name, frame in tables.items()]
    if all(each.rows is None for each in sizes):
        raise PipelineError(f"{lake.root} has no table of the pipeline: begin with gf-i2p pipeline ingest.")
    farms, totals = _farms(tables, scope.farms, since, until)
    farm_reports = []
    for name, entries, first, last in farms:
        say(f"farm {name}")
        period = Period(max(first, since), min(max(last, first + _LEAST_MS), until))
        farm_reports.append(_farm(tables, name, entries, period))
    say("floodfills and quarantine")
    return Report(
        made_ms=now,
        lake=lake.root,
        farms=farm_reports,
        farms_total=totals[0],
        entries_total=totals[1],
        floodfills=None if (frame := tables["closest"]) is None else _floodfills(frame),
        quarantine=None if (frame := tables["quarantine"]) is None else _quarantine(frame),
        sizes=sizes,
        strange_clocks=_count_strange_clocks(tables["entries"], now),
    )


def _farm(tables: dict[str, DataFrame | None], name: str, entries: int, period: Period) -> FarmReport:
    def table_of(table: str) -> DataFrame | None:
        frame = tables[table]
        return None if frame is None else frame.where(sf.col("farm") == name)

    def summary(make: Callable[[DataFrame, Period], Any], table: str) -> Any:
        frame = table_of(table)
        if frame is None:
            return None
        if "day" in frame.columns:  # by the day, Spark leaves whole files out
            frame = frame.where(sf.col("day").between(formats.day(period.since_ms), formats.day(period.until_ms)))
        return make(frame, period)

    def replayed(table: str) -> DataFrame | None:
        """Return the farm's rows; None: there are none, perhaps because the last backtest was of other farms."""
        frame = table_of(table)
        return None if frame is None or frame.isEmpty() else frame

    entries_of, decisions, trials = table_of("entries"), replayed("decisions"), replayed("backtest")
    return FarmReport(
        name,
        entries,
        period,
        timeline=None if entries_of is None else timeline(entries_of, decisions, period),
        heat=summary(heat, "server_hours"),
        weights=None if decisions is None else weights(decisions, period),
        loads=summary(loads, "destination_hours"),
        anomalies=summary(anomalies, "anomalies"),
        backtest=None if trials is None else backtest(trials, period),
    )


def _farms(
    tables: dict[str, DataFrame | None], names: tuple[str, ...], since: int, until: int
) -> tuple[list[tuple[str, int, int, int]], tuple[int, int]]:
    """Return name, entry count, first and last time of each drawn farm, and two totals: of farms and of entries."""
    for name, at, rows in (
        ("entries", "received_ms", sf.when(is_gap(), 0).otherwise(1)),
        ("server_hours", "hour_ms", sf.col("records")),
        ("decisions", "received_ms", sf.lit(0)),
    ):
        frame = tables[name]
        if frame is None:
            continue
        # A row of an hour does not tell when in the hour the last record came, so the whole hour counts.
        last = sf.col(at) + (formats.HOUR_MS if at == "hour_ms" else 0)
        by_farm = (
            frame.where((sf.col(at) >= since) & (sf.col(at) < until))
            .groupBy("farm")
            .agg(sf.sum(rows).alias("rows"), sf.min(at).alias("first"), sf.max(last).alias("last"))
        )
        total = by_farm.agg(sf.count("*").alias("farms"), sf.sum("rows").alias("rows")).collect()[0]
        chosen = by_farm.where(sf.col("farm").isin(list(names))) if names else by_farm
        largest = chosen.orderBy(sf.desc("rows"), "farm").limit(MAX_FARMS).collect()
        present = {row.farm for row in largest}
        unknown = [farm for farm in names if farm not in present]
        if unknown:
            raise PipelineError(
                f"The lake has nothing of a farm {unknown[0]!r} in this period: a report without --farm names farms."
            )
        farms = [(row.farm, int(row.rows or 0), int(row.first), int(row.last)) for row in largest]
        if names:
            farms.sort(key=lambda one: names.index(one[0]))
        return farms, (int(total.farms), int(total.rows or 0))
    if names:
        raise PipelineError("The lake has no table of any farm: begin with gf-i2p pipeline ingest.")
    return [], (0, 0)


def _count_strange_clocks(entries: DataFrame | None, now: int) -> int:
    if entries is None:
        return 0
    return int(entries.where(~sf.col("received_ms").between(FIRST_MS, now + formats.DAY_MS)).count())


def _floodfills(closest: DataFrame) -> Floodfills:
    days = [row.day for row in closest.select("day").distinct().orderBy(sf.desc("day")).limit(_DAYS).collect()]
    newest = closest.where(sf.col("day").isin(days) & (sf.col("rank") <= _RANKS))
    hashes = newest.groupBy("hash").agg(sf.first("name", ignorenulls=True).alias("called"))
    total = hashes.count()
    chosen = hashes.orderBy(sf.col("called").asc_nulls_last(), "hash").limit(MAX_HASHES)
    rows = newest.join(sf.broadcast(chosen), "hash").limit(MAX_HASHES * _DAYS * _RANKS).collect()
    figures = [name for name in closest.columns if name not in _OF_CLOSEST]
    by_hash: dict[tuple[str, str], dict[str, list[Near]]] = {}
    for row in rows:
        near = Near(row["rank"], row["floodfill"], row["distance"], _profile({name: row[name] for name in figures}))
        by_hash.setdefault((row["called"] or "", row["hash"]), {}).setdefault(row["day"], []).append(near)
    return Floodfills(
        [
            Closest(hash_, name, {day: sorted(near, key=lambda one: one.rank) for day, near in days_of.items()})
            for (name, hash_), days_of in sorted(by_hash.items(), key=lambda item: (not item[0][0], item[0]))
        ],
        max(total - len(by_hash), 0),
    )


def _profile(figures: dict[str, Any]) -> dict[str, str]:
    """Return the first `_FIGURES` figures of a profile as texts. The profile has columns, or structs with fields."""
    texts: dict[str, str] = {}
    for name, value in figures.items():
        fields = value.asDict() if isinstance(value, Row) else {name: value}
        texts |= {key: _shown(figure) for key, figure in fields.items() if figure is not None}
    return dict(list(texts.items())[:_FIGURES])


def _shown(value: object) -> str:
    return formats.figure(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _quarantine(quarantine: DataFrame) -> Quarantine:
    by_reason = quarantine.groupBy("what", "reason").agg(sf.count("*").alias("number"), sf.sum("length").alias("bytes"))
    total = by_reason.agg(sf.sum("number").alias("number"), sf.count("*").alias("kinds")).collect()[0]
    rows = by_reason.orderBy(sf.desc("number"), "what", "reason").limit(MAX_REASONS).collect()
    return Quarantine(
        [Reason(row.what or "", row.reason or "", row.number, int(row.bytes or 0)) for row in rows],
        int(total.number or 0),
        total.kinds,
    )


def _size(lake: Lake, name: str, frame: DataFrame | None) -> TableSize:
    if frame is None:
        return TableSize(name, None)
    rows = frame.count()
    try:
        system, path = fs.FileSystem.from_uri(lake.path(name))
        files = [
            each
            for each in system.get_file_info(fs.FileSelector(path, recursive=True))
            if each.is_file and each.base_name.endswith(".parquet")
        ]
    except (OSError, ValueError):  # the files are another machine's, or on a file system that only Spark knows
        return TableSize(name, rows)
    return TableSize(name, rows, len(files), sum(each.size for each in files))
