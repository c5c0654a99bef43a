"""The tables of a run's document in Markdown, as docs/reference/benchmarks.md has them. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from integration.bench.report import FARM, Document

_TITLES: Final = {
    "sequential": "1 writer",
    "concurrent": "64 writers",
    "bulk": "requests of 100",
}
_FIGURES: Final = {"p50_ms": "p50, ms", "p99_ms": "p99, ms", "entries_per_second": "entries/s"}
_PARTS: Final = ("client", "leader", "followers", "children")
"""The processes that work for an entry."""


def markdown(document: Document) -> str:
    """Return the tables: figures, goals, and limits of the machine, with a blank line between them."""
    return "\n\n".join("\n".join(table) for table in (_figures(document), _goals(document), _limits(document)))


def _figures(document: Document) -> Iterator[str]:
    systems = _systems(document)
    yield _row("", *systems)
    yield _rule(len(systems))
    results = {(each["workload"], each["system"]): each for each in document["results"]}
    for workload, title in _TITLES.items():
        present = [results.get((workload, system)) for system in systems]
        if not any(present):
            continue
        for figure, words in _FIGURES.items():
            yield _row(f"{title}, {words}", *(_spread(each, figure) for each in present))
        yield _row(f"{title}, µs of all processors an entry", *(_processor_time(each) for each in present))
    measures = {(each["measure"], each["system"]): each for each in document["measures"]}
    for name in dict.fromkeys(each["measure"] for each in document["measures"]):
        row = [measures.get((name, system)) for system in systems]
        first = next(each for each in row if each is not None)
        yield _row(f"{first['title']}, {first['unit']}", *(_range(each) for each in row))


def _goals(document: Document) -> Iterator[str]:
    yield "| goal | against | farm | rival | ratio | bound | |"
    yield _rule(6)
    for goal in document["goals"]:
        yield _row(
            f"{goal['title']}, {goal['figure'].replace('_per_second', '/s').replace('_', ', ')}",
            goal["rival"],
            _number(goal["ours"]),
            _number(goal["theirs"]),
            f"{goal['ratio']:.2f}",
            goal["goal"],
            "met" if goal["met"] else "missed",
        )


def _limits(document: Document) -> Iterator[str]:
    yield _row("limit of the machine, or of one part", "")
    yield _rule(1)
    for title, value in document["limits"].items():
        yield _row(title, _number(value))


def _systems(document: Document) -> Sequence[str]:
    found = dict.fromkeys(each["system"] for each in (*document["results"], *document["measures"]))
    return sorted(found, key=lambda system: system != FARM)


def _spread(result: Mapping[str, Any] | None, figure: str) -> str:
    if result is None:
        return "–"
    values = [one[figure] for one in result["repeats"]]
    return _with_range(result["median"][figure], values)


def _range(measure: Mapping[str, Any] | None) -> str:
    return "–" if measure is None else _with_range(measure["median"], measure["values"])


def _with_range(median: float, values: Sequence[float]) -> str:
    return f"{_number(median)} ({_number(min(values))} to {_number(max(values))})"


def _processor_time(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "–"
    median = result["median"]
    cores = sum(median["cpu"].get(part, 0.0) for part in _PARTS)
    return _number(cores / median["entries_per_second"] * 1e6)


def _number(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _rule(columns: int) -> str:
    return "|" + "---|" * (columns + 1)
