"""The report of the runs: figures, medians, a JSON document and a text table. No I/O."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from integration.bench.load import BULK, CONCURRENT, SEQUENTIAL, Sample, Workload
from integration.bench.profile import TOP, FunctionShare

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BenchFigures:
    """One run's figures, or the medians of several runs."""

    entries_per_second: float
    p50_ms: float
    p99_ms: float
    requests: int
    cpu: dict[str, float]  # cores in use on average, by client, leader, followers and others
    leader_moved: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """All repeats of one workload on one column of the table."""

    workload: Workload
    column: str
    writers: int
    repeats: list[BenchFigures]


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of the farm: a bound on the ratio of the farm's figure to etcd's (Python client)."""

    workload: Workload
    figure: str
    limit: float
    at_most: bool

    @property
    def text(self) -> str:
        """The bound in words."""
        return f"at {'most' if self.at_most else 'least'} {self.limit:.2f}"

    def met_by(self, ratio: float) -> bool:
        """Return whether a ratio keeps the bound."""
        return ratio <= self.limit if self.at_most else ratio >= self.limit


GOALS = (
    Goal(SEQUENTIAL, "p50_ms", 1.2, at_most=True),
    Goal(CONCURRENT, "entries_per_second", 1.0, at_most=False),
    Goal(BULK, "entries_per_second", 1.0, at_most=False),
)
FIGURES = {"p50_ms": "p50 ms", "p99_ms": "p99 ms", "entries_per_second": "entries/s"}


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value at or below which `share` (0 to 1) of the rising values lie: the nearest rank.

    Raises ValueError without values.
    """
    if not ordered:
        raise ValueError("no values")
    rank = -(-share * len(ordered) // 1)  # rounded up
    return ordered[max(0, int(rank) - 1)]


def figures(sample: Sample) -> BenchFigures:
    """Turn one run into figures. Raises ValueError when no request was answered in the run."""
    ordered = sorted(sample.latencies)
    return BenchFigures(
        entries_per_second=sample.entries / sample.seconds,
        p50_ms=percentile(ordered, 0.50) * 1000,
        p99_ms=percentile(ordered, 0.99) * 1000,
        requests=len(ordered),
        cpu=sample.cpu,
        leader_moved=sample.leader_moved,
    )


def median(repeats: Sequence[BenchFigures]) -> BenchFigures:
    """Return the median of each figure, taken separately."""
    return BenchFigures(
        entries_per_second=statistics.median(one.entries_per_second for one in repeats),
        p50_ms=statistics.median(one.p50_ms for one in repeats),
        p99_ms=statistics.median(one.p99_ms for one in repeats),
        requests=round(statistics.median(one.requests for one in repeats)),
        cpu={who: statistics.median(one.cpu[who] for one in repeats) for who in repeats[0].cpu},
        leader_moved=any(one.leader_moved for one in repeats),
    )


def document(results: Sequence[Result], machine: Mapping[str, Any], settings: Mapping[str, Any]) -> Document:
    """Return the document for JSON: results with medians and repeats, and the goals with their outcomes."""
    rows = [
        {
            "workload": result.workload.name,
            "title": result.workload.title,
            "system": result.column,
            "writers": result.writers,
            "entries_per_request": result.workload.batch,
            "median": asdict(median(result.repeats)),
            "repeats": [asdict(one) for one in result.repeats],
        }
        for result in results
        if result.repeats
    ]
    goals = []
    for goal in GOALS:
        ours, theirs = (_median(rows, goal.workload.name, system, goal.figure) for system in ("farm", "etcd"))
        if ours is not None and theirs:
            goals.append(
                {
                    "workload": goal.workload.name,
                    "figure": goal.figure,
                    "ratio": ours / theirs,
                    "goal": goal.text,
                    "met": goal.met_by(ours / theirs),
                }
            )
    return {"machine": dict(machine), "settings": dict(settings), "results": rows, "goals": goals}


def add_profile(
    report: Document, tool: str, file: str, summary: tuple[Sequence[FunctionShare], Mapping[str, float]], rate: float
) -> None:
    """Put a profile into a document: functions and threads; `rate`: entries per second during the profile."""
    rows, threads = summary
    report["profile"] = {
        "tool": tool,
        "file": file,
        "entries_per_second": rate,
        "threads": dict(threads),
        "top": [asdict(row) for row in rows[:TOP]],
    }


def _median(rows: Sequence[Mapping[str, Any]], workload: str, system: str, figure: str) -> float | None:
    for row in rows:
        if row["workload"] == workload and row["system"] == system:
            return float(row["median"][figure])
    return None


def report_table(report: Document) -> str:
    """Return the report as aligned text: figures, each repeat, processor time, profile."""
    rows = report["results"]
    parts = [_facts(report), _figures(rows, report["goals"]), _repeats(rows), _processors(rows)]
    if "profile" in report:
        parts.append(_profile(report["profile"]))
    return "\n\n".join(part for part in parts if part)


def align(lines: Sequence[Sequence[str]], left: int) -> str:
    """Return rows of cells as columns two spaces apart, the first `left` columns flush left, the others right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def figure_text(value: float | None) -> str:
    """Return a figure with suitable digits; a dash for a missing figure."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _ordered(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _facts(report: Document) -> str:
    machine, settings = report["machine"], report["settings"]
    return (
        f"Three nodes each on loopback, one disk, values of {settings['value_bytes']:,} bytes, writers talk to the "
        f"leader.\nMedians of {_count(settings['repeats'], 'repeat')} of {figure_text(settings['seconds'])} s, after "
        f"{figure_text(settings['warmup'])} s of warm-up. Farm over TLS, etcd without.\n"
        f"Machine: {machine['cores']} cores, load {figure_text(machine['load'])} before the start, "
        f"an fsync takes {figure_text(machine['fsync_ms'])} ms."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _workload_title(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Name the number of writers where the workload's own title leaves it open."""
    if row["entries_per_request"] == 1:
        return str(row["title"])
    writers = {one["system"]: one["writers"] for one in rows if one["workload"] == row["workload"]}
    if len(set(writers.values())) == 1:
        return f"{row['title']}, {row['writers']} writers"
    return f"{row['title']}, writers: " + ", ".join(f"{system} {count}" for system, count in writers.items())


def _figures(rows: Sequence[Mapping[str, Any]], goals: Sequence[Mapping[str, Any]]) -> str:
    systems = _ordered([row["system"] for row in rows])
    both = {"farm", "etcd"} <= set(systems)
    lines = [["", "", *systems, *(["farm : etcd", "goal", ""] if both else [])]]
    for workload in _ordered([row["workload"] for row in rows]):
        first = next(row for row in rows if row["workload"] == workload)
        title = _workload_title(first, rows)
        for figure, label in FIGURES.items():
            values = {system: _median(rows, workload, system, figure) for system in systems}
            line = [title, label, *(figure_text(values[system]) for system in systems)]
            if both:
                ours, theirs = values["farm"], values["etcd"]
                line.append(f"{ours / theirs:.2f}" if ours is not None and theirs else "-")
                goal = [one for one in goals if (one["workload"], one["figure"]) == (workload, figure)]
                line += [goal[0]["goal"], "met" if goal[0]["met"] else "MISSED"] if goal else ["", ""]
            lines.append(line)
            title = ""
    return align(lines, left=2)


def _repeats(rows: Sequence[Mapping[str, Any]]) -> str:
    count = max((len(row["repeats"]) for row in rows), default=0)
    if count < 2:
        return ""
    lines = [["Each repeat, entries/s", "", *(str(number) for number in range(1, count + 1)), "leader"]]
    for row in rows:
        cells = [figure_text(one["entries_per_second"]) for one in row["repeats"]]
        cells += ["-"] * (count - len(cells))
        lines.append([row["title"], row["system"], *cells, "moved" if row["median"]["leader_moved"] else "stayed"])
    return align(lines, left=2)


def _processors(rows: Sequence[Mapping[str, Any]]) -> str:
    measured = [row for row in rows if row["median"]["cpu"]]
    if not measured:
        return ""
    who = list(measured[0]["median"]["cpu"])
    lines = [["Cores in use", "", *who, "us of all but others for an entry"]]
    for row in measured:
        cpu = row["median"]["cpu"]
        cost = sum(cores for one, cores in cpu.items() if one != "others") / row["median"]["entries_per_second"] * 1e6
        lines.append([row["title"], row["system"], *(f"{cpu[one]:.2f}" for one in who), figure_text(cost)])
    return align(lines, left=2)


def _profile(profile: Mapping[str, Any]) -> str:
    lines = [["own", "with callees", "function"]]
    lines += [[f"{row['own']:.1%}", f"{row['total']:.1%}", row["function"]] for row in profile["top"]]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    body = [f"{own.rjust(widths[0])}  {total.rjust(widths[1])}  {name}" for own, total, name in lines]
    threads = [f"{share:.1%} {thread}" for thread, share in profile["threads"].items()]
    title = (
        f"The farm's leader under {CONCURRENT.title}, by {profile['tool']} "
        f"({figure_text(profile['entries_per_second'])} entries/s meanwhile; all of it in {profile['file']})"
    )
    return "\n".join([title, *([f"Threads: {', '.join(threads)}"] if threads else []), *body])
