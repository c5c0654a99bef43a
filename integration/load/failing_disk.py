"""Runs a Python program on a disk that fails at random under SQLite's files.

    python -m integration.load.failing_disk SEED ONE_IN -m MODULE ARGUMENTS...

One in ONE_IN of SQLite's reads, writes, truncations and syncs of a log fails: with an I/O error, or as on a full disk,
which takes the first sectors of a write. SEED decides which. Nothing lies: what succeeds is done.
"""

import errno
import os
import random
import runpy
import sys
from collections.abc import Sequence
from typing import Final

from gf_i2p.node.files.file_names import DATABASE_FILE
from integration.harness.sqlite_files import FileCall, Perform, SqliteFiles, first_sectors

_FAILING: Final = {"read", "write", "truncate", "sync"}
_installed: list[SqliteFiles] = []
"""Kept up to the end of the process: connections that nobody has closed are closed at the very end."""


def program(seed: int, one_in: int, inner: Sequence[str]) -> tuple[str, ...]:
    """Return the Python arguments that run the program `inner`, "-m" and a module first, on a failing disk."""
    return ("-m", "integration.load.failing_disk", str(seed), str(one_in), *inner)


class FailingDisk:
    """The argument of `SqliteFiles` that lets operations on the log fail."""

    def __init__(self, seed: int, one_in: int) -> None:
        """`one_in`: 1 (all operations fail) or more."""
        self.failed = 0
        self._rng = random.Random(seed)
        self._one_in = one_in

    def __call__(self, call: FileCall, perform: Perform) -> None:
        """Perform the operation, or raise `OSError`."""
        ours = call.name in _FAILING and call.path.name.startswith(DATABASE_FILE)
        if not ours or self._rng.randrange(self._one_in):
            perform(call)
            return
        self.failed += 1
        code = errno.EIO
        if call.name == "write" and self._rng.random() < 0.5:
            code = errno.ENOSPC
            if part := first_sectors(call.data, call.offset, self._rng):
                perform(call._replace(data=part))
        raise OSError(code, os.strerror(code))


def main(arguments: Sequence[str]) -> None:
    """Run the module that the arguments name, as `python -m` does."""
    seed, one_in, _, module, *rest = arguments
    _installed.append(SqliteFiles(FailingDisk(int(seed), int(one_in))))
    _installed[0].__enter__()
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
