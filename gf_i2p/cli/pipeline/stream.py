"""`gf-i2p pipeline stream`: keeps the lake current while histories grow, and reports alerts."""

import argparse
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from threading import Event as Flag
from typing import IO, TYPE_CHECKING, Final

from gf_i2p.cli.pipeline.arguments import add_lake
from gf_i2p.cli.pipeline.spark_job import working
from gf_i2p.cli.shared.argument_types import whole_number
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.terminal import ProgressLine, printable
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from gf_i2p.cli.pipeline.web_hook import WebHook
    from gf_i2p.pipeline.stream.job import Batch, Event, StreamFigures

HELP = "keep the lake, health and alerts current while histories grow"
_EVERY: Final = 900
_FARM_SILENT: Final = 10
MAX_MINUTES: Final = 366 * 24 * 60
_LAST_BYTES: Final = 64 << 10
"""Bytes at the end of the alerts file that are read to find the last line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job's own arguments."""
    add_lake(parser)
    parser.add_argument(
        "exports",
        nargs="+",
        metavar="EXPORT",
        help="a directory, or its address, with a node's history (entries-….jsonl), or with such directories",
    )
    parser.add_argument("--once", action="store_true", help="take in the present data, and end")
    parser.add_argument(
        "--every",
        type=whole_number(86_400, low=1),
        default=_EVERY,
        metavar="SECONDS",
        help=f"seconds between two batches for the tables (default: {_EVERY}); alerts take some seconds at most",
    )
    parser.add_argument(
        "--alerts",
        type=Path,
        metavar="FILE",
        help="append the beginning and end of each alert to this file, as JSON lines",
    )
    parser.add_argument(
        "--webhook",
        type=Path,
        metavar="FILE",
        help="post the beginning and end of each alert to the web hook of this private TOML file: url, and proxy = "
        '"socks5h://HOST:PORT" for a hook inside I2P',
    )
    parser.add_argument(
        "--least-available",
        type=whole_number(100),
        default=90,
        metavar="PERCENT",
        help="raise an alert when the availability in the last hour is lower (default: 90)",
    )
    parser.add_argument(
        "--farm-silent",
        type=whole_number(MAX_MINUTES, low=1),
        default=_FARM_SILENT,
        metavar="MINUTES",
        help=f"raise an alert when a farm's newest record is older, by this machine's clock (default: {_FARM_SILENT})",
    )


def run(options: argparse.Namespace) -> Answer:
    """Run the job until SIGINT or SIGTERM; with `--once`, until all present data are taken in.

    Raises `PipelineError`, `CommandError` and `OSError`.
    """
    with (
        _alerts(options.alerts) as (file, last_alert_ms),
        _hook(options.webhook) as hook,
        ProgressLine() as progress,
        working(options, progress, options.exports) as (spark, steps),
        _signals() as stop,
    ):
        from gf_i2p.pipeline.stream.alerts import AlertLimits  # noqa: PLC0415 -- needs Arrow
        from gf_i2p.pipeline.stream.job import StreamOptions, stream  # noqa: PLC0415 -- needs Spark

        def on_batch(batch: "Batch") -> None:
            progress.end()
            if not options.json:
                print(show_batch(batch), flush=True)

        def on_event(event: "Event") -> None:
            progress.end()
            if not options.json:
                print(show_event(event), flush=True)
            if file is not None:
                file.write(json.dumps(asdict(event), ensure_ascii=False) + "\n")
                file.flush()
            if hook is not None:
                hook.send(asdict(event))

        job_options = StreamOptions(
            once=options.once,
            every_seconds=options.every,
            limits=AlertLimits(availability=options.least_available / 100, farm_silent_ms=options.farm_silent * 60_000),
            noticed_ms=last_alert_ms,
        )
        figures = stream(
            spark,
            Lake(options.lake),
            options.exports,
            job_options,
            on_batch=on_batch,
            on_event=on_event,
            stop=stop,
            step=steps,
        )
    return Answer(asdict(figures), show(figures))


def show_batch(batch: "Batch") -> str:
    """Describe a batch in a line."""
    lag = "" if batch.lag_seconds is None else f", the newest record is {_age(batch.lag_seconds)} old"
    quarantine = f", {batch.quarantined:,} into quarantine" if batch.quarantined else ""
    return (
        f"batch {batch.batch}: {batch.lines:,} lines, {batch.entries:,} entries, {batch.new:,} new{quarantine}{lag}; "
        f"{batch.seconds:.1f} s"
    )


def show_event(event: "Event") -> str:
    """Describe an event in a line."""
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    mark = "!" if event.event == "begins" else "."
    return f"{mark} {at} {printable(event.farm)}: {event.alert} {event.event}: {event.text}"


def show(figures: "StreamFigures") -> str:
    """Describe a whole run of the stream in a line."""
    return (
        f"{figures.batches:,} batches in {figures.seconds:.1f} s: {figures.lines:,} lines, {figures.new:,} new "
        f"entries, {figures.quarantined:,} into quarantine, {figures.events:,} alerts begun or ended"
    )


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:,.0f} h"


@contextmanager
def _hook(path: Path | None) -> Iterator["WebHook | None"]:
    """Open the web hook of a file; None without a file. Raises `ConfigError` and `CommandError`."""
    if path is None:
        yield None
        return
    try:
        from gf_i2p.cli.pipeline.web_hook import web_hook  # noqa: PLC0415 -- needs requests
    except ImportError as error:
        raise CommandError("a web hook needs requests: pip install gf-i2p[spark]") from error
    with web_hook(path) as hook:
        yield hook


@contextmanager
def _alerts(path: Path | None) -> Iterator[tuple[IO[str] | None, int | None]]:
    """Open the alerts file for appending; yield the file, and the time of its last alert, in ms since the epoch.

    The time is None when the file has no alert; both are None when `path` is None. Raises `CommandError`.
    """
    if path is None:
        yield None, None
        return
    try:
        with path.open("a+b") as file:
            size = file.tell()
            file.seek(max(0, size - _LAST_BYTES))
            *_, last, fragment = b"\n", *file.read().split(b"\n")
            if fragment:  # the last line was cut off; its alert will be written again
                file.truncate(size - len(fragment))
        last_alert_ms = int(json.loads(last)["noticed_ms"]) if last.strip() else None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}. Give a file that can be written.") from None
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"{path} is not a file of alerts: give another file.") from None
    with path.open("a", encoding="utf-8") as text:
        yield text, last_alert_ms


@contextmanager
def _signals() -> Iterator[Flag]:
    """Yield the flag that SIGINT and SIGTERM set. The second signal raises `KeyboardInterrupt`."""
    stop = Flag()

    def on_signal(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    old_handlers = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in old_handlers.items():
            signal.signal(each, handler)
