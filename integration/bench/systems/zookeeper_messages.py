"""The few messages of ZooKeeper's client protocol that the benchmark needs, encoded by hand.

Layouts: zookeeper.jute of ZooKeeper 3.8: numbers are big-endian, a string or buffer follows its length. No I/O.
"""

import re
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

CREATE: Final = 1
SET_DATA: Final = 5
MULTI: Final = 14
PING: Final = 11
PING_XID: Final = -2
"""The number of every ping, and of its answer."""
NODE_EXISTS: Final = -110
LENGTH: Final = struct.Struct(">i")
_SESSION_MS: Final = 30_000
_ANY_VERSION: Final = LENGTH.pack(-1)
_MULTI_HEADER: Final = struct.Struct(">i?i")  # type, done, error
_REPLY_HEADER: Final = struct.Struct(">iqi")  # xid, zxid, error
_REQUEST_HEADER: Final = struct.Struct(">iii")  # length of what follows, xid, type
_ALL_RIGHTS: Final = 31


class Reply(NamedTuple):
    """The header of an answer: the number of the request, the newest transaction of the server, the error (0: none)."""

    xid: int
    zxid: int
    error: int


def _buffer(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def connect_request() -> bytes:
    """Return a ConnectRequest for a new session, with its length in front."""
    return _buffer(struct.pack(">iqiq", 0, 0, _SESSION_MS, 0) + _buffer(bytes(16)) + b"\0")


def request(xid: int, kind: int, body: bytes) -> bytes:
    """Return a request with its length in front; `kind`: one of the types above."""
    return _REQUEST_HEADER.pack(len(body) + 8, xid, kind) + body


def create_body(path: bytes) -> bytes:
    """Return the body of a request for an empty, lasting znode that everybody may change."""
    rights = LENGTH.pack(1) + LENGTH.pack(_ALL_RIGHTS) + _buffer(b"world") + _buffer(b"anyone")
    return _buffer(path) + _buffer(b"") + rights + LENGTH.pack(0)


def set_body(path: bytes, value: bytes) -> bytes:
    """Return the body of a request that sets a znode's value, whatever its version."""
    return _buffer(path) + _buffer(value) + _ANY_VERSION


def multi_body(paths: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """Return the body of a request that sets several znodes in one transaction."""
    header = _MULTI_HEADER.pack(SET_DATA, False, -1)
    operations = [header + set_body(path, value) for path, value in zip(paths, values, strict=True)]
    return b"".join([*operations, _MULTI_HEADER.pack(-1, True, -1)])


def reply(message: bytes) -> Reply:
    """Return the header of an answer, which `message` begins with. Raises ValueError for fewer bytes."""
    if len(message) < _REPLY_HEADER.size:
        raise ValueError(f"an answer of {len(message)} bytes has no header")
    return Reply(*_REPLY_HEADER.unpack_from(message))


def leads(status: str) -> bool:
    """Return whether a server leads, by its answer to the four-letter word `srvr`."""
    return "\nMode: leader" in status


def applied(status: str) -> int | None:
    """Return the newest transaction that a server has applied, by its answer to `srvr`; None: it serves nobody."""
    found = re.search(r"^Zxid: 0x([0-9a-f]+)$", status, re.MULTILINE)
    return None if found is None else int(found[1], 16)
