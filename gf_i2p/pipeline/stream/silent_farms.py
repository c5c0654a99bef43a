"""The alert for farms from which no entries come any more. No batch can raise this alert: such farms are in no batch.

A farm is *watched* from the first look on that finds the farm current: the farm's newest record is no older than the
limit, by the clock of the stream's machine. The lake keeps the watched farms. Only a watched farm raises the alert. So
an old history that is read once raises no alert, and a farm that died while no stream ran is not missed.

While a stream reads old entries of a farm, the farm is not silent. So a farm of the last batch is not judged, because
more of the farm's entries may wait. The alert ends with a record that is no older than the limit.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as fn

from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.stream import alerts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALERT: Final = "farm-silent"
_WATCHED: Final = "farm string, since_ms bigint"
_NEWEST: Final = "farm string, day string, kind string, misfit string, received_ms bigint"
_DAYS: Final = 2
"""Number of a farm's last days that are searched for the newest record: the very last day may have no record."""


class SilentFarms:
    """Knows when farms were last heard, and notes in the lake when a farm falls silent or is heard again."""

    def __init__(
        self, spark: "SparkSession", lake: Lake, root: str, limit_ms: int, clock_ms: Callable[[], int] = now_ms
    ) -> None:
        """`root`: the stream's directory, from `batch.stream_root`.

        `limit_ms`: a farm is silent when the farm's newest record is older than so many milliseconds.
        """
        self._spark = spark
        self._lake = lake
        self._path = f"{root}/watched"
        self._limit_ms = limit_ms
        self._clock_ms = clock_ms
        self._heard_ms = self._newest()
        self._watched = {row["farm"] for row in tables.read_path(spark, self._path, _WATCHED).collect()}
        events = tables.read_columns(spark, lake, "alerts", alerts.EVENTS).where(fn.col("alert") == ALERT)
        self._stands = {row["farm"] for row in alerts.present_alerts(events).select("farm").collect()}

    def hear(self, farms: Mapping[str, int | None]) -> None:
        """Take in the times of the farms' newest records in a batch. A time in the future counts as now."""
        now = self._clock_ms()
        for farm, at_ms in farms.items():
            if at_ms is not None:
                self._heard_ms[farm] = max(self._heard_ms.get(farm, 0), min(at_ms, now))

    def look(self, unsure: Collection[str] = ()) -> int:
        """Note the alerts that begin and end; return their number.

        `unsure`: farms for which no alert begins now, because more entries may wait.
        """
        now = self._clock_ms()
        age_ms = {farm: now - at_ms for farm, at_ms in self._heard_ms.items()}
        current = {farm for farm, age in age_ms.items() if age <= self._limit_ms}
        if current - self._watched:
            self._watch(current - self._watched, now)
        silent = (self._watched & age_ms.keys()) - current - self._stands - {*unsure}
        heard_again = self._stands & current
        if not silent and not heard_again:
            return 0
        rows = [self._event(farm, alerts.BEGINS, age_ms[farm]) for farm in sorted(silent)]
        rows += [self._event(farm, alerts.ENDS, age_ms[farm]) for farm in sorted(heard_again)]
        alerts.write(self._spark, self._lake, rows, now)
        self._stands = self._stands - heard_again | silent
        return len(rows)

    def _event(self, farm: str, event: str, age_ms: int) -> alerts.EventRow:
        text = "there are records of the farm again"
        if event == alerts.BEGINS:
            text = f"nothing was heard of the whole farm for {age_ms // 1000} s"
        return farm, None, ALERT, event, self._heard_ms[farm], age_ms / 1000, text

    def _watch(self, farms: Collection[str], now: int) -> None:
        """Store that farms are watched, before any alert tells of them."""
        rows = self._spark.createDataFrame([(farm, now) for farm in sorted(farms)], _WATCHED)
        rows.coalesce(1).write.mode("append").parquet(self._path)
        self._watched |= {*farms}

    def _newest(self) -> dict[str, int]:
        """Return when each farm was last heard, by the lake's entries without times in the future."""
        now = self._clock_ms()
        tomorrow = (datetime.fromtimestamp(now / 1000, UTC) + timedelta(days=1)).strftime("%Y-%m-%d")
        entries = tables.read_columns(self._spark, self._lake, "entries", _NEWEST).where(fn.col("day") <= tomorrow)
        last = entries.groupBy("farm").agg(fn.max("day").alias("last"))
        since = fn.date_sub(fn.col("last").cast("date"), _DAYS - 1).cast("string")
        recent = entries.join(fn.broadcast(last.select("farm", since.alias("since"))), "farm").where("day >= since")
        believed = (fn.col("kind") == "status") & fn.col("misfit").isNull() & (fn.col("received_ms") <= now)
        rows = recent.where(believed).groupBy("farm").agg(fn.max("received_ms").alias("at_ms")).collect()
        return {row["farm"]: row["at_ms"] for row in rows}
