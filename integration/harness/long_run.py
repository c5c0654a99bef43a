"""Common parts of the long runs: a temporary directory, progress, an end by Ctrl-C without traces, a result."""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared.logs import configure
from gf_i2p.transport.event_loop import loop_factory
from integration.harness.local_farm import NotSeenError
from integration.harness.processes import ProcessEndedError

Figures = dict[str, Any]
"""The findings of a run, in the order of printing; `wrong` lists the errors."""
Say = Callable[[str], None]
STOPPED: Final = 130
"""Exit code after Ctrl-C."""
_OBSTACLES: Final = (NotSeenError, ProcessEndedError, OSError)
"""Errors that a run expects, whose texts say what to do."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def say(line: str) -> None:
    """Print a line of progress on standard error."""
    with contextlib.suppress(OSError):  # the reader of the output may be gone
        print(f"  {line}", file=sys.stderr, flush=True)


def between(low: float, high: float) -> Callable[[str], float]:
    """Return an argparse type: a number from `low` to `high`, an int when written without a point."""

    def parse(text: str) -> float:
        value = int(text) if text.lstrip("-").isdigit() else float(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be from {low:g} to {high:g}")
        return value

    return parse


def run(options: argparse.Namespace, name: str, work: Callable[[Path], Awaitable[Figures]], *, limit: float) -> int:
    """Do the work in a directory that is removed afterwards; print the findings, return the exit code.

    `limit`: seconds after which the run counts as hanging.
    """
    configure("error", "text")
    with tempfile.TemporaryDirectory(prefix=f"gf-i2p-{name}-") as directory:
        return conclude(options, name, lambda: work(Path(directory)), limit=limit)


def conclude(
    options: argparse.Namespace,
    name: str,
    work: Callable[[], Awaitable[Figures]],
    *,
    limit: float,
    lifeline: int | None = None,
) -> int:
    """Do the work, and print the findings or the obstacle; return the exit code.

    `lifeline`: the pipe that ends with the outer process, see `integration.testnet.namespace`; None: no namespaces.
    """

    async def bounded() -> Figures:
        async with asyncio.timeout(limit):
            return await work()

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            figures = runner.run(_until_signalled(bounded(), lifeline))
    except asyncio.CancelledError:
        return _failed(options, name, "stopped before its end; all its processes and files are removed", STOPPED)
    except TimeoutError:
        return _failed(options, name, f"not done within {limit:.0f} s: is the machine busy, or does the farm hang?", 1)
    except _OBSTACLES as error:
        return _failed(options, name, str(error), 1)
    except BaseExceptionGroup as group:
        obstacle = _first_obstacle(group)
        if obstacle is None:
            raise
        return _failed(options, name, str(obstacle), 1)
    if options.json:
        print(json.dumps({"ok": not figures["wrong"], **figures}))
    else:
        show(figures)
    return 1 if figures["wrong"] else 0


def _first_obstacle(group: BaseExceptionGroup) -> BaseException | None:
    """Return the first error of a group of tasks, or None when the group has an error that no run expects."""
    expected, unexpected = group.split(_OBSTACLES)
    first: BaseException | None = None if unexpected else expected
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def show(figures: Figures) -> None:
    """Print figures as text; a list takes one line for each element."""
    for name, value in figures.items():
        title = name.replace("_", " ")
        if isinstance(value, list) and value:
            print(f"{title}:")
            for each in value:
                print("  " + (", ".join(f"{k} {v}" for k, v in each.items()) if isinstance(each, dict) else str(each)))
        else:
            print(f"{title:28} {'none' if value == [] else value}")


def _failed(options: argparse.Namespace, name: str, what: str, code: int) -> int:
    if options.json:
        print(json.dumps({"ok": False, "error": what}))
    print(f"{name}: {what}", file=sys.stderr)
    return code


async def _until_signalled(work: Coroutine[Any, Any, Figures], lifeline: int | None) -> Figures:
    """Do the work; cancel it once, at the first of `SIGNALS` or at the end of the lifeline: the work then cleans up."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    told = False

    def end() -> None:
        nonlocal told
        if lifeline is not None:
            loop.remove_reader(lifeline)
        if not told:
            told = True
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, end)
    if lifeline is not None:
        loop.add_reader(lifeline, end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # the signals were held until the handlers were set
    try:
        return await task
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        if lifeline is not None:
            loop.remove_reader(lifeline)
