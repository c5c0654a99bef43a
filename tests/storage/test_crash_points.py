"""A power cut and a kill after each operation on files: nothing acknowledged is lost, and no start is refused.

A run is recorded once, in this process, from creation to a clean end. Each operation of the record is then a crash
point. At each point several disks are made that a power cut may leave: see `File.after_a_cut`.
"""

import random
from contextlib import closing
from pathlib import Path

import pytest

from integration.harness.sqlite_files import why_not
from tests.storage.random_writes import eventful_seed, newest_write, open_log
from tests.storage.recorded_run import Recorded, acknowledged_by, without_syncs
from tests.storage.write_run import use_small_sizes
from tests.tier import is_everything, mostly_slow

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.mark.parametrize("depth", mostly_slow([1, 8], 8))
def test_nothing_acknowledged_is_lost_at_any_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    use_small_sizes(monkeypatch)
    count = 60 if is_everything() else 20
    seed = eventful_seed(0, count)
    rng = random.Random(seed)
    run = Recorded(tmp_path / "run", seed, count=count, depth=depth)
    disk = run.disk
    cuts = 4 if is_everything() else 1
    made = acknowledged = 0
    created = False
    with without_syncs():
        for call in run.calls:
            acknowledged = acknowledged_by(call, acknowledged)
            created = created or call.data == b"created"
            if not disk.take(call):
                continue
            for _ in range(cuts):
                path = disk.killed(tmp_path / "cut") if rng.random() < 0.1 else disk.cut(tmp_path / "cut", rng)
                made += 1
                if not path.exists() and not created:
                    continue
                with closing(open_log(path)) as storage:
                    assert storage.loaded.snapshot_fault is None
                    assert newest_write(run.states, storage) >= acknowledged
    print(f"{made} crash points")
    assert acknowledged == count
