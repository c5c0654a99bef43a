"""A server with a damaged snapshot, and the next leader: the effects of the dropped entries are lost on that server."""

import pytest

from gf_i2p.raft.settings import LAN
from tests.raft.lab import Lab


@pytest.mark.parametrize("known", ["by the snapshot", "by the log", None])
def test_a_server_whose_snapshot_is_damaged_hands_on_the_entries_that_nobody_else_has(known: str | None) -> None:
    """Found by the simulator: the server refused votes to shorter logs and never stood for election, so nobody ever
    led.

    But with the Configuration lost, too, the server would count the votes of the first Configuration's servers.
    """
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "both", *"abcd")
    lab.advance(LAN.heartbeat)
    lab.snapshot(3, keep=1)
    if known == "by the log":
        lab.crash(1)
        lab.restart(1)
        lab.elect(1)  # which appends a Configuration
    lab.isolate(2)
    lab.propose(1, "one", "e")
    lab.settle()
    assert lab.core(1).commit == lab.core(3).log.last_index
    lab.crash(1)
    disk = lab.servers[3].disk
    lab.crash(3)
    disk.damage_snapshot(also_configuration=known != "by the snapshot")
    lab.restart(3)
    lab.heal()
    lab.timeout(3)
    assert lab.core(3).role == "follower", "another one might lead, with its state"
    lab.timeout(2)
    lab.settle()
    assert not lab.core(2).is_leader, "its log lacks an entry"
    lab.timeout(3)
    assert lab.core(3).role == ("candidate" if known else "follower")
    if known is None:
        return
    lab.settle()
    assert not lab.core(3).is_leader, "without a state it leads no longer than until somebody has its log"
    assert lab.values(2)[-1] == "e"
    lab.advance(LAN.election_max)
    assert lab.core(2).is_leader
    lab.snapshot(2)
    lab.advance(3 * LAN.heartbeat)
    assert lab.core(3).snapshot is not None
    assert lab.core(3).commit == lab.core(2).commit
    assert not lab.violations


def test_who_lacks_its_state_leads_no_longer_than_until_another_member_has_its_log() -> None:
    """Found by the simulator: it was to leave, and the one voter that it needed lacked the state, too, so that its log
    was never committed; it led again and again, and the one who had all that the voter needed never did.
    """
    lab = Lab(3)
    lab.isolate(3)
    lab.elect(1)
    lab.propose(1, "both", *"abcd")
    lab.advance(LAN.heartbeat)
    for server in (1, 2):
        lab.snapshot(server)
    lab.change(1, "out", remove=1)
    lab.settle()
    last = lab.core(2).log.last_index
    assert lab.core(1).commit < last, "it needs the third"
    disk = lab.servers[1].disk
    lab.crash(1)
    disk.damage_snapshot()
    lab.restart(1)
    lab.heal()
    lab.now += LAN.election_min  # from now on every server may vote against the old leader
    for server in (3, 1):
        lab.timeout(server)
        lab.settle()
    assert lab.core(2).log.last_index > last, "it has led"
    assert not lab.core(1).is_leader, "the second has all of its log, and the state"
    lab.advance(2 * LAN.election_max)
    assert lab.core(2).is_leader
    lab.advance(LAN.election_max)
    assert lab.core(3).commit == lab.core(2).commit > last
    assert not lab.violations


def test_servers_that_all_wait_for_each_other_elect_a_leader_in_the_end() -> None:
    """Found by the simulator (seed 935717948): each of the servers waited for another to ask for a vote first.

    One had removed itself by an entry that nobody else had, and the other one had lost its state.
    """
    lab = Lab(2)
    lab.elect(1)
    lab.propose(1, "both", *"abcd")
    lab.advance(LAN.heartbeat)
    lab.snapshot(2, keep=1)
    lab.isolate(2)
    lab.change(1, "out", remove=1)
    lab.advance(LAN.election_min)
    assert [server.id for server in lab.core(1).configuration.servers] == [2]
    disk = lab.servers[2].disk
    for server in (1, 2):
        lab.crash(server)
    disk.damage_snapshot()
    for server in (1, 2):
        lab.restart(server)
    lab.heal()
    lab.advance(2 * LAN.election_max)
    assert not any(lab.core(server).is_leader for server in (1, 2)), "another server may still ask"
    lab.advance(20 * LAN.election_max)
    assert lab.core(2).is_leader or lab.core(1).is_leader
    assert not lab.violations
