"""A log as truth for the tests of the history, and the entries that a history of the log must hold.

The module needs no package.
"""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from gf_i2p.storage.history_lines import ApplicationLine, ConfigurationLine, Gap
from gf_i2p.storage.history_reader import read_history
from gf_i2p.storage.history_writer import History, Rotation
from gf_i2p.storage.packed_files import packer
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, Configuration

CLUSTER: Final = "farm"
SERVER: Final = 7
RAW: Final = (b"", b"\xff\xfe", b"{", b"NaN", b'{"a":1,"a":2}', b'"\\ud800"', b"\n", b"[" * 101 + b"]" * 101)


def zstd(data: bytes) -> bytes:
    """Pack as the node packs."""
    engine = packer()
    return engine.compress(data) + engine.flush()


def configuration(index: int, *servers: int) -> bytes:
    """A Configuration's value."""
    return Configuration(
        index, index - 1, tuple(ClusterServer(server, f"tcp://h{server}:9001") for server in servers)
    ).encode()


def entry(index: int) -> Entry:
    """Return the entry at this index: the same bytes at each call."""
    rng = random.Random(index)
    term = 1 + index // 40
    kind = rng.random()
    if index > 1 and kind < 0.05:
        return Entry(term, ValueType.CLUSTER_SERVER, b"in no log of ours")
    if index == 1 or kind < 0.1:
        return Entry(term, ValueType.CONFIGURATION, configuration(index, *rng.sample(range(9), rng.randrange(1, 4))))
    if kind < 0.2:
        return Entry(term, ValueType.APPLICATION, rng.choice(RAW))
    value = {"id": index, "pad": "\u2028ü\n" * rng.choice((0, 1, 20, 300))}
    return Entry(term, ValueType.APPLICATION, json.dumps(value, indent=rng.choice((None, 2))).encode())


def entries(first: int, last: int) -> list[Entry]:
    return [entry(index) for index in range(first, last + 1)]


def expected(last: int) -> list[tuple[int, int, Any]]:
    """The entries of a full history of the log: index, term, and value.

    A value without JSON is in bytes, and a Configuration's value is a tuple of the servers' ids.
    """
    return [
        (index, each.term, _value(each))
        for index, each in enumerate(entries(1, last), 1)
        if each.value_type is not ValueType.CLUSTER_SERVER
    ]


def _value(each: Entry) -> Any:
    if each.value_type is ValueType.CONFIGURATION:
        return tuple(server.id for server in Configuration.decode(each.value).servers)
    return each.value if each.value in RAW else json.loads(each.value)


def found(directory: Path) -> list[tuple[int, int, Any]]:
    """The entries of a history; gaps are not expected."""
    return plain(read_history(directory))


def plain(lines: Iterable[ApplicationLine | ConfigurationLine | Gap]) -> list[tuple[int, int, Any]]:
    made: list[tuple[int, int, Any]] = []
    for each in lines:
        assert not isinstance(each, Gap)
        value = each.servers if isinstance(each, ConfigurationLine) else each.value if each.raw is None else each.raw
        made.append((each.index, each.term, value))
    return made


class Clock:
    """Milliseconds since the epoch; the test turns the clock."""

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
    """Go on with the log up to `last`, in pieces; rotate and pack when due."""
    number = 0
    while history.durable_index < last:
        first = history.durable_index + 1
        number += 1
        history.append(entries(first, min(first + sizes[number % len(sizes)] - 1, last)))
        rotate(history)


def rotate(history: History) -> None:
    """Rotate and pack, if due."""
    if history.due():
        history.rotate()
    if history.packable():
        history.pack()
