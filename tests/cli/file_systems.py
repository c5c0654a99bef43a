"""A file system as `os.statvfs` tells it: full, or mounted read-only, which only root could make."""

import os
from types import SimpleNamespace
from typing import Any

import pytest


class FileSystem:
    """From now on, `os.statvfs` tells these fields in place of the real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **fields: int) -> None:
        self._real = os.statvfs
        self._fields = fields
        monkeypatch.setattr(os, "statvfs", self._told)

    def _told(self, path: Any) -> SimpleNamespace:
        real = self._real(path)
        names = [name for name in dir(real) if name.startswith("f_")]
        return SimpleNamespace(**{name: getattr(real, name) for name in names} | self._fields)
