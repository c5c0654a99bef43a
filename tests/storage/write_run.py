"""Writes a history by the threads of a node, and tells each step: in a process of its own, or in the test's process."""

import threading
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gf_i2p.raft.effects import Write
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.writer import LogWriter
from tests.storage.random_writes import open_log, writes

if TYPE_CHECKING:  # the child process has no installed package
    import pytest

SMALL_SIZES: Final = {
    # Small, so that a short run goes through the WAL several times.
    "database.WAL_BYTES": 128 << 10,
    "database.IDLE_CHECKPOINT_BYTES": 128 << 10,
    "database.CHECKPOINT_BYTES": 256 << 10,
    # Small blocks give a snapshot several rows, and let dropped rows outlast the transaction that drops them.
    "stored_snapshot.BLOCK_BYTES": 4 << 10,
    "log_tables.SWEEP_BYTES": 2 << 10,
    "log_tables.SWEEP_ROWS": 1,
}
"""Constants of `gf_i2p.storage` for these tests."""


def use_small_sizes(monkeypatch: "pytest.MonkeyPatch") -> None:
    for name, size in SMALL_SIZES.items():
        monkeypatch.setattr(f"gf_i2p.storage.{name}", size)


class WriteRun:
    """A writer's end: the open log, and whether the disk failed."""

    def __init__(self, storage: Storage, writer: LogWriter) -> None:
        self.storage = storage
        self.failed = False
        self._writer = writer

    def close(self) -> None:
        """End as a node does. Raises `StorageError`."""
        self._writer.stop()
        self.storage.close()


def write_history(
    path: Path,
    seed: int,
    done: int,
    limit: int,
    depth: int,
    say: Callable[[str], None],
    history: Iterable[Write] | None = None,
) -> WriteRun:
    """Open the log and write, as `tests.storage.writing_child` says. `history`: the writes, instead of those of `seed`.

    Raises `StorageError` when the log cannot be opened.
    """
    storage = open_log(path)
    say("opened")
    progress = threading.Condition()
    durable = done

    def on_durable(number: int) -> None:
        nonlocal durable
        say(str(number))
        with progress:
            durable = number
            progress.notify()

    def on_failure(error: BaseException) -> None:
        say(f"failed: {error}")
        with progress:
            run.failed = True
            progress.notify()

    def seen(write: Write) -> bool:
        try:
            last = write.first_index + len(write.entries) - 1
            return storage.read(last, last, 0) == [write.entries[-1]]
        except StorageError:
            return False

    writer = LogWriter(storage, on_durable=on_durable, on_failure=on_failure)
    run = WriteRun(storage, writer)
    writer.start()
    for number, write in enumerate(islice(history or writes(seed), done, limit), done + 1):
        watched = depth == 0 and bool(write.entries) and not seen(write)
        writer.submit(write._replace(number=number))
        while watched and not seen(write):
            pass
        if watched:
            say(f"seen {number}")
        with progress:
            while number - durable > depth and not run.failed:
                progress.wait()
        if run.failed:
            return run
    with progress:
        while durable < limit and not run.failed:
            progress.wait()
    return run
