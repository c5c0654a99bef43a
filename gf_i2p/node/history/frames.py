"""The frames between a node and the node's history process: a head in JSON, and a body of bytes.

A frame begins with the lengths of head and body, 4 bytes each, big-endian. The node sends requests, one at a time:

    {"do": "open", "directory": ..., "cluster": ..., "server": ..., "rotation": {...}}
    {"do": "append", "led": [term, leader] or null, "urgent": ...}
                                                         the body has the entries, as in an AppendEntries request;
                                                         what is not urgent waits for an idle machine, for a while;
                                                         all other requests are urgent
    {"do": "gap", "last": index, "servers": [...] or null}
    {"do": "rotate"}
    {"do": "check"}                                      is the file still in its place?

The process answers each request, and reports by itself how packing goes:

    {"durable": index, "due": ...}                       done; "due": a rotation is due
    {"durable": index, "due": ..., "error": {...}}       not done
    {"packing": {...} or null}                           why packing failed; null: packing goes on

The answer to "open" has "last_term" and "cut_bytes", too. Both ends are one program of one version on one machine, so
the frames have no version.
"""

import json
import struct
from collections.abc import Mapping
from io import RawIOBase
from typing import Any, Final

from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_reader import HistoryError
from gf_i2p.wire.limits import MAX_ENTRIES_BYTES

MAX_HEAD_BYTES: Final = 1 << 20

LENGTHS: Final = struct.Struct(">II")

Head = dict[str, Any]
Frame = tuple[Head, bytes]


class FrameError(Exception):
    """The bytes are no frame."""


def encode_frame(head: Mapping[str, Any], body: bytes = b"") -> tuple[bytes, bytes]:
    """Return the bytes of a frame in two pieces, so that nobody need copy a large body."""
    text = json.dumps(head, separators=(",", ":")).encode("utf-8")
    return LENGTHS.pack(len(text), len(body)) + text, body


def read_frame(source: RawIOBase) -> Frame | None:
    """Wait for a frame, and read it. None: the input has ended.

    A frame that ends early counts as the end: the sender was killed. Raises `FrameError`. `source` is not buffered: a
    thread that waits in a buffered file holds that file's lock, and the interpreter cannot end then.
    """
    start = _read(source, LENGTHS.size)
    if len(start) < LENGTHS.size:
        return None
    head_bytes, body_bytes = frame_lengths(start)
    head, body = _read(source, head_bytes), _read(source, body_bytes)
    if len(head) < head_bytes or len(body) < body_bytes:
        return None
    return frame_head(head), body


def _read(source: RawIOBase, size: int) -> bytes:
    """Read `size` bytes, or what there is until the end."""
    buffer = bytearray(size)
    view, end = memoryview(buffer), 0
    while end < size and (taken := source.readinto(view[end:])):
        end += taken
    return bytes(view[:end])


def frame_lengths(start: bytes) -> tuple[int, int]:
    """Read the lengths of head and body, in bytes. Raises `FrameError`."""
    head_bytes, body_bytes = LENGTHS.unpack(start)
    if head_bytes > MAX_HEAD_BYTES or body_bytes > MAX_ENTRIES_BYTES:
        raise FrameError(f"a frame of {head_bytes} and {body_bytes} bytes")
    return head_bytes, body_bytes


def frame_head(text: bytes) -> Head:
    """Read a frame's head. Raises `FrameError`."""
    try:
        head = json.loads(text)
    except ValueError:
        raise FrameError("a frame whose head is not JSON") from None
    if not isinstance(head, dict):
        raise FrameError("a frame whose head is not an object")
    return head


# Errors ---------------------------------------------------------------------------------------------------------------


def describe_error(error: StorageError | OSError) -> Head:
    """Describe an error for a frame."""
    if isinstance(error, StorageError):
        return {"text": str(error)}
    return {"errno": error.errno, "strerror": error.strerror, "filename": error.filename and str(error.filename)}


def error_of(described: Head) -> StorageError | OSError:
    """Return the error of a description by `describe_error`."""
    if "text" in described:
        return HistoryError(described["text"])
    return OSError(described["errno"], described["strerror"], described["filename"])
