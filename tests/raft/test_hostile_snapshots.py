"""Snapshots of a server that nobody elected, or that is broken: nothing is replaced before the snapshot is checked."""

import sys

import pytest

from gf_i2p.raft import follower, inputs
from gf_i2p.raft.allowance import INDEXES_A_SECOND, INDEXES_AT_ONCE, LAST_INDEX
from gf_i2p.raft.settings import LAN
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import MAX_INTEGER
from gf_i2p.wire.log_values import Configuration, SnapshotSyncRequest
from gf_i2p.wire.messages import MessageType, Request
from tests.raft.lab import Lab, application, assert_others_commit, configuration
from tests.raft.test_paper import append, ask

SERVERS = configuration([1, 2, 3])


def install(
    index: int,
    term: int,
    *,
    data: bytes = b"state that is made up",
    servers: Configuration = SERVERS,
    leads_in: int = 5,
    offset: int = 0,
    done: bool = True,
) -> Request:
    block = SnapshotSyncRequest(index, term, servers, offset, data, done)
    entry = Entry(leads_in, ValueType.SNAPSHOT_SYNC_REQUEST, block.encode())
    return Request(MessageType.INSTALL_SNAPSHOT_REQUEST, 3, 1, leads_in, term, index, 0, (entry,))


def with_committed() -> Lab:
    """Give a lab whose server 1 has three committed entries, the last of term 2, and one that is not committed."""
    lab = Lab(3)
    entries = application("a", 1), application("b", 1), application("c", 2), application("d", 2)
    assert ask(lab, append(2, (0, 0), *entries, commit=3)).accepted
    return lab


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (install(9, 4, data=b"{"), "it is no state of the lab"),
        (install(9, 6), "it ends in term 6, but entry 3 is of term 2, and the sender leads in term 5"),
        (install(9, 1), "it ends in term 1, but entry 3 is of term 2"),
        (install(9, 4, servers=Configuration(0, 0, ())), "its Configuration is empty"),
        (install(9, 4, servers=Configuration(10, 0, SERVERS.servers)), "from an entry after the snapshot"),
        (install(MAX_INTEGER, 4), "too far after entry 3"),
        (install(4 + INDEXES_AT_ONCE, 4), "too far after entry 3"),
    ],
)
def test_a_snapshot_that_cannot_be_the_farms_replaces_nothing(request_: Request, why: str) -> None:
    lab = with_committed()
    disk, log = lab.servers[1].disk, list(lab.servers[1].disk.entries)
    lab.step(1, inputs.Incoming("bad", request_))
    assert lab.dropped == ["bad"]
    assert why in lab.violations[0]
    assert "server 3 sent a snapshot that cannot be used" in lab.violations[0]
    assert (lab.core(1).commit, lab.core(1).snapshot, lab.restored) == (3, None, [])
    assert (disk.entries, disk.snapshot) == (log, None)
    lab.crash(1)
    lab.restart(1)
    assert lab.core(1).log.last_index == 4
    assert ask(lab, append(6, (4, 2), application("e", 6), commit=5)).accepted, "the elected leader goes on"


@pytest.mark.parametrize("index", [1, 3])
def test_a_snapshot_of_committed_entries_replaces_nothing(index: int) -> None:
    lab = with_committed()
    assert ask(lab, install(index, 1)).accepted
    assert (lab.core(1).log.last_index, lab.core(1).snapshot, lab.restored) == (4, None, [])


def test_a_snapshot_that_contradicts_nothing_is_installed() -> None:
    lab = with_committed()
    assert ask(lab, install(9, 2)).accepted
    assert (lab.core(1).commit, lab.core(1).log.base) == (9, 9)


def test_a_server_without_its_state_takes_no_snapshot_that_contradicts_the_log() -> None:
    lab = with_committed()
    lab.snapshot(1, 3)
    lab.crash(1)
    lab.servers[1].disk.damage_snapshot()
    lab.restart(1)
    lab.step(1, inputs.Incoming("bad", install(3, 1)))
    assert "it ends in term 1, but entry 3 is of term 2" in lab.violations[0]
    assert ask(lab, install(3, 2)).accepted


def test_snapshots_lengthen_the_log_at_a_bounded_rate() -> None:
    lab = with_committed()
    assert ask(lab, install(3 + INDEXES_AT_ONCE, 4)).accepted
    lab.step(1, inputs.Incoming("bad", install(4 + INDEXES_AT_ONCE, 4)))
    assert lab.dropped == ["bad"]
    lab.now += 1
    assert ask(lab, install(3 + INDEXES_AT_ONCE + INDEXES_A_SECOND, 4)).accepted


def test_a_newcomer_takes_the_farms_index_however_high() -> None:
    lab = Lab(3)
    for index, taken in ((LAST_INDEX + 1, False), (LAST_INDEX, True)):
        lab.newcomer(1)
        lab.founders = range(2, 4)
        lab.newcomer(1)
        lab.step(1, inputs.Incoming("block", install(index, 4)))
        assert (lab.core(1).log.last_index == index) == taken


def test_the_farm_outlives_a_refused_snapshot() -> None:
    lab = Lab(3)
    lab.elect(2)
    lab.propose(2, "before", "a")
    lab.advance(LAN.heartbeat)
    lab.step(1, inputs.Incoming("bad", install(9, 4, data=b"[]")))
    lab.isolate(3)
    lab.advance(10 * LAN.election_max)
    assert_others_commit(lab)


def test_the_memory_of_a_snapshot_that_is_too_large_is_freed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "MAX_SNAPSHOT_BYTES", 100_000)
    lab = with_committed()
    received = lab.core(1)._follower._receiver._data
    assert ask(lab, install(9, 4, data=bytes(90_000), done=False)).accepted
    assert sys.getsizeof(received) > 90_000
    lab.step(1, inputs.Incoming("bad", install(9, 4, data=bytes(90_000), offset=90_000)))
    assert "more than 100000 bytes" in lab.violations[0]
    assert sys.getsizeof(received) < 1000


@pytest.mark.parametrize(("index", "helps"), [(5, False), (6, True), (7, True)])
def test_a_server_without_its_state_takes_only_a_snapshot_that_its_log_continues(index: int, helps: bool) -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "entries", *"abcdefg")
    lab.settle()
    lab.snapshot(1, 6, keep=0)
    lab.crash(1)
    lab.servers[1].disk.damage_snapshot()
    lab.restart(1)
    answer = ask(lab, install(index, 1))
    assert answer.accepted == helps
    assert (lab.core(1).snapshot is not None) == helps
