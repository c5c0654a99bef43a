"""Targets of the wire: messages, entries, log values, and the stream of messages (proposal 150)."""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType, decode_entries, encode_entries
from gf_i2p.wire.errors import EndpointError, RemoteProtocolError
from gf_i2p.wire.limits import MAX_ENTRIES, MAX_LOG_PACK_BYTES
from gf_i2p.wire.log_values import (
    ClusterServer,
    Configuration,
    LogPack,
    SnapshotSyncRequest,
    decode_server_id,
    encode_server_id,
)
from gf_i2p.wire.message_stream import RequestDecoder, ResponseDecoder
from gf_i2p.wire.messages import (
    MessageType,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from integration.fuzz import samples
from integration.fuzz.target import Target

_SERVER: Final = ClusterServer(2, "tcp://[2001:db8::1]:9001")
_CONFIGURATION: Final = Configuration(17, 1, (ClusterServer(1, "tcp://a.example:1"), _SERVER))
_APPLICATION: Final = Entry(3, ValueType.APPLICATION, b'{"id":1}')
_FEW: Final = 100
_SHORT: Final = 10_000
"""Entries and bytes up to which a pack is packed again. The time is that of the decoder, as far as possible."""
_REMOTE: Final = (RemoteProtocolError,)


def _entries() -> tuple[Entry, ...]:
    return (
        _APPLICATION,
        Entry(4, ValueType.CONFIGURATION, _CONFIGURATION.encode()),
        Entry(4, ValueType.CLUSTER_SERVER, _SERVER.encode()),
        Entry(4, ValueType.LOG_PACK, LogPack((_APPLICATION,)).encode()),
        Entry(4, ValueType.SNAPSHOT_SYNC_REQUEST, _snapshot().encode()),
        Entry(5, ValueType.APPLICATION, b""),
    )


def _snapshot() -> SnapshotSyncRequest:
    return SnapshotSyncRequest(17, 3, _CONFIGURATION, 4096, b"state", done=True)


def _requests() -> Iterator[bytes]:
    _application, configuration, server, pack, snapshot, _ = _entries()
    bodies = {
        MessageType.REQUEST_VOTE_REQUEST: (),
        MessageType.APPEND_ENTRIES_REQUEST: _entries(),
        MessageType.CLIENT_REQUEST: (_APPLICATION, _APPLICATION._replace(term=0)),
        MessageType.ADD_SERVER_REQUEST: (server,),
        MessageType.REMOVE_SERVER_REQUEST: (Entry(4, ValueType.CLUSTER_SERVER, encode_server_id(2)),),
        MessageType.SYNC_LOG_REQUEST: (pack,),
        MessageType.JOIN_CLUSTER_REQUEST: (configuration,),
        MessageType.LEAVE_CLUSTER_REQUEST: (),
        MessageType.INSTALL_SNAPSHOT_REQUEST: (snapshot,),
    }
    for kind, entries in bodies.items():
        yield encode_request(Request(kind, 1, 2, 5, 4, 16, 15, entries))
    yield from samples.jraft("request")


def _responses() -> Iterator[bytes]:
    yield encode_response(Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 5, 17, accepted=True))
    yield from samples.jraft("response")


def _request(data: bytes) -> None:
    request = decode_request(data)
    assert encode_request(request) == data
    for entry in request.entries:
        _value(entry)


def _value(entry: Entry) -> None:
    """Decode a value as a receiver does."""
    match entry.value_type:
        case ValueType.CONFIGURATION:
            assert Configuration.decode(entry.value).encode() == entry.value
        case ValueType.LOG_PACK:
            LogPack.decode(entry.value)
        case ValueType.SNAPSHOT_SYNC_REQUEST:
            assert SnapshotSyncRequest.decode(entry.value).encode() == entry.value


def _response(data: bytes) -> None:
    assert encode_response(decode_response(data)) == data


def _streams(data: bytes) -> None:
    """Feed both decoders whole and in pieces: the messages must be the same."""
    for kind in (RequestDecoder, ResponseDecoder):
        decoders = kind(), kind()
        whole = _fed(decoders[0], [data])
        pieces = _fed(decoders[1], [data[:1], data[1:50], data[50:51], data[51:]])
        assert whole == pieces
        assert max(decoders[1].buffered, 0) <= len(data)


def _fed(decoder: RequestDecoder | ResponseDecoder, pieces: list[bytes]) -> tuple[list[object], bool]:
    messages: list[object] = []
    for piece in pieces:
        try:
            messages += decoder.feed(piece)
        except RemoteProtocolError:
            return [*messages, *decoder.before_error], True
    return messages, False


def _decoded_entries(data: bytes) -> None:
    assert encode_entries(decode_entries(data)) == data


def _cluster_server(data: bytes) -> None:
    assert ClusterServer.decode(data).encode() == data


def _server_id(data: bytes) -> None:
    assert encode_server_id(decode_server_id(data)) == data


def _configuration(data: bytes) -> None:
    assert Configuration.decode(data).encode() == data


def _snapshot_sync(data: bytes) -> None:
    assert SnapshotSyncRequest.decode(data).encode() == data


def _log_pack(data: bytes) -> None:
    pack = LogPack.decode(data)
    if len(pack.entries) < _FEW:
        assert sum(len(entry.value) for entry in pack.entries) > _SHORT or LogPack.decode(pack.encode()) == pack


def _log_pack_content(data: bytes) -> None:
    """Pack the bytes correctly: nothing but the content can be wrong."""
    packer = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    LogPack.decode(packer.compress(data) + packer.flush())


def _log_packs() -> Iterator[bytes]:
    yield LogPack(_entries(), base=26).encode()
    yield LogPack(tuple(Entry(1, ValueType.APPLICATION, b"") for _ in range(MAX_ENTRIES))).encode()
    yield LogPack((Entry(1, ValueType.LOG_PACK, bytes(MAX_LOG_PACK_BYTES - 17)),)).encode()
    yield from samples.jraft("log_pack")


def _log_pack_contents() -> Iterator[bytes]:
    for pack in (LogPack(_entries()).encode(), *samples.jraft("log_pack")):
        yield zlib.decompress(pack, 16 + zlib.MAX_WBITS)
    yield struct.pack(">II", 8, 9) + bytes(17)


def _endpoint(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    endpoint = Endpoint.parse(text)
    assert str(endpoint) == text
    endpoint.authority.encode("ascii")


def _endpoints() -> Iterator[bytes]:
    yield from (
        b"tcp://a-b.example:9001", b"tcp://[2001:db8::1]:65535", b"tcp://127.0.0.1:1",
        b"tcp://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b32.i2p:80",
    )  # fmt: skip


TARGETS: Final = (
    Target("request", _request, _REMOTE, _requests),
    Target("response", _response, _REMOTE, _responses),
    Target(
        "message-stream",
        _streams,
        (),
        lambda: (b"".join(_requests()), b"".join(_responses())),
    ),
    Target(
        "entries",
        _decoded_entries,
        _REMOTE,
        lambda: (encode_entries(_entries()), b"\0" * 8 + b"\1" + b"\0" * 4),
    ),
    Target(
        "cluster-server",
        _cluster_server,
        _REMOTE,
        lambda: (_SERVER.encode(), *samples.jraft("cluster_server")),
    ),
    Target("server-id", _server_id, _REMOTE, lambda: (encode_server_id(7),)),
    Target(
        "configuration",
        _configuration,
        _REMOTE,
        lambda: (_CONFIGURATION.encode(), *samples.jraft("configuration")),
    ),
    Target(
        "snapshot-sync",
        _snapshot_sync,
        _REMOTE,
        lambda: (_snapshot().encode(), *samples.jraft("snapshot_sync")),
    ),
    # Unpacked, a pack has up to 16 MiB, which are in memory twice; an entry costs 150 bytes besides.
    Target("log-pack", _log_pack, _REMOTE, _log_packs, memory=96 << 20),
    Target("log-pack-content", _log_pack_content, _REMOTE, _log_pack_contents),
    Target("endpoint", _endpoint, (EndpointError,), _endpoints),
)
