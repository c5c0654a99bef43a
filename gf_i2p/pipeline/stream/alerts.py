"""Alerts: each alert makes one event when the alert begins, and one event when the alert ends.

The table `alerts` is a list of such events. An alert that has begun and not ended stands. So the stream knows the
present alerts after a restart, too. A farm is judged by its state at its newest entry. If one batch catches up with a
long time, only the health tables tell of that time. An alert ends at another limit than the limit at which the alert
begins, so that a value near one limit does not make event after event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql import Window
from pyspark.sql import functions as fn

from gf_i2p.farm.choice.candidates import PUBLISHES
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.days import HOUR_MS
from gf_i2p.pipeline.health.episodes import LEAST_WATCHED_MS
from gf_i2p.pipeline.health.status_reports import FRESH_MS, MEMORY_MS, reports
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EVENTS: Final = (
    "farm string, server bigint, alert string, event string, at_ms bigint, value double, text string, noticed_ms bigint"
)
"""`server`: null for an alert of the whole farm. `event`: "begins" or "ends".

`at_ms`: the time of the farm's newest record. `noticed_ms`: the time when the stream noticed the event. Both are in ms
since the epoch.
"""
BEGINS: Final = "begins"
ENDS: Final = "ends"
MAX_EVENTS: Final = 10_000
"""Most events of one batch; further events come with the next batch."""
EventRow: TypeAlias = "tuple[str, int | None, str, str, int, float | None, str]"
"""An event without the time when it was noticed."""
_NEWS_MS: Final = 300_000
"""Time over which a clock's skew is averaged: the time of some ten records."""
_IDLE: Final = ("off", "dry-run")
"""Modes in which nobody publishes."""


@dataclass(frozen=True, slots=True)
class AlertLimits:
    """Limits at which alerts begin and end."""

    silent_ms: int = FRESH_MS
    """Milliseconds between a server's newest record and the farm's newest record, above which the server is silent."""
    availability: float = 0.9
    """Availability in the last hour. An alert begins below this limit, and ends half way from the limit to 1."""
    flaps: int = 4
    """Changes of a router between up and down in the last hour. An alert ends at 1 change."""
    skew_ms: int = 30_000
    """Difference between a server's clock and the farm's median. An alert ends at two thirds of the limit."""
    farm_silent_ms: int = 600_000
    """Age of a silent farm's newest record, by the clock of the stream's machine; see `silent_farms`."""

    @property
    def availability_again(self) -> float:
        """Availability from which on an alert ends."""
        return (1 + self.availability) / 2


def note_alerts(spark: "SparkSession", lake: Lake, entries: "DataFrame", limits: AlertLimits) -> int:
    """Judge the farms, and write the alerts that begin and end; return the number of these events.

    `entries`: the entries of the farms that have new entries, at least of each farm's last day.
    """
    events = tables.read_columns(spark, lake, "alerts", EVENTS)
    news = changes(conditions(entries, limits), present_alerts(events))
    names = [each.split()[0] for each in EVENTS.split(", ")][:-1]
    rows = news.select(names).limit(MAX_EVENTS).collect()  # at most as many as servers with changes
    if rows:
        write(spark, lake, [tuple(row) for row in rows], now_ms())
    return len(rows)


def write(spark: "SparkSession", lake: Lake, news: Sequence[EventRow], at_ms: int) -> None:
    """Add events that are noticed at `at_ms`. Their `noticed_ms` is later than that of all earlier events."""
    last = tables.read_columns(spark, lake, "alerts", EVENTS).agg(fn.max("noticed_ms")).first()
    noticed_ms = max(at_ms, 0 if last is None or last[0] is None else last[0] + 1)
    rows = spark.createDataFrame([(*each, noticed_ms) for each in news], EVENTS)
    tables.append_file(rows, lake, "alerts")


def present_alerts(events: "DataFrame") -> "DataFrame":
    """Return farm, server, alert and beginning (`since_ms`) of the alerts that have begun and not ended."""
    newest = events.groupBy("farm", "server", "alert").agg(
        fn.max_by("event", "noticed_ms").alias("event"), fn.max_by("at_ms", "noticed_ms").alias("since_ms")
    )
    return newest.where(fn.col("event") == BEGINS).drop("event")


def changes(possible: "DataFrame", present: "DataFrame") -> "DataFrame":
    """Return the events that make `present` agree with `possible` (see `conditions`)."""
    same = [fn.col(f"now.{name}").eqNullSafe(fn.col(f"then.{name}")) for name in ("farm", "server", "alert")]
    stands = fn.col("then.since_ms").isNotNull()
    pairs = possible.alias("now").join(present.alias("then"), same, "left")
    event = fn.when(~stands & fn.col("begins"), BEGINS).when(stands & fn.col("ends"), ENDS)
    return (
        pairs.withColumn("event", event)
        .where("event is not null")
        .select("now.farm", "now.server", "now.alert", "event", "at_ms", "value", "text")
    )


def conditions(entries: "DataFrame", limits: AlertLimits) -> "DataFrame":
    """Return for each farm and server the possible alerts: `alert`, whether it `begins` or `ends`, `value`, `text`."""
    servers = _servers(entries, limits)
    name = fn.when(fn.col("server") < FIRST_LEAF_MEMBER_ID, "server ").otherwise("member ")
    who = fn.concat(name, fn.col("server").cast("string"))
    gone = ~fn.col("belongs")
    silent_ms, share = fn.col("at_ms") - fn.col("last_ms"), fn.col("availability")
    off_ms, flaps = fn.abs("skew_ms"), fn.col("flaps").cast("double")
    spoken = silent_ms <= limits.silent_ms
    tests = {
        "silent": (
            ~spoken,
            spoken,
            silent_ms / 1000,
            fn.format_string("%s was last heard %d s before the farm's newest entry", who, fn.floor(silent_ms / 1000)),
        ),
        "availability": (
            share < limits.availability,
            share >= limits.availability_again,
            share,
            fn.format_string("%s was available for %.1f %% of the last hour", who, share * 100),
        ),
        "flapping": (
            flaps >= limits.flaps,
            flaps <= 1,
            flaps,
            fn.format_string("the router of %s went up or down %d times in the last hour", who, fn.col("flaps")),
        ),
        "skew": (
            off_ms > limits.skew_ms,
            off_ms <= limits.skew_ms * 2 // 3,
            fn.col("skew_ms") / 1000,
            fn.format_string("the clock of %s is %+.1f s off the farm's", who, fn.col("skew_ms") / 1000),
        ),
    }
    of_servers = [
        fn.struct(
            fn.lit(alert).alias("alert"),
            (~gone & fn.coalesce(begins, fn.lit(False))).alias("begins"),
            (gone | fn.coalesce(ends, fn.lit(False))).alias("ends"),
            value.cast("double").alias("value"),
            fn.when(gone, fn.concat(who, fn.lit(" belongs to the farm no more"))).otherwise(text).alias("text"),
        )
        for alert, (begins, ends, value, text) in tests.items()
    ]
    server_alerts = servers.select("farm", "server", "at_ms", fn.inline(fn.array(*of_servers)))
    return server_alerts.unionByName(_publisher(servers, limits))


def _publisher(servers: "DataFrame", limits: AlertLimits) -> "DataFrame":
    """Return the possible alert `publisher` of each farm: no server publishes, though a server should."""
    at, belongs = fn.col("at_ms"), fn.col("belongs")
    since_ms = at - fn.coalesce("published_ms", "first_ms")
    farms = servers.groupBy("farm", "at_ms").agg(
        fn.max("published_ms").alias("published_ms"),
        fn.min("first_ms").alias("first_ms"),
        fn.coalesce(
            fn.max(belongs & fn.col("would") & (at - fn.col("last_ms") <= limits.silent_ms)), fn.lit(False)
        ).alias("would"),
    )
    is_vacant = fn.col("would") & (since_ms > limits.silent_ms)
    return farms.select(
        "farm",
        fn.lit(None).cast("bigint").alias("server"),
        "at_ms",
        fn.lit("publisher").alias("alert"),
        is_vacant.alias("begins"),
        (~is_vacant).alias("ends"),
        (since_ms / 1000).cast("double").alias("value"),
        fn.when(is_vacant, fn.format_string("nobody has published for %d s", fn.floor(since_ms / 1000)))
        .when(~fn.col("would"), "nobody is configured to publish")
        .otherwise("there is a publisher")
        .alias("text"),
    )


def _servers(entries: "DataFrame", limits: AlertLimits) -> "DataFrame":
    """Return each server's state at the farm's newest report, `at_ms`. Null: the entries do not tell."""
    meta = fn.col("record.meta")
    mode = fn.coalesce(fn.col("record.config.mode"), fn.lit("meta"))
    rows = reports(
        entries,
        (fn.col("record.date") - fn.col("received_ms")).alias("ahead_ms"),
        fn.coalesce(meta["publishing"], fn.lit(False)).alias("publishing"),
        fn.coalesce(meta["publishConfig"].isin(*PUBLISHES) & ~mode.isin(*_IDLE), fn.lit(False)).alias("would"),
    )
    in_order = Window.partitionBy("farm", "server").orderBy("received_ms", "index", "term")
    at, heard = fn.col("at_ms"), fn.col("received_ms")
    newest = rows.groupBy("farm").agg(fn.max("received_ms").alias("at_ms"))
    rows = rows.join(newest, "farm").where(heard > at - MEMORY_MS)
    rows = rows.withColumns(
        {"was_up": fn.lag("up").over(in_order), "until_ms": fn.lead("received_ms").over(in_order)}
    ).withColumn("until_ms", fn.least(fn.coalesce("until_ms", at), heard + limits.silent_ms))
    covered = fn.col("until_ms") - fn.greatest(heard, at - HOUR_MS)
    watched = fn.least(fn.lit(HOUR_MS), at - fn.col("first_ms"))
    by_server = rows.groupBy("farm", "server", "at_ms").agg(
        fn.min(heard).alias("first_ms"),
        fn.max(heard).alias("last_ms"),
        fn.sum(fn.when(fn.col("up") & (covered > 0), covered).otherwise(0)).alias("up_ms"),
        fn.count_if((fn.col("up") != fn.col("was_up")) & (heard > at - HOUR_MS)).alias("flaps"),
        fn.avg(fn.when(heard > at - _NEWS_MS, fn.col("ahead_ms"))).alias("ahead_ms"),
        fn.max(fn.when(fn.col("publishing"), heard)).alias("published_ms"),
        fn.max_by("would", heard).alias("would"),
    )
    return by_server.join(_configured(entries), "farm", "left").select(
        "farm",
        "server",
        "at_ms",
        "first_ms",
        "last_ms",
        "flaps",
        "published_ms",
        "would",
        fn.when(watched >= LEAST_WATCHED_MS, fn.col("up_ms") / watched).alias("availability"),
        (fn.col("ahead_ms") - fn.median("ahead_ms").over(Window.partitionBy("farm"))).alias("skew_ms"),
        _belongs().alias("belongs"),
    )


def _configured(entries: "DataFrame") -> "DataFrame":
    """Return the servers of each farm by the farm's newest Configuration in `entries`, if there is a Configuration."""
    configurations = entries.where((fn.col("kind") == "servers") & fn.col("servers").isNotNull())
    return configurations.groupBy("farm").agg(fn.max_by("servers", fn.struct("index", "term")).alias("configured"))


def _belongs() -> "Column":
    server = fn.col("server")
    return (
        fn.col("configured").isNull()
        | (server >= FIRST_LEAF_MEMBER_ID)
        | fn.coalesce(fn.array_contains("configured", server), fn.lit(False))
    )
