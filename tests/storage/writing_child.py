"""A process that writes until a kill, for the tests that kill.

`python -m tests.storage.writing_child PATH SEED DONE LIMIT DEPTH [CLOSE]`: goes on with the history of SEED after DONE
writes, up to LIMIT writes, with at most DEPTH of them not yet durable. Says "opened", then the number of each durable
write, a line each, or "failed: ..." when the disk fails; ends without closing anything, or says "closed" when CLOSE is
1. With DEPTH 0 the process submits one write at a time and says "seen N" as soon as a reader finds the last entry. With
PATH alone the process creates the log and says "created".
"""

import os
import sys
from pathlib import Path

from tests.storage.random_writes import create
from tests.storage.write_run import SMALL_SIZES, write_history


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def main(path: Path, seed: int, done: int, limit: int, depth: int, close: int = 0) -> None:
    sizes = SMALL_SIZES
    if depth == 0:
        # Nothing but the writes in question shall reach the WAL.
        sizes = {**SMALL_SIZES, "database.IDLE_CHECKPOINT_BYTES": 1 << 40, "database.CHECKPOINT_BYTES": 1 << 40}
    for name, size in sizes.items():
        module, constant = name.split(".")
        setattr(sys.modules[f"gf_i2p.storage.{module}"], constant, size)
    run = write_history(path, seed, done, limit, depth, say)
    if run.failed:
        os._exit(1)
    if close:
        run.close()
        say("closed")
    os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    else:
        create(Path(sys.argv[1]).parent)
        say("created")
