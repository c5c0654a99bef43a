"""I2CP's messages, those that publishing and serving need: values to bytes and bytes to values, no I/O and no clock.

I2CP specification, "Message Types". A client sends one byte, once; then both sides send frames: the length of the body
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
"""What a client's side of a connection begins with."""
MAX_BODY_BYTES: Final = 65_536
"""Both routers' limit is about this; a frame that announces more is refused before any of it is kept."""
NO_SESSION: Final = 0xFFFF
"""A session number that no router gives."""

_HEADER: Final = struct.Struct(">IB")
_NUMBER: Final = struct.Struct(">H")
_LEASE_BYTES: Final = 44
_NO_PRIVATE_KEYS: Final = b"\0"
_NONCE_AND_FLAGS: Final = bytes(4 + 2)


class MalformedError(RouterError):
    """What came is no I2CP message, or a broken one. The stream cannot find its place again."""


class Type(IntEnum):
    """The types of the messages that we send or heed."""

    CREATE_SESSION = 1
    DESTROY_SESSION = 3
    SESSION_STATUS = 20
    DISCONNECT = 30
    MESSAGE_PAYLOAD = 31
    GET_DATE = 32
    SET_DATE = 33
    SEND_MESSAGE_EXPIRES = 36
    REQUEST_VARIABLE_LEASE_SET = 37
    CREATE_LEASE_SET2 = 41


class Status(IntEnum):
    """What SessionStatus says."""

    DESTROYED = 0
    CREATED = 1
    UPDATED = 2
    INVALID = 3
    REFUSED = 4


# From a router -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetDate:
    """The router's clock and version; Java sends it also unasked."""

    date_ms: int
    """Milliseconds since the epoch."""
    version: str
    """Of the router's I2CP; i2pd 2.45 gives back what the client claimed. Empty before API 0.8.7."""


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """What has become of a session."""

    session: int
    """A random one with some refusals of i2pd."""
    status: int
    """One of `Status`, or a number that we do not know."""


@dataclass(frozen=True, slots=True)
class RequestVariableLeaseSet:
    """The router wants a lease set for these tunnels: when they are first built, and whenever they change."""

    session: int
    leases: bytes
    """44 bytes each. A Meta lease set does not list them."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The router is about to close the connection."""

    reason: str
    """For people; printable, up to 255 characters."""


@dataclass(frozen=True, slots=True)
class MessagePayload:
    """Somebody has sent something to the session's destination. It does not say who."""

    session: int
    payload: bytes = field(repr=False)
    """Packed as gzip, with ports and protocol in its header (I2CP specification, "Payload")."""


@dataclass(frozen=True, slots=True)
class Unused:
    """A message that we pass over: what has become of one that we sent, or one that we do not know."""

    type: int


RouterMessage: TypeAlias = SetDate | SessionStatus | RequestVariableLeaseSet | Disconnect | MessagePayload | Unused


def read_message(kind: int, body: bytes) -> RouterMessage:
    """Read the body of one frame. Raises `MalformedError` when it is too short.

    Bytes after the fields that we know are passed over: a newer router may have more to say.
    """
    reader = Reader(body, f"an I2CP message of type {kind}")
    try:
        match kind:
            case Type.SET_DATE:
                date_ms = reader.number(8)
                return SetDate(date_ms, _string(reader) if reader.position < len(body) else "")
            case Type.SESSION_STATUS:
                return SessionStatus(reader.number(2), reader.number(1))
            case Type.REQUEST_VARIABLE_LEASE_SET:
                session, count = reader.number(2), reader.number(1)
                return RequestVariableLeaseSet(session, reader.take(count * _LEASE_BYTES))
            case Type.MESSAGE_PAYLOAD:
                session, _ = reader.number(2), reader.number(4)
                return MessagePayload(session, reader.take(reader.number(4)))
            case Type.DISCONNECT:
                return Disconnect(_string(reader) if body else "")
            case _:
                return Unused(kind)
    except StructureError as error:
        raise MalformedError(f"the router sent a broken message: {error}") from error


class Decoder:
    """Messages out of a stream that arrives in pieces of any size.

    It holds at most one frame that is not whole, and the piece that was fed last.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next piece of the stream. Then call `next` until it returns None."""
        self._buffer += data

    def next(self) -> RouterMessage | None:
        """Return the next message, None while it is not whole.

        Raises `MalformedError` at the first frame that is broken, and from then on at every call.
        """
        if len(self._buffer) < _HEADER.size:
            return None
        length, kind = _HEADER.unpack_from(self._buffer)
        if length > MAX_BODY_BYTES:
            raise MalformedError(
                f"a message of {length} bytes is announced, and I2CP has none over {MAX_BODY_BYTES}: is it I2CP?"
            )
        end = _HEADER.size + length
        if len(self._buffer) < end:
            return None
        message = read_message(kind, bytes(memoryview(self._buffer)[_HEADER.size : end]))
        del self._buffer[:end]
        return message

    @property
    def buffered(self) -> int:
        """Bytes that make no whole message yet."""
        return len(self._buffer)


# To a router -------------------------------------------------------------------------------------------------------


def get_date(version: str, login: tuple[str, str] | None = None) -> bytes:
    """Ask for the date, which opens the conversation.

    `version`: what we claim to speak. `login`: user name and password, where Java asks for them. Both as
    `encode_mapping` takes them; its `LimitError` shows the text, so check a password before.
    """
    body = bytes([len(version)]) + version.encode("ascii")
    if login is not None:
        body += encode_mapping({"i2cp.username": login[0], "i2cp.password": login[1]})
    return _frame(Type.GET_DATE, body)


def create_session(config: bytes) -> bytes:
    """Ask to act as a destination. `config`: a signed SessionConfig, up to 64 KiB."""
    return _frame(Type.CREATE_SESSION, config)


def create_lease_set2(session: int, lease_set: bytes, *, key_count: bool) -> bytes:
    """Give the router a Meta lease set, asked or unasked.

    `key_count`: whether the number of private keys follows, none in a Meta lease set. i2pd needs it, and drops the set
    without a word when it is missing. Java does not read it, and takes it for the start of the next message.
    """
    keys = _NO_PRIVATE_KEYS if key_count else b""
    return _frame(Type.CREATE_LEASE_SET2, _NUMBER.pack(session) + bytes([STORE_TYPE]) + lease_set + keys)


def create_service_lease_set(session: int, lease_set: bytes, private_keys: Sequence[tuple[int, bytes]]) -> bytes:
    """Give the router the lease set of a service, asked or unasked, and what it needs to decrypt for it.

    `private_keys`: encryption type and private key, in the order of the set's public ones. A secret, which is why I2CP
    without TLS stays on this machine.
    """
    body = bytearray(_NUMBER.pack(session) + bytes([service_set.STORE_TYPE]) + lease_set + bytes([len(private_keys)]))
    for kind, key in private_keys:
        body += _NUMBER.pack(kind) + _NUMBER.pack(len(key)) + key
    return _frame(Type.CREATE_LEASE_SET2, bytes(body))


def send_message(session: int, destination: bytes, payload: bytes, expires_ms: int) -> bytes:
    """Send a packed payload to a destination, without being told what becomes of it (SendMessageExpires, nonce 0).

    `expires_ms`: when the router may drop it, in milliseconds since the epoch.
    """
    tail = _NONCE_AND_FLAGS + expires_ms.to_bytes(6, "big")
    head = _NUMBER.pack(session) + destination + len(payload).to_bytes(4, "big")
    return _frame(Type.SEND_MESSAGE_EXPIRES, head + payload + tail)


def destroy_session(session: int) -> bytes:
    """End a session. i2pd says so and hangs up; Java hangs up."""
    return _frame(Type.DESTROY_SESSION, _NUMBER.pack(session))


def _frame(kind: Type, body: bytes) -> bytes:
    assert len(body) <= MAX_BODY_BYTES
    return _HEADER.pack(len(body), kind) + body


def _string(reader: Reader) -> str:
    raw = reader.take(reader.number(1))
    assert len(raw) <= MAX_STRING_BYTES
    text = raw.decode("utf-8", errors="replace")
    return "".join(character if character.isprintable() else "?" for character in text)
