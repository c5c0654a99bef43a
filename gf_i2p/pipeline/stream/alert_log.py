"""The table `alerts`: a list of events. An alert that has begun and not ended stands, also after a restart."""

from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as fn

from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.stream.alerts import BEGINS, AlertChange, AlertKey

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

EVENTS: Final = (
    "farm string, server bigint, alert string, event string, at_ms bigint, value double, text string, noticed_ms bigint"
)
"""The fields of `AlertChange`, and `noticed_ms`: the time when the stream noticed the event, in ms since the epoch."""
_SHOWN: Final = 10_000
"""Most events that `since` returns."""


class AlertLog:
    """The alerts of a lake."""

    def __init__(self, spark: "SparkSession", lake: Lake) -> None:
        self._spark = spark
        self._lake = lake
        events = tables.read_columns(spark, lake, "alerts", EVENTS)
        newest = events.groupBy("farm", "server", "alert").agg(
            fn.max_by("event", "noticed_ms").alias("event"),
            fn.max_by("at_ms", "noticed_ms").alias("since_ms"),
            fn.max("noticed_ms").alias("noticed_ms"),
        )
        rows = newest.collect()
        self.present: dict[AlertKey, int] = {
            (row["farm"], row["server"], row["alert"]): row["since_ms"] for row in rows if row["event"] == BEGINS
        }
        """The alerts that stand, and since when, in ms since the epoch."""
        self.noticed_ms: int = max((row["noticed_ms"] for row in rows), default=0)
        """Time when the newest event was noticed; 0: there is no event."""

    def add(self, events: Sequence[AlertChange], at_ms: int) -> int:
        """Add events that are noticed at `at_ms`; return their `noticed_ms`, which is later than all earlier ones."""
        self.noticed_ms = max(at_ms, self.noticed_ms + 1)
        rows = self._spark.createDataFrame([(*astuple(each), self.noticed_ms) for each in events], EVENTS)
        tables.append_file(rows, self._lake, "alerts")
        for each in events:
            key = each.farm, each.server, each.alert
            if each.event == BEGINS:
                self.present[key] = each.at_ms
            else:
                self.present.pop(key, None)
        return self.noticed_ms

    def since(self, noticed_ms: int) -> "list[Row]":
        """Return the events that were noticed later than `noticed_ms`, in order: rows of `EVENTS`."""
        events = tables.read_columns(self._spark, self._lake, "alerts", EVENTS)
        news = events.where(fn.col("noticed_ms") > noticed_ms)
        return news.orderBy("noticed_ms", "farm", "server", "alert").limit(_SHOWN).collect()
