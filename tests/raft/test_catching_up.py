"""A server that joins, and the pace of the packs: when the leader repeats, gives up, and makes the server a voter."""

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.membership_change import JOIN_PATIENCE, MAX_ROUNDS
from gf_i2p.raft.settings import I2P, LAN, Timing
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import record_bytes
from gf_i2p.wire.messages import NOBODY, MessageType, Request
from tests.raft.lab import Lab, leadership
from tests.raft.test_membership_change import NEW, led, members, pack, reply, sent


def late(lab: Lab) -> None:
    """Let the clock show a later time: times since a start say nothing."""
    lab.now += 1000
    lab.network.clear()
    lab.step(1, inputs.Reachable(NEW))


def invited(entries: int = 40, **flow: int) -> Lab:
    lab = led(entries=entries, **flow)
    late(lab)
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 1)
    return lab


def test_a_request_on_the_way_is_not_repeated() -> None:
    lab = invited(append_entries=6)
    first = sent(lab, MessageType.SYNC_LOG_REQUEST)
    lab.now += 2 * LAN.heartbeat
    lab.step(1, inputs.Tick())
    assert not [message for message in lab.network if message.receiver == NEW]
    lab.step(1, inputs.Failed(NEW, lab.last.tag))  # type: ignore[attr-defined]
    lab.step(1, inputs.Tick())
    assert sent(lab, MessageType.SYNC_LOG_REQUEST) == first


def test_a_fast_newcomer_is_given_any_number_of_packs() -> None:
    lab = invited(entries=3 * MAX_ROUNDS, append_entries=1)
    taken = 1
    while members(lab) == [1]:
        assert len(pack(sent(lab, MessageType.SYNC_LOG_REQUEST)).entries) == 1
        lab.propose(1, f"more {taken}", "x")
        taken += 1
        reply(lab, taken)
        assert not lab.notices
        if taken > 2 * MAX_ROUNDS:
            break
    assert taken > 2 * MAX_ROUNDS


def test_a_newcomer_that_took_all_that_was_committed_in_time_becomes_a_voter_whatever_came_since() -> None:
    lab = invited(entries=20, append_entries=100)
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    end = lab.core(1).commit
    lab.propose(1, "since then", *(str(number) for number in range(20)))
    lab.now += LAN.election_max
    reply(lab, end + 1)
    assert members(lab) == [1, NEW]


def test_a_newcomer_that_took_too_long_gets_the_next_pack() -> None:
    lab = invited(entries=20, append_entries=100)
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    end = lab.core(1).commit
    lab.propose(1, "since then", *(str(number) for number in range(20)))
    lab.now += LAN.election_max + 0.001
    reply(lab, end + 1)
    assert members(lab) == [1]
    assert len(pack(sent(lab, MessageType.SYNC_LOG_REQUEST)).entries) == 20


def test_a_newcomer_that_is_fast_at_last_becomes_a_voter() -> None:
    lab = invited(entries=20, append_entries=100)
    for number in range(MAX_ROUNDS):
        sent(lab, MessageType.SYNC_LOG_REQUEST)
        end = lab.core(1).commit
        lab.propose(1, f"more {number}", *(str(number) for number in range(20)))
        lab.now += LAN.election_max + 0.001 if number < MAX_ROUNDS - 1 else LAN.election_max
        assert members(lab) == [1]
        reply(lab, end + 1)
    assert members(lab) == [1, NEW]


def test_a_newcomer_that_refuses_the_first_pack_is_not_asked_at_once_again() -> None:
    lab = invited(append_entries=6)
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    reply(lab, 1, accepted=False)
    assert not [message for message in lab.network if message.receiver == NEW]
    lab.now += LAN.heartbeat
    lab.step(1, inputs.Tick())
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)


def test_the_first_entry_alone_may_be_all_that_was_committed() -> None:
    lab = invited(entries=0)
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    lab.propose(1, "since then", *(str(number) for number in range(20)))
    reply(lab, 2)
    assert members(lab) == [1, NEW]


def test_without_a_snapshot_to_send_the_leader_asks_for_one() -> None:
    lab = led(entries=20)
    lab.snapshot(1, 10)
    lab.core(1)._state.snapshot = None
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 1)
    assert lab.wanted == [1]


@pytest.mark.parametrize("kind", [MessageType.ADD_SERVER_REQUEST, MessageType.REMOVE_SERVER_REQUEST])
def test_an_order_that_cannot_be_read_ends_the_connection(kind: MessageType) -> None:
    lab = Lab(1)
    lab.elect(1)
    garbage = Entry(0, ValueType.CLUSTER_SERVER, b"\0")
    lab.step(1, inputs.Incoming("bad", Request(kind, NOBODY, 1, 0, 0, 0, 0, (garbage,))))
    assert lab.dropped == ["bad"]
    assert "that cannot be read" in lab.violations[0]
    assert members(lab) == [1]


def test_a_lost_request_is_due_again_a_heartbeat_after_it_left() -> None:
    lab = invited(append_entries=6)
    left = lab.now
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    assert lab.core(1).deadline > left + LAN.heartbeat
    lab.now += LAN.heartbeat / 4
    lab.step(1, inputs.Failed(NEW, lab.last.tag))  # type: ignore[attr-defined]
    assert lab.core(1).deadline == pytest.approx(left + LAN.heartbeat)
    lab.step(1, inputs.Tick())
    assert not [message for message in lab.network if message.receiver == NEW]


def test_a_silent_newcomer_is_given_up_after_ten_time_outs() -> None:
    lab = Lab(1, timing=I2P)
    lab.elect(1)
    lab.newcomer(NEW)
    lab.change(1, "add", add=NEW)
    begun = lab.now
    lab.now = begun + JOIN_PATIENCE * I2P.election_max - 0.001
    lab.step(1, inputs.Tick())
    assert not lab.notices
    lab.now = begun + JOIN_PATIENCE * I2P.election_max
    lab.step(1, inputs.Tick())
    assert "nothing was heard from the server" in lab.notices[0]


def test_a_lost_block_takes_nothing_from_the_offset_of_the_packs() -> None:
    lab = invited(append_entries=6)
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    lab.step(1, inputs.Failed(NEW, lab.last.tag))  # type: ignore[attr-defined]
    lab.snapshot(1)
    lab.now += LAN.heartbeat
    lab.step(1, inputs.Tick())
    sent(lab, MessageType.INSTALL_SNAPSHOT_REQUEST)
    lab.step(1, inputs.Failed(NEW, lab.last.tag))  # type: ignore[attr-defined]
    joining = leadership(lab).changes.joining
    assert joining is not None
    assert joining.offset == 0


def test_a_lost_block_after_a_pack_takes_nothing_from_the_offset() -> None:
    lab = invited(append_entries=6)
    first = pack(sent(lab, MessageType.SYNC_LOG_REQUEST))
    lab.snapshot(1)
    reply(lab, 7)
    sent(lab, MessageType.INSTALL_SNAPSHOT_REQUEST)
    lab.step(1, inputs.Failed(NEW, lab.last.tag))  # type: ignore[attr-defined]
    joining = leadership(lab).changes.joining
    assert joining is not None
    assert joining.offset == record_bytes(first.entries)


def test_a_newcomer_that_refuses_the_whole_snapshot_is_given_up() -> None:
    lab = invited(append_entries=6)
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    lab.snapshot(1)
    reply(lab, 7)
    sent(lab, MessageType.INSTALL_SNAPSHOT_REQUEST)
    snapshot = lab.core(1).snapshot
    assert snapshot is not None
    reply(lab, len(snapshot.data), accepted=False)
    assert "refuses the leader's snapshot" in lab.notices[0]


def test_the_closest_time_outs_are_allowed() -> None:
    Timing(heartbeat=0.5, election_min=1.0, election_max=1.2)
    with pytest.raises(ValueError, match=r"at least 1\.2 times election_min"):
        Timing(heartbeat=0.5, election_min=1.0, election_max=1.19)
    with pytest.raises(ValueError, match="at least twice the heartbeat"):
        Timing(heartbeat=0.51, election_min=1.0, election_max=2.0)


@pytest.mark.parametrize("missing", [4, 5])
def test_a_slow_newcomer_becomes_a_voter_when_it_lacks_fewer_than_five_entries(missing: int) -> None:
    lab = invited(entries=20, append_entries=100)
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    end = lab.core(1).commit
    lab.propose(1, "since then", *(str(number) for number in range(missing)))
    lab.now += LAN.election_max + 0.001
    reply(lab, end + 1)
    assert members(lab) == ([1, NEW] if missing == 4 else [1])
