"""The next message of a leader, and its time: heartbeats, blocks of a snapshot, and entries after a refusal."""

from gf_i2p.raft import inputs
from gf_i2p.raft.settings import LAN, Flow
from gf_i2p.wire.messages import MessageType, Request, Response
from tests.raft.lab import Lab, leadership

APPEND, INSTALL = MessageType.APPEND_ENTRIES_REQUEST, MessageType.INSTALL_SNAPSHOT_REQUEST


def with_snapshot() -> Lab:
    """Server 1 leads with a log whose first five entries are dropped, and server 3 has nothing."""
    lab = Lab(3)
    lab.elect(1)
    lab.settle()
    lab.isolate(3)
    lab.propose(1, "many", *"abcdef")
    lab.settle()
    lab.snapshot(1, 5)
    lab.advance(LAN.heartbeat / 2)
    lab.heal()
    lab.network.clear()
    progress = leadership(lab).progress[3]
    progress.flights.clear()
    progress.next, progress.match, progress.probing, progress.sending = 1, 0, True, None
    return lab


def to_3(lab: Lab) -> list[Request]:
    return [m.payload for m in lab.network if m.receiver == 3 and isinstance(m.payload, Request)]


def answer(lab: Lab, kind: MessageType, next_index: int, *, accepted: bool) -> None:
    message = next(m for m in lab.network if m.receiver == 3)
    lab.network.clear()
    response = Response(kind, 3, 1, lab.core(1).term, next_index, accepted=accepted)
    lab.step(1, inputs.Answered(3, message.tag, response))


def tick(lab: Lab) -> None:
    lab.now = max(lab.now, leadership(lab).progress[3].sent_at + LAN.heartbeat)
    lab.step(1, inputs.Tick())


def test_a_heartbeat_goes_to_the_peer_that_is_due_and_to_no_other() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.settle()
    lab.now += LAN.heartbeat / 2
    lab.step(1, inputs.Reachable(2))  # server 2 gets a message now
    lab.settle()
    lab.now += LAN.heartbeat / 2
    effects = lab.step(1, inputs.Tick())
    assert [send.peer for send in effects.sends] == [3]


def test_a_block_is_followed_by_no_other_message_until_the_next_heartbeat() -> None:
    lab = with_snapshot()
    lab.step(1, inputs.Reachable(3))
    assert [each.type for each in to_3(lab)] == [INSTALL]
    assert leadership(lab).progress[3].sent_at == lab.now
    lab.network.clear()
    tick(lab)
    assert not to_3(lab), "the block's answer comes first"
    assert leadership(lab).progress[3].sent_at == lab.now, "and no tick is due before the next heartbeat"


def test_a_refused_snapshot_is_not_sent_again_and_the_log_behind_it_is_tried() -> None:
    lab = with_snapshot()
    lab.step(1, inputs.Reachable(3))
    answer(lab, MessageType.INSTALL_SNAPSHOT_RESPONSE, 0, accepted=False)
    assert not to_3(lab)
    tick(lab)
    (probe,) = to_3(lab)
    assert (probe.type, probe.last_log_index) == (APPEND, 5)
    answer(lab, MessageType.APPEND_ENTRIES_RESPONSE, 1, accepted=False)
    lab.wanted.clear()
    tick(lab)
    assert not to_3(lab)
    assert lab.wanted == [1], "only a newer snapshot can help"
    lab.snapshot(1, 7)
    tick(lab)
    assert [each.type for each in to_3(lab)] == [INSTALL]


def test_a_follower_that_asks_for_a_snapshot_gets_the_block_whatever_else_is_on_the_way() -> None:
    lab = Lab(3, flow=Flow(in_flight=3))
    lab.elect(1)
    lab.propose(1, "before", "x")
    lab.settle()
    lab.snapshot(1, 2, keep=2)
    lab.advance(LAN.heartbeat)
    lab.network.clear()
    for _ in range(2):
        tick(lab)
    assert len(leadership(lab).progress[3].flights) == 2
    answer(lab, MessageType.APPEND_ENTRIES_RESPONSE, 0, accepted=False)
    assert [each.type for each in to_3(lab)] == [INSTALL]


def test_a_refusal_of_an_acknowledged_entry_is_not_answered_at_once() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.settle()
    lab.network.clear()
    tick(lab)
    answer(lab, MessageType.APPEND_ENTRIES_RESPONSE, 1, accepted=False)
    assert "server 3 has lost acknowledged entries up to 1" in lab.violations[0]
    assert not to_3(lab), "the same probe would get the same refusal"


def test_a_leader_that_leaves_says_nothing_about_dropped_entries() -> None:
    lab = with_snapshot()
    progress = leadership(lab).progress[3]
    progress.next, progress.probing = lab.core(1).log.base, False
    leadership(lab).tell_commit(lab.now)
    effects = lab.core(1)._state.take_effects()
    assert [send.peer for send in effects.sends] == [2]
    progress.next += 1
    leadership(lab).tell_commit(lab.now)
    effects = lab.core(1)._state.take_effects()
    assert [send.peer for send in effects.sends] == [2, 3]


def test_the_writes_of_a_server_are_numbered_without_a_hole() -> None:
    lab = Lab(1)
    lab.servers[1].slow_disk = True
    lab.timeout(1)
    lab.sync(1)
    lab.propose(1, "one", "a")
    lab.propose(1, "two", "b")
    assert [write.number for write in lab.servers[1].unwritten] == [2, 3, 4]
