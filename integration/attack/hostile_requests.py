"""Requests and values that attackers send."""

import gzip
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Final

from gf_i2p.farm.record.status_record import MAX_RECORD_BYTES
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import MAX_ENTRIES, MAX_ENTRIES_BYTES, MAX_LOG_PACK_BYTES
from gf_i2p.wire.log_values import ClusterServer, Configuration, SnapshotSyncRequest, encode_server_id
from gf_i2p.wire.messages import MessageType, Request

MARK: Final = b'{"hostile":true}'
"""A value that no honest user posts."""
_SMALL_VALUE_BYTES: Final = (8 << 10) + 64


def request(
    kind: MessageType,
    source: int,
    term: int,
    *entries: Entry,
    previous: tuple[int, int] = (0, 0),
    commit: int = 0,
) -> Request:
    """Make a request. `previous`: term and index of the entry before the entries."""
    return Request(kind, source, 0, term, *previous, commit, entries)


def post(*values: bytes, source: int = 0) -> Request:
    """Make a post of a client, or of server `source`."""
    return request(MessageType.CLIENT_REQUEST, source, 0, *(Entry(0, ValueType.APPLICATION, value) for value in values))


def zeros_of_json(size: int = _SMALL_VALUE_BYTES) -> bytes:
    """Make a value of about `size` bytes that looks like a status record, and is slow to decode."""
    return json.dumps({"up": [0] * (min(size, MAX_RECORD_BYTES) // 3 - 10)}, separators=(", ", ":")).encode()


def largest_post(value: bytes) -> Request:
    """Make a post that repeats a value as often as one request may."""
    return post(*[value] * min(MAX_ENTRIES, MAX_ENTRIES_BYTES // (len(value) + 13)))


def bomb(announced: int, mebibytes: int) -> bytes:
    """Make a gzip of so many MiB of zeros after the head of a LogPack, without compressing each MiB.

    `announced`: bytes of records that the head announces.
    """
    deflate = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    head = deflate.compress(struct.pack(">II", 8, announced)) + deflate.flush(zlib.Z_FULL_FLUSH)
    mebibyte = deflate.compress(bytes(1 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH)
    # After a full flush no byte refers back, so the same bytes again are another MiB.
    return gzip.compress(b"")[:10] + head + mebibyte * mebibytes + deflate.flush() + bytes(8)


def bombs() -> list[bytes]:
    """Make LogPacks that unpack to far more than they announce, and to far more than is legal."""
    return [bomb(9, 64), bomb(MAX_LOG_PACK_BYTES - 7, 1024), bomb(2**32 - 1, 1024)]


def sync_log(source: int, term: int, pack: bytes) -> Request:
    """Make a SyncLogRequest."""
    return request(MessageType.SYNC_LOG_REQUEST, source, term, Entry(term, ValueType.LOG_PACK, pack))


def snapshot(source: int, term: int, block: SnapshotSyncRequest) -> Request:
    """Make an InstallSnapshotRequest."""
    entry = Entry(term, ValueType.SNAPSHOT_SYNC_REQUEST, block.encode())
    return request(MessageType.INSTALL_SNAPSHOT_REQUEST, source, term, entry)


def all_of_servers(source: int, about: int, term: int, index: int, servers: Sequence[int]) -> list[Request]:
    """Make one request of each type that only servers send, and both changes of membership.

    `source`: the claimed sender. `about`: the server to add and to remove.
    """
    endpoint = "tcp://127.0.0.1:9"
    configuration = Configuration(index, 0, tuple(ClusterServer(server, endpoint) for server in servers))
    kinds = MessageType
    application, cluster_server = ValueType.APPLICATION, ValueType.CLUSTER_SERVER
    return [
        request(kinds.REQUEST_VOTE_REQUEST, source, term + 1, previous=(term, index + 1000)),
        request(kinds.APPEND_ENTRIES_REQUEST, source, term + 1, Entry(term + 1, application, MARK), commit=index + 9),
        snapshot(source, term + 1, SnapshotSyncRequest(index + 9, term + 1, configuration, 0, MARK, done=True)),
        request(
            kinds.ADD_SERVER_REQUEST, source, term, Entry(0, cluster_server, ClusterServer(about, endpoint).encode())
        ),
        request(kinds.REMOVE_SERVER_REQUEST, source, term, Entry(0, cluster_server, encode_server_id(about))),
        request(
            kinds.JOIN_CLUSTER_REQUEST, source, term + 1, Entry(0, ValueType.CONFIGURATION, configuration.encode())
        ),
        request(kinds.LEAVE_CLUSTER_REQUEST, source, term + 1),
        sync_log(source, term + 1, bomb(9, 10)),
    ]


def oversized_head(kind: MessageType, source: int, term: int) -> bytes:
    """Return the head of a request that announces 4 GiB of entries."""
    return struct.pack(">BIIqqqqI", kind, source, 0, term, 0, 0, 0, 2**32 - 1)
