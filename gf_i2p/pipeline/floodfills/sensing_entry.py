"""Turns the rows of the table `closest` for one farm's hashes into findings, as an entry of the farm's log has them."""

import math
import re
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from gf_i2p.farm.sensed_floodfills import MAX_CLOSEST, MAX_DAYS, MAX_FIGURE_NAME, MAX_FIGURES, MAX_HASHES, Sensed
from gf_i2p.farm.strict_json import MAX_DATE_MS, RecordError, a_hash
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake

_OF_CLOSEST: Final = frozenset({"hash", "name", "day", "rank", "floodfill", "distance"})
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Sensing:
    """The findings to post for a farm."""

    findings: list[tuple[bytes, Sensed]]
    """Each pair is a hash, and the finding of one day for that hash. Only the newest `MAX_DAYS` days have findings."""
    left_out: int
    """Number of hashes beyond `MAX_HASHES`, the most that a farm's state keeps."""


def sensing(spark: SparkSession, lake: Lake, farm: str) -> Sensing:
    """Return the closest floodfills of a farm's master and leaves. Raises `PipelineError`.

    A hash is the farm's if the job `floodfills` has named the hash after the farm. If there is no such hash, the farm's
    leaves in the table `destination_hours` count.
    """
    closest = tables.read_table(spark, lake, "closest")
    if closest is None:
        raise PipelineError(f"{lake.root} has no table closest: run `gf-i2p pipeline floodfills` first.")
    days = [row.day for row in closest.select("day").distinct().orderBy(sf.desc("day")).limit(MAX_DAYS).collect()]
    newest = closest.where(sf.col("day").isin(days) & (sf.col("rank") <= MAX_CLOSEST))
    hashes = _hashes(newest.where(sf.col("name").startswith(f"{farm}: ")))
    total = hashes.count()
    if not total:
        hashes = _hashes(_leaves(spark, lake, farm, newest))
        total = hashes.count()
    if not total:
        raise PipelineError(
            f"The table closest has no hash of {farm}: run `gf-i2p pipeline floodfills` again, once the lake has "
            "entries of this farm that name a master or a leaf."
        )
    # Masters before leaves. The names are "farm: master" and "farm: leaf of server 1".
    chosen = hashes.orderBy(sf.col("called").endswith(": master").desc(), "called", "hash").limit(MAX_HASHES)
    rows = newest.join(sf.broadcast(chosen), "hash").limit(MAX_HASHES * MAX_DAYS * MAX_CLOSEST).collect()
    figures = [name for name in closest.columns if name not in _OF_CLOSEST]
    return Sensing(_findings(rows, figures), max(total - MAX_HASHES, 0))


def _hashes(frame: DataFrame) -> DataFrame:
    return frame.groupBy("hash").agg(sf.first("name", ignorenulls=True).alias("called"))


def _leaves(spark: SparkSession, lake: Lake, farm: str, newest: DataFrame) -> DataFrame:
    hours = tables.read_table(spark, lake, "destination_hours")
    if hours is None:
        return newest.limit(0)
    leaves = hours.where(sf.col("farm") == farm).select(sf.col("destination").alias("hash")).distinct()
    return newest.join(leaves, "hash", "left_semi")


def _findings(rows: list[Row], figures: list[str]) -> list[tuple[bytes, Sensed]]:
    by_day: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_day.setdefault((row["hash"], row["day"]), []).append(row)
    try:
        return [
            (
                a_hash(hash_, "a hash"),
                Sensed.parse({"day": day, "closest": [_floodfill(row, figures) for row in closest]}),
            )
            for (hash_, day), of_day in sorted(by_day.items())
            for closest in [sorted(of_day, key=lambda row: row["rank"])]
        ]
    except RecordError as error:
        raise PipelineError(
            f"The table closest has a row that does not fit an entry ({error}): run `gf-i2p pipeline floodfills` again."
        ) from None


def _floodfill(row: Row, figures: list[str]) -> dict[str, Any]:
    floodfill = {"hash": row["floodfill"], "distance": row["distance"]}
    profile = profile_of({name: row[name] for name in figures})
    return floodfill | ({"profile": profile} if profile else {})


def profile_of(figures: dict[str, Any]) -> dict[str, int | float]:
    """Return the numbers of a profile, from columns or from the fields of structs: at most `MAX_FIGURES`."""
    numbers: dict[str, int | float] = {}
    for name, value in figures.items():
        if isinstance(value, Row):
            numbers |= profile_of(value.asDict())
        elif type(value) in {int, float} and math.isfinite(value) and abs(value) <= MAX_DATE_MS:
            numbers[_NO_NAME.sub("_", name)[:MAX_FIGURE_NAME] or "_"] = value
    return dict(list(numbers.items())[:MAX_FIGURES])
