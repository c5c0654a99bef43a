"""I2CP's messages for publishing and serving: values to bytes and bytes to values, no I/O and no clock.

I2CP specification, "Message Types". A client sends one byte, once. Then both sides send frames: the length of the body
(4 bytes), a type (1 byte), the body. All numbers are big-endian.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from bridges.errors import RouterError
from gf_i2p.netdb import lease_set as service_set
from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.errors import StructureError
from gf_i2p.netdb.limits import MAX_STRING_BYTES
from gf_i2p.netdb.mapping import encode_mapping
from gf_i2p.netdb.meta_lease_set import STORE_TYPE

PROTOCOL_BYTE: Final = b"\x2a"
"""First byte of a client's side of a connection."""
MAX_BODY_BYTES: Final = 65_536
"""Most bytes of a body, close to both routers' limit. A longer frame is refused before any of its body is kept."""
MAX_DATE_MS: Final = (2**32 - 1) * 1000
"""Latest date of a router, in the year 2106. Lease sets have four bytes for seconds, messages six for milliseconds."""
NO_SESSION: Final = 0xFFFF
"""A session number that no router assigns."""

_HEADER: Final = struct.Struct(">IB")
_NUMBER: Final = struct.Struct(">H")
_LEASE_BYTES: Final = 44
_NO_PRIVATE_KEYS: Final = b"\0"
_NONCE_AND_FLAGS: Final = bytes(4 + 2)
_BY_HASH: Final = b"\0"
_BEFORE_CERTIFICATE: Final = 256 + 128


class MalformedError(RouterError):
    """The bytes are no I2CP message, or a broken message. After that the next frame cannot be found."""


class Type(IntEnum):
    """The types of the messages that this program sends or reads."""

    CREATE_SESSION = 1
    DESTROY_SESSION = 3
    SESSION_STATUS = 20
    DISCONNECT = 30
    MESSAGE_PAYLOAD = 31
    GET_DATE = 32
    SET_DATE = 33
    SEND_MESSAGE_EXPIRES = 36
    REQUEST_VARIABLE_LEASE_SET = 37
    HOST_LOOKUP = 38
    HOST_REPLY = 39
    CREATE_LEASE_SET2 = 41


class Status(IntEnum):
    """Status in a SessionStatus message."""

    DESTROYED = 0
    CREATED = 1
    UPDATED = 2
    INVALID = 3
    REFUSED = 4


# From a router -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetDate:
    """The router's clock and version; Java sends this also unasked."""

    date_ms: int
    """The router's time of day, in milliseconds since the epoch."""
    version: str
    """Version of the router's I2CP; i2pd 2.45 repeats the client's version. Empty before API 0.8.7."""


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """Outcome of a request about a session."""

    session: int
    """The session's number; random in some refusals of i2pd."""
    status: int
    """One of `Status`, or an unknown number."""


@dataclass(frozen=True, slots=True)
class RequestVariableLeaseSet:
    """The router wants a lease set for these tunnels, which are new or have changed."""

    session: int
    leases: bytes
    """44 bytes for each tunnel. A Meta lease set does not list tunnels."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The router is about to close the connection."""

    reason: str
    """The router's text for the operator; printable, up to 255 characters."""


@dataclass(frozen=True, slots=True)
class MessagePayload:
    """A message for the session's destination. The sender is not named."""

    session: int
    payload: bytes = field(repr=False)
    """Packed as gzip, with ports and protocol in the gzip header (I2CP specification, "Payload")."""


@dataclass(frozen=True, slots=True)
class HostReply:
    """Answer to a HostLookup."""

    request: int
    """The number that the client gave the request."""
    result: int
    """0: found. Both routers give 1 for a destination that was not found; other numbers are refusals."""
    destination: bytes | None
    """The found destination, with keys and certificate of any kind; None without a destination."""


@dataclass(frozen=True, slots=True)
class Unused:
    """An ignored message: the outcome of a sent message, or an unknown type."""

    type: int


RouterMessage: TypeAlias = (
    SetDate | SessionStatus | RequestVariableLeaseSet | Disconnect | MessagePayload | HostReply | Unused
)


def read_message(kind: int, body: bytes) -> RouterMessage:
    """Read the body of one frame. Raises `MalformedError` for a body that is too short, or an impossible date.

    Bytes after the known fields are ignored: a newer router may have more fields.
    """
    reader = Reader(body, f"an I2CP message of type {kind}")
    try:
        match kind:
            case Type.SET_DATE:
                date_ms = reader.number(8)
                if date_ms > MAX_DATE_MS:
                    raise MalformedError(f"the router's date is {date_ms} ms after 1970: no lease set can hold it")
                return SetDate(date_ms, _string(reader) if reader.position < len(body) else "")
            case Type.SESSION_STATUS:
                return SessionStatus(reader.number(2), reader.number(1))
            case Type.REQUEST_VARIABLE_LEASE_SET:
                session, count = reader.number(2), reader.number(1)
                return RequestVariableLeaseSet(session, reader.take(count * _LEASE_BYTES))
            case Type.MESSAGE_PAYLOAD:
                session, _ = reader.number(2), reader.number(4)
                return MessagePayload(session, reader.take(reader.number(4)))
            case Type.HOST_REPLY:
                _, request, result = reader.number(2), reader.number(4), reader.number(1)
                return HostReply(request, result, None if result else _destination(reader))
            case Type.DISCONNECT:
                return Disconnect(_string(reader) if body else "")
            case _:
                return Unused(kind)
    except StructureError as error:
        raise MalformedError(f"the router sent a broken message: {error}") from error


class Decoder:
    """Makes messages from a stream that arrives in pieces of any size.

    The decoder holds at most one incomplete frame, and the piece that was fed last.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next piece of the stream. Then call `next` until it returns None."""
        self._buffer += data

    def next(self) -> RouterMessage | None:
        """Return the next message; None while the message is incomplete.

        Raises `MalformedError` at the first broken frame, and then at every call.
        """
        if len(self._buffer) < _HEADER.size:
            return None
        length, kind = _HEADER.unpack_from(self._buffer)
        if length > MAX_BODY_BYTES:
            raise MalformedError(
                f"the router announces a message of {length} bytes, and an I2CP message has at most {MAX_BODY_BYTES}: "
                "check that the port is I2CP's"
            )
        end = _HEADER.size + length
        if len(self._buffer) < end:
            return None
        message = read_message(kind, bytes(memoryview(self._buffer)[_HEADER.size : end]))
        del self._buffer[:end]
        return message

    @property
    def buffered(self) -> int:
        """Number of bytes of the incomplete frame."""
        return len(self._buffer)


# To a router -------------------------------------------------------------------------------------------------------


def get_date(version: str, login: tuple[str, str] | None = None) -> bytes:
    """Encode GetDate, the first message of a client: asks for the router's clock and version.

    `version`: the version that the bridge claims. `login`: user name and password, for a Java router that asks for
    them. `encode_mapping` must accept both. Its `LimitError` shows a text that it refuses, so check a password before.
    """
    body = bytes([len(version)]) + version.encode("ascii")
    if login is not None:
        body += encode_mapping({"i2cp.username": login[0], "i2cp.password": login[1]})
    return _frame(Type.GET_DATE, body)


def host_lookup(request: int, hash_: bytes, *, milliseconds: int) -> bytes:
    """Encode HostLookup: asks for a destination by its hash, 32 bytes, without a session.

    `request`: a number that the answer repeats. `milliseconds`: time limit for a router that obeys one; i2pd does not.
    """
    numbers = _NUMBER.pack(NO_SESSION) + request.to_bytes(4, "big") + milliseconds.to_bytes(4, "big")
    return _frame(Type.HOST_LOOKUP, numbers + _BY_HASH + hash_)


def create_session(config: bytes) -> bytes:
    """Encode CreateSession: asks the router to open a session for the destination in `config`.

    `config`: a signed SessionConfig, up to 64 KiB.
    """
    return _frame(Type.CREATE_SESSION, config)


def create_lease_set2(session: int, lease_set: bytes, *, key_count: bool) -> bytes:
    """Encode CreateLeaseSet2 with a Meta lease set. A session may send it at any time, asked or unasked.

    `key_count`: whether to append the number of private keys, which is 0. i2pd needs the number, and silently drops a
    set without it. Java does not read the number, and would take it for the start of the next message.
    """
    keys = _NO_PRIVATE_KEYS if key_count else b""
    return _frame(Type.CREATE_LEASE_SET2, _NUMBER.pack(session) + bytes([STORE_TYPE]) + lease_set + keys)


def create_service_lease_set(session: int, lease_set: bytes, private_keys: Sequence[tuple[int, bytes]]) -> bytes:
    """Encode CreateLeaseSet2: the lease set of a service, with the private keys that decrypt its clients' messages.

    A session may send the message at any time, not only when the router asks. `private_keys`: encryption type and
    private key, in the order of the set's public keys. The keys are secret: I2CP without TLS leaves this machine only
    if the operator allows that (`I2cpSettings.allow_plain`).
    """
    body = bytearray(_NUMBER.pack(session) + bytes([service_set.STORE_TYPE]) + lease_set + bytes([len(private_keys)]))
    for kind, key in private_keys:
        body += _NUMBER.pack(kind) + _NUMBER.pack(len(key)) + key
    return _frame(Type.CREATE_LEASE_SET2, bytes(body))


def send_message(session: int, destination: bytes, payload: bytes, expires_ms: int) -> bytes:
    """Encode SendMessageExpires: sends a packed payload to a destination. With nonce 0, the router reports no outcome.

    `expires_ms`: when the router may drop the message, in milliseconds since the epoch.
    """
    tail = _NONCE_AND_FLAGS + expires_ms.to_bytes(6, "big")
    head = _NUMBER.pack(session) + destination + len(payload).to_bytes(4, "big")
    return _frame(Type.SEND_MESSAGE_EXPIRES, head + payload + tail)


def destroy_session(session: int) -> bytes:
    """Encode DestroySession: ends a session. i2pd confirms the end and closes the connection. Java only closes it."""
    return _frame(Type.DESTROY_SESSION, _NUMBER.pack(session))


def _frame(kind: Type, body: bytes) -> bytes:
    assert len(body) <= MAX_BODY_BYTES
    return _HEADER.pack(len(body), kind) + body


def _destination(reader: Reader) -> bytes:
    """Read a destination with a certificate of any kind."""
    head = reader.take(_BEFORE_CERTIFICATE + 3)
    return head + reader.take(int.from_bytes(head[-2:]))


def _string(reader: Reader) -> str:
    raw = reader.take(reader.number(1))
    assert len(raw) <= MAX_STRING_BYTES
    text = raw.decode("utf-8", errors="replace")
    return "".join(character if character.isprintable() else "?" for character in text)
