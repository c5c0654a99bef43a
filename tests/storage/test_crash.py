"""Kill -9 at random points: every acknowledged write is kept, and no write is kept in part."""

import random
import time
from itertools import islice
from pathlib import Path

from gf_i2p.storage.private_files import Lock
from tests.storage.disk_after_crash import start
from tests.storage.random_writes import State, create, stored_state, writes
from tests.tier import is_everything

KILLS = 24 if is_everything() else 8


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = create(tmp_path)
    state = State()
    done = unacknowledged = 0
    for kill in range(KILLS):
        depth = rng.choice((1, 3, 30))
        # Half of the children close the log, if they get so far, and the kill may hit the closing, too. The first child
        # writes for long, so that the later ones have much to lose.
        most, heard = (rng.choice((3, 1_000_000)), rng.choice((0, 1, 2, 10, 40))) if kill else (1_000_000, 40)
        with start(path, seed, done, done + most, depth, 1) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(heard)]
            # Anywhere in the next few transactions, or while the log is being opened.
            end = time.perf_counter() + rng.random() * 0.004
            while time.perf_counter() < end:
                pass
            child.kill()
            lines += child.stdout.readlines()
        least = max([done, *(int(line) for line in lines if line.strip().isdigit())])
        found = stored_state(path)
        history = islice(writes(seed), done, least + depth + 1)
        matches = [done] if state == found and least == done else []
        for number, write in enumerate(history, done + 1):
            state.apply(write)
            if number >= least and state == found:
                matches.append(number)
        assert matches, f"after {least} writes were acknowledged: {found} is not what any of them left"
        state, done = found, matches[-1]
        unacknowledged += done > least
    print(f"{done} writes; after {unacknowledged} kills there was more than had been acknowledged")
    assert done > KILLS


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    path = create(tmp_path)
    with start(path, 1, 0, 1_000_000, 1) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "opened\n"
        child.kill()
    Lock(path).close()
