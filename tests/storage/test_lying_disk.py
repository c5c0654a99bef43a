"""A disk that lies below the caches of the system: a write is lost or misplaced, a sync has no effect, the power fails.

At the next start the log is refused, or is the log as some write left it. One lie costs at most two transactions
unnoticed, a misplaced write four: docs/design/storage.md says which.
"""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.schema import PAGE_BYTES
from integration.harness.sqlite_files import why_not
from tests.storage.disk_after_crash import Call, Disk
from tests.storage.random_writes import State, eventful_seed, newest_write, open_log, state_beside_snapshot
from tests.storage.recorded_run import Recorded, acknowledged_by, without_syncs
from tests.storage.write_run import use_small_sizes
from tests.tier import is_everything

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

COUNT: Final = 40
TRIES: Final = 1500 if is_everything() else 25
LOST, MISPLACED, UNSYNCED, ALL_UNSYNCED = (
    "a lost write",
    "a misplaced write",
    "one sync lies",
    "all syncs lie from one on",
)
UNNOTICED: Final = {LOST: 2, MISPLACED: 4, UNSYNCED: 2, ALL_UNSYNCED: COUNT}
"""The most transactions that are lost without a refusal. A misplaced write damages two places."""


def lied(calls: list[Call], at: int, what: str, rng: random.Random) -> list[Call]:
    """Return the calls that reach the disk, when the disk lies about the call at this position."""
    call = calls[at]
    if what == MISPLACED:
        size, offset = call.numbers
        unit, begin = (PAGE_BYTES, 0) if call.file == "log.db" else (PAGE_BYTES + 24, 32)
        other = max(0, offset + unit * rng.choice((-3, -2, -1, 1, 2, 3)))
        return [*calls[:at], call._replace(numbers=[size, max(begin, other)]), *calls[at + 1 :]]
    if what == ALL_UNSYNCED:
        return calls[:at] + [each for each in calls[at:] if not is_sync(each)]
    return calls[:at] + calls[at + 1 :]


def is_sync(call: Call) -> bool:
    return call.name == "fsync" and call.file in {"log.db", "log.db-wal"}


def changes_lost(states: Sequence[State], acknowledged: Sequence[int], newest: int) -> int:
    """Return how many acknowledged transactions came after the write `newest`.

    A transaction may have several writes, of which the last one is acknowledged. A write that changes nothing is
    acknowledged without a transaction.
    """
    lost = sorted(number for number in set(acknowledged) if number > newest)
    return sum(states[later] != states[earlier] for earlier, later in pairwise([newest, *lost]))


def newest_beside_another_snapshot(states: Sequence[State], storage: Storage) -> int:
    """Return as `newest_write` does, for a log beside the snapshot of another write.

    An older snapshot is harmless when the log has all entries after it. A newer snapshot is harmless when the log has
    the snapshot's last entry: what the snapshot covers is committed.
    """
    found = state_beside_snapshot(storage)
    kept = found.snapshot
    if kept is None or not found.base[0] <= kept.index <= found.last_index or found.term(kept.index) != kept.term:
        return -1
    if not any(each.snapshot == kept for each in states):
        return -1
    same = (number for number, each in enumerate(states) if vars(each) | {"snapshot": kept} == vars(found))
    return max(same, default=-1)


def newest_beside_newer_term(states: Sequence[State], storage: Storage) -> int:
    """Return as `newest_write` does, for a log beside the term and vote of a later write.

    The server has lost writes of its log, and knows its term and vote: harmless beyond what the lost writes cost.
    """
    found = vars(state_beside_snapshot(storage))
    term = found["hard_state"]
    newer = max((number for number, each in enumerate(states) if each.hard_state == term), default=-1)
    same = (number for number, each in enumerate(states[: newer + 1]) if vars(each) | {"hard_state": term} == found)
    return max(same, default=-1)


def test_a_write_that_changes_nothing_costs_nothing() -> None:
    states = [State(), State(), State(), State()]
    states[1].base = (1, 1)
    states[2].base = states[3].base = (2, 1)  # seed 1950504035 has such a write
    assert changes_lost(states, [0, 1, 2, 3], 0) == 2
    assert changes_lost(states, [0, 1], 1) == 0


@pytest.mark.parametrize("what", [LOST, MISPLACED, UNSYNCED, ALL_UNSYNCED])
def test_a_lie_never_makes_another_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    use_small_sizes(monkeypatch)
    seed = eventful_seed(0, COUNT, matching=True)
    rng = random.Random(seed)
    run = Recorded(tmp_path / "run", seed, count=COUNT, depth=1, matching=True)
    name = "fsync" if what in {UNSYNCED, ALL_UNSYNCED} else "pwrite64"
    places = [at for at, call in enumerate(run.calls) if call.name == name and call.file in {"log.db", "log.db-wal"}]
    found: Counter[str] = Counter()
    worst = 0
    with without_syncs():
        for _ in range(TRIES):
            at = rng.choice(places)
            calls = lied(run.calls, at, what, rng)
            until = min(len(calls), at + rng.choice((1, 5, 20, 60, 1000)))
            disk = Disk(run.directory, empty=True)
            acknowledged = [0]
            for call in calls[:until]:
                disk.take(call)
                acknowledged.append(acknowledged_by(call, acknowledged[-1]))
            try:
                with closing(open_log(disk.cut(tmp_path / "cut", rng))) as storage:
                    newest = newest_write(run.states, storage)
                    if newest < 0:
                        newest = newest_beside_another_snapshot(run.states, storage)
                    if newest < 0 and what == ALL_UNSYNCED:
                        newest = newest_beside_newer_term(run.states, storage)
            except StorageError:
                found["refused"] += 1
                continue
            assert newest >= 0, f"lie at {at}, cut at {until}: a log that never was"
            # A transaction may have several writes, of which the last one is acknowledged.
            cost = sum(1 for number in set(acknowledged) if number > newest)
            worst = max(worst, cost)
            found["unnoticed" if cost else "harmless"] += 1
    print(f"{what}: {dict(found)}, at most {worst} transactions unnoticed")
    assert worst <= UNNOTICED[what]
