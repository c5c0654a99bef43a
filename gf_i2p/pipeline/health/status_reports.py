"""Status records as reports: who said how it was, and when by the exporter's clock. What all figures of health rest on.

Superseded records are reports all the same; what is not believed (`misfit`) is none.
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
"""For so long a record stands when no other follows, as the farm judges (`farm.candidates`)."""
MEMORY_MS: Final = DAY_MS
"""What was said longer ago is not compared with what is said now: so a day's figures need the day before, no more."""

_TRAFFIC: Final = {
    "lag_ms": "jobLag",
    "tunnels": "participatingTunnels",
    "in_bytes_s": "currentInboundBandwidth",
    "out_bytes_s": "currentOutboundBandwidth",
    "known_peers": "knownPeers",
}


def in_days(span: Span, *, before: int = 0) -> "Column":
    """Give the condition that a row's `day` is one of these, or of so many days before."""
    found = fn.lit(True)
    if span.since is not None:
        found &= fn.col("day") >= (span.since - timedelta(days=before)).isoformat()
    if span.until is not None:
        found &= fn.col("day") <= span.until.isoformat()
    return found


def reports(entries: "DataFrame", *more: "Column") -> "DataFrame":
    """Give the believed status records: farm, server, hour_ms, received_ms, index, term, up, and `more` of `record`.

    Servers' and members' alike; `up` is their routers'.
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
    """Give a router's numbers by the names of `server_hours`; null is what is missing, negative or beyond belief."""
    return [number(fn.col(f"record.router.{name}")).alias(column) for column, name in _TRAFFIC.items()]


def number(value: "Column") -> "Column":
    """Take a number from a record as far as it can be one: sums of what is left are finite."""
    return fn.when(value.between(0, MAX_DATE_MS), value.cast("double"))


def extents(entries: "DataFrame") -> "DataFrame":
    """Give for each farm and server when its first report was (`first_ms`), and the farm's last (`reach_ms`).

    Who computes some days needs it of all entries: what lies before a server's first report is nothing, and after its
    last it is silent for as long as the farm speaks.
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
