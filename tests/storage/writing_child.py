"""A process that writes until a kill, for the tests that kill.

`python -m tests.storage.writing_child PATH SEED DONE LIMIT DEPTH [CLOSE]`: goes on with the history of SEED after DONE
writes, up to LIMIT writes, with at most DEPTH of them not yet durable. Says "opened", then the number of each durable
write, a line each, or "failed: ..." when the disk fails; ends without closing anything, or says "closed" when CLOSE is
1. With DEPTH 0 the process submits one write at a time and says "seen N" as soon as a reader finds the last entry. With
PATH alone the process creates the log and says "created".
"""

import os
import sys
import threading
from itertools import islice
from pathlib import Path

from gf_i2p.raft.effects import Write
from gf_i2p.storage import database, log_tables, stored_snapshot
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.writer import LogWriter
from tests.storage.random_writes import create, open_log, writes

# Small, so that a short run goes through the WAL several times.
database.WAL_BYTES = 128 << 10  # type: ignore[misc]
database.IDLE_CHECKPOINT_BYTES = 128 << 10  # type: ignore[misc]
database.CHECKPOINT_BYTES = 256 << 10  # type: ignore[misc]
# Small blocks give a snapshot several rows, and let dropped rows outlast the transaction that drops them.
stored_snapshot.BLOCK_BYTES = 4 << 10  # type: ignore[misc]
log_tables.SWEEP_BYTES = 2 << 10  # type: ignore[misc]
log_tables.SWEEP_ROWS = 1  # type: ignore[misc]


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def main(path: Path, seed: int, done: int, limit: int, depth: int, close: int = 0) -> None:
    if depth == 0:
        # Nothing but the writes in question shall reach the WAL.
        database.IDLE_CHECKPOINT_BYTES = 1 << 40  # type: ignore[misc]
        database.CHECKPOINT_BYTES = 1 << 40  # type: ignore[misc]
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
        os._exit(1)

    def seen(write: Write) -> bool:
        try:
            last = write.first_index + len(write.entries) - 1
            return storage.read(last, last, 0) == [write.entries[-1]]
        except StorageError:
            return False

    writer = LogWriter(storage, on_durable=on_durable, on_failure=on_failure)
    writer.start()
    for number, write in enumerate(islice(writes(seed), done, limit), done + 1):
        watched = depth == 0 and bool(write.entries) and not seen(write)
        writer.submit(write._replace(number=number))
        while watched and not seen(write):
            pass
        if watched:
            say(f"seen {number}")
        with progress:
            while number - durable > depth:
                progress.wait()
    with progress:
        while durable < limit:
            progress.wait()
    if close:
        writer.stop()
        storage.close()
        say("closed")
    os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    else:
        create(Path(sys.argv[1]).parent)
        say("created")
