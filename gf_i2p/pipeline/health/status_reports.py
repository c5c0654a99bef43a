"""Status records as reports: a server's state, and the time by the exporter's clock. All figures of health use these.

Superseded records are reports, too; records that are not believed (`misfit`) are none.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as fn

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.strict_json import MAX_DATE_MS
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS, Span

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FRESH_MS: Final = Parameters().fresh_ms
"""Time for which a record stands when no other follows, as the farm judges (`farm.candidates`)."""
MEMORY_MS: Final = DAY_MS
"""A record older than this is not compared with a new one: so a day's figures need the day before, and no more."""

_TRAFFIC: Final = {
    "lag_ms": "jobLag",
    "tunnels": "participatingTunnels",
    "in_bytes_s": "currentInboundBandwidth",
    "out_bytes_s": "currentOutboundBandwidth",
    "known_peers": "knownPeers",
}


def in_days(span: Span, *, before: int = 0) -> "Column":
    """Give the condition that a row's `day` is in the span, or within `before` days before the span."""
    found = fn.lit(True)
    if span.since is not None:
        found &= fn.col("day") >= (span.since - timedelta(days=before)).isoformat()
    if span.until is not None:
        found &= fn.col("day") <= span.until.isoformat()
    return found


def reports(entries: "DataFrame", *more: "Column") -> "DataFrame":
    """Give the believed status records: farm, server, hour_ms, received_ms, index, term, up, and `more` of `record`.

    Records of servers and members alike; `up` is the router's state.
    """
    believed = entries.where((fn.col("kind") == "status") & fn.col("misfit").isNull() & fn.col("record").isNotNull())
    received = fn.col("received_ms")
    return believed.select(
        "farm",
        fn.col("record.id").alias("server"),
        hour_of(received).alias("hour_ms"),
        received,
        "index",
        "term",
        fn.coalesce(fn.col("record.router.up"), fn.lit(False)).alias("up"),
        *more,
    )


def numbers() -> list["Column"]:
    """Give a router's numbers by the names of `server_hours`; null for missing, negative or unbelievable numbers."""
    return [number(fn.col(f"record.router.{name}")).alias(column) for column, name in _TRAFFIC.items()]


def number(value: "Column") -> "Column":
    """Take a number from a record if it is believable: sums of such numbers are finite."""
    return fn.when(value.between(0, MAX_DATE_MS), value.cast("double"))


def extents(entries: "DataFrame") -> "DataFrame":
    """Give for each farm and server the time of its first report (`first_ms`), and of the farm's last (`reach_ms`).

    To compute some days, give the extents of all entries: the time before a server's first report does not count, and
    after its last report the server counts as silent for as long as the farm speaks.
    """
    found = reports(entries).groupBy("farm", "server")
    each = found.agg(fn.min("received_ms").alias("first_ms"), fn.max("received_ms").alias("last_ms"))
    farms = each.groupBy("farm").agg(fn.max("last_ms").alias("reach_ms"))
    return each.drop("last_ms").join(farms, "farm")


def hour_of(time_ms: "Column") -> "Column":
    """Give the start of the hour."""
    return time_ms - time_ms % HOUR_MS


def day_of(time_ms: "Column") -> "Column":
    """Give the UTC day, YYYY-MM-DD."""
    return fn.date_from_unix_date(fn.floor(time_ms / DAY_MS).cast("int")).cast("string")
