"""The report of the runs: figures, medians, a JSON document and a text table. No I/O."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from integration.bench.measures import FAILOVER, LOADED, Measure
from integration.bench.profile import TOP, FunctionShare, function_table
from integration.bench.workloads import BULK, CONCURRENT, SEQUENTIAL, Sample, Workload

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
class Observations:
    """All values of one measure on one column of the table."""

    measure: Measure
    column: str
    values: list[float]


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the ratio of the farm's figure to a rival's. `figure`: of a workload; a measure has one figure."""

    row: Workload | Measure
    figure: str
    rival: str
    limit: float
    at_most: bool

    @property
    def text(self) -> str:
        """The bound in words."""
        return f"at {'most' if self.at_most else 'least'} {self.limit:.2f}"

    def met_by(self, ratio: float) -> bool:
        """Return whether a ratio keeps the bound."""
        return ratio <= self.limit if self.at_most else ratio >= self.limit


FARM = "farm"
GOALS = (
    Goal(SEQUENTIAL, "p50_ms", "etcd", 0.8, at_most=True),
    Goal(CONCURRENT, "entries_per_second", "etcd (C client)", 1.5, at_most=False),
    Goal(CONCURRENT, "entries_per_second", "PySyncObj (no fsync)", 0.8, at_most=False),
    Goal(BULK, "entries_per_second", "etcd", 1.5, at_most=False),
    Goal(BULK, "entries_per_second", "ZooKeeper", 1.0, at_most=False),
    Goal(FAILOVER, FAILOVER.unit, "ZooKeeper", 0.6, at_most=True),
    Goal(LOADED, LOADED.unit, "etcd", 0.35, at_most=True),
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


def document(
    results: Sequence[Result],
    machine: Mapping[str, Any],
    settings: Mapping[str, Any],
    observations: Sequence[Observations] = (),
    limits: Mapping[str, float] | None = None,
    failures: Sequence[str] = (),
) -> Document:
    """Return the document for JSON: results with medians and repeats, and the goals with their outcomes.

    `limits`: figures of the machine and of our own parts, by titles with their units. `failures`: a sentence for each
    repeat that failed.
    """
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
    measures = [
        {
            "measure": each.measure.name,
            "title": each.measure.title,
            "unit": each.measure.unit,
            "system": each.column,
            "median": statistics.median(each.values),
            "values": each.values,
        }
        for each in observations
    ]
    report = {"machine": dict(machine), "settings": dict(settings), "results": rows, "measures": measures}
    return report | {"goals": list(_outcomes(report)), "limits": dict(limits or {}), "failures": list(failures)}


def _outcomes(report: Document) -> Iterator[dict[str, Any]]:
    for goal in GOALS:
        ours, theirs = (_figure(report, goal, system) for system in (FARM, goal.rival))
        if ours is not None and theirs:
            yield {
                "row": goal.row.name,
                "title": goal.row.title,
                "figure": goal.figure,
                "rival": goal.rival,
                "ours": ours,
                "theirs": theirs,
                "ratio": ours / theirs,
                "goal": goal.text,
                "met": goal.met_by(ours / theirs),
            }


def _figure(report: Document, goal: Goal, system: str) -> float | None:
    if isinstance(goal.row, Workload):
        return _median(report["results"], goal.row.name, system, goal.figure)
    for row in report["measures"]:
        if (row["measure"], row["system"]) == (goal.row.name, system):
            return float(row["median"])
    return None


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
    parts = [
        _facts(report),
        _figures(rows),
        _measures(report["measures"]),
        _goals(report["goals"]),
        _limits(report["limits"]),
        _failures(report["failures"]),
        _repeats(rows),
        _processors(rows),
    ]
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
        f"{figure_text(settings['warmup'])} s of warm-up. The farm encrypts (TLS), the others do not.\n"
        f"Machine: {machine['cores']} cores, load {figure_text(machine['load'])} before the start.\n"
        f"{'; '.join(machine['versions'].values())}."
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


def _figures(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    systems = _ordered([row["system"] for row in rows])
    lines = [["", "", *systems]]
    for workload in _ordered([row["workload"] for row in rows]):
        title = _workload_title(next(row for row in rows if row["workload"] == workload), rows)
        for figure, label in FIGURES.items():
            lines.append([title, label, *(figure_text(_median(rows, workload, system, figure)) for system in systems)])
            title = ""
    return align(lines, left=2)


def _measures(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    systems = _ordered([row["system"] for row in rows])
    lines = [["Median (least to most)", "", *systems]]
    for title in _ordered([row["title"] for row in rows]):
        found = {row["system"]: row for row in rows if row["title"] == title}
        unit = next(iter(found.values()))["unit"]
        lines.append([title, unit, *(_spread(found.get(system)) for system in systems)])
    return align(lines, left=2)


def _spread(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "-"
    least, most = min(row["values"]), max(row["values"])
    return f"{figure_text(row['median'])} ({figure_text(least)} to {figure_text(most)})"


def _goals(goals: Sequence[Mapping[str, Any]]) -> str:
    if not goals:
        return ""
    lines = [["Goal", "", "against", "farm", "rival", "ratio", "bound", ""]]
    for goal in goals:
        label = FIGURES.get(goal["figure"], goal["figure"])
        figures = (figure_text(goal["ours"]), figure_text(goal["theirs"]), f"{goal['ratio']:.2f}", goal["goal"])
        lines.append([goal["title"], label, goal["rival"], *figures, "met" if goal["met"] else "MISSED"])
    return align(lines, left=3)


def _limits(limits: Mapping[str, float]) -> str:
    if not limits:
        return ""
    return align(
        [["Limits of the machine, and our parts alone", ""], *([k, figure_text(v)] for k, v in limits.items())], 1
    )


def _failures(failures: Sequence[str]) -> str:
    return "\n".join(["Repeats that failed:", *failures]) if failures else ""


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
    functions = function_table(FunctionShare(**row) for row in profile["top"])
    threads = [f"{share:.1%} {thread}" for thread, share in profile["threads"].items()]
    title = (
        f"The farm's leader under {CONCURRENT.title}, by {profile['tool']} "
        f"({figure_text(profile['entries_per_second'])} entries/s meanwhile; all of it in {profile['file']})"
    )
    return "\n".join([title, *([f"Threads: {', '.join(threads)}"] if threads else []), functions])
