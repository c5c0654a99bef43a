"""A log as truth for the tests of the history, and what a history of it must hold. No package is needed for it."""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from gf_i2p.storage.history import History, Rotation
from gf_i2p.storage.history_lines import Gap, Record
from gf_i2p.storage.history_reading import read_history
from gf_i2p.wire.entries import Entry, ValueType

CLUSTER: Final = "farm"
SERVER: Final = 7
RAW: Final = (b"", b"\xff\xfe", b"{", b"NaN", b'{"a":1,"a":2}', b'"\\ud800"', b"\n", b"[" * 101 + b"]" * 101)


def entry(index: int) -> Entry:
    """The entry at this index, always the same."""
    rng = random.Random(index)
    term = 1 + index // 40
    kind = rng.random()
    if index == 1 or kind < 0.1:
        return Entry(term, ValueType.CONFIGURATION, b"servers")
    if kind < 0.2:
        return Entry(term, ValueType.APPLICATION, rng.choice(RAW))
    value = {"id": index, "pad": "\u2028ü\n" * rng.choice((0, 1, 20, 300))}
    return Entry(term, ValueType.APPLICATION, json.dumps(value, indent=rng.choice((None, 2))).encode())


def entries(first: int, last: int) -> list[Entry]:
    return [entry(index) for index in range(first, last + 1)]


def expected(last: int) -> list[tuple[int, int, Any]]:
    """What the history of the whole log holds: index, term, and value, in bytes where it is not JSON."""
    return [
        (index, each.term, each.value if each.value in RAW else json.loads(each.value))
        for index, each in enumerate(entries(1, last), 1)
        if each.value_type is ValueType.APPLICATION
    ]


def found(directory: Path) -> list[tuple[int, int, Any]]:
    """What a history holds; gaps are not expected."""
    return plain(read_history(directory))


def plain(records: Iterable[Record | Gap]) -> list[tuple[int, int, Any]]:
    made = []
    for each in records:
        assert isinstance(each, Record)
        made.append((each.index, each.term, each.value if each.raw is None else each.raw))
    return made


class Clock:
    """ms since the epoch, as the test turns it."""

    def __init__(self) -> None:
        self.now = 1_790_000_000_000

    def __call__(self) -> int:
        return self.now


def open_history(
    directory: Path,
    *,
    cluster: str = CLUSTER,
    server_id: int = SERVER,
    rotation: Rotation = Rotation(),  # noqa: B008 -- it is frozen
    clock: Clock | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> History:
    return History.open(
        directory,
        cluster=cluster,
        server_id=server_id,
        rotation=rotation,
        clock=clock or Clock(),
        interrupted=interrupted,
    )


def export(history: History, last: int, sizes: Sequence[int] = (1, 7, 3, 20)) -> None:
    """Go on with the log up to `last`, in pieces, and rotate and pack when it is due."""
    number = 0
    while history.durable_index < last:
        first = history.durable_index + 1
        number += 1
        history.append(entries(first, min(first + sizes[number % len(sizes)] - 1, last)))
        rotate(history)


def rotate(history: History) -> None:
    """Rotate and pack what is due."""
    if history.due():
        history.rotate()
    if history.packable():
        history.pack()
