"""A run of the real storage, recorded operation by operation, from creation to a clean end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from integration.harness.sqlite_files import SqliteFiles
from tests.storage.disk_after_crash import Call, Disk
from tests.storage.file_operations import Operations
from tests.storage.random_writes import State, create, writes
from tests.storage.write_run import write_history


class Recorded:
    """The changes of a run, and the states that the run went through."""

    def __init__(self, directory: Path, seed: int, *, count: int, depth: int, matching: bool = False) -> None:
        """Run in `directory`, which is made."""
        directory.mkdir()
        self.directory = directory
        self.disk = Disk(directory)
        """The disk before the run."""
        self.history = list(islice(writes(seed, matching=matching), count))
        self.states = [State()]
        for write in self.history:
            self.states.append(self.states[-1].after(write))
        with pytest.MonkeyPatch.context() as patch:
            operations = Operations(directory, patch)
            self.calls = operations.record
            """All changes, with "opened", the number of each durable write, and "closed" as writes to "said"."""

            def say(line: str) -> None:
                self.calls.append(Call("write", "said", line.encode(), [], len(line)))

            with SqliteFiles(operations.take_from_sqlite) as files:
                path = create(directory)
                say("created")
                half = count // 2
                for done, limit in ((0, half), (half, count)):
                    run = write_history(path, seed, done, limit, depth, say, self.history)
                    run.close()
                say("closed")
            assert files.error is None


def acknowledged_by(call: Call, before: int) -> int:
    """The number of the last acknowledged write after this call."""
    return int(call.data) if call.file == "said" and call.data.isdigit() else before


@contextmanager
def without_syncs() -> Iterator[None]:
    """Let syncs do nothing: no power fails here, except in the records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        with SqliteFiles(lambda call, perform: None if call.name == "sync" else perform(call)) as files:
            yield
        assert files.error is None
