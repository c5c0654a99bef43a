"""A profile of the leader: py-spy beside the running process, or cProfile inside the process without py-spy."""

import asyncio
import pstats
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from integration.bench.systems.system import BenchError
from integration.bench.workloads import PATIENCE
from integration.harness.processes import said_within

RATE = 100  # samples per second: py-spy holds the process for each sample, so more samples would disturb
TOP = 15
_THREAD_ID = re.compile(r"^thread \(\d+\): ")


@dataclass(frozen=True, slots=True)
class FunctionShare:
    """One function: shares of time in the function itself, and with all its callees, both 0 to 1."""

    function: str
    own: float
    total: float


def py_spy() -> str | None:
    """Return the py-spy to run: first the one beside this Python."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


async def sample(pid: int, seconds: float, output: Path) -> None:
    """Sample a Python process for `seconds`; write folded stacks, which flame graph viewers read."""
    program = py_spy()
    assert program is not None
    process = await asyncio.create_subprocess_exec(
        *(program, "record", "--pid", str(pid), "--duration", str(max(1, round(seconds)))),
        *("--rate", str(RATE), "--format", "raw", "--threads", "--function", "--output", str(output)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        text, _ = await said_within(process, seconds + PATIENCE)
    except TimeoutError:
        raise BenchError("py-spy did not end. Try again without --profile.") from None
    if process.returncode:
        reason = text.decode(errors="replace").strip()
        raise BenchError(f"py-spy measured nothing (it may need root, or kernel.yama.ptrace_scope=0): {reason}")


def read_folded(path: Path) -> tuple[list[FunctionShare], dict[str, float]]:
    """Sum up py-spy's file; see `fold`."""
    return fold(path.read_text().splitlines())


def fold(lines: Iterable[str]) -> tuple[list[FunctionShare], dict[str, float]]:
    """Sum up folded stacks, "outer;inner;innermost COUNT" a line, the thread's name outermost.

    Return the functions by their own share, the largest first, and each thread's share of all samples. Shares are of
    the samples in which some thread ran.
    """
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    threads: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rstrip().rpartition(" ")
        thread, *frames = stack.split(";")
        thread = _THREAD_ID.sub("", thread)
        threads[thread] += int(count)
        if frames:
            own[frames[-1]] += int(count)
        for frame in set(frames):
            total[frame] += int(count)
    everything = threads.total() or 1
    rows = [FunctionShare(frame, own[frame] / everything, total[frame] / everything) for frame in total]
    rows.sort(key=lambda row: (-row.own, -row.total, row.function))
    return rows, {thread: count / everything for thread, count in threads.most_common()}


def function_table(rows: Iterable[FunctionShare]) -> str:
    """Return the functions as aligned text, their names flush left at the end."""
    lines = [["own", "with callees", "function"]]
    lines += [[f"{row.own:.1%}", f"{row.total:.1%}", row.function] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    return "\n".join(f"{own.rjust(widths[0])}  {total.rjust(widths[1])}  {name}" for own, total, name in lines)


def read_cprofile(path: Path) -> list[FunctionShare]:
    """Return the functions of a cProfile file by their own share of time, without waiting for events."""
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    stats = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]  # documented by use only
    busy = {key: value for key, value in stats.items() if "select." not in key[2] and "epoll" not in key[2]}
    everything = sum(value[2] for value in busy.values()) or 1.0
    rows = [
        FunctionShare(f"{name} ({Path(file).name}:{line})" if line else name, own / everything, total / everything)
        for (file, line, name), (_, _, own, total, _) in busy.items()
    ]
    return sorted(rows, key=lambda row: -row.own)
