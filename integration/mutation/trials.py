"""Tries mutants, each in a forked process, with limits of time and memory."""

import os
import resource
import select
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from integration.mutation.judges import Judge
from integration.mutation.mutated_import import install
from integration.mutation.rules import Mutant

MEMORY_BYTES: Final = 4 << 30
"""Most memory of one trial: some mutants keep everything."""
_MOST_WORDS: Final = 4096


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one mutant before one judge."""

    mutant: Mutant | None
    """None: the code as it is."""
    noticed: str | None
    """The observation of the judge; None: the mutant has survived."""
    seconds: float


def run_trials(mutants: Sequence[Mutant | None], judge: Judge, *, jobs: int, most_seconds: float) -> Iterator[Trial]:
    """Try the mutants, `jobs` at a time, and yield each result as it comes. `most_seconds`: of CPU, for one trial."""
    waiting = list(reversed(mutants))
    running: dict[int, tuple[Mutant | None, int, float]] = {}  # by pipe: mutant, process, start
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            process, pipe = _start(mutant, judge, most_seconds)
            running[pipe] = mutant, process, time.monotonic()
        ready, _, _ = select.select(list(running), [], [])
        for pipe in ready:
            mutant, process, began = running.pop(pipe)
            yield Trial(mutant, _result(process, pipe), time.monotonic() - began)


def _start(mutant: Mutant | None, judge: Judge, most_seconds: float) -> tuple[int, int]:
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        _run(mutant, judge, most_seconds, writing)
    os.close(writing)
    return process, reading


def _run(mutant: Mutant | None, judge: Judge, most_seconds: float, writing: int) -> NoReturn:
    """Judge in this process, write the result, and end the process."""
    words = "ended without a result"
    try:
        limit = max(int(most_seconds), 1)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        if mutant is not None:
            install(mutant)
        words = judge() or ""
    except BaseException as error:  # noqa: BLE001 -- whatever a mutant does, its judge has noticed
        words = f"{type(error).__name__}: {error}"
    finally:
        os.write(writing, words.encode(errors="replace")[:_MOST_WORDS])
        os._exit(0)


def _result(process: int, pipe: int) -> str | None:
    """Read what the process has written, and wait for its end."""
    words = os.read(pipe, _MOST_WORDS).decode(errors="replace")
    os.close(pipe)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return "does not end within the time limit" if name == "SIGXCPU" else f"ended by {name}"
    return words or None
