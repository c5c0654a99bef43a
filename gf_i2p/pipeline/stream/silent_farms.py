"""The alert for farms from which no entries come any more.

A farm is *watched* from the first look on that finds the farm current: the farm's newest record is no older than the
limit, by the clock of the stream's machine. The lake keeps the watched farms. Only a watched farm raises the alert. So
an old history that is read once raises no alert, and a farm that died while no stream ran is not missed. The alert ends
with a record that is no older than the limit.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.stream.alerts import BEGINS, ENDS, AlertChange, AlertKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALERT: Final = "farm-silent"
_WATCHED: Final = "farm string, since_ms bigint"


class SilentFarms:
    """Knows when farms were last heard, and tells when a farm falls silent or is heard again."""

    def __init__(self, spark: "SparkSession", root: str, limit_ms: int) -> None:
        """`root`: the stream's directory in the lake.

        `limit_ms`: a farm is silent when the farm's newest record is older than so many milliseconds.
        """
        self._spark = spark
        self._path = f"{root}/watched"
        self._limit_ms = limit_ms
        self._heard_ms: dict[str, int] = {}
        self._watched = {row["farm"] for row in tables.read_path(spark, self._path, _WATCHED).collect()}

    def hear(self, farm: str, at_ms: int, now_ms: int) -> None:
        """Take in the time of a record of a farm. A time in the future counts as now."""
        self._heard_ms[farm] = max(self._heard_ms.get(farm, 0), min(at_ms, now_ms))

    def look(self, present: Collection[AlertKey], now_ms: int) -> list[AlertChange]:
        """Return the alerts that begin and end. `present`: the alerts that stand."""
        age_ms = {farm: now_ms - at_ms for farm, at_ms in self._heard_ms.items()}
        current = {farm for farm, age in age_ms.items() if age <= self._limit_ms}
        stands = {farm for farm, _, alert in present if alert == ALERT}
        if current - self._watched:
            self._watch(current - self._watched, now_ms)
        silent = (self._watched & age_ms.keys()) - current - stands
        rows = [self._event(farm, BEGINS, age_ms[farm]) for farm in sorted(silent)]
        return rows + [self._event(farm, ENDS, age_ms[farm]) for farm in sorted(stands & current)]

    def _event(self, farm: str, event: str, age_ms: int) -> AlertChange:
        text = "there are records of the farm again"
        if event == BEGINS:
            text = f"nothing was heard of the whole farm for {age_ms // 1000} s"
        return AlertChange(farm, None, ALERT, event, self._heard_ms[farm], age_ms / 1000, text)

    def _watch(self, farms: Collection[str], now_ms: int) -> None:
        """Store the names of farms that are watched from now on, before the first alert about such a farm."""
        rows = self._spark.createDataFrame([(farm, now_ms) for farm in sorted(farms)], _WATCHED)
        rows.coalesce(1).write.mode("append").parquet(self._path)
        self._watched |= {*farms}
