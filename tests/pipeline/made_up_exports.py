"""Histories in the form of the nodes' exports, with few entries."""

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.storage.history_lines import Header, header_line, record_line, trailer_line
from gf_i2p.storage.history_reader import plain_name
from gf_i2p.storage.packed_files import GZIP, ZSTD
from tests.farm.strategies import NOW, leaf, record
from tests.storage.exported_log import zstd

BEAT_MS = 5_000


def status(index: int, *, cluster: str = "farm", servers: int = 3, **changes: object) -> bytes:
    """Give the record at an index as JSON: the servers take turns."""
    server = index % servers + 1
    report: StatusRecord = record(server, leaf(server), cluster=cluster, **{"date": at(index), **changes})  # type: ignore[arg-type]
    return report.encode()


def at(index: int) -> int:
    """Give the time of the entry, in ms since the epoch."""
    return NOW + index * BEAT_MS


def lines(indexes: Iterable[int], *, term: int = 1, delay: int = 40, cluster: str = "farm") -> list[bytes]:
    """The lines of status records, as a server has them that hears of each record so many ms later."""
    return [record_line(index, term, at(index) + delay, status(index, cluster=cluster)) for index in indexes]


def content(
    body: Sequence[bytes], *, first: int = 1, last: int | None = None, server: int = 1, cluster: str = "farm"
) -> bytes:
    """A file with these lines; `last`: index in the last line, None while the file is still written."""
    end = [] if last is None else [trailer_line(last)]
    return b"".join([header_line(Header(cluster, server, first, at(first))), *body, *end])


def plain(directory: Path, data: bytes, *, first: int = 1) -> Path:
    """Write a plain history file into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / plain_name(first)
    path.write_bytes(data)
    return path


def packed(directory: Path, data: bytes, *, first: int = 1, suffix: str = ZSTD) -> Path:
    """Write a packed history file into `directory`."""
    path = plain(directory, gzip.compress(data, mtime=0) if suffix == GZIP else zstd(data), first=first)
    return path.rename(path.with_name(path.name + suffix))
