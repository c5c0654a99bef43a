"""A process that exports until a kill.

`python -m tests.storage.history_child DIRECTORY SEED` goes on at the end of the directory's history, with files of a
few KiB, and prints the last index after each durable batch, a line each.
"""

import os
import random
import sys
from pathlib import Path

from gf_i2p.storage.history_writer import Rotation
from tests.storage.exported_log import entries, open_history, rotate


def main(directory: Path, seed: int) -> None:
    rng = random.Random(seed)
    history = open_history(directory, rotation=Rotation(bytes=3000))
    os.write(1, b"%d\n" % history.durable_index)
    while True:
        first = history.durable_index + 1
        history.append(entries(first, first + rng.choice((0, 3, 30))))
        os.write(1, b"%d\n" % history.durable_index)
        rotate(history)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
