"""Entries in the database: rows of many consecutive entries, each row with a checksum.

One row per transaction instead of one per entry saves most of SQLite's work per entry. A chunk's bytes are the entries
as on the wire (proposal 150, "Log Entries").
"""

import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gf_i2p.storage.errors import defect
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry, ValueType, decode_entries, encode_entries
from gf_i2p.wire.errors import ProtocolError

MAX_CHUNK_BYTES: Final = 256 << 10
"""Most bytes of a chunk; a larger entry has its own chunk. To read one entry, the whole chunk is read and decoded."""
MAX_CHUNK_ENTRIES: Final = 1024
"""Most entries of a chunk. Small entries cost more time by their number than by their bytes."""

_CONFIGURATION: Final = ValueType.CONFIGURATION  # looked up once, because a look-up in an enum is slow


class Chunk(NamedTuple):
    """One row: `length` entries (1 to `MAX_CHUNK_ENTRIES`) from index `first` on."""

    first: int
    length: int
    checksum: int
    data: bytes

    @property
    def end(self) -> int:
        """Index after the last entry."""
        return self.first + self.length


class TermRun(NamedTuple):
    """All entries from index `first` up to the next run have the term `term`. Index and term rise from run to run."""

    first: int
    term: int


def term_at(runs: Sequence[tuple[int, int]], index: int) -> int:
    """Return the term of the entry at `index`; 0 before the first run. `runs`: pairs of first index and term."""
    position = bisect_right(runs, index, key=lambda run: run[0])
    return runs[position - 1][1] if position else 0


def pack_chunk(first: int, entries: Sequence[Entry]) -> Chunk:
    """Encode the entries from index `first` on as one row. Raises `LocalProtocolError` for an illegal entry."""
    data = encode_entries(entries)
    return Chunk(first, len(entries), _checksum(first, data), data)


def unpack_chunk(chunk: Chunk) -> tuple[Entry, ...]:
    """Return the entries of a row. Raises `ValueError` when the row is damaged."""
    if _checksum(chunk.first, chunk.data) != chunk.checksum:
        raise ValueError(f"the entries from index {chunk.first} do not match their checksum")
    try:
        entries = decode_entries(chunk.data)
    except ProtocolError as error:
        raise ValueError(f"the entries from index {chunk.first} cannot be decoded: {error}") from error
    if not entries or len(entries) != chunk.length:
        raise ValueError(f"{len(entries)} entries from index {chunk.first}, where {chunk.length} were stored")
    return entries


def _checksum(first: int, data: bytes) -> int:
    # The checksum starts from the index, so that a row in the wrong place is noticed, too.
    return zlib.crc32(data, first & 0xFFFFFFFF)


@dataclass(slots=True)
class Packed:
    """Consecutive entries as rows for the tables `chunk`, `term_run` and `configuration`."""

    chunks: list[Chunk] = field(default_factory=list)
    runs: list[TermRun] = field(default_factory=list)
    """Runs that begin with one of these entries."""
    configurations: list[tuple[int, bytes]] = field(default_factory=list)
    """(index, value) of each Configuration."""


def pack_entries(first: int, entries: Sequence[Entry], term_before: int) -> Packed:
    """Cut the entries from index `first` on into rows. `term_before`: term of the entry before, or 0.

    Raises `StorageError` when a term falls (terms only rise along a log), `LocalProtocolError` when an entry cannot be
    encoded.
    """
    packed = Packed()
    last_term = term_before
    begin = size = 0
    for position, (term, value_type, value) in enumerate(entries):
        if term != last_term:
            if term < last_term:
                raise defect(f"an entry of term {term} was to be stored after one of term {last_term}")
            packed.runs.append(TermRun(first + position, term))
            last_term = term
        if value_type == _CONFIGURATION:
            packed.configurations.append((first + position, value))
        size += ENTRY_HEADER_BYTES + len(value)
        if (size > MAX_CHUNK_BYTES and position > begin) or position - begin == MAX_CHUNK_ENTRIES:
            packed.chunks.append(pack_chunk(first + begin, entries[begin:position]))
            begin = position
            size = ENTRY_HEADER_BYTES + len(value)
    if entries:
        packed.chunks.append(pack_chunk(first + begin, entries[begin:]))
    return packed
