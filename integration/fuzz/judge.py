"""Judges one execution: the error, the processor time and the memory."""

import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

from integration.fuzz.target import Target

HANG_SECONDS: Final = 10.0
"""Seconds of processor time after which an execution is ended."""
_AGAIN: Final = 3
"""Times that a slow input is repeated: the least time counts, because the machine may be busy."""
_LOOP: Final = 100_000
_LOOP_SECONDS: Final = 0.004
"""Seconds that `_slowness` takes for `_LOOP` steps on an idle machine of 2026, with one core of 3 GHz."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that breaks a limit."""

    target: str
    kind: str
    """The error's type and place; "slow"; or "memory". Findings of one kind count as one."""
    text: str
    """The finding in words."""
    data: bytes


class _HangError(BaseException):
    """The execution takes too long. No `except Exception` of the program catches this error."""


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        raise _HangError

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def judge(target: Target, data: bytes) -> tuple[Finding | None, float]:
    """Run the target once; return a finding, and the seconds of processor time. The memory is not judged."""
    finding, seconds = _run(target, data)
    limit = target.seconds_limit(len(data))
    if finding is None and seconds > limit:
        for _ in range(_AGAIN):
            if seconds > HANG_SECONDS / 2:
                break
            seconds = min(seconds, _run(target, data)[1] / _slowness())
        if seconds > limit:
            text = f"{seconds:.2f} s of processor time for {len(data)} bytes, and {limit:.1f} s are allowed"
            finding = Finding(target.name, "slow", text, data)
    return finding, seconds


def _slowness() -> float:
    """Return how many times slower this machine is now than the machine of the limits when idle; at least 1.

    Beside other programs the same work takes more processor time, because caches and cores are shared.
    """
    began = time.thread_time()
    total = 0
    for number in range(_LOOP):
        total += number
    return max(1.0, (time.thread_time() - began) / _LOOP_SECONDS)


def judge_memory(target: Target, data: bytes) -> tuple[Finding | None, int]:
    """Run the target once, and return a finding and the greatest number of traced bytes. Other errors do not count."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _run(target, data)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    limit = target.memory_limit(len(data))
    if peak <= limit:
        return None, peak
    text = f"{peak} bytes of memory for {len(data)} bytes, and {limit} are allowed"
    return Finding(target.name, "memory", text, data), peak


def _run(target: Target, data: bytes) -> tuple[Finding | None, float]:
    began = time.thread_time()
    try:
        with _ended_after(HANG_SECONDS):
            target.function(data)
    except target.errors as error:
        if not isinstance(error, AssertionError):
            return None, time.thread_time() - began
        return _error_finding(target, data, error), time.thread_time() - began
    except _HangError:
        text = f"{len(data)} bytes take more than {HANG_SECONDS:g} s of processor time"
        return Finding(target.name, "slow", text, data), HANG_SECONDS
    except Exception as error:  # noqa: BLE001 -- an undeclared error is the result
        return _error_finding(target, data, error), time.thread_time() - began
    return None, time.thread_time() - began


def _error_finding(target: Target, data: bytes, error: Exception) -> Finding:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f"{place.tb_frame.f_code.co_qualname}:{place.tb_lineno}"
    text = f"{type(error).__name__}: {str(error)[:200]!r} in {where}"
    return Finding(target.name, f"{type(error).__name__} in {where}", text, data)
