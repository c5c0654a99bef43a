"""Sums up the lake for the report: one query of Spark for each table, for all farms at once.

Each collected result has a limit, however large the lake is. Each query costs some tenths of a second at least, so
there is no query for a single farm.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.backtest.job import ADVISED
from gf_i2p.pipeline.backtest.result_rows import BacktestRow
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.health.anomalies import EPISODES
from gf_i2p.pipeline.health.destination_hours import DESTINATION_HOURS
from gf_i2p.pipeline.health.episodes import Episode
from gf_i2p.pipeline.health.server_hours import MEANS, SERVER_HOURS
from gf_i2p.pipeline.health.status_reports import FRESH_MS, mean_availability
from gf_i2p.pipeline.lake.parquet_files import parquet_sizes
from gf_i2p.pipeline.lake.paths import TABLES, Lake
from gf_i2p.pipeline.lake.tables import read_columns
from gf_i2p.pipeline.read.entry_columns import EARLIEST_MS
from gf_i2p.pipeline.read.record_schema import columns
from gf_i2p.pipeline.report import formats
from gf_i2p.pipeline.report.report_data import (
    MAX_EPISODES,
    MAX_FARMS,
    MAX_HASHES,
    MAX_LEAVES,
    MAX_REASONS,
    MAX_SERVERS,
    MAX_SETS,
    MAX_TURNS,
    FarmReport,
    Period,
    Report,
    TableSize,
    Turn,
    Turns,
)

_LEAST_MS: Final = 60_000
"""Least length of a period, because the period of a single record has no length."""
_DAYS: Final = 3
_LEAST_HEARD: Final = 0.95
"""Availability from which on an hour is no silence."""
_IS_GAP: Final = "kind = 'servers' and value is not null"
"""Condition: the row of `entries` is no log entry, but names the farm's servers after a gap."""
SCHEMAS: Final[dict[str, StructType | str]] = {
    "entries": "farm string, day string, index bigint, term bigint, received_ms bigint, kind string, value string, "
    "leader bigint",
    "server_hours": SERVER_HOURS,
    "destination_hours": DESTINATION_HOURS,
    "anomalies": EPISODES,
    "decisions": "farm string, index bigint, received_ms bigint, publisher bigint, "
    "listed array<struct<hash: string, cost: int>>",
    "backtest": columns(ADVISED),
    "closest": "hash string, name string, day string, rank int, floodfill string, distance string",
    "quarantine": "what string, reason string, length bigint",
}
"""The columns of each table that the report needs."""


def gather(
    spark: SparkSession,
    lake: Lake,
    names: tuple[str, ...] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Sum up the lake.

    `names`: the farms; empty: the largest farms. `since_ms`, `until_ms`: the period, in milliseconds since the epoch;
    None: no limit. `say`: called with the name of each step. Raises `PipelineError` for too many farms, for an empty
    period, and when the lake has nothing of these farms in the period.
    """
    if len(names) > MAX_FARMS:
        raise PipelineError(f"A report shows up to {MAX_FARMS} farms, not {len(names)}: make several reports.")
    now = now_ms()
    since = max(since_ms or EARLIEST_MS, EARLIEST_MS)
    until = min(until_ms or now + DAY_MS, now + DAY_MS)
    if since >= until:
        raise PipelineError("The period is empty: give a --since that is before --until, and not in the future.")
    say("sizes")
    sizes = [_size(spark, lake, name) for name in TABLES]
    there = {each.name for each in sizes if each.is_there}
    if not there:
        raise PipelineError(f"{lake.root} has no table of the pipeline: begin with gf-i2p pipeline ingest.")
    tables = {name: read_columns(spark, lake, name, schema) for name, schema in SCHEMAS.items() if name in there}
    say("farms")
    extents = _Extents(tables, names, since, until, now)
    farms = _Farms(tables, extents.periods, say)
    reports = [farms.report(name, extents.entries[name]) for name in extents.periods]
    say("floodfills and quarantine")
    hashes, hashes_total = _closest(tables["closest"]) if "closest" in tables else (None, 0)
    reasons, quarantined = _quarantine(tables["quarantine"]) if "quarantine" in tables else (None, 0)
    return Report(
        made_ms=now,
        farms=reports,
        farms_total=len(extents.entries),
        entries_total=sum(extents.entries.values()),
        closest=hashes,
        reasons=reasons,
        sizes=sizes,
        hashes_total=hashes_total,
        quarantined=quarantined,
        strange_clocks=extents.strange_clocks,
    )


class _Extents:
    """The farms of the report, with their numbers of entries and periods."""

    def __init__(
        self, tables: Mapping[str, DataFrame], names: tuple[str, ...], since: int, until: int, now: int
    ) -> None:
        """Find the farms in the first table of three that is there. Raises `PipelineError` for a name not found."""
        self.periods: dict[str, Period] = {}
        self.entries: dict[str, int] = {}
        self.strange_clocks = 0
        for name, at, count in (
            ("entries", "received_ms", sf.when(sf.expr(_IS_GAP), 0).otherwise(1)),
            ("server_hours", "hour_ms", sf.col("records")),
            ("decisions", "received_ms", sf.lit(0)),
        ):
            if name in tables:
                self._find(tables[name], at, count, since, until, now)
                break
        else:
            if names:
                raise PipelineError("The lake has no table of any farm: begin with gf-i2p pipeline ingest.")
        unknown = [name for name in names if name not in self.periods]
        if unknown:
            raise PipelineError(
                f"The lake has nothing of a farm {unknown[0]!r} in this period: a report without --farm names farms."
            )
        chosen = names or sorted(self.periods, key=lambda name: (-self.entries[name], name))[:MAX_FARMS]
        self.periods = {name: self.periods[name] for name in chosen}

    def _find(self, frame: DataFrame, at: str, count: Column, since: int, until: int, now: int) -> None:
        inside = (sf.col(at) >= since) & (sf.col(at) < until)
        # A row of an hour does not tell when in the hour the last record came, so the whole hour counts.
        last = sf.col(at) + (HOUR_MS if at == "hour_ms" else 0)
        extents = frame.groupBy("farm").agg(
            sf.sum(sf.when(inside, count)).alias("rows"),
            sf.min(sf.when(inside, sf.col(at))).alias("first"),
            sf.max(sf.when(inside, last)).alias("last"),
            sf.count_if(~sf.col(at).between(EARLIEST_MS, now + DAY_MS)).alias("strange"),
        )
        for row in extents.collect():
            self.strange_clocks += row.strange
            if row["first"] is not None:
                self.entries[row.farm] = int(row["rows"] or 0)
                self.periods[row.farm] = Period(row["first"], min(max(row["last"], row["first"] + _LEAST_MS), until))


class _Farms:
    """The rows of all tables, summed up, by farm."""

    def __init__(
        self, tables: Mapping[str, DataFrame], periods: Mapping[str, Period], say: Callable[[str], None]
    ) -> None:
        self._periods = periods
        self._rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
        """The rows about each subject that has a table, by farm."""
        for subject, table, make in (
            ("leaders", "entries", self._leaders_of),
            ("publishers", "decisions", self._publishers_of),
            ("costs", "decisions", self._costs_of),
            ("servers", "server_hours", self._hours_of_servers),
            ("leaves", "destination_hours", self._hours_of_leaves),
            ("anomalies", "anomalies", self._episodes_of),
            ("parameters", "backtest", self._trials_of),
        ):
            if periods and table in tables:
                say(subject)
                of_farms = tables[table].where(sf.col("farm").isin(list(periods)))
                rows = self._rows[subject] = defaultdict(list)
                for row in make(of_farms).collect():
                    rows[row.farm].append(row.asDict())

    def report(self, name: str, entries: int) -> FarmReport:
        """Return the data of one farm."""
        period = self._periods[name]
        of_farm = {subject: rows.get(name, []) for subject, rows in self._rows.items()}
        led, published, costs, servers, leaves, episodes, trials = map(
            of_farm.get, ("leaders", "publishers", "costs", "servers", "leaves", "anomalies", "parameters")
        )
        return FarmReport(
            name,
            entries,
            period,
            led=None if led is None else _turns(led),
            published=_turns(published) if published else None,
            costs=_costs(costs, period.stretches) if costs else None,
            servers=None if servers is None else _series(servers, "server"),
            servers_total=_total(servers),
            leaves=None if leaves is None else _series(leaves, "destination"),
            leaves_total=_total(leaves),
            episodes=None if episodes is None else [_episode(row) for row in sorted(episodes, key=_rank)],
            episodes_total=_total(episodes),
            silent=frozenset((row["server"], hour_ms) for row in servers or () for hour_ms in row["silent"]),
            trials=[BacktestRow.of_columns(row) for row in sorted(trials, key=_rank)] if trials else None,
            trials_total=_total(trials),
        )

    def _by_farm(self, value: Callable[[Period], int]) -> Column:
        """Return a column with a value for the row's farm."""
        pairs = [sf.lit(each) for name, period in self._periods.items() for each in (name, value(period))]
        return sf.create_map(*pairs)[sf.col("farm")]

    def _stretch(self, at: str) -> Column:
        begin, length = self._by_farm(lambda each: each.hour_ms), self._by_farm(lambda each: each.stretch_ms)
        return sf.floor((sf.col(at) - begin) / length).cast("int")

    def _leaders_of(self, entries: DataFrame) -> DataFrame:
        return self._turns(entries.where("kind = 'servers'").where(f"not ({_IS_GAP})"), "leader")

    def _publishers_of(self, decisions: DataFrame) -> DataFrame:
        return self._turns(decisions, "publisher")

    def _turns(self, frame: DataFrame, who: str) -> DataFrame:
        """Return the newest rows where the column `who` changes, until the period's end; "changes": how often."""
        order = [sf.col(name) for name in ("index", "term") if name in frame.columns]
        in_order = Window.partitionBy("farm").orderBy(*order)
        since, until = self._by_farm(lambda each: each.since_ms), self._by_farm(lambda each: each.until_ms)
        is_change = ~sf.col("begins") & (sf.col("received_ms") >= since)
        return (
            frame.where(sf.col("received_ms") <= until)
            .select("farm", *order, "received_ms", sf.col(who).alias("who"))
            .withColumn("begins", sf.row_number().over(in_order) == 1)
            .withColumn("before", sf.lag("who").over(in_order))
            .where(sf.col("begins") | ~sf.col("who").eqNullSafe(sf.col("before")))
            .withColumn("changes", sf.count_if(is_change).over(Window.partitionBy("farm")))
            .withColumn(
                "age", sf.row_number().over(Window.partitionBy("farm").orderBy(*(each.desc() for each in order)))
            )
            .where(sf.col("age") <= MAX_TURNS)
        )

    def _costs_of(self, decisions: DataFrame) -> DataFrame:
        """Return the last set of each stretch."""
        inside = decisions.where(sf.col("received_ms") <= self._by_farm(lambda each: each.until_ms))
        at = sf.greatest(self._stretch("received_ms"), sf.lit(-1)).alias("at")
        return inside.groupBy("farm", at).agg(sf.max_by("listed", "index").alias("listed"))

    def _hours(self, hours: DataFrame) -> DataFrame:
        """Return the rows of the periods, also of the hour in which a period begins, with the column "at"."""
        begin, until = self._by_farm(lambda each: each.hour_ms), self._by_farm(lambda each: each.until_ms)
        first, last = (
            formats.day(pick(getattr(each, name) for each in self._periods.values()))
            for pick, name in ((min, "hour_ms"), (max, "until_ms"))
        )
        inside = hours.where(sf.col("day").between(first, last))  # by the day, Spark leaves whole files out
        inside = inside.where((sf.col("hour_ms") >= begin) & (sf.col("hour_ms") < until))
        return inside.withColumn("at", self._stretch("hour_ms"))

    def _hours_of_servers(self, hours: DataFrame) -> DataFrame:
        available, watched = sf.col("availability"), sf.col("watched_ms")
        # Too few records for the hour, or one long gap: the server was silent, and its router was perhaps up.
        is_silent = (sf.col("records") * FRESH_MS < watched) | (
            sf.col("longest_gap_ms") * 2 >= (1 - available) * watched
        )
        silent = sf.collect_list(sf.when(is_silent & (available < _LEAST_HEARD), sf.col("hour_ms"))).alias("silent")
        gap = sf.max("longest_gap_ms").alias("gap")
        sums = _sums(
            self._hours(hours), "server", gap, silent, *(sf.avg(name).alias(name) for name in ("skew_ms", *MEANS))
        )
        ranked = sums.withColumn("rank", sf.dense_rank().over(Window.partitionBy("farm").orderBy("server")))
        return _first(ranked, MAX_SERVERS)

    def _hours_of_leaves(self, hours: DataFrame) -> DataFrame:
        sums = _sums(self._hours(hours), "destination", sf.max_by("server", "hour_ms").alias("server"),
                     sf.avg("load").alias("load"), sf.avg("connections").alias("connections"))  # fmt: skip
        weight = sums.withColumn("weight", sf.sum("records").over(Window.partitionBy("farm", "destination")))
        order = Window.partitionBy("farm").orderBy(sf.desc("weight"), "destination")
        return _first(weight.withColumn("rank", sf.dense_rank().over(order)), MAX_LEAVES)

    def _episodes_of(self, anomalies: DataFrame) -> DataFrame:
        since, until = self._by_farm(lambda each: each.since_ms), self._by_farm(lambda each: each.until_ms)
        outside = (sf.col("end_ms") <= since) | (sf.col("begin_ms") >= until)
        newest = Window.partitionBy("farm").orderBy(sf.desc("end_ms"), sf.desc("score"), "servers", "measure")
        return _first(anomalies.where(~outside).withColumn("rank", sf.row_number().over(newest)), MAX_EPISODES)

    def _trials_of(self, trials: DataFrame) -> DataFrame:
        order = (sf.desc("live"), sf.desc("recommended"), "cost", "parameters")
        rank = sf.row_number().over(Window.partitionBy("farm").orderBy(*order))
        return _first(trials.withColumn("rank", rank), MAX_SETS)


def _sums(hours: DataFrame, what: str, *more: Column) -> DataFrame:
    """Return the figures of each farm, `what` and stretch that servers and leaves have both."""
    return hours.groupBy("farm", what, "at").agg(
        sf.count("*").alias("hours"),
        sf.sum("watched_ms").alias("watched_ms"),
        mean_availability(),
        sf.sum("records").alias("records"),
        sf.sum("flaps").alias("flaps"),
        *more,
    )


def _first(ranked: DataFrame, most: int) -> DataFrame:
    """Return the rows with a column "rank" of up to `most`; "total": the greatest rank of the farm."""
    total = ranked.withColumn("total", sf.max("rank").over(Window.partitionBy("farm")))
    return total.where(sf.col("rank") <= most)


def _rank(row: Mapping[str, Any]) -> int:
    return int(row["rank"])


def _total(rows: Sequence[Mapping[str, Any]] | None) -> int:
    return max((row["total"] for row in rows or ()), default=0)


def _turns(rows: Sequence[Mapping[str, Any]]) -> Turns:
    in_order = sorted(rows, key=lambda row: (row["received_ms"], -row["age"]))
    return Turns([Turn(row["received_ms"], row["who"]) for row in in_order], rows[0]["changes"] if rows else 0)


def _costs(rows: Sequence[Mapping[str, Any]], stretches: int) -> dict[str, list[int | None]]:
    """Return each leaf's cost in each stretch. A stretch without a decision has the cost of the stretch before."""
    listed = {row["at"]: {leaf["hash"]: leaf["cost"] for leaf in row["listed"] or ()} for row in rows}
    times = Counter(hash_ for costs in listed.values() for hash_ in costs)
    before: dict[str, int] = listed.get(-1, {})
    in_order = [before := listed.get(at, before) for at in range(stretches)]
    most_listed = sorted(times, key=lambda hash_: (-times[hash_], hash_))[:MAX_LEAVES]
    return {hash_: [costs.get(hash_) for costs in in_order] for hash_ in most_listed}


def _series(rows: Sequence[Mapping[str, Any]], key: str) -> dict[Any, dict[int, Mapping[str, Any]]]:
    """Return rows by the column `key`, and by the stretch."""
    found: dict[Any, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: (row["rank"], row["at"])):
        found[row[key]][row["at"]] = row
    return dict(found)


def _episode(row: Mapping[str, Any]) -> Episode:
    return Episode(**{each.name: row[each.name] for each in fields(Episode)} | {"servers": tuple(row["servers"])})


def _closest(closest: DataFrame) -> tuple[list[dict[str, Any]], int]:
    """Return the closest floodfills of `MAX_HASHES` hashes on the newest days, and the number of all hashes."""
    newest = closest.withColumn("age", sf.dense_rank().over(Window.orderBy(sf.desc("day"))))
    by_day = newest.where(sf.col("age") <= _DAYS).groupBy("hash", "name", "day")
    summed = by_day.agg(
        sf.min_by("floodfill", "rank").alias("floodfill"),
        sf.min("distance").alias("nearest"),
        sf.max("distance").alias("farthest"),
        sf.count("*").alias("floodfills"),
    )
    ranked = summed.withColumn("rank", sf.dense_rank().over(Window.orderBy(sf.col("name").asc_nulls_last(), "hash")))
    total = ranked.withColumn("total", sf.max("rank").over(Window.partitionBy()))
    rows = [row.asDict() for row in total.where(sf.col("rank") <= MAX_HASHES).orderBy("rank", "day").collect()]
    return rows, _total(rows)


def _quarantine(quarantine: DataFrame) -> tuple[list[dict[str, Any]], int]:
    """Return the most frequent reasons, and the number of all rows."""
    by_reason = quarantine.groupBy("what", "reason").agg(
        sf.count("*").alias("pieces"), sf.sum("length").alias("length")
    )
    total = by_reason.withColumn("total", sf.sum("pieces").over(Window.partitionBy()))
    rows = total.orderBy(sf.desc("pieces"), "what", "reason").limit(MAX_REASONS).collect()
    return [row.asDict() for row in rows], rows[0]["total"] if rows else 0


def _size(spark: SparkSession, lake: Lake, name: str) -> TableSize:
    with suppress(OSError, ValueError):  # the files are another machine's, or on a file system that only Spark knows
        if sizes := parquet_sizes(lake.path(name)):
            return TableSize(name, True, len(sizes), sum(sizes))
    return TableSize(name, bool(read_columns(spark, lake, name, "farm string").inputFiles()))
