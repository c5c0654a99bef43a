"""One query for the rows of many tests. Spark needs seconds to plan a query, and nearly no time for some more rows."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as Made

from tests.pipeline.entry_rows import Row, entries

HOUR: Final = 3_600_000
START: Final = 1_789_999_200_000
"""A full hour, 14:00 UTC of 2026-09-21."""
FRESH: Final = 105_000

Hours = dict[tuple[int, int], dict[str, Any]]
"""Hours by (number of the server or leaf, number of the hour from `START` on)."""
_Test = TypeVar("_Test", bound=Callable[..., None])


class HoursOfTests:
    """The hours that the rows of each test make. The rows of each test are a farm, named as the test."""

    def __init__(self, make: Callable[[DataFrame], DataFrame], number: Callable[[Made], int]) -> None:
        """`make`: makes hours of the table `entries`. `number`: gives the number of an hour's server or leaf."""
        self._make = make
        self._number = number
        self._rows: dict[str, list[Row]] = {}

    def __call__(self, *rows: Iterable[Row]) -> Callable[[_Test], _Test]:
        """Decorate a test with its rows."""

        def decorated(test: _Test) -> _Test:
            assert test.__name__ not in self._rows
            self._rows[test.__name__] = [row for some in rows for row in some]
            return test

        return decorated

    def by_test(self, spark: SparkSession) -> dict[str, Hours]:
        """Return the hours by the name of the test."""
        rows = [replace(row, farm=name) for name, rows in self._rows.items() for row in rows]
        found: dict[str, Hours] = {name: {} for name in self._rows}
        for made in self._make(entries(spark, rows)).collect():
            hours, place = found[made["farm"]], (self._number(made), (made["hour_ms"] - START) // HOUR)
            assert place not in hours
            hours[place] = made.asDict()
        return found
