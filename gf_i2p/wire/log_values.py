"""The contents of log values: proposal 150, "Log Contents". All numbers are big-endian.

Every `encode` raises `LocalProtocolError` when a number or text is out of range. Every `decode` takes a whole value,
and raises `RemoteProtocolError` when the bytes are not exactly one value. A decoded value encodes to the same bytes (a
LogPack: to the same bytes after gunzip). Application values are opaque bytes, and not decoded here.
"""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

from gf_i2p.wire.entries import Entry, ValueType, entry_fault
from gf_i2p.wire.errors import LocalProtocolError, RemoteProtocolError
from gf_i2p.wire.limits import (
    MAX_ENDPOINT_BYTES,
    MAX_ENTRIES,
    MAX_ID,
    MAX_INTEGER,
    MAX_LOG_PACK_BYTES,
    MAX_SERVERS,
    MAX_SNAPSHOT_BLOCK_BYTES,
)

_ID: Final = struct.Struct(">I")
_SERVER: Final = struct.Struct(">II")
_INDEXES: Final = struct.Struct(">QQ")
_OFFSET: Final = struct.Struct(">Q")
_SNAPSHOT_HEAD: Final = struct.Struct(">QQI")
_SNAPSHOT_BLOCK: Final = struct.Struct(">QI")


@dataclass(frozen=True, slots=True)
class ClusterServer:
    """One server: its id and endpoint; the value of an AddServerRequest.

    `id`: 0 to 2**32 - 2. `endpoint`: printable ASCII, at most `MAX_ENDPOINT_BYTES`. The endpoint is not parsed here,
    since a cluster that JRaft nodes began may hold other forms; `Endpoint.parse` raises for an illegal endpoint.
    """

    id: int
    endpoint: str

    def encode(self) -> bytes:
        """Encode id, endpoint length and endpoint."""
        _require(_server_fault(self.id, self.endpoint))
        return _SERVER.pack(self.id, len(self.endpoint)) + self.endpoint.encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a value that holds one server."""
        reader = _Reader(data, "ClusterServer")
        identity, endpoint = _read_server(reader)
        reader.finish()
        return cls(identity, endpoint)


def encode_server_id(server_id: int) -> bytes:
    """Encode the value of a RemoveServerRequest: the id alone, four bytes."""
    _require(_id_fault(server_id))
    return _ID.pack(server_id)


def decode_server_id(data: bytes) -> int:
    """Decode the value of a RemoveServerRequest."""
    reader = _Reader(data, "RemoveServer's ClusterServer")
    (server_id,) = reader.numbers(_ID)
    reader.finish()
    _refuse(_id_fault(server_id))
    return server_id


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers of the cluster.

    `log_index`: index of the entry that holds this value; `last_log_index`: index of the Configuration before it; both
    0 to 2**63 - 1. `servers`: at most `MAX_SERVERS`, in the written order. No id occurs twice, because nodes
    could differ on whether two servers of one id have one vote or two.
    """

    log_index: int
    last_log_index: int
    servers: tuple[ClusterServer, ...]

    def encode(self) -> bytes:
        """Encode both indexes and the servers."""
        _require(_numbers_fault("Configuration", self.log_index, self.last_log_index))
        _require(_servers_fault([server.id for server in self.servers]))
        indexes = _INDEXES.pack(self.log_index, self.last_log_index)
        return indexes + b"".join(server.encode() for server in self.servers)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a value that holds a Configuration; one without servers is legal."""
        reader = _Reader(data, "Configuration")
        log_index, last_log_index = reader.numbers(_INDEXES)
        _refuse(_numbers_fault("Configuration", log_index, last_log_index))
        servers: list[ClusterServer] = []
        while reader.rest:
            if len(servers) == MAX_SERVERS:
                raise RemoteProtocolError(f"a Configuration of more than {MAX_SERVERS} servers")
            servers.append(ClusterServer(*_read_server(reader)))
        _refuse(_servers_fault([server.id for server in servers]))
        return cls(log_index, last_log_index, tuple(servers))


@dataclass(frozen=True, slots=True)
class SnapshotSyncRequest:
    """One block of a snapshot; the value of an InstallSnapshotRequest.

    `last_log_index`, `last_log_term`: the last entry that the snapshot covers. `configuration`: the servers
    as of that entry. `offset`: the block's position in the snapshot, in bytes. `data`: the block, at most
    `MAX_SNAPSHOT_BLOCK_BYTES`. `done`: whether this is the last block.
    """

    last_log_index: int
    last_log_term: int
    configuration: Configuration
    offset: int
    data: bytes
    done: bool

    def encode(self) -> bytes:
        """Encode the block with its header."""
        _require(_snapshot_fault(self.last_log_index, self.last_log_term, self.offset, len(self.data)))
        configuration = self.configuration.encode()
        return b"".join(
            (
                _SNAPSHOT_HEAD.pack(self.last_log_index, self.last_log_term, len(configuration)),
                configuration,
                _SNAPSHOT_BLOCK.pack(self.offset, len(self.data)),
                self.data,
                b"\x01" if self.done else b"\x00",
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a value that holds a block. The value's last byte, `done`, must be 0 or 1."""
        reader = _Reader(data, "SnapshotSyncRequest")
        last_log_index, last_log_term, size = reader.numbers(_SNAPSHOT_HEAD)
        configuration = Configuration.decode(reader.take(size))
        offset, size = reader.numbers(_SNAPSHOT_BLOCK)
        _refuse(_snapshot_fault(last_log_index, last_log_term, offset, size))
        block = reader.take(size)
        done = reader.take(1)
        reader.finish()
        if done not in {b"\x00", b"\x01"}:
            raise RemoteProtocolError(f"a SnapshotSyncRequest whose done byte is {done[0]}; 0 and 1 are legal")
        return cls(last_log_index, last_log_term, configuration, offset, block, done == b"\x01")


RECORD_HEADER_BYTES: Final = 9

_PACK_HEAD: Final = struct.Struct(">II")
_RECORD: Final = struct.Struct(">QB")
_VALUE_TYPES: Final[dict[int, ValueType]] = {int(each): each for each in ValueType}
# The header that Java writes: deflate, no flags, no time, no level, unknown operating system. It reveals nothing.
_GZIP_HEAD: Final = bytes.fromhex("1f8b08000000000000ff")
_GZIP_TAIL: Final = struct.Struct("<II")


def record_bytes(entries: Iterable[Entry]) -> int:
    """Return the length of these entries' LogPack records in bytes: 9 and the value's length for each entry."""
    return sum(RECORD_HEADER_BYTES + len(entry.value) for entry in entries)


@dataclass(frozen=True, slots=True)
class LogPack:
    """Consecutive entries for a server that catches up; the value of a SyncLogRequest.

    After gunzip, a pack holds two lengths, the offsets (8 bytes each) and the records. A record is term, value type and
    value, without a length: the next offset, or the end of the data, ends a record.

    `entries`: 1 to `MAX_ENTRIES`, together at most `MAX_LOG_PACK_BYTES` unpacked. `base`: offset of the first record.
    In a sent pack, `base` must be `record_bytes` of all entries from the sender's first stored entry up to the first
    packed one: a JRaft receiver copies the offsets into its own log. In a received pack, any base is legal, because
    only the differences of the offsets matter.
    """

    entries: tuple[Entry, ...]
    base: int = 0

    def encode(self) -> bytes:
        """Encode the offsets and records, and compress both with gzip."""
        offsets: list[bytes] = []
        records: list[bytes] = []
        offset = self.base
        for entry in self.entries:
            _require(entry_fault(entry.term, entry.value_type, len(entry.value)))
            _require(_numbers_fault("LogPack", offset))
            offsets.append(_OFFSET.pack(offset))
            records.append(_RECORD.pack(entry.term, entry.value_type))
            records.append(entry.value)
            offset += RECORD_HEADER_BYTES + len(entry.value)
        size = offset - self.base
        _require(_pack_fault(8 * len(offsets), size))
        packed = b"".join((_PACK_HEAD.pack(8 * len(offsets), size), *offsets, *records))
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        tail = _GZIP_TAIL.pack(zlib.crc32(packed), len(packed))
        return b"".join((_GZIP_HEAD, deflate.compress(packed), deflate.flush(), tail))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Unpack a LogPack, and cut it into entries.

        This method checks the two lengths first, and unpacks no more bytes than they announce. So `MAX_LOG_PACK_BYTES`
        bounds the memory, even for a gzip bomb. The value must be a single gzip member.
        """
        index_bytes, packed = _gunzip(data)
        offsets = struct.unpack_from(f">{index_bytes // 8}Q", packed)
        base = offsets[0]
        _refuse(_numbers_fault("LogPack", offsets[-1]))
        # Position of a record = its offset + shift: the first record follows the offsets.
        shift = index_bytes - base
        entries: list[Entry] = []
        for offset, following in pairwise((*offsets, base + len(packed) - index_bytes)):
            start, end = offset + shift, following + shift
            if not start + RECORD_HEADER_BYTES <= end <= len(packed):
                raise RemoteProtocolError(
                    f"a LogPack whose records go from offset {offset} to {following}: "
                    f"offsets must rise by at least {RECORD_HEADER_BYTES} and stay within the data"
                )
            term, number = _RECORD.unpack_from(packed, start)
            _refuse(entry_fault(term, number, end - start - RECORD_HEADER_BYTES))
            entries.append(Entry(term, _VALUE_TYPES[number], packed[start + RECORD_HEADER_BYTES : end]))
        return cls(tuple(entries), base)


def _gunzip(data: bytes) -> tuple[int, bytes]:
    """Unpack a LogPack; return the length of its offsets in bytes, and the bytes of offsets and records."""
    inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        head = inflate.decompress(data, _PACK_HEAD.size)
        if len(head) != _PACK_HEAD.size:
            raise RemoteProtocolError("a LogPack that ends before its lengths")
        index_bytes, size = _PACK_HEAD.unpack(head)
        _refuse(_pack_fault(index_bytes, size))
        # One byte more than announced: this shows whether data follow, and makes zlib check the checksum.
        packed = inflate.decompress(inflate.unconsumed_tail, index_bytes + size + 1)
    except zlib.error as error:
        raise RemoteProtocolError(f"a LogPack that is not valid gzip: {error}") from None
    if len(packed) != index_bytes + size or not inflate.eof or inflate.unused_data:
        raise RemoteProtocolError(f"a LogPack that does not unpack to the {index_bytes + size} bytes it announces")
    return index_bytes, packed


class _Reader:
    """Reads the fields of a value from front to end; raises `RemoteProtocolError` when bytes are missing."""

    __slots__ = ("_data", "_name", "_position")

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._name = name
        self._position = 0

    @property
    def rest(self) -> int:
        return len(self._data) - self._position

    def take(self, size: int) -> bytes:
        if size > self.rest:
            raise RemoteProtocolError(f"a {self._name} that ends {size - self.rest} bytes early")
        self._position += size
        return self._data[self._position - size : self._position]

    def numbers(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack(self.take(layout.size))

    def finish(self) -> None:
        if self.rest:
            raise RemoteProtocolError(f"a {self._name} with {self.rest} bytes after its end")


def _read_server(reader: _Reader) -> tuple[int, str]:
    server_id, size = reader.numbers(_SERVER)
    if size > MAX_ENDPOINT_BYTES:
        raise RemoteProtocolError(f"an endpoint of {size} bytes; the limit is {MAX_ENDPOINT_BYTES}")
    endpoint = reader.take(size).decode("latin-1")
    _refuse(_server_fault(server_id, endpoint))
    return server_id, endpoint


def _require(fault: str | None) -> None:
    if fault is not None:
        raise LocalProtocolError(fault)


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise RemoteProtocolError(fault)


def _id_fault(server_id: int) -> str | None:
    if not 0 <= server_id < MAX_ID:
        return f"a server's id is outside 0 to {MAX_ID - 1}: {server_id}"
    return None


def _server_fault(server_id: int, endpoint: str) -> str | None:
    if len(endpoint) > MAX_ENDPOINT_BYTES or not (endpoint.isascii() and endpoint.isprintable()):
        return f"an endpoint must be at most {MAX_ENDPOINT_BYTES} printable ASCII characters: {endpoint[:80]!r}"
    return _id_fault(server_id)


def _servers_fault(ids: list[int]) -> str | None:
    if len(ids) > MAX_SERVERS:
        return f"a Configuration of more than {MAX_SERVERS} servers"
    if len(set(ids)) != len(ids):
        return f"a Configuration with one server id twice: {ids}"
    return None


def _numbers_fault(name: str, *numbers: int) -> str | None:
    for number in numbers:
        if not 0 <= number <= MAX_INTEGER:
            return f"a {name} with a term, index or offset outside 0 to {MAX_INTEGER}: {number}"
    return None


def _snapshot_fault(last_log_index: int, last_log_term: int, offset: int, size: int) -> str | None:
    if size > MAX_SNAPSHOT_BLOCK_BYTES:
        return f"a snapshot block of {size} bytes; the limit is {MAX_SNAPSHOT_BLOCK_BYTES}"
    return _numbers_fault("SnapshotSyncRequest", last_log_index, last_log_term, offset)


def _pack_fault(index_bytes: int, size: int) -> str | None:
    count, odd = divmod(index_bytes, 8)
    if not 1 <= count <= MAX_ENTRIES or odd:
        return f"a LogPack with {index_bytes} bytes of offsets; 8 for each of 1 to {MAX_ENTRIES} entries are legal"
    if index_bytes + size > MAX_LOG_PACK_BYTES:
        return f"a LogPack of {index_bytes + size} bytes unpacked; the limit is {MAX_LOG_PACK_BYTES}"
    if size < count * RECORD_HEADER_BYTES:
        return f"a LogPack of {size} bytes of records for {count} entries"
    return None
