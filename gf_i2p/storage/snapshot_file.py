"""A farm's snapshot in a file of its own: `gf-i2p snapshot save` writes the file, and `restore` begins a log with it.

    magic       8 bytes  89 "GFS" 0D 0A 1A 0A: shows text-mode copies at once, as with PNG
    format      u32      1
    sizes       u16 u32 u64   of cluster, Configuration and data
    server      u32      id of the server that saved the file
    index       u64      of the last entry that the snapshot covers
    term        u64      of that entry
    reached     u64      the server's term at that time; the server had seen no entry of a later term
    saved       u64      time, ms since the epoch
    committed   u64      last index known as committed; below `index` only in a stopped server's file
    cluster     ASCII
    Configuration        as in the log (proposal 150, "Log Contents")
    data                 the state, opaque here
    SHA-256     32 bytes over everything before it

Numbers are big-endian. All sizes are checked against the limits, and against the length of the file, before data of
these sizes are read. The checksum finds damage, not forgery: whoever can write the file can also compute a checksum.
"""

import hashlib
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.raft.effects import Snapshot
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.errors import LocalProtocolError, ProtocolError
from gf_i2p.wire.limits import MAX_CONFIGURATION_BYTES, MAX_ID, MAX_INTEGER, MAX_NAME_BYTES, MAX_SNAPSHOT_BYTES
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.names import check_name

FORMAT: Final = 1
MAGIC: Final = b"\x89GFS\r\n\x1a\n"
_HEAD: Final = struct.Struct(">8sIHIQIQQQQQ")
_START: Final = struct.Struct(">8sI")
_DIGEST_BYTES: Final = hashlib.sha256().digest_size
_MAX_TIME_MS: Final = 2**53 - 1
MAX_FILE_BYTES: Final = _HEAD.size + MAX_NAME_BYTES + MAX_CONFIGURATION_BYTES + MAX_SNAPSHOT_BYTES + _DIGEST_BYTES
"""Most bytes of a snapshot's file."""


class SnapshotFileError(StorageError):
    """The file is not a usable snapshot. `str()` says why and how to go on.

    Only `load_snapshot_file` adds the file's name.
    """


@dataclass(frozen=True, slots=True)
class SavedSnapshot:
    """A snapshot, with the farm, server, term and time of its saving."""

    cluster: str
    server_id: int
    """Server that saved the snapshot: 0 to 2^32-2."""
    reached: int
    """The server's term at the time of saving: at least `snapshot.term`."""
    saved_ms: int
    """Time of saving, in ms since the epoch."""
    committed: int
    """Index up to which all entries are known as committed, 0 to `snapshot.index`."""
    snapshot: Snapshot

    def encode(self) -> bytes:
        """Return the content of the file. Raises `LocalProtocolError` when a value is out of range."""
        snapshot = self.snapshot
        try:
            cluster = check_name("cluster name", self.cluster).encode("ascii")
        except ValueError as error:
            raise LocalProtocolError(str(error)) from error
        configuration = snapshot.configuration.encode()
        fault = _fault(self) or _size_fault(len(cluster), len(configuration), len(snapshot.data))
        if fault is not None:
            raise LocalProtocolError(fault)
        head = _HEAD.pack(
            MAGIC,
            FORMAT,
            len(cluster),
            len(configuration),
            len(snapshot.data),
            self.server_id,
            snapshot.index,
            snapshot.term,
            self.reached,
            self.saved_ms,
            self.committed,
        )
        digest = hashlib.sha256()
        parts = (head, cluster, configuration, snapshot.data)
        for part in parts:
            digest.update(part)
        return b"".join((*parts, digest.digest()))

    @classmethod
    def decode(cls, data: bytes) -> "SavedSnapshot":
        """Read the content of a file. Raises `SnapshotFileError` for bytes that are not an undamaged snapshot."""
        sizes = _sizes(data[: _HEAD.size], len(data))
        end = len(data) - _DIGEST_BYTES
        if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
            raise _damaged("it does not match its checksum")
        *_, server_id, index, term, reached, saved_ms, committed = _HEAD.unpack_from(data)
        offset = _HEAD.size
        pieces = []
        for size in sizes:
            pieces.append(data[offset : offset + size])
            offset += size
        name, configuration, state = pieces
        try:
            cluster = check_name("cluster name", name.decode("ascii"))
            snapshot = Snapshot(index, term, Configuration.decode(configuration), state)
        except (ValueError, ProtocolError) as error:
            raise _damaged(str(error)) from error
        saved = cls(cluster, server_id, reached, saved_ms, committed, snapshot)
        fault = _fault(saved)
        if fault is not None:
            raise _damaged(fault)
        return saved


def load_snapshot_file(path: Path) -> SavedSnapshot:
    """Read a snapshot's file. Raises `OSError`, and `SnapshotFileError`, whose text names the file."""
    try:
        return _load(path)
    except SnapshotFileError as error:
        raise SnapshotFileError(f"{path} cannot be used: {error}") from error


def _load(path: Path) -> SavedSnapshot:
    # Non-blocking: to open a pipe must not wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SnapshotFileError("it is not a regular file: name a file that `gf-i2p snapshot save` has written")
        with open(descriptor, "rb", closefd=False) as file:
            head = file.read(_HEAD.size)
            _sizes(head, status.st_size)
            return SavedSnapshot.decode(head + file.read(status.st_size - len(head)))
    finally:
        os.close(descriptor)


def _sizes(head: bytes, length: int) -> tuple[int, int, int]:
    """Return the sizes of cluster, Configuration and data, which the head of a file of `length` bytes names.

    Raises `SnapshotFileError` when the head is damaged, or does not fit the file's length.
    """
    if not head:
        raise _damaged("it is empty")
    if not MAGIC.startswith(head[: len(MAGIC)]):
        raise SnapshotFileError("it is not a farm's snapshot: name a file that `gf-i2p snapshot save` has written")
    if len(head) >= _START.size and (number := _START.unpack_from(head)[1]) != FORMAT:
        raise SnapshotFileError(
            f"it has the format {number}, and this program reads only {FORMAT}. If a newer gf-i2p wrote the file, "
            "install that version here, too. Otherwise the file is damaged: take another copy"
        )
    if len(head) < _HEAD.size:
        raise _damaged(f"it has only {length} bytes")
    _, _, cluster, configuration, data, *_ = _HEAD.unpack(head)
    fault = _size_fault(cluster, configuration, data)
    if fault is not None:
        raise _damaged(fault)
    expected = _HEAD.size + cluster + configuration + data + _DIGEST_BYTES
    if length != expected:
        raise _damaged(f"it has {length} bytes, and should have {expected}")
    return cluster, configuration, data


def _size_fault(cluster: int, configuration: int, data: int) -> str | None:
    if not 1 <= cluster <= MAX_NAME_BYTES:
        return f"a cluster's name of {cluster} bytes; 1 to {MAX_NAME_BYTES} are legal"
    if configuration > MAX_CONFIGURATION_BYTES:
        return f"a Configuration of {configuration} bytes; up to {MAX_CONFIGURATION_BYTES} are legal"
    if not 1 <= data <= MAX_SNAPSHOT_BYTES:
        return f"a state of {data} bytes; 1 to {MAX_SNAPSHOT_BYTES} are legal"
    return None


def _fault(saved: SavedSnapshot) -> str | None:
    """Describe the first number that is out of range; None: all numbers are in range."""
    index, term = saved.snapshot.index, saved.snapshot.term
    if not (1 <= index <= MAX_INTEGER and 1 <= term <= saved.reached <= MAX_INTEGER):
        return f"it names entry {index} of term {term}, saved in term {saved.reached}, which is impossible"
    if not 0 <= saved.server_id < MAX_ID:
        return f"no server has the id {saved.server_id}"
    if not 0 <= saved.saved_ms <= _MAX_TIME_MS:
        return f"its time of saving is impossible: {saved.saved_ms} ms after 1970"
    if not 0 <= saved.committed <= index:
        return f"it ends with entry {index}, but says that entries up to {saved.committed} are committed"
    if saved.snapshot.configuration.log_index > index:
        return (
            f"its Configuration is from entry {saved.snapshot.configuration.log_index}, but it ends with entry {index}"
        )
    return None


def _damaged(fault: str) -> SnapshotFileError:
    return SnapshotFileError(f"it is damaged ({fault}). Take another copy of the file, or another snapshot")
