"""`gf-i2p pipeline backtest`: replays farms' logs with other parameters, and recommends the best parameters."""

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gf_i2p.cli.pipeline.arguments import add_days, add_lake, check_out
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.terminal import ProgressLine, printable
from gf_i2p.pipeline.backtest import grid
from gf_i2p.pipeline.backtest.recommendation import Advice, BacktestRow, advise, compared, fragment, recommended_command
from gf_i2p.pipeline.days import Span
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from gf_i2p.pipeline.backtest.job import BacktestFigures

HELP = "replay farms' logs with other parameters, and recommend the best set"
_SHOWN_FARMS: Final = 20
_SHOWN_SETS: Final = 12
_HEAD: Final = ("parameters", "changes", "unneeded", "vacant", "stale", "sets", "imbalance", "cost/day")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)
    add_days(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--grid",
        type=Path,
        metavar="FILE",
        help="a TOML file with the sets of parameters to try: lists of values in [values], [[set]] tables, or both",
    )
    group.add_argument(
        "--set",
        type=_values,
        action="append",
        dest="values",
        metavar="NAME=V1,V2,…",
        help="try these values of a parameter; repeatable, and all combinations are tried (see `gf-i2p farm show`)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the recommendation as TOML; only for one farm")


def run(options: argparse.Namespace) -> Answer:
    """Run the job. Raises `PipelineError`, `CommandError` and `OSError`."""
    sets, lake, span = _sets(options), Lake(options.lake), Span.parse(options.since, options.until)
    if options.out is not None:
        check_out(options.out)
    farms: list[tuple[Advice, Sequence[BacktestRow]]] = []
    with ProgressLine() as progress, working(options, progress) as (spark, steps):
        from gf_i2p.pipeline.backtest import job  # noqa: PLC0415 -- needs Spark

        window = job.Window(options.farm, span.since_ms, span.until_ms)
        figures = job.backtest(spark, lake, sets, window, tell=steps, one_farm=options.out is not None)
        for results in job.results(spark, lake):
            farms.append((advise(results), results))
            if len(farms) == _SHOWN_FARMS:
                break
    if options.out is not None:
        _write(options.out, fragment(farms[0][0]))
    return Answer(
        {
            **asdict(figures),
            "entries_times_sets_a_second": figures.entries_a_second,
            "results": [_as_json(advice, results) for advice, results in farms],
            "more_farms": figures.farms > len(farms),
        },
        show(figures, farms, options.out),
    )


def show(
    figures: "BacktestFigures", farms: Sequence[tuple[Advice, Sequence[BacktestRow]]], written: Path | None = None
) -> str:
    """Describe the results as text: a table and a recommendation for each farm."""
    lines: list[str] = []
    for advice, results in farms:
        lines += [_farm_line(advice), *_table(advice, results), *_advice(advice), ""]
    if figures.farms > len(farms):
        lines += [f"and {figures.farms - len(farms):,} more farms: --farm shows one, the table backtest has all", ""]
    if written is not None:
        lines.append(f"written to {written}")
    lines.append(
        f"{figures.entries:,} entries of {figures.farms:,} farms with {figures.sets:,} sets in {figures.seconds:.1f} s,"
        f" {figures.entries_a_second:,} entries x sets a second; {figures.decisions:,} decisions"
    )
    return "\n".join(lines)


def _farm_line(advice: Advice) -> str:
    live = advice.live
    doubt = "" if live.measures.exact else f"; {live.gaps:,} gaps in its log, so not exact"
    hours = live.measures.farm_ms / 3_600_000
    return f"Farm {printable(advice.farm)}: {live.measures.entries:,} entries, {hours:,.1f} h of farm time{doubt}"


def _table(advice: Advice, results: Sequence[BacktestRow]) -> list[str]:
    ranked = sorted(results, key=lambda each: each.cost)
    visible = [each for place, each in enumerate(ranked) if place < _SHOWN_SETS or each.live]
    rows = [_HEAD, *(_row(each, advice) for each in visible)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    if len(visible) < len(ranked):
        lines.append(f"and {len(ranked) - len(visible)} more sets; --json shows all")
    return [f"  {line}" for line in lines]


def _row(result: BacktestRow, advice: Advice) -> tuple[str, ...]:
    measures = result.measures
    mark = "* " if result in advice.front else "  "
    return (
        mark + grid.shown(measures.parameters),
        f"{measures.changes:,}",
        f"{measures.unneeded:,}",
        f"{measures.without_publisher_ms / 1000:,.0f} s",
        f"{measures.stale_ms / 1000:,.0f} s",
        f"{measures.set_changes:,}",
        f"{measures.balance:.1%}",
        f"{result.cost:,.2f}",
    )


def _advice(advice: Advice) -> list[str]:
    if advice.best is None:
        return [f"  Nothing is recommended: {advice.why_not}."]
    changes = grid.shown(advice.changes)
    return [
        f"  Recommended (* marks the sets that no other beats): {changes}, {advice.gain:.0%} less cost.",
        f"  {recommended_command(advice)}",
    ]


def _as_json(advice: Advice, results: Sequence[BacktestRow]) -> dict[str, Any]:
    best = advice.best
    return {
        "farm": advice.farm,
        "in_force": dict(advice.live.measures.in_force),
        "recommended": None if best is None else advice.changes,
        "why_not": advice.why_not or None,
        "gain": round(advice.gain, 4),
        "difference": {}
        if best is None
        else {name: [old, new] for name, old, new in compared(advice.live.measures, best.measures)},
        "sets": [
            {
                **{name: value for name, value in asdict(each.measures).items() if name != "in_force"},
                "cost": each.cost,
                "live": each.live,
                "front": each in advice.front,
            }
            for each in results
        ],
    }


def _sets(options: argparse.Namespace) -> list[grid.Set]:
    if options.grid is not None:
        return grid.read_grid(options.grid)
    values: dict[str, list[Any]] = {}
    for name, each in options.values or ():
        values.setdefault(name, []).extend(each)
    return grid.combined(values or grid.USUAL)


def _values(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    if not equals or not name or not all(values.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE,VALUE as in margin=50,100")
    return name, [int(each) if each.isascii() and each.isdigit() else each for each in values.split(",")]


def _write(path: Path, text: str) -> None:
    """Write the whole file, or no file at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise CommandError(f"{path} cannot be written: {error.strerror}. Choose another place with --out.") from None
