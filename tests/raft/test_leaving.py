"""A server that leaves: how long the leader waits for the answer, and how long it tells the server of the commit."""

from gf_i2p.raft import inputs
from gf_i2p.raft.membership_change import JOIN_PATIENCE
from gf_i2p.raft.settings import I2P, LAN, Flow, Timing
from gf_i2p.wire.messages import MessageType, Request, Response
from tests.raft.lab import Lab, Message


def leaving(timing: Timing = LAN) -> tuple[Lab, Message]:
    """A farm led by server 1, which has told server 3 to leave; the message is on the way."""
    lab = Lab(3, timing=timing)
    lab.elect(1)
    lab.settle()
    lab.change(1, "remove", remove=3)
    assert lab.replies["remove"].accepted
    (message,) = [each for each in lab.network if each.receiver == 3]
    assert isinstance(message.payload, Request)
    assert message.payload.type is MessageType.LEAVE_CLUSTER_REQUEST
    return lab, message


def block_is_sent(lab: Lab) -> bool:
    return any(each.payload.type is MessageType.INSTALL_SNAPSHOT_REQUEST for each in lab.network)


def members(lab: Lab) -> list[int]:
    return [server.id for server in lab.core(1).configuration.servers]


def test_the_message_has_the_fields_that_jraft_sends() -> None:
    lab, message = leaving()
    last = lab.core(1).log.last_index
    assert message.payload == Request(MessageType.LEAVE_CLUSTER_REQUEST, 1, 3, lab.core(1).term, 0, last, last)


def test_the_server_is_removed_when_it_has_answered() -> None:
    lab, message = leaving()
    lab.network.remove(message)
    response = Response(MessageType.LEAVE_CLUSTER_RESPONSE, 3, 1, lab.core(1).term, 2, accepted=True)
    lab.step(1, inputs.Answered(3, message.tag, response))
    assert members(lab) == [1, 2]


def test_a_silent_server_is_removed_after_the_shortest_election_time_out() -> None:
    lab, message = leaving()
    lab.network.remove(message)
    begun = lab.now
    lab.isolate(3)
    while lab.now < begun + LAN.election_min:
        assert members(lab) == [1, 2, 3]
        assert lab.core(1).deadline <= begun + LAN.election_min
        lab.tick(1)
        lab.settle()
    assert lab.now == begun + LAN.election_min
    assert members(lab) == [1, 2]


def test_a_server_that_never_confirms_is_forgotten_after_a_while() -> None:
    lab, _ = leaving(I2P)
    lab.isolate(3)
    lab.settle()
    assert members(lab) == [1, 2]
    assert lab.core(1).contacts[3] == "tcp://localhost:9003"
    removed = lab.now
    end = removed + JOIN_PATIENCE * I2P.election_max
    while lab.now < end:
        assert 3 in lab.core(1).contacts
        mark = lab.core(1).contacts_mark
        lab.now = min(max(lab.core(1).deadline, lab.now), end)
        lab.step(1, inputs.Tick())
        lab.settle()
    assert 3 not in lab.core(1).contacts
    assert lab.core(1).contacts_mark != mark


def test_a_server_that_confirms_is_forgotten_at_once() -> None:
    lab, _ = leaving()
    lab.settle()
    lab.advance(2 * LAN.heartbeat)
    assert 3 not in lab.core(1).contacts


def test_a_server_that_comes_back_before_it_knew_of_its_removal_gets_one_copy_of_the_snapshot() -> None:
    """Two copies on the way at once, one to the leaver and one to the newcomer, would begin each other again for ever.

    Each answer sent the next block of one copy, and the follower then dropped the blocks of the other copy.
    """
    lab = Lab(3, flow=Flow(snapshot_bytes=3))
    lab.elect(1)
    lab.settle()
    lab.isolate(3)
    lab.change(1, "remove", remove=3)
    lab.settle()
    assert members(lab) == [1, 2]
    lab.snapshot(1)  # drops the entries that server 3 lacks
    lab.heal()
    lab.step(1, inputs.Reachable(3))
    while not block_is_sent(lab):
        lab.deliver(lab.network.popleft())
    lab.isolate(3)
    lab.settle()
    lab.propose(1, "more", "entries")
    lab.settle()
    lab.snapshot(1)
    lab.change(1, "add", add=3)
    assert lab.replies["add"].accepted
    lab.heal()
    lab.step(1, inputs.Reachable(3))
    lab.settle()
    assert members(lab) == [1, 2, 3]
    lab.advance(2 * LAN.heartbeat)
    assert lab.core(3).log.last_index == lab.core(1).log.last_index
