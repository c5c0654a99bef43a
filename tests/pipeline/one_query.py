"""One query for the rows of many tests. Spark needs seconds to plan a query, and nearly no time for some more rows."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from tests.pipeline.entry_rows import Row

_Test = TypeVar("_Test", bound=Callable[..., None])


class OneQuery:
    """The rows that a module's tests want in a table. The rows of each test are a farm, named as the test."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}

    def __call__(self, *rows: Iterable[Row]) -> Callable[[_Test], _Test]:
        """Decorate a test with its rows."""

        def decorated(test: _Test) -> _Test:
            assert test.__name__ not in self._rows
            self._rows[test.__name__] = [row for some in rows for row in some]
            return test

        return decorated

    def rows(self) -> list[Row]:
        """Return the rows of all tests."""
        return [replace(row, farm=name) for name, rows in self._rows.items() for row in rows]

    def by_test(self, made: Iterable[Any]) -> dict[str, list[Any]]:
        """Return the rows that the query made, by the name of the test."""
        found: dict[str, list[Any]] = {name: [] for name in self._rows}
        for row in made:
            found[row["farm"]].append(row)
        return found
