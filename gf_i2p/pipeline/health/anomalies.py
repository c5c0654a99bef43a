"""Finds anomalies: hours in which a figure is far from the median of the same server's last seven days.

The unit of the distance is the spread: the median distance from the median (MAD), scaled to equal the standard
deviation of normal noise. The spread has a floor, so that 99.9 % is no anomaly for a server that has always been at
100 %. An hour that was watched for less than a quarter of an hour is no anomaly, and no past hour either.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as fn

from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.health.status_reports import day_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PAST_MS: Final = 7 * DAY_MS
LEAST_HOURS: Final = 24
"""Least number of past hours that an hour is compared with; with fewer, the hour is not judged."""
MOST_SPREADS: Final = 5.0
"""Distance from the median, in spreads, above which an hour is an anomaly."""
LEAST_WATCHED_MS: Final = HOUR_MS // 4
_NORMAL: Final = 1.4826
"""The standard deviation of normal noise, divided by the MAD of the same noise."""


@dataclass(frozen=True, slots=True)
class HourlyFigure:
    """A column of `server_hours` that is compared with the past."""

    name: str
    """A column of `server_hours`."""
    floor: float
    """The least spread, in the unit of the column."""
    share: float
    """The least spread as a share of the median."""
    words: str
    """Name of the figure in sentences."""
    unit: str = ""
    scale: float = 1.0
    """Factor from the column to the figure in sentences."""
    digits: int = 0
    only: str | None = None
    """The side of the median on which an hour can be an anomaly: "low" or "high"; None: both sides."""


MEASURES: Final = (
    HourlyFigure("availability", 0.02, 0.0, "availability", " %", 100.0, 1, only="low"),
    HourlyFigure("lag_ms", 20.0, 0.1, "job lag", " ms", only="high"),
    HourlyFigure("tunnels", 10.0, 0.05, "participating tunnels"),
    HourlyFigure("in_bytes_s", 4096.0, 0.05, "inbound bandwidth", " bytes/s"),
    HourlyFigure("out_bytes_s", 4096.0, 0.05, "outbound bandwidth", " bytes/s"),
    HourlyFigure("known_peers", 50.0, 0.05, "known peers"),
    HourlyFigure("skew_ms", 500.0, 0.0, "clock skew", " ms"),
)


def anomalies(server_hours: "DataFrame") -> "DataFrame":
    """Return a row for each anomaly: farm, server, hour, measure, value, usual value, spread, score and text.

    The usual value is the median of the past hours. The score is the distance of the value from the usual value,
    divided by the spread. `server_hours`: the hours to judge, and the hours of the seven days before. All hours in the
    frame are judged.
    """
    judged = server_hours.where(fn.col("watched_ms") >= LEAST_WATCHED_MS)
    values = fn.array(
        *(
            fn.struct(fn.lit(each.name).alias("measure"), fn.col(each.name).cast("double").alias("value"))
            for each in MEASURES
        )
    )
    figures = judged.select("farm", "server", "hour_ms", fn.inline(values)).where(fn.col("value").isNotNull())
    past = Window.partitionBy("farm", "server", "measure").orderBy("hour_ms").rangeBetween(-PAST_MS, -1)
    value, usual, spread, score = (fn.col(name) for name in ("value", "usual", "spread", "score"))
    floor = _by_measure(lambda each: fn.greatest(fn.lit(each.floor), fn.abs(usual) * each.share))
    distances = fn.sort_array(fn.transform("past", lambda each: fn.abs(each - usual)))
    scored = (
        figures.withColumn("past", fn.sort_array(fn.collect_list("value").over(past)))
        .where(fn.size("past") >= LEAST_HOURS)
        .withColumn("usual", _median(fn.col("past")))
        .withColumn("spread", fn.greatest(_median(distances) * _NORMAL, floor))
        .withColumn("score", fn.abs(value - usual) / spread)
    )
    measure = fn.col("measure")
    good_news = [
        (measure == each.name) & ((value > usual) if each.only == "low" else (value < usual))
        for each in MEASURES
        if each.only is not None
    ]
    return scored.where((score > MOST_SPREADS) & ~reduce(or_, good_news)).select(
        "farm", "server", "hour_ms", "measure", "value", "usual", "spread", "score", _sentence().alias("text")
    )


def _median(in_order: "Column") -> "Column":
    """Return the median of sorted numbers; there must be at least one."""
    size = fn.size(in_order)
    low, high = fn.floor((size + 1) / 2), fn.floor(size / 2) + 1
    return (fn.element_at(in_order, low.cast("int")) + fn.element_at(in_order, high.cast("int"))) / 2


def _by_measure(make: Callable[[HourlyFigure], "Column"]) -> "Column":
    """Return a column that has, in each row, the value that `make` gives for the row's measure."""
    column = fn.when(fn.lit(False), make(MEASURES[0]))
    for each in MEASURES:
        column = column.when(fn.col("measure") == each.name, make(each))
    return column


def _sentence() -> "Column":
    """Return a column of sentences for the operator: measure, server, value, hour, usual value and spread.

    The sentence quotes no text of a record, because any server may write any text into a record.
    """
    hour = fn.lpad(fn.floor(fn.col("hour_ms") % DAY_MS / HOUR_MS).cast("string"), 2, "0")
    return fn.concat(
        _by_measure(lambda each: fn.lit(f"{each.words} of server ")),
        fn.col("server").cast("string"),
        fn.lit(" was "),
        _shown("value"),
        fn.lit(" in the hour from "),
        day_of(fn.col("hour_ms")),
        fn.lit(" "),
        hour,
        fn.lit(":00 UTC; usual is "),
        _shown("usual"),
        fn.lit(", give or take "),
        _shown("spread"),
    )


def _shown(name: str) -> "Column":
    number = fn.col(name)
    return _by_measure(lambda each: fn.concat(fn.format_number(number * each.scale, each.digits), fn.lit(each.unit)))
