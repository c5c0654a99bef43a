"""Log entries as written in a request: proposal 150, "Log Entries".

An entry is a header of 13 bytes (term 8, value type 1, size 4; big-endian) and its value. This code runs for every
entry of every request, so each check is made only once, and no needless object is built.
"""

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from gf_i2p.wire.errors import LocalProtocolError, OversizeError, RemoteProtocolError
from gf_i2p.wire.limits import MAX_ENTRIES, MAX_ENTRIES_BYTES, MAX_INTEGER, MAX_VALUE_BYTES


class ValueType(IntEnum):
    """The type of a log value: proposal 150, "Log Contents"."""

    APPLICATION = 1
    CONFIGURATION = 2
    CLUSTER_SERVER = 3
    LOG_PACK = 4
    SNAPSHOT_SYNC_REQUEST = 5


class Entry(NamedTuple):
    """One log entry.

    `term`: 0 to 2**63 - 1; 0 in clients' requests, since clients know no term. `value`: the bytes of the value,
    zero to `MAX_VALUE_BYTES` long (a LogPack or snapshot block may be larger); zero-length values are legal.
    """

    term: int
    value_type: ValueType
    value: bytes


ENTRY_HEADER_BYTES: Final = 13

# Terms are read as signed numbers: a term above MAX_INTEGER then shows as a negative number, found by one cheap
# comparison.
_HEADER: Final = struct.Struct(">qBI")
_VALUE_TYPES: Final[dict[int, ValueType]] = {int(each): each for each in ValueType}
_CUT_SHORT: Final = "the log entries end inside an entry"
# These values carry other entries or a snapshot; the size of the request bounds them.
_CARRIERS: Final = frozenset((ValueType.LOG_PACK, ValueType.SNAPSHOT_SYNC_REQUEST))


def encode_entries(entries: Iterable[Entry]) -> bytes:
    """Encode entries one after another.

    Raises `LocalProtocolError` when a term, value type or size is out of range, or all entries together exceed
    `MAX_ENTRIES` or `MAX_ENTRIES_BYTES`.
    """
    parts: list[bytes] = []
    pack = _HEADER.pack
    try:
        for term, value_type, value in entries:
            size = len(value)
            if term < 0 or value_type not in _VALUE_TYPES or size > MAX_VALUE_BYTES:
                fault = entry_fault(term, value_type, size)
                if fault is not None:
                    raise LocalProtocolError(fault)
            parts.append(pack(term, value_type, size))
            parts.append(value)
    except struct.error:
        raise LocalProtocolError(f"an entry's term is outside 0 to {MAX_INTEGER}: {term}") from None
    body = b"".join(parts)
    if len(parts) > 2 * MAX_ENTRIES or len(body) > MAX_ENTRIES_BYTES:
        raise LocalProtocolError(
            f"{len(parts) // 2} entries of {len(body)} bytes do not fit into one request "
            f"({MAX_ENTRIES} entries, {MAX_ENTRIES_BYTES} bytes)"
        )
    return body


def decode_entries(data: bytes, start: int = 0, end: int | None = None) -> tuple[Entry, ...]:
    """Decode the entries that fill `data[start:end]` exactly.

    Raises:
        RemoteProtocolError: an entry is cut short, a term is above 2**63 - 1, or a value type is outside 1 to 5.
        OversizeError: a value other than a LogPack or SnapshotSyncRequest exceeds `MAX_VALUE_BYTES`, or there are more
            than `MAX_ENTRIES` entries.
    """
    entries: list[Entry] = []
    read_entries(data, start, len(data) if end is None else end, entries)
    return tuple(entries)


def read_entries(data: bytes, start: int, end: int, entries: list[Entry], *, left: int = 0) -> tuple[int, int]:
    """Decode the whole entries in `data[start:end]`, and append them to `entries`.

    `left`: bytes of further entries that are still to come after `end`. Without such bytes the entries must fill
    `data[start:end]` exactly.

    Returns the position after the last whole entry, and the position of the end of the entry, or of the entry's header,
    that begins there. Raises as `decode_entries`, as soon as a header shows the fault.
    """
    append = entries.append
    unpack = _HEADER.unpack_from
    types = _VALUE_TYPES
    new = tuple.__new__  # Entry(...) goes through a Python function that does just this
    position = start
    try:
        for _ in range(MAX_ENTRIES - len(entries)):
            if position == end:
                break
            term, number, size = unpack(data, position)
            value_start = position + ENTRY_HEADER_BYTES
            value_end = value_start + size
            if value_end > end and value_end > end + left:
                raise RemoteProtocolError(_CUT_SHORT)
            if term < 0 or number not in types or size > MAX_VALUE_BYTES:
                fault = entry_fault(term, number, size)
                if fault is not None:
                    raise (OversizeError if term >= 0 and number in types else RemoteProtocolError)(fault)
            if value_end > end:
                return position, value_end
            append(new(Entry, (term, types[number], data[value_start:value_end])))
            position = value_end
    except struct.error:
        # `data` ends inside a header. With another message behind it, `value_end > end` above raises the same error.
        if position + ENTRY_HEADER_BYTES > end + left:
            raise RemoteProtocolError(_CUT_SHORT) from None
        return position, position + ENTRY_HEADER_BYTES
    if position != end + left and len(entries) == MAX_ENTRIES:
        raise OversizeError(f"more than {MAX_ENTRIES} log entries in one request")
    return position, position + ENTRY_HEADER_BYTES


def entry_fault(term: int, value_type: int, size: int) -> str | None:
    """Return in words why an entry of this term, type and value size (bytes) is illegal. None: the entry is legal."""
    if not 0 <= term <= MAX_INTEGER:
        return f"an entry's term is outside 0 to {MAX_INTEGER}: {term}"
    if value_type not in _VALUE_TYPES:
        return f"a log value of type {value_type}; the types are 1 to 5"
    if size > MAX_VALUE_BYTES and value_type not in _CARRIERS:
        return f"a log value of {size} bytes; the limit is {MAX_VALUE_BYTES}"
    return None
