"""`gf-i2p pipeline backtest`: replays farms' logs with other parameters, and recommends the best parameters."""

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gf_i2p.cli.pipeline.arguments import add_days, add_lake, check_out
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.terminal import ProgressLine, printable
from gf_i2p.pipeline.backtest import grid
from gf_i2p.pipeline.backtest.measures import WEIGHTS, Weights
from gf_i2p.pipeline.backtest.parameters_file import fragment
from gf_i2p.pipeline.backtest.result_rows import (
    BacktestRow,
    compared,
    live_row,
    recommended_command,
    recommended_row,
    recommended_values,
)
from gf_i2p.pipeline.days import ALL_DAYS, DAY_MS, Span
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gf_i2p.pipeline.backtest.job import BacktestFigures
    from gf_i2p.pipeline.spark_progress import Steps

HELP = "replay farms' logs with other parameters, and recommend the best set"
_SHOWN_FARMS: Final = 20
_SHOWN_SETS: Final = 12
_HEAD: Final = (
    "parameters",
    "outage",
    "changes",
    "unneeded",
    "vacant",
    "stale",
    "missing",
    "sets",
    "imbalance",
    "cost/day",
    "gain on the last days",
)


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
    parser.add_argument(
        "--weight",
        type=_weight,
        action="append",
        dest="weights",
        metavar="NAME=SECONDS",
        help="the cost in seconds of outage; repeatable; "
        + ", ".join(f"{name}={value:g}" for name, value in asdict(WEIGHTS).items()),
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the recommendation as TOML; only for one farm")


def run(options: argparse.Namespace) -> Answer:
    """Run the job. Raises `PipelineError`, `CommandError` and `OSError`."""
    sets, lake, span = _sets(options), Lake(options.lake), Span.parse(options.since, options.until)
    weights = Weights.parse(dict(options.weights or ()))
    if options.out is not None:
        check_out(options.out)
    with ProgressLine() as progress, working(options, progress, ()) as (spark, steps):
        one_farm = options.out is not None
        figures, farms = work(spark, steps, lake, sets, options.farm, span, weights, one_farm=one_farm)
    if options.out is not None:
        _write(options.out, fragment(farms[0]))
    return Answer(as_json(figures, farms, weights), show(figures, farms, options.out), is_report=True)


def work(
    spark: "SparkSession",
    steps: "Steps",
    lake: Lake,
    sets: Sequence[grid.Set],
    farm: str | None = None,
    span: Span = ALL_DAYS,
    weights: Weights = WEIGHTS,
    *,
    one_farm: bool = False,
) -> "tuple[BacktestFigures, list[list[BacktestRow]]]":
    """Replay the farms; return figures, and the results of the first farms. The arguments are those of `job.backtest`.

    Raises `PipelineError`.
    """
    from gf_i2p.pipeline.backtest import job  # noqa: PLC0415 -- needs Spark

    figures = job.backtest(
        spark, lake, sets, farm, span.since_ms, span.until_ms, weights=weights, tell=steps, one_farm=one_farm
    )
    return figures, list(islice(job.results(spark, lake), _SHOWN_FARMS))


def as_json(figures: "BacktestFigures", farms: Sequence[Sequence[BacktestRow]], weights: Weights) -> dict[str, Any]:
    """Return the results as a JSON object."""
    return {
        **asdict(figures),
        "weights": asdict(weights),
        "entries_times_sets_a_second": figures.entries_a_second,
        "results": [_farm_as_json(results) for results in farms],
        "more_farms": figures.farms > len(farms),
    }


def show(figures: "BacktestFigures", farms: Sequence[Sequence[BacktestRow]], written: Path | None = None) -> str:
    """Describe the results as text: a table and a recommendation for each farm."""
    lines: list[str] = []
    for results in farms:
        lines += [_farm_line(live_row(results)), *_table(results), *_advice(results), ""]
    if figures.farms > len(farms):
        lines += [f"and {figures.farms - len(farms):,} more farms: --farm shows one, the table backtest has all", ""]
    if written is not None:
        lines.append(f"written to {written}")
    lines.append(
        f"{figures.entries:,} entries of {figures.farms:,} farms with {figures.sets:,} sets in {figures.seconds:.1f} s,"
        f" {figures.entries_a_second:,} entries x sets a second; {figures.decisions:,} decisions"
    )
    return "\n".join(lines)


def shortly(figures: "BacktestFigures", farms: Sequence[Sequence[BacktestRow]]) -> str:
    """Describe the results as text without the tables: the recommendation for each farm."""
    lines = [line for results in farms for line in (_farm_line(live_row(results)), *_advice(results))]
    if figures.farms > len(farms):
        lines.append(f"and {figures.farms - len(farms):,} more farms: the table backtest has all")
    return "\n".join(lines)


def _farm_line(live: BacktestRow) -> str:
    doubt = "" if live.exact else f"; {live.gaps:,} gaps in its log, so not exact"
    days = live.counts.farm_ms / DAY_MS
    return f"Farm {printable(live.farm)}: {live.entries:,} entries, {days:,.1f} days of farm time{doubt}"


def _table(results: Sequence[BacktestRow]) -> list[str]:
    ranked = sorted(results, key=lambda each: each.cost)
    visible = [each for place, each in enumerate(ranked) if place < _SHOWN_SETS or each.live or each.recommended]
    rows = [_HEAD, *map(_row, visible)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    ]
    if len(visible) < len(ranked):
        lines.append(f"and {len(ranked) - len(visible)} more sets; --json shows all")
    return [f"  {line}" for line in lines]


def _row(result: BacktestRow) -> tuple[str, ...]:
    counts = result.counts
    return (
        ("* " if result.recommended else "  ") + grid.shown(result.parameters),
        f"{counts.outage_ms / 1000:,.0f} s",
        f"{counts.changes:,}",
        f"{counts.unneeded:,}",
        f"{counts.without_publisher_ms / 1000:,.0f} s",
        f"{counts.stale_ms / 1000:,.0f} s",
        f"{counts.missing_ms / 1000:,.0f} s",
        f"{counts.set_changes:,}",
        f"{counts.imbalance:.1%}",
        f"{result.cost:,.0f} s",
        "" if result.gain is None else str(result.gain),
    )


def _advice(results: Sequence[BacktestRow]) -> list[str]:
    advice = live_row(results).advice
    if recommended_row(results) is None:
        return [f"  {advice}"]
    return [f"  Recommended (*): {advice}", f"  {recommended_command(results)}"]


def _farm_as_json(results: Sequence[BacktestRow]) -> dict[str, Any]:
    live, best = live_row(results), recommended_row(results)
    return {
        "farm": live.farm,
        "in_force": dict(live.in_force),
        "recommended": None if best is None else recommended_values(results),
        "advice": live.advice,
        "gain": None if best is None or best.gain is None else asdict(best.gain),
        "difference": {} if best is None else {name: [old, new] for name, old, new in compared(live, best)},
        "sets": [
            {
                "parameters": dict(each.parameters),
                **asdict(each.counts),
                "cost": each.cost,
                "live": each.live,
                "gain": None if each.gain is None else asdict(each.gain),
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


def _weight(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=SECONDS as in change=30")
    return name, value


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
