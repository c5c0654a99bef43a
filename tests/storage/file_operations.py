"""This process's operations on the files of a directory, one after the other, and crashes between them."""

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.storage.disk_after_crash import File

_REAL: Final = {name: getattr(os, name) for name in ("open", "pwrite", "fsync", "ftruncate", "rename", "unlink")}


class CrashError(BaseException):
    """Simulates the end of the process: no code under test catches this error."""


class Operations:
    """Counts the changes below `directory` while installed, and keeps the synced and the unsynced contents.

    `before(number, name)` is called before each operation; `before` may raise.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.count = 0
        self.before: Callable[[int, str], None] = lambda *_: None
        self.partly: random.Random | None = None
        """A write that does not happen may still write some bytes."""
        self.files: dict[str, File] = {}
        self._synced_names: dict[str, File] = {}
        if directory.exists():
            self.files = {path.name: File(bytearray(path.read_bytes())) for path in directory.iterdir()}
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
        return path.name if path.parent == self.directory else None

    def _open(self, path: Any, flags: int, mode: int = 0o777, **kwargs: Any) -> int:
        if not flags & os.O_CREAT or Path(path).parent != self.directory:
            return _REAL["open"](path, flags, mode, **kwargs)  # type: ignore[no-any-return]
        self._next("open")
        descriptor: int = _REAL["open"](path, flags, mode, **kwargs)
        self.files[Path(path).name] = File()
        return descriptor

    def _pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        name = self._name(descriptor)
        if name is None:
            return _REAL["pwrite"](descriptor, data, offset)  # type: ignore[no-any-return]
        data = bytes(data)
        try:
            self._next("pwrite")
        except BaseException as error:
            full = isinstance(error, OSError) and error.errno == errno.ENOSPC
            if self.partly is not None or full:
                self._written(descriptor, name, data[: (self.partly or random.Random(0)).randrange(len(data))], offset)
            raise
        return self._written(descriptor, name, data, offset)

    def _written(self, descriptor: int, name: str, data: bytes, offset: int) -> int:
        written: int = _REAL["pwrite"](descriptor, data, offset)
        self.files[name].pending.append((offset, data[:written]))
        return written

    def _fsync(self, descriptor: int) -> None:
        name = self._name(descriptor)
        if name is not None:
            try:
                self._next("fsync")
            except OSError:
                if name != ".":
                    self.files[name].pending.clear()  # Linux takes the pages for written
                raise
            if name == ".":
                self._synced_names = self.files.copy()
            else:
                self.files[name].sync()

    def _ftruncate(self, descriptor: int, length: int) -> None:
        name = self._name(descriptor)
        if name is not None:
            self._next("ftruncate")
            self.files[name].pending.append((length, None))
        _REAL["ftruncate"](descriptor, length)

    def _rename(self, old: Any, new: Any) -> None:
        if Path(old).parent == self.directory:
            self._next("rename")
            self.files[Path(new).name] = self.files.pop(Path(old).name)
        _REAL["rename"](old, new)

    def _unlink(self, path: Any, **kwargs: Any) -> None:
        if Path(path).parent == self.directory and Path(path).exists():
            self._next("unlink")
            del self.files[Path(path).name]
        _REAL["unlink"](path, **kwargs)
