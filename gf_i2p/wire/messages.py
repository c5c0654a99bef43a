"""The 17 Raft messages: proposal 150, "Message Types", "Requests" and "Responses".

A request is a header of 45 bytes and log entries; a response is 26 bytes. All numbers are big-endian.

Rules of the proposal's table that encoder and decoder check (a peer that breaks one is disconnected):

- RequestVote and LeaveCluster carry no entries.
- ClientRequest carries Application entries only; without entries, a client legally asks for the leader.
- AddServer carries one ClusterServer entry with id and endpoint, RemoveServer one with the id alone.
- SyncLog carries one LogPack, JoinCluster one Configuration, InstallSnapshot one SnapshotSyncRequest.
- AppendEntries may carry values of all five types: JRaft stores any type in its log and replicates it.

Tolerated: any id as source and destination, any number in a field that does not apply, any entry term. The decoders of
the values (`wire/log_values.py`) check the values.

A response's last byte must be 0 or 1. JRaft reads every other number as "not accepted". This decoder raises instead:
no implementation sends another number, and a caller must not take garbage for the promise "not committed".
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry, ValueType, decode_entries, encode_entries, read_entries
from gf_i2p.wire.errors import LocalProtocolError, OversizeError, RemoteProtocolError
from gf_i2p.wire.limits import (
    MAX_CONFIGURATION_BYTES,
    MAX_ENDPOINT_BYTES,
    MAX_ENTRIES_BYTES,
    MAX_ID,
    MAX_INTEGER,
    MAX_SNAPSHOT_BLOCK_BYTES,
)

# The id that stands for no server, as for "no vote" or "no known leader". JRaft's -1.
NOBODY: Final = MAX_ID


class MessageType(IntEnum):
    """The message types, numbered as in the proposal's table."""

    REQUEST_VOTE_REQUEST = 1
    REQUEST_VOTE_RESPONSE = 2
    APPEND_ENTRIES_REQUEST = 3
    APPEND_ENTRIES_RESPONSE = 4
    CLIENT_REQUEST = 5
    ADD_SERVER_REQUEST = 6
    ADD_SERVER_RESPONSE = 7
    REMOVE_SERVER_REQUEST = 8
    REMOVE_SERVER_RESPONSE = 9
    SYNC_LOG_REQUEST = 10
    SYNC_LOG_RESPONSE = 11
    JOIN_CLUSTER_REQUEST = 12
    JOIN_CLUSTER_RESPONSE = 13
    LEAVE_CLUSTER_REQUEST = 14
    LEAVE_CLUSTER_RESPONSE = 15
    INSTALL_SNAPSHOT_REQUEST = 16
    INSTALL_SNAPSHOT_RESPONSE = 17


# Each request has exactly one type of response; JRaft exits on a response of another type.
RESPONSE_TYPE: Final[dict[MessageType, MessageType]] = {
    MessageType.REQUEST_VOTE_REQUEST: MessageType.REQUEST_VOTE_RESPONSE,
    MessageType.APPEND_ENTRIES_REQUEST: MessageType.APPEND_ENTRIES_RESPONSE,
    MessageType.CLIENT_REQUEST: MessageType.APPEND_ENTRIES_RESPONSE,
    MessageType.ADD_SERVER_REQUEST: MessageType.ADD_SERVER_RESPONSE,
    MessageType.REMOVE_SERVER_REQUEST: MessageType.REMOVE_SERVER_RESPONSE,
    MessageType.SYNC_LOG_REQUEST: MessageType.SYNC_LOG_RESPONSE,
    MessageType.JOIN_CLUSTER_REQUEST: MessageType.JOIN_CLUSTER_RESPONSE,
    MessageType.LEAVE_CLUSTER_REQUEST: MessageType.LEAVE_CLUSTER_RESPONSE,
    MessageType.INSTALL_SNAPSHOT_REQUEST: MessageType.INSTALL_SNAPSHOT_RESPONSE,
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a server or a client.

    `source`, `destination`: server ids, 0 to 2**32 - 1. `term`: the sender's term. `last_log_term`, `last_log_index`:
    the entry just before the request's entries (in RequestVote, the candidate's last entry); 0 for none.
    `commit_index`: the leader's commit index. All four are 0 to 2**63 - 1, and 0 in requests that do not use them.
    """

    type: MessageType
    source: int
    destination: int
    term: int
    last_log_term: int
    last_log_index: int
    commit_index: int
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class OversizedRequest(Request):
    """The header of a leader's request whose entries exceed a limit; `entries` is empty.

    A leader of JRaft has no limits, and is a live leader all the same. The entries are read past, and never stored.
    """

    fault: str = ""
    """The exceeded limit, in words."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response.

    `source`: the responder. `destination`: the requestor; in the responses 4, 7 and 9, the leader, or `NOBODY` if the
    responder knows no leader. `term`, `next_index`: 0 to 2**63 - 1; `next_index` is the next log index that the
    responder wants (in InstallSnapshotResponse, the next byte offset).
    """

    type: MessageType
    source: int
    destination: int
    term: int
    next_index: int
    accepted: bool


REQUEST_HEADER_BYTES: Final = 45
RESPONSE_BYTES: Final = 26

# The requests of leaders. When their entries exceed a limit, only the header is taken.
_OF_LEADERS: Final = frozenset(
    (MessageType.APPEND_ENTRIES_REQUEST, MessageType.SYNC_LOG_REQUEST, MessageType.INSTALL_SNAPSHOT_REQUEST)
)

# Terms and indexes are read as signed numbers: a number above MAX_INTEGER then shows as negative, and the sign of
# their bitwise "or" shows whether any is negative.
_REQUEST: Final = struct.Struct(">BIIqqqqI")
_RESPONSE: Final = struct.Struct(">BIIqqB")

_REQUEST_TYPES: Final[dict[int, MessageType]] = {int(each): each for each in RESPONSE_TYPE}
_RESPONSE_TYPES: Final[dict[int, MessageType]] = {int(each): each for each in RESPONSE_TYPE.values()}

# To look up a member of an Enum costs as much as to decode a field. So these two are looked up once, not per message.
_CLIENT_REQUEST: Final = MessageType.CLIENT_REQUEST
_APPLICATION: Final = ValueType.APPLICATION

# The requests that carry exactly one entry, and its type.
_SINGLE: Final[dict[int, ValueType]] = {
    MessageType.ADD_SERVER_REQUEST: ValueType.CLUSTER_SERVER,
    MessageType.REMOVE_SERVER_REQUEST: ValueType.CLUSTER_SERVER,
    MessageType.SYNC_LOG_REQUEST: ValueType.LOG_PACK,
    MessageType.JOIN_CLUSTER_REQUEST: ValueType.CONFIGURATION,
    MessageType.INSTALL_SNAPSHOT_REQUEST: ValueType.SNAPSHOT_SYNC_REQUEST,
}

# Smallest and largest "log entries size" by request type, so that the header alone shows an illegal size.
_SERVER: Final = 4 + 4 + MAX_ENDPOINT_BYTES
_NO_SERVERS: Final = 8 + 8
_SNAPSHOT_SYNC: Final = 8 + 8 + 4 + 8 + 4 + 1
_BODY_BYTES: Final[dict[int, tuple[int, int]]] = {
    MessageType.REQUEST_VOTE_REQUEST: (0, 0),
    MessageType.APPEND_ENTRIES_REQUEST: (0, MAX_ENTRIES_BYTES),
    MessageType.CLIENT_REQUEST: (0, MAX_ENTRIES_BYTES),
    MessageType.ADD_SERVER_REQUEST: (ENTRY_HEADER_BYTES + 8, ENTRY_HEADER_BYTES + _SERVER),
    MessageType.REMOVE_SERVER_REQUEST: (ENTRY_HEADER_BYTES + 4, ENTRY_HEADER_BYTES + 4),
    MessageType.SYNC_LOG_REQUEST: (ENTRY_HEADER_BYTES, MAX_ENTRIES_BYTES),
    MessageType.JOIN_CLUSTER_REQUEST: (ENTRY_HEADER_BYTES + _NO_SERVERS, ENTRY_HEADER_BYTES + MAX_CONFIGURATION_BYTES),
    MessageType.LEAVE_CLUSTER_REQUEST: (0, 0),
    MessageType.INSTALL_SNAPSHOT_REQUEST: (
        ENTRY_HEADER_BYTES + _SNAPSHOT_SYNC + _NO_SERVERS,
        ENTRY_HEADER_BYTES + _SNAPSHOT_SYNC + MAX_CONFIGURATION_BYTES + MAX_SNAPSHOT_BLOCK_BYTES,
    ),
}


def encode_request(request: Request) -> bytes:
    """Encode a request.

    Raises `LocalProtocolError` when a number is out of range, when the entries break the rules for the request's type,
    or when the entries are too many or too large.
    """
    body = encode_entries(request.entries)
    size = len(body)
    term, last_term = request.term, request.last_log_term
    last_index, commit = request.last_log_index, request.commit_index
    fault = _header_fault(request.type, size, term | last_term | last_index | commit)
    if fault is None and size:
        fault = _entries_fault(request.type, request.entries)
    if fault is not None:
        raise LocalProtocolError(fault)
    try:
        header = _REQUEST.pack(
            request.type, request.source, request.destination, term, last_term, last_index, commit, size
        )
    except struct.error as error:
        raise LocalProtocolError(f"a number of the request's header is out of range: {error}") from None
    return header + body


def encode_response(response: Response) -> bytes:
    """Encode a response; raises `LocalProtocolError` when a number is out of range or the type is a request's."""
    fault = _response_fault(response.type, response.term | response.next_index, response.accepted)
    if fault is not None:
        raise LocalProtocolError(fault)
    try:
        return _RESPONSE.pack(
            response.type,
            response.source,
            response.destination,
            response.term,
            response.next_index,
            response.accepted,
        )
    except struct.error as error:
        raise LocalProtocolError(f"a number of the response is out of range: {error}") from None


def decode_request(data: bytes) -> Request:
    """Decode one whole request; raises `RemoteProtocolError` when `data` is anything else."""
    request, end = read_request(data, 0)
    if isinstance(request, OversizedRequest):
        raise RemoteProtocolError(request.fault)
    if request is None or end != len(data):
        raise RemoteProtocolError(f"{len(data)} bytes where one request of {end} or more is expected")
    return request


def decode_response(data: bytes) -> Response:
    """Decode one whole response; raises `RemoteProtocolError` when `data` is anything else."""
    response, end = read_response(data, 0)
    if response is None or end != len(data):
        raise RemoteProtocolError(f"{len(data)} bytes where one response of {end} is expected")
    return response


def read_request(data: bytes, start: int) -> tuple[Request | None, int]:
    """Decode the request that begins at `start`, if `data` holds all of it.

    Returns the request and the position of its end. Otherwise returns None and a position: call again when `data`
    reaches that position. Raises `RemoteProtocolError` as soon as the data shows an illegal request: at the first byte,
    at the header, or at the entries.

    A leader's request with entries over a limit is returned as an `OversizedRequest`. Then the end may lie beyond
    `data`, because the header alone shows the fault: pass over the bytes up to the end.
    """
    body = start + REQUEST_HEADER_BYTES
    if body > len(data):
        if start < len(data) and data[start] not in _REQUEST_TYPES:
            raise RemoteProtocolError(_type_fault(data[start], "request"))
        return None, body
    number, source, destination, term, last_term, last_index, commit, size = _REQUEST.unpack_from(data, start)
    fault = _header_fault(number, size, term | last_term | last_index | commit)
    end = body + size
    if fault is not None:
        if number in _OF_LEADERS and term | last_term | last_index | commit >= 0 and size > _BODY_BYTES[number][1]:
            fault = f"a request with {size} bytes of entries; the limit is {_BODY_BYTES[number][1]}"
            return _oversized(data, start, fault), end
        raise RemoteProtocolError(fault)
    if end > len(data):
        return None, end
    entries: tuple[Entry, ...] = ()
    if size:
        try:
            entries = decode_entries(data, body, end)
        except OversizeError as error:
            if number in _OF_LEADERS:
                return _oversized(data, start, str(error)), end
            raise
        fault = _entries_fault(number, entries)
        if fault is not None:
            raise RemoteProtocolError(fault)
    request_type = _REQUEST_TYPES[number]
    return Request(request_type, source, destination, term, last_term, last_index, commit, entries), end


class UnfinishedRequest:
    """A large request while its entries arrive. The entries are decoded piece by piece.

    No piece costs more than its own bytes, and no entry is in memory twice.
    """

    __slots__ = ("_buffer", "_due", "_entries", "_header", "_number", "left", "received")

    def __init__(self, header: bytes) -> None:
        """`header`: the `REQUEST_HEADER_BYTES` of a request, which `read_request` has found to be legal."""
        self._header = header
        self._number = header[0]
        self.received = 0
        """Bytes of the entries that have come."""
        self.left: int = _REQUEST.unpack(header)[-1]
        """Bytes of the entries that are still to come."""
        self._entries: list[Entry] = []
        self._buffer = bytearray()  # begins with the first entry that is not whole
        self._due = 0  # length of _buffer at which that entry, or its header, is whole

    def take(self, piece: bytes) -> Request | None:
        """Take the next bytes of the entries, `left` at most. Return the request when its entries are complete.

        Raises `RemoteProtocolError` as `read_request`. A leader's request over a limit is returned as an
        `OversizedRequest` as soon as the fault shows: then pass over the `left` bytes.
        """
        self.received += len(piece)
        self.left -= len(piece)
        self._buffer += piece
        if self.left and len(self._buffer) < self._due:
            return None
        data = bytes(self._buffer)
        try:
            position, due = read_entries(data, 0, len(data), self._entries, left=self.left)
        except OversizeError as error:
            if self._number in _OF_LEADERS:
                return _oversized(self._header, 0, str(error))
            raise
        del self._buffer[:position]
        self._due = due - position
        return None if self.left else _with_entries(self._header, tuple(self._entries))


def _with_entries(header: bytes, entries: tuple[Entry, ...]) -> Request:
    number, source, destination, term, last_term, last_index, commit, _ = _REQUEST.unpack(header)
    fault = _entries_fault(number, entries)
    if fault is not None:
        raise RemoteProtocolError(fault)
    return Request(_REQUEST_TYPES[number], source, destination, term, last_term, last_index, commit, entries)


def _oversized(data: bytes, start: int, fault: str) -> OversizedRequest:
    number, source, destination, term, last_term, last_index, commit, _ = _REQUEST.unpack_from(data, start)
    return OversizedRequest(_REQUEST_TYPES[number], source, destination, term, last_term, last_index, commit, (), fault)


def read_response(data: bytes, start: int) -> tuple[Response | None, int]:
    """Decode the response that begins at `start`, if `data` holds all of it. Result and errors: see `read_request`."""
    end = start + RESPONSE_BYTES
    if end > len(data):
        if start < len(data) and data[start] not in _RESPONSE_TYPES:
            raise RemoteProtocolError(_type_fault(data[start], "response"))
        return None, end
    number, source, destination, term, next_index, accepted = _RESPONSE.unpack_from(data, start)
    fault = _response_fault(number, term | next_index, accepted)
    if fault is not None:
        raise RemoteProtocolError(fault)
    return Response(_RESPONSE_TYPES[number], source, destination, term, next_index, accepted == 1), end


def _type_fault(number: int, expected: str) -> str:
    return f"a message of type {number} where a {expected} is expected"


def _header_fault(number: int, size: int, numbers: int) -> str | None:
    """Return the fault of a request's header in words, or None.

    `size`: bytes of its entries. `numbers`: the bitwise "or" of its terms and indexes, negative if any is.
    """
    bounds = _BODY_BYTES.get(number)
    if bounds is None:
        return _type_fault(number, "request")
    if numbers < 0:
        return f"a request's term or index is outside 0 to {MAX_INTEGER}"
    if not bounds[0] <= size <= bounds[1]:
        name = _REQUEST_TYPES[number].name
        return f"{name} with {size} bytes of entries; {bounds[0]} to {bounds[1]} are legal"
    return None


def _response_fault(number: int, numbers: int, accepted: int) -> str | None:
    """Return the fault of a response in words, or None. `numbers`: the bitwise "or" of its term and next index."""
    if number not in _RESPONSE_TYPES:
        return _type_fault(number, "response")
    if numbers < 0:
        return f"a response's term or next index is outside 0 to {MAX_INTEGER}"
    if accepted not in {0, 1}:
        return f"a response's accepted byte is {accepted}; 0 and 1 are legal"
    return None


def _entries_fault(number: int, entries: tuple[Entry, ...]) -> str | None:
    """Return in words how entries break the rules for request type `number`, or None. Sizes are not checked here."""
    if number == _CLIENT_REQUEST:
        for entry in entries:
            if entry.value_type != _APPLICATION:
                return f"CLIENT_REQUEST with a value of type {int(entry.value_type)}; it must be Application"
        return None
    only_type = _SINGLE.get(number)
    if only_type is not None and (len(entries) != 1 or entries[0].value_type != only_type):
        return f"{_REQUEST_TYPES[number].name} must carry one {only_type.name} entry and nothing else"
    return None
