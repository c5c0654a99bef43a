"""SQLite's operations on files, passed through a function of this process that may change or refuse each operation.

The standard module `sqlite3` and the real SQLite run above, SQLite's own code for Unix files below. SQLite finds its
file functions by a table of pointers (https://www.sqlite.org/vfs.html). A second table, the default while installed,
has pointers to Python functions. No compiler and no preloaded library is needed.

Locks and the shared index of the write-ahead log (`-shm`) do not pass through: the index never outlives a crash.
"""

import ctypes
import errno
import importlib
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

_NAME: Final = b"gf-i2p-observed"
_CREATE: Final = 0x4  # SQLITE_OPEN_CREATE
_FULL: Final = 13  # SQLITE_FULL
_IO_ERROR: Final = 10  # SQLITE_IOERR; the kind of operation is in the next byte
_KINDS: Final = {"read": 1, "write": 3, "sync": 4, "truncate": 6, "delete": 10}
_CANNOT_OPEN: Final = 14  # SQLITE_CANTOPEN


SECTOR_BYTES: Final = 512
"""A disk writes a sector as a whole, or not at all."""


class FileCall(NamedTuple):
    """An operation of SQLite on a file."""

    name: str
    """ "open" (of a file that may be created), "read", "write", "truncate", "sync" or "delete"."""
    path: Path
    offset: int = 0
    """Of a read or write; the new length, of "truncate"."""
    data: bytes = b""
    """Bytes to write."""


Perform = Callable[[FileCall], None]
"""Performs an operation. Raises `OSError` when the operation fails."""
Handler = Callable[[FileCall, Perform], None]
"""Performs the operation by `Perform`, another one, or none. `OSError` becomes an error that SQLite knows."""


def first_sectors(data: bytes, offset: int, rng: random.Random) -> bytes:
    """Return a random beginning of a write at this offset, perhaps no byte: a write that fails may do this much."""
    end = rng.randrange(offset, offset + len(data)) // SECTOR_BYTES * SECTOR_BYTES
    return data[: max(end - offset, 0)]


class _Vfs(ctypes.Structure):
    """The beginning of `sqlite3_vfs`; the other pointers are copied as they are."""


_Open = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_Delete = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
_Transfer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)

_Vfs._fields_ = [
    ("version", ctypes.c_int),
    ("file_bytes", ctypes.c_int),
    ("longest_path", ctypes.c_int),
    ("next", ctypes.c_void_p),
    ("name", ctypes.c_char_p),
    ("data", ctypes.c_void_p),
    ("open", _Open),
    ("delete", _Delete),
    ("others", ctypes.c_void_p * 15),  # up to version 3
]


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, up to version 3."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("close", ctypes.c_void_p),
        ("read", _Transfer),
        ("write", _Transfer),
        ("truncate", _Truncate),
        ("sync", _Sync),
        ("others", ctypes.c_void_p * 13),
    ]


class _File(ctypes.Structure):
    _fields_ = [("methods", ctypes.POINTER(_Methods))]


class _Failed(Exception):  # noqa: N818 -- never leaves this module
    """SQLite's own code has failed, with this result."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def why_not() -> str | None:
    """Return why SQLite's operations cannot be observed here; None: they can."""
    try:
        _library()
    except (OSError, AttributeError, ImportError) as error:
        return f"the SQLite of this Python cannot be reached: {error}"
    return None


def _library() -> ctypes.CDLL:
    """Return the SQLite that the module `sqlite3` uses."""
    library = ctypes.CDLL(importlib.import_module("_sqlite3").__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
    library.sqlite3_vfs_register.argtypes = [ctypes.POINTER(_Vfs), ctypes.c_int]
    library.sqlite3_vfs_unregister.argtypes = [ctypes.POINTER(_Vfs)]
    return library


class SqliteFiles:
    """Passes the operations of all connections that are opened inside the `with` block to `handler`.

    Close these connections before the block ends. Use one such block at a time. `handler` runs in the thread of the
    connection. Any other exception than `OSError` counts as a failed operation; `error` keeps the first one.
    """

    def __init__(self, handler: Handler) -> None:
        self.error: BaseException | None = None
        self._handler = handler
        self._library = _library()
        self._paths: dict[int, Path] = {}
        self._methods: dict[int, _Methods] = {}
        self._kept: list[Any] = []
        """Python functions that SQLite may still call."""
        self._original = self._library.sqlite3_vfs_find(None).contents
        if self._original.name == _NAME:
            raise RuntimeError("SQLite's operations are observed already")
        self._vfs = _Vfs()
        size = ctypes.sizeof(_Vfs)
        ctypes.memmove(ctypes.byref(self._vfs), ctypes.byref(self._original), size)
        self._vfs.next = None
        self._vfs.name = _NAME
        self._vfs.open = self._keep(_Open(self._open))
        self._vfs.delete = self._keep(_Delete(self._delete))

    def __enter__(self) -> Self:
        sqlite3.connect(":memory:").close()  # initializes SQLite
        self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._library.sqlite3_vfs_unregister(ctypes.byref(self._vfs))

    def _keep(self, function: Any) -> Any:
        self._kept.append(function)
        return function

    def _pass(self, call: FileCall, perform: Perform) -> int:
        """Let the handler decide, and return SQLite's result."""
        try:
            self._handler(call, perform)
        except _Failed as failed:
            return failed.code
        except OSError as error:
            if error.errno == errno.ENOSPC and call.name in {"write", "truncate"}:
                return _FULL
            return _CANNOT_OPEN if call.name == "open" else _IO_ERROR | _KINDS[call.name] << 8
        except BaseException as error:  # noqa: BLE001 -- C cannot take it
            self.error = self.error or error
            return _CANNOT_OPEN if call.name == "open" else _IO_ERROR | _KINDS[call.name] << 8
        return 0

    def _open(self, _vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        path = Path(os.fsdecode(ctypes.string_at(name))) if name else None

        def perform(_: FileCall) -> None:
            _check(self._original.open(ctypes.addressof(self._original), name, file, flags, out))

        if path is None or not flags & _CREATE:
            code: int = self._original.open(ctypes.addressof(self._original), name, file, flags, out)
        else:
            code = self._pass(FileCall("open", path), perform)
        opened = _File.from_address(file)
        if code == 0 and path is not None:
            self._paths[file] = path
            self._observe(opened)
        elif code:
            opened.methods = None  # SQLite would close a file that has methods
        return code

    def _observe(self, file: _File) -> None:
        """Put our functions between SQLite and the functions of this file."""
        address = ctypes.addressof(file.methods.contents)
        if address not in self._methods:
            real = file.methods.contents
            methods = _Methods()
            ctypes.memmove(ctypes.byref(methods), ctypes.byref(real), ctypes.sizeof(_Methods))
            methods.read = self._keep(_Transfer(self._read(real)))
            methods.write = self._keep(_Transfer(self._write(real)))
            methods.truncate = self._keep(_Truncate(self._truncate(real)))
            methods.sync = self._keep(_Sync(self._sync(real)))
            self._methods[address] = methods
        file.methods = ctypes.pointer(self._methods[address])

    def _read(self, real: _Methods) -> Callable[[int, int, int, int], int]:
        def read(file: int, buffer: int, size: int, offset: int) -> int:
            def perform(call: FileCall) -> None:
                _check(real.read(file, buffer, size, call.offset))

            return self._pass(FileCall("read", self._paths[file], offset), perform)

        return read

    def _write(self, real: _Methods) -> Callable[[int, int, int, int], int]:
        def write(file: int, buffer: int, size: int, offset: int) -> int:
            def perform(call: FileCall) -> None:
                _check(
                    real.write(
                        file, ctypes.cast(ctypes.c_char_p(call.data), ctypes.c_void_p), len(call.data), call.offset
                    )
                )

            return self._pass(FileCall("write", self._paths[file], offset, ctypes.string_at(buffer, size)), perform)

        return write

    def _truncate(self, real: _Methods) -> Callable[[int, int], int]:
        def truncate(file: int, size: int) -> int:
            def perform(call: FileCall) -> None:
                _check(real.truncate(file, call.offset))

            return self._pass(FileCall("truncate", self._paths[file], size), perform)

        return truncate

    def _sync(self, real: _Methods) -> Callable[[int, int], int]:
        def sync(file: int, flags: int) -> int:
            def perform(_: FileCall) -> None:
                _check(real.sync(file, flags))

            return self._pass(FileCall("sync", self._paths[file]), perform)

        return sync

    def _delete(self, _vfs: int, name: bytes, sync_directory: int) -> int:
        def perform(call: FileCall) -> None:
            path = os.fsencode(call.path)
            _check(self._original.delete(ctypes.addressof(self._original), path, sync_directory))

        return self._pass(FileCall("delete", Path(os.fsdecode(name))), perform)


def _check(code: int) -> None:
    if code:
        raise _Failed(code)
