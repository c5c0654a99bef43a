"""Sums up the lake for the report: one query of Spark for each table, for all farms at once.

Each collected result has a limit, however large the lake is. Each query costs some tenths of a second at least, so
there is no query for a single farm.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.health.anomalies import EPISODES
from gf_i2p.pipeline.health.episodes import Episode
from gf_i2p.pipeline.health.status_reports import FRESH_MS
from gf_i2p.pipeline.lake.parquet_files import parquet_sizes
from gf_i2p.pipeline.lake.paths import TABLES, Lake
from gf_i2p.pipeline.lake.tables import read_columns
from gf_i2p.pipeline.read.entry_columns import EARLIEST_MS
from gf_i2p.pipeline.report import formats
from gf_i2p.pipeline.report.report_data import (
    MAX_EPISODES,
    MAX_FARMS,
    MAX_HASHES,
    MAX_LEAVES,
    MAX_REASONS,
    MAX_SERVERS,
    MAX_SETS,
    MAX_STRETCHES,
    MAX_TURNS,
    Closest,
    FarmReport,
    Leaf,
    Near,
    Period,
    Reason,
    Report,
    TableSize,
    Turn,
    Turns,
)

_LEAST_MS: Final = 60_000
"""Least length of a period, because the period of a single record has no length."""
_DAYS: Final = 3
_RANKS: Final = 8
_LEAST_HEARD: Final = 0.95
"""Availability from which on an hour is no silence."""
_IS_GAP: Final = "kind = 'servers' and value is not null"
"""Condition: the row of `entries` is no log entry, but names the farm's servers after a gap."""
_MEANS: Final = ("lag_ms", "skew_ms", "tunnels", "in_bytes_s", "out_bytes_s", "known_peers")
_HOURS: Final = "farm string, day string, hour_ms bigint, server bigint, watched_ms bigint, records bigint"
SCHEMAS: Final = {
    "entries": "farm string, day string, index bigint, term bigint, received_ms bigint, kind string, value string, "
    "leader bigint",
    "server_hours": f"{_HOURS}, availability double, flaps bigint, longest_gap_ms bigint, "
    + ", ".join(f"{name} double" for name in _MEANS),
    "destination_hours": f"{_HOURS}, destination string, availability double, flaps bigint, connections double, "
    "load double",
    "anomalies": EPISODES,
    "decisions": "farm string, index bigint, received_ms bigint, publisher bigint, "
    "listed array<struct<hash: string, cost: int>>",
    "backtest": "farm string, parameters string, in_force string, live boolean, farm_ms bigint, outage_ms bigint, "
    "changes bigint, unneeded bigint, stale_ms bigint, missing_ms bigint, set_changes bigint, imbalance_ms double, "
    "cost double, recommended boolean, gain double, gain_low double, gain_high double, saved_s double, advice string",
    "closest": "hash string, name string, day string, rank int, floodfill string, distance string",
    "quarantine": "what string, reason string, length bigint",
}
"""The columns of each table that the report needs."""


@dataclass(frozen=True, slots=True)
class ReportScope:
    """The farms and times of the report. Times are in milliseconds since the epoch; None: no limit."""

    farms: tuple[str, ...] = ()
    """The farms; empty: the largest farms."""
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
    since = max(scope.since_ms or EARLIEST_MS, EARLIEST_MS)
    until = min(scope.until_ms or now + DAY_MS, now + DAY_MS)
    if since >= until:
        raise PipelineError("The period is empty: give a --since that is before --until, and not in the future.")
    say("sizes")
    sizes = [_size(spark, lake, name) for name in TABLES]
    there = {each.name for each in sizes if each.is_there}
    if not there:
        raise PipelineError(f"{lake.root} has no table of the pipeline: begin with gf-i2p pipeline ingest.")
    tables = {name: read_columns(spark, lake, name, schema) for name, schema in SCHEMAS.items() if name in there}
    say("farms")
    extents = _Extents(tables, scope.farms, since, until, now)
    farms = _Farms(tables, extents.periods, say)
    reports = [farms.report(name, extents.entries[name]) for name in extents.periods]
    say("floodfills and quarantine")
    hashes, hashes_total = _closest(tables["closest"]) if "closest" in tables else (None, 0)
    reasons, quarantined = _quarantine(tables["quarantine"]) if "quarantine" in tables else (None, 0)
    return Report(
        made_ms=now,
        farms=reports,
        farms_total=extents.farms_total,
        entries_total=extents.entries_total,
        closest=hashes,
        reasons=reasons,
        sizes=sizes,
        hashes_total=hashes_total,
        quarantined=quarantined,
        strange_clocks=extents.strange_clocks,
        older=farms.older,
    )


class _Extents:
    """The farms of the report, with their numbers of entries and periods."""

    def __init__(
        self, tables: Mapping[str, DataFrame], names: tuple[str, ...], since: int, until: int, now: int
    ) -> None:
        """Find the farms in the first table of three that is there. Raises `PipelineError` for a name not found."""
        self.periods: dict[str, Period] = {}
        self.entries: dict[str, int] = {}
        self.farms_total = self.entries_total = self.strange_clocks = 0
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
        strange = ~sf.col(at).between(EARLIEST_MS, now + DAY_MS)
        for row in (
            frame.groupBy("farm")
            .agg(
                sf.sum(sf.when(inside, count)).alias("rows"),
                sf.min(sf.when(inside, sf.col(at))).alias("first"),
                sf.max(sf.when(inside, last)).alias("last"),
                sf.count_if(strange).alias("strange"),
            )
            .collect()
        ):
            self.strange_clocks += row.strange
            if row["first"] is None:
                continue
            self.farms_total += 1
            self.entries_total += int(row["rows"] or 0)
            self.entries[row.farm] = int(row["rows"] or 0)
            first = max(row["first"], since)
            self.periods[row.farm] = Period(first, max(min(max(row["last"], first + _LEAST_MS), until), first + 1))


class _Farms:
    """The rows of all tables, summed up, by farm."""

    def __init__(
        self, tables: Mapping[str, DataFrame], periods: Mapping[str, Period], say: Callable[[str], None]
    ) -> None:
        self._periods = periods
        self.older: list[str] = []
        """Tables that an older version has made."""
        self._tables = {
            name: frame.where(sf.col("farm").isin(list(periods)))
            for name, frame in tables.items()
            if "farm string" in SCHEMAS[name]
        }
        if not periods:
            self._tables = {}
        say("leaders and publishers")
        self._led = self._of(
            "entries", lambda rows: self._turns(rows.where("kind = 'servers'").where(f"not ({_IS_GAP})"), "leader")
        )
        self._published = self._of("decisions", lambda rows: self._turns(rows, "publisher"))
        self._costs = self._of("decisions", self._costs_of)
        say("hours of servers")
        self._servers = self._of("server_hours", self._hours_of_servers)
        say("hours of leaves")
        self._leaves = self._of("destination_hours", self._hours_of_leaves)
        say("anomalies and parameters")
        self._episodes = self._of("anomalies", self._episodes_of)
        self._trials = self._of("backtest", self._trials_of)

    def report(self, name: str, entries: int) -> FarmReport:
        """Return the data of one farm."""
        period = self._periods[name]
        led, published, costs, servers, leaves, episodes, trials = (
            None if rows is None else rows.get(name, [])
            for rows in (self._led, self._published, self._costs, self._servers, self._leaves, self._episodes,
                         self._trials)
        )  # fmt: skip
        return FarmReport(
            name,
            entries,
            period,
            led=None if led is None else _turns(led),
            published=_turns(published) if published else None,
            costs=_costs(costs, period.stretches) if costs else None,
            servers=None if servers is None else _series(servers, "server"),
            servers_total=_total(servers),
            leaves=None if leaves is None else _leaves(leaves),
            leaves_total=_total(leaves),
            episodes=None if episodes is None else [_episode(row) for row in sorted(episodes, key=_rank)],
            episodes_total=_total(episodes),
            silent=frozenset((row["server"], hour_ms) for row in servers or () for hour_ms in row["silent"]),
            trials=sorted(trials, key=_rank) if trials else None,
            trials_total=_total(trials),
        )

    def _of(self, table: str, make: Callable[[DataFrame], DataFrame]) -> dict[str, list[dict[str, Any]]] | None:
        """Return the rows that `make` makes of a table, by farm; None: no table, or an older version's."""
        if table not in self._tables:
            return None
        rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in make(self._tables[table]).collect():
            rows[row.farm].append(row.asDict())
        sign = {"anomalies": "begin_ms", "backtest": "outage_ms"}.get(table)
        if sign is not None and any(row[sign] is None for of_farm in rows.values() for row in of_farm):
            self.older.append(table)
            return None
        return rows

    def _by_farm(self, value: Callable[[Period], int]) -> Column:
        """Return a column with a value for the row's farm."""
        pairs = [sf.lit(each) for name, period in self._periods.items() for each in (name, value(period))]
        return sf.create_map(*pairs)[sf.col("farm")]

    def _stretch(self, at: str) -> Column:
        begin, length = self._by_farm(lambda each: each.hour_ms), self._by_farm(lambda each: each.stretch_ms)
        return sf.floor((sf.col(at) - begin) / length).cast("int")

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
        sums = _sums(self._hours(hours), "server", gap, silent, *(sf.avg(name).alias(name) for name in _MEANS))
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
        inside = anomalies.where(~sf.coalesce(outside, sf.lit(False)))  # an older version's rows have no begin
        return _first(inside.withColumn("rank", sf.row_number().over(newest)), MAX_EPISODES)

    def _trials_of(self, trials: DataFrame) -> DataFrame:
        order = (sf.desc("live"), sf.desc("recommended"), sf.col("cost").asc_nulls_last(), "parameters")
        rank = sf.row_number().over(Window.partitionBy("farm").orderBy(*order))
        return _first(trials.withColumn("rank", rank), MAX_SETS)


def _sums(hours: DataFrame, what: str, *more: Column) -> DataFrame:
    """Return the figures of each farm, `what` and stretch that servers and leaves have both."""
    covered = sf.sum(sf.col("availability") * sf.col("watched_ms"))
    return hours.groupBy("farm", what, "at").agg(
        sf.count("*").alias("hours"),
        sf.sum("watched_ms").alias("watched_ms"),
        sf.coalesce(sf.try_divide(covered, sf.sum("watched_ms")), sf.avg("availability")).alias("availability"),
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
    turns = sorted((Turn(row["received_ms"], row["who"]) for row in reversed(rows)), key=lambda turn: turn.at_ms)
    return Turns(turns, rows[0]["changes"] if rows else 0)


def _costs(rows: Sequence[Mapping[str, Any]], stretches: int) -> dict[str, list[int | None]]:
    """Return each leaf's cost in each stretch. A stretch without a decision has the cost of the stretch before."""
    listed = {row["at"]: {leaf["hash"]: leaf["cost"] for leaf in row["listed"] or ()} for row in rows}
    times: dict[str, int] = defaultdict(int)
    for costs_now in listed.values():
        for hash_ in costs_now:
            times[hash_] += 1
    costs: dict[str, list[int | None]] = {
        hash_: [] for hash_ in sorted(times, key=lambda hash_: (-times[hash_], hash_))[:MAX_LEAVES]
    }
    now = listed.get(-1, {})
    for at in range(min(stretches, MAX_STRETCHES)):
        now = listed.get(at, now)
        for hash_, of_leaf in costs.items():
            of_leaf.append(now.get(hash_))
    return costs


def _series(rows: Sequence[Mapping[str, Any]], key: str) -> dict[Any, dict[int, Mapping[str, Any]]]:
    """Return rows by the column `key`, and by the stretch."""
    found: dict[Any, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: (row["rank"], row["at"])):
        found[row[key]][row["at"]] = row
    return dict(found)


def _leaves(rows: Sequence[Mapping[str, Any]]) -> dict[str, Leaf]:
    found = _series(rows, "destination")
    return {hash_: Leaf(series[max(series)]["server"], series) for hash_, series in found.items()}


def _episode(row: Mapping[str, Any]) -> Episode:
    names = [each.split()[0] for each in EPISODES.split(", ")[1:]]
    return Episode(**{name: row[name] for name in names} | {"servers": tuple(row["servers"] or ())})


def _closest(closest: DataFrame) -> tuple[list[Closest], int]:
    """Return the floodfills of `MAX_HASHES` hashes on the newest days, and the number of all hashes."""
    newest = closest.withColumn("age", sf.dense_rank().over(Window.orderBy(sf.desc("day"))))
    newest = newest.where((sf.col("age") <= _DAYS) & (sf.col("rank") <= _RANKS))
    order = Window.orderBy(sf.col("name").asc_nulls_last(), "hash")
    numbered = newest.withColumn("number", sf.dense_rank().over(order))
    numbered = numbered.withColumn("total", sf.max("number").over(Window.partitionBy()))
    rows = numbered.where(sf.col("number") <= MAX_HASHES).orderBy("number", "day", "rank").collect()
    found: dict[tuple[str, str, str], list[Near]] = defaultdict(list)
    for row in rows:
        near = Near(row["rank"], row["floodfill"] or "", row["distance"] or "")
        found[row["hash"] or "", row["name"] or "", row["day"] or ""].append(near)
    return [Closest(*key, near) for key, near in found.items()], max((row["total"] for row in rows), default=0)


def _quarantine(quarantine: DataFrame) -> tuple[list[Reason], int]:
    """Return the most frequent reasons, and the number of all rows."""
    by_reason = quarantine.groupBy("what", "reason").agg(sf.count("*").alias("number"), sf.sum("length").alias("bytes"))
    total = by_reason.withColumn("total", sf.sum("number").over(Window.partitionBy()))
    rows = total.orderBy(sf.desc("number"), "what", "reason").limit(MAX_REASONS).collect()
    reasons = [Reason(row.what or "", row.reason or "", row.number, int(row.bytes or 0)) for row in rows]
    return reasons, rows[0]["total"] if rows else 0


def _size(spark: SparkSession, lake: Lake, name: str) -> TableSize:
    with suppress(OSError, ValueError):  # the files are another machine's, or on a file system that only Spark knows
        if sizes := parquet_sizes(lake.path(name)):
            return TableSize(name, True, len(sizes), sum(sizes))
    return TableSize(name, bool(read_columns(spark, lake, name, "farm string").inputFiles()))
