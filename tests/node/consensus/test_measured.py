from dataclasses import dataclass
from typing import Any

from gf_i2p.node.consensus.measured import Measured
from gf_i2p.raft.effects import Write
from gf_i2p.storage.durations import Durations
from gf_i2p.wire.messages import NOBODY
from tests.raft.lab import application


@dataclass
class MadeCore:
    """The parts of a core that are measured."""

    term: int = 1
    commit: int = 0
    is_leader: bool = True


def count(durations: Durations) -> int:
    return dict(durations.cumulative())[float("inf")]


def write(first: int, *, entries: int = 1) -> Write:
    return Write(None, first, (application("a", 1),) * entries)


def measured_by(core: MadeCore) -> tuple[Measured, Any]:
    return Measured(writes=Durations()), core


def test_the_time_from_a_leaders_append_to_its_commit_counts() -> None:
    measured, core = measured_by(MadeCore(commit=4))
    measured.wrote(core, write(5, entries=2), 10.0)
    measured.wrote(core, write(7), 10.1)  # one append at a time is measured
    core.commit = 5
    measured.committed(core, 10.2)
    assert count(measured.commits) == 0
    core.commit = 6
    measured.committed(core, 10.5)
    assert (count(measured.commits), measured.commits.sum) == (1, 0.5)
    core.commit = 7
    measured.committed(core, 11.0)
    assert count(measured.commits) == 1
    measured.wrote(core, write(8), 12.0)
    core.commit = 8
    measured.committed(core, 12.25)
    assert (count(measured.commits), measured.commits.sum) == (2, 0.75)


def test_a_followers_write_does_not_count() -> None:
    measured, core = measured_by(MadeCore(is_leader=False))
    measured.wrote(core, write(1), 10.0)
    core.commit = 1
    measured.committed(core, 10.5)
    assert count(measured.commits) == 0


def test_an_append_of_a_lost_leadership_does_not_count() -> None:
    for later in (MadeCore(2, 1, is_leader=False), MadeCore(2, 1)):
        measured, core = measured_by(MadeCore())
        measured.wrote(core, write(1), 10.0)
        again: Any = later
        measured.committed(again, 11.0)
        assert count(measured.commits) == 0
    measured, core = measured_by(MadeCore())
    measured.wrote(core, write(5), 10.0)
    core.term = 2
    measured.wrote(core, write(3), 20.0)
    core.commit = 3
    measured.committed(core, 20.5)
    assert measured.commits.sum == 0.5


def test_each_election_counts_once() -> None:
    measured = Measured(writes=Durations())
    for term, leader in ((1, NOBODY), (1, 1), (2, NOBODY), (2, 1), (2, 1), (3, 2), (3, NOBODY), (3, 2)):
        measured.follows(term, leader)
    assert measured.leader_changes == 3
