"""This process's operations on the files of a directory, one after the other, and crashes and faults between them."""

import errno
import os
import random
import shutil
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest

from integration.harness.sqlite_files import FileCall, Perform, first_sectors
from tests.storage.disk_after_crash import Call, File

_NAMES: Final = ("open", "write", "pwrite", "fsync", "ftruncate", "rename", "unlink")
_REAL: Final = {name: getattr(os, name) for name in _NAMES}
_SQLITE: Final = {"open": "open", "write": "pwrite", "sync": "fsync", "truncate": "ftruncate", "delete": "unlink"}
"""The names of SQLite's operations here."""


class CrashError(BaseException):
    """Simulates the end of the process: no code under test catches this error."""


class Lie(Enum):
    """A disk that reports success."""

    LOST = "a write that never happens"
    MISDIRECTED = "a write to another place of the same file"
    UNSYNCED = "a sync that returns before anything is on the disk"


class Operations:
    """Counts the changes below `directory` while installed, and keeps the synced and the unsynced contents.

    `before(number, name)` is called before each operation; `before` may raise. SQLite's operations count, too, inside
    `SqliteFiles(operations.take_from_sqlite)`. Locks and SQLite's shared index do not count.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.count = 0
        self.before: Callable[[int, str], None] = lambda *_: None
        self.partly: random.Random | None = None
        """A write that does not happen may still write its first bytes, or SQLite's its first sectors."""
        self.lies: dict[int, Lie] = {}
        """Numbers of SQLite's operations that only seem to succeed."""
        self.place = 0
        """The offset of a write that goes to another place."""
        self.before_read: Callable[[int, str], None] = lambda *_: None
        """Called before each of SQLite's reads, with the number of the read and the file's name; may raise."""
        self.reads = 0
        self.record: list[Call] = []
        """All changes so far. `Disk` repeats them."""
        self.files: dict[str, File] = {}
        self._synced_names: dict[str, File] = {}
        if directory.exists():
            self.files = {
                path.name: File(bytearray(path.read_bytes())) for path in directory.iterdir() if _counts(path.name)
            }
            self._synced_names = self.files.copy()
        for name in _REAL:
            monkeypatch.setattr(os, name, getattr(self, f"_{name}"))

    def crash_at(self, number: int) -> None:
        """Suppress this operation and all later ones."""

        def before(count: int, _: str) -> None:
            if count >= number:
                raise CrashError

        self.before = before

    def cut(self, directory: Path, rng: random.Random) -> None:
        """Make `directory` as a power cut now may leave the files."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for name in sorted(self.files.keys() | self._synced_names.keys()):
            file = rng.choice((self.files, self._synced_names)).get(name)
            if file is not None:
                (directory / name).write_bytes(file.after_a_cut(rng))

    def _next(self, name: str) -> None:
        self.count += 1
        self.before(self.count, name)

    def _name(self, descriptor: int) -> str | None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path == self.directory:
            return "."
        return path.name if path.parent == self.directory and _counts(path.name) else None

    def _noted(self, name: str, file: str, data: bytes = b"", numbers: tuple[int, ...] = ()) -> None:
        self.record.append(Call(name, file, data, list(numbers), len(data)))

    # SQLite's operations --------------------------------------------------------------------------------------------

    def take_from_sqlite(self, call: FileCall, perform: Perform) -> None:
        """Take an operation of SQLite: the argument of `SqliteFiles`."""
        name = call.path.name
        if call.path.parent != self.directory or not _counts(name) or (call.name == "open" and name in self.files):
            perform(call)
        elif call.name == "read":
            self.reads += 1
            self.before_read(self.reads, name)
            perform(call)
        else:
            getattr(self, f"_sqlite_{call.name}")(call, perform, name)

    def _sqlite_open(self, call: FileCall, perform: Perform, name: str) -> None:
        self._next("open")
        perform(call)
        self._created(name)

    def _sqlite_write(self, call: FileCall, perform: Perform, name: str) -> None:
        try:
            self._next("pwrite")
        except BaseException as error:
            rng = self._partly(error)
            if rng is not None and (part := first_sectors(call.data, call.offset, rng)):
                self._write_for_sqlite(call._replace(data=part), perform, name)
            raise
        match self.lies.get(self.count):
            case Lie.LOST:
                return
            case Lie.MISDIRECTED:
                call = call._replace(offset=self.place)
        self._write_for_sqlite(call, perform, name)

    def _write_for_sqlite(self, call: FileCall, perform: Perform, name: str) -> None:
        perform(call)
        self.files[name].pending.append((call.offset, call.data))
        self._noted("pwrite64", name, call.data, (len(call.data), call.offset))

    def _sqlite_truncate(self, call: FileCall, perform: Perform, name: str) -> None:
        self._next("ftruncate")
        perform(call)
        self.files[name].pending.append((call.offset, None))
        self._noted("ftruncate", name, numbers=(call.offset,))

    def _sqlite_sync(self, _call: FileCall, _perform: Perform, name: str) -> None:
        self._sync(name)

    def _sqlite_delete(self, call: FileCall, perform: Perform, name: str) -> None:
        if call.path.exists():
            self._next("unlink")
            del self.files[name]
            self._noted("unlink", name)
        perform(call)

    # The operations of `os` -----------------------------------------------------------------------------------------

    def _open(self, path: Any, flags: int, mode: int = 0o777, **kwargs: Any) -> int:
        name = Path(path).name
        creates = flags & os.O_CREAT and Path(path).parent == self.directory and _counts(name)
        if not creates or (name in self.files and not flags & os.O_EXCL):
            return _REAL["open"](path, flags, mode, **kwargs)  # type: ignore[no-any-return]
        self._next("open")
        descriptor: int = _REAL["open"](path, flags, mode, **kwargs)
        self._created(name)
        return descriptor

    def _created(self, name: str) -> None:
        self.files[name] = File()
        self._noted("openat", name)

    def _write(self, descriptor: int, data: Any) -> int:
        """Write at the end: the only use of `os.write` under test."""
        name = self._name(descriptor)
        if name is None:
            return _REAL["write"](descriptor, data)  # type: ignore[no-any-return]
        return self._pwrite(descriptor, data, self.files[name].size)

    def _pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        name = self._name(descriptor)
        if name is None:
            return _REAL["pwrite"](descriptor, data, offset)  # type: ignore[no-any-return]
        data = bytes(data)
        try:
            self._next("pwrite")
        except BaseException as error:
            rng = self._partly(error)
            if rng is not None:
                grows = offset >= self.files[name].size
                part = data[: rng.randrange(len(data))] if grows else first_sectors(data, offset, rng)
                self._written(descriptor, name, part, offset)
            raise
        return self._written(descriptor, name, data, offset)

    def _partly(self, error: BaseException) -> random.Random | None:
        """Return the source of how much a write has written that fails with this error; None: no byte."""
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        return self.partly or (random.Random(0) if full else None)

    def _written(self, descriptor: int, name: str, data: bytes, offset: int) -> int:
        written: int = _REAL["pwrite"](descriptor, data, offset)
        self.files[name].pending.append((offset, data[:written]))
        self._noted("pwrite64", name, data[:written], (len(data), offset))
        return written

    def _fsync(self, descriptor: int) -> None:
        name = self._name(descriptor)
        if name is not None:
            self._sync(name)

    def _sync(self, name: str) -> None:
        try:
            self._next("fsync")
        except OSError:
            if name != ".":
                self.files[name].pending.clear()  # Linux takes the pages for written
            raise
        if self.lies.get(self.count) is Lie.UNSYNCED:
            return
        if name == ".":
            self._synced_names = self.files.copy()
            self._noted("fsync", self.directory.name)
        else:
            self.files[name].sync()
            self._noted("fsync", name)

    def _ftruncate(self, descriptor: int, length: int) -> None:
        name = self._name(descriptor)
        if name is not None:
            self._next("ftruncate")
            self.files[name].pending.append((length, None))
            self._noted("ftruncate", name, numbers=(length,))
        _REAL["ftruncate"](descriptor, length)

    def _rename(self, old: Any, new: Any) -> None:
        if Path(old).parent == self.directory:
            self._next("rename")
            self.files[Path(new).name] = self.files.pop(Path(old).name)
            self._noted("rename", Path(old).name, os.fsencode(Path(new).name))
        _REAL["rename"](old, new)

    def _unlink(self, path: Any, **kwargs: Any) -> None:
        if Path(path).parent == self.directory and Path(path).exists():
            self._next("unlink")
            del self.files[Path(path).name]
            self._noted("unlink", Path(path).name)
        _REAL["unlink"](path, **kwargs)


def _counts(name: str) -> bool:
    return not name.endswith(("-lock", "-shm"))
