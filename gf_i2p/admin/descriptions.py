"""Answers that describe the whole farm: made in slices of the event loop's time, and shared by all askers.

A farm with thousands of leaf members is long to describe. So the work goes on in slices of 1 ms, and heartbeats do not
wait. Askers share an answer that is under way, and a long answer for a while after: together they take a bounded share
of the node's time, however many ask.
"""

import asyncio
import json
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, TypeVar

from gf_i2p.farm.pieces import Pieces
from gf_i2p.transport.request_slices import SLICE_SECONDS

ASKERS_SHARE: Final = 0.05
"""Share of a node's time that descriptions may take."""
LEAST_SHARED: Final = 0.005
"""Seconds: an answer that takes less is made anew for each asker."""
_ITEMS: Final = 50
"""Items of a list that one piece encodes: half a millisecond, for leaves of a large farm."""

T = TypeVar("T")
Describe = Callable[[], dict[str, Any] | Pieces[dict[str, Any]]]
"""Describes something as a JSON object, at once or in pieces."""


class Descriptions:
    """The descriptions of one node, as JSON texts."""

    def __init__(self) -> None:
        self._last: dict[Describe, tuple[str, float]] = {}
        """The last text of each description, and the end of the time for which the text is shared."""
        self._under_way: dict[Describe, asyncio.Task[str]] = {}

    async def text(self, describe: Describe) -> str:
        """Return the JSON text of a description. Raises what `describe` raises."""
        text, shared_until = self._last.get(describe, ("", 0.0))
        if time.monotonic() < shared_until:
            return text
        making = self._under_way.get(describe)
        if making is None:
            making = self._under_way[describe] = asyncio.create_task(self._make(describe), name="describing the farm")
            making.add_done_callback(lambda _: self._under_way.pop(describe))
        return await asyncio.shield(making)  # an asker that goes away ends nobody else's answer

    async def _make(self, describe: Describe) -> str:
        began = time.thread_time()
        described = describe()
        seconds = time.thread_time() - began
        if isinstance(described, Generator):
            answer, more = await in_slices(described)
            seconds += more
        else:
            answer = described
        text, more = await in_slices(json_pieces(answer))
        seconds += more
        shared_for = seconds / ASKERS_SHARE if seconds > LEAST_SHARED else 0.0
        self._last[describe] = text, time.monotonic() + shared_for
        return text


async def in_slices(work: Pieces[T]) -> tuple[T, float]:
    """Do work in slices of the event loop's time; return the result, and the processor seconds of the work."""
    seconds = 0.0
    while True:
        began, end = time.thread_time(), time.monotonic() + SLICE_SECONDS
        try:
            next(work)
            while time.monotonic() < end:
                next(work)
        except StopIteration as done:
            return done.value, seconds + time.thread_time() - began
        seconds += time.thread_time() - began
        await asyncio.sleep(0)


def json_pieces(answer: Mapping[str, Any]) -> Pieces[str]:
    """Encode a JSON object with names that are strings; a long list is encoded some items at a time."""
    parts = []
    for name, value in answer.items():
        if isinstance(value, list) and len(value) > _ITEMS:
            items = []
            for at in range(0, len(value), _ITEMS):
                items.append(json.dumps(value[at : at + _ITEMS])[1:-1])
                yield
            text = f"[{', '.join(items)}]"
        elif isinstance(value, dict):
            text = yield from json_pieces(value)
        else:
            text = json.dumps(value)
        parts.append(f"{json.dumps(name)}: {text}")
        yield
    return f"{{{', '.join(parts)}}}"
