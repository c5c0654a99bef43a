"""Sums up one farm's tables for the farm's charts. Each function takes one farm's rows, and collects up to a limit."""

from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from gf_i2p.pipeline.backtest.gain import Gain
from gf_i2p.pipeline.report.chart_data import (
    MAX_ANOMALIES,
    MAX_CELLS,
    MAX_LEAVES,
    MAX_SERVERS,
    MAX_SETS,
    MAX_STEPS,
    MAX_TURNS,
    Anomalies,
    AnomalyRow,
    Backtest,
    Cell,
    Heat,
    HeatRow,
    Line,
    Period,
    SmallLines,
    Timeline,
    TrialRow,
    Turn,
)


def timeline(entries: DataFrame, decisions: DataFrame | None, period: Period) -> Timeline:
    """Return when each server led, and when each server published.

    The Configuration entries name the leaders, and the decisions name the publishers.
    """
    led, led_changes = _turns(entries.where((sf.col("kind") == "servers") & ~is_gap()), "leader", period)
    if decisions is None:
        return Timeline(led, None, led_changes)
    published, published_changes = _turns(decisions, "publisher", period)
    return Timeline(led, published, led_changes, published_changes)


def is_gap() -> Column:
    """Return a Spark condition: the row of `entries` is no log entry, but names the farm's servers after a gap."""
    return (sf.col("kind") == "servers") & sf.col("value").isNotNull()


def _turns(frame: DataFrame, who_column: str, period: Period) -> tuple[list[Turn], int]:
    """Return the rows where `who_column` changes, until the end of the period, and count the changes in the period."""
    order = [sf.col(name) for name in ("index", "term") if name in frame.columns]
    in_order = Window.partitionBy("farm").orderBy(*order)
    turns = (
        frame.where(sf.col("received_ms") <= period.until_ms)
        .select("farm", *order, "received_ms", sf.col(who_column).cast("long").alias("who"))
        .withColumn("begins", sf.row_number().over(in_order) == 1)
        .withColumn("before", sf.lag("who").over(in_order))
        .where(sf.col("begins") | ~sf.col("who").eqNullSafe(sf.col("before")))
    )
    rows = turns.orderBy(*(column.desc() for column in order)).limit(MAX_TURNS).collect()
    changes = turns.where(~sf.col("begins") & (sf.col("received_ms") >= period.since_ms)).count()
    return sorted((Turn(int(row.received_ms), row.who) for row in reversed(rows)), key=lambda turn: turn.at_ms), changes


def _stretch(at: str, since_ms: int, stretch_ms: int) -> Column:
    return sf.floor((sf.col(at) - since_ms) / stretch_ms).cast("int")


def heat(server_hours: DataFrame, period: Period) -> Heat:
    """Return the availability of up to `MAX_SERVERS` servers, by id.

    Servers are chosen before leaf members, and the worst first.
    """
    stretch_ms = period.stretch_ms(MAX_CELLS)
    hours = _hours(server_hours, period)
    by_server = hours.groupBy("server").agg(
        sf.avg("availability").alias("availability"),
        sf.sum("records").alias("records"),
        sf.sum("flaps").alias("flaps"),
        sf.max("longest_gap_ms").alias("gap"),
    )
    chosen = by_server.orderBy(sf.col("server") >= 1 << 31, "availability", "server").limit(MAX_SERVERS)
    shown = {row.server: row for row in chosen.collect()}
    is_other, is_server = ~sf.col("server").isin(list(shown)), sf.col("server") < 1 << 31
    others = by_server.agg(
        sf.count_if(is_other).alias("number"),
        sf.avg(sf.when(is_other, sf.col("availability"))).alias("mean"),
        sf.count_if(is_server).alias("servers"),
        sf.avg(sf.when(is_server, sf.col("availability"))).alias("of_servers"),
    ).collect()[0]
    cells: dict[int, dict[int, Cell]] = {server: {} for server in shown}
    for row in (
        hours.where(sf.col("server").isin(list(shown)))
        .groupBy("server", _stretch("hour_ms", period.hour_ms, stretch_ms).alias("at"))
        .agg(
            sf.avg("availability").alias("availability"),
            sf.sum("records").alias("records"),
            sf.sum("flaps").alias("flaps"),
        )
        .limit(MAX_SERVERS * (MAX_CELLS + 2))
        .collect()
    ):
        cells[row.server][row["at"]] = Cell(row.availability or 0.0, int(row.records or 0), int(row.flaps or 0))
    return Heat(
        stretch_ms,
        [
            HeatRow(
                server,
                row.availability or 0.0,
                int(row.records or 0),
                int(row.flaps or 0),
                int(row.gap or 0),
                cells[server],
            )
            for server, row in sorted(shown.items())
        ],
        others.number,
        others["mean"],
        others.servers,
        others.of_servers,
    )


def _hours(frame: DataFrame, period: Period) -> DataFrame:
    """Return the rows of the period's hours, also of the hour in which the period begins."""
    return frame.where((sf.col("hour_ms") > period.since_ms - 3_600_000) & (sf.col("hour_ms") < period.until_ms))


def weights(decisions: DataFrame, period: Period) -> SmallLines:
    """Return the costs of up to `MAX_LEAVES` leaves: those that were listed in the largest number of stretches.

    In a stretch, the last decision counts.
    """
    stretch_ms = period.stretch_ms(MAX_STEPS)
    steps = -(-period.length_ms // stretch_ms)
    last = (
        decisions.where(sf.col("received_ms") <= period.until_ms)
        .withColumn("at", sf.greatest(_stretch("received_ms", period.since_ms, stretch_ms), sf.lit(-1)))
        .groupBy("at")
        .agg(sf.max_by("listed", "index").alias("listed"))
    )
    decided = sorted(row["at"] for row in last.select("at").limit(steps + 2).collect())
    costs = last.select("at", sf.explode("listed").alias("leaf")).select("at", "leaf.hash", "leaf.cost")
    leaves = costs.groupBy("hash").agg(sf.count("*").alias("times"))
    total = leaves.count()
    chosen = leaves.orderBy(sf.desc("times"), "hash").limit(MAX_LEAVES).select("hash")
    rows = costs.join(sf.broadcast(chosen), "hash").limit(MAX_LEAVES * (steps + 2)).collect()
    cost_by_stretch = {(row["hash"], row["at"]): row["cost"] for row in rows}
    names = sorted({hash_ for hash_, _ in cost_by_stretch})
    return SmallLines(
        stretch_ms,
        [Line(name, _carried(name, cost_by_stretch, decided, steps)) for name in names],
        max(total - len(names), 0),
    )


def _carried(
    name: str, cost_by_stretch: dict[tuple[str, int], Any], decided: list[int], steps: int
) -> list[float | None]:
    """Return a leaf's cost in each stretch. A stretch without a decision has the cost of the stretch before."""
    costs: list[float | None] = []
    cost = cost_by_stretch.get((name, -1))
    decided_stretches = set(decided)
    for at in range(steps):
        if at in decided_stretches:
            cost = cost_by_stretch.get((name, at))
        costs.append(None if cost is None else float(cost))
    return costs


def loads(destination_hours: DataFrame, period: Period) -> SmallLines:
    """Return the loads of up to `MAX_LEAVES` leaves: those with the most records."""
    stretch_ms = period.stretch_ms(MAX_STEPS)
    steps = -(-(period.until_ms - period.hour_ms) // stretch_ms)
    hours = _hours(destination_hours, period)
    leaves = hours.groupBy("destination").agg(sf.sum("records").alias("records"))
    total = leaves.count()
    chosen = leaves.orderBy(sf.desc("records"), "destination").limit(MAX_LEAVES).select("destination")
    rows = (
        hours.join(sf.broadcast(chosen), "destination")
        .groupBy("destination", _stretch("hour_ms", period.hour_ms, stretch_ms).alias("at"))
        .agg(sf.avg("load").alias("load"))
        .limit(MAX_LEAVES * (steps + 2))
        .collect()
    )
    values: dict[str, list[float | None]] = {}
    for row in rows:
        line = values.setdefault(row.destination, [None] * steps)
        if 0 <= row["at"] < steps:
            line[row["at"]] = row["load"]
    lines = [Line(name, line) for name, line in sorted(values.items())]
    return SmallLines(stretch_ms, lines, max(total - len(lines), 0))


def anomalies(frame: DataFrame, period: Period) -> Anomalies | None:
    """Return up to `MAX_ANOMALIES` episodes, the strongest first, and the number of all episodes.

    None: an earlier version of gf-i2p made the table, with a row for each hour.
    """
    if "begin_ms" not in frame.columns:
        return None
    inside = frame.where((sf.col("end_ms") > period.since_ms) & (sf.col("begin_ms") < period.until_ms))
    in_order = (sf.desc("score"), "begin_ms", "servers", "destination", "measure")
    rows = inside.orderBy(*in_order).limit(MAX_ANOMALIES).collect()
    return Anomalies(
        [
            AnomalyRow(row.subject, row.servers, row.measure, row.begin_ms, row.end_ms, row.hours, row.score, row.text)
            for row in rows
        ],
        len(rows) if len(rows) < MAX_ANOMALIES else inside.count(),
    )


def backtest(trials: DataFrame, _period: Period) -> Backtest | None:
    """Return the results of the backtest for the live and the recommended set, and for the cheapest other sets.

    None for the table of an older version, which has other columns.
    """
    if "outage_ms" not in trials.columns:
        return None
    order = (sf.desc("live"), sf.desc("recommended"), sf.col("cost").asc_nulls_last(), "parameters")
    return Backtest(
        [
            TrialRow(
                row.parameters or "",
                bool(row.live),
                int(row.outage_ms or 0),
                int(row.changes or 0),
                int(row.unneeded or 0),
                int(row.stale_ms or 0),
                int(row.missing_ms or 0),
                int(row.set_changes or 0),
                row.imbalance_ms / row.farm_ms if row.farm_ms and row.imbalance_ms is not None else None,
                row.cost,
                "" if row.gain is None else str(Gain(row.gain, row.gain_low, row.gain_high, row.saved_s)),
                bool(row.recommended),
                row.advice or "",
                row.in_force or "",
            )
            for row in trials.orderBy(*order).limit(MAX_SETS).collect()
        ],
        trials.count(),
    )
