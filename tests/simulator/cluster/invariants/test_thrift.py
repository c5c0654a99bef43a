"""Each invariant about needless acts notices a violation made by hand, and is silent when all is well."""

import pytest

from gf_i2p.raft.effects import Effects, HardState, Send, SendReply, Write
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Reachable, Tick
from gf_i2p.raft.settings import Flow
from gf_i2p.simulator.cluster.invariants.thrift import (
    HeartbeatsSpaced,
    NothingTwice,
    OneQuestion,
    TicksEnd,
    VotesExplained,
)
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration, SnapshotSyncRequest
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, Request, Response
from tests.raft.lab import application
from tests.simulator.cluster.invariants.made_facts import facts, fires, leader

A1 = application("a", 1)
APPEND, ANSWER = MessageType.APPEND_ENTRIES_REQUEST, MessageType.APPEND_ENTRIES_RESPONSE
VOTE, VOTED = MessageType.REQUEST_VOTE_REQUEST, MessageType.REQUEST_VOTE_RESPONSE
LOADED = Loaded(HardState(1, NOBODY), 0, (), (), 1, 0, (0, 0), None, None, None)


def test_a_tick_leaves_nothing_to_do_at_once() -> None:
    found = facts([], [])
    check, one = TicksEnd(found), found.servers[1]
    one.deadline = 5.0
    check.takes(one, Tick(), Effects(), 4.9)
    check.takes(one, Reachable(2), Effects(), 5.0)
    fires(check, lambda: check.takes(one, Tick(), Effects(), 5.0), "server 1 wants its next tick at once after a tick")
    check.takes(one, Tick(), Effects(write=Write(None, 1, (A1,), number=1)), 5.0)


def test_a_tick_sends_heartbeats_only_when_these_are_due() -> None:
    found = facts([A1], [])
    check, one = HeartbeatsSpaced(found), leader(found, 1, 1)

    def sends(event: Input, clock: float, write: Write | None = None) -> None:
        effects = Effects(write=write, sends=[Send(2, Request(APPEND, 1, 2, one.term, 1, 1, 0), 1)])
        check.takes(one, event, effects, clock)

    heartbeat = found.timing.heartbeat
    sends(Tick(), 1.0)
    sends(Tick(), 1.0 + heartbeat)
    sends(Reachable(2), 1.0 + 1.5 * heartbeat)  # a new connection is probed at once
    fires(check, lambda: sends(Tick(), 1.0 + 2 * heartbeat), "sends server 2 a heartbeat, 0.050 s after its last")
    sends(Tick(), 1.0 + 2.1 * heartbeat, Write(None, 2, (A1,), number=1))  # a tick may end a change of the servers
    leader(found, 1, 2)
    sends(Tick(), 1.0 + 2.2 * heartbeat)


def test_one_question_is_on_the_way() -> None:
    found = facts([], [])
    check, one = OneQuestion(found), found.servers[1]
    check.boots(one, LOADED, [])
    lost = 2 * found.timing.election_max

    def asks(clock: float, tag: int, event: Input | None = None) -> None:
        question = Send(2, Request(MessageType.CLIENT_REQUEST, 1, 2, 0, 0, 0, 0), tag)
        check.takes(one, event or Tick(), Effects(sends=[question]), clock)

    asks(1.0, 1)
    fires(check, lambda: asks(1.0 + lost / 2, 2), "asks server 2 for the leader again, 1.000 s after its last question")
    asks(1.0 + lost, 2)  # the first question is lost
    check.takes(one, Failed(2, 1), Effects(), 1.0 + lost)  # of an earlier question
    fires(check, lambda: asks(1.0 + lost, 3), "asks server 2 for the leader again")
    response = Response(ANSWER, 2, 1, 0, 0, accepted=False)
    check.takes(one, Answered(2, 2, response), Effects(), 1.0 + lost)
    asks(1.0 + lost, 3)
    check.takes(one, Failed(2, 3), Effects(), 1.0 + lost)
    asks(1.0 + lost, 4)
    asks(1.0 + lost, 5, Reachable(2))
    check.boots(one, LOADED, [])
    asks(1.0 + lost, 6)


def test_a_lost_question_is_asked_again_with_the_others() -> None:
    found = facts([], [], [])
    check, one = OneQuestion(found), found.servers[1]
    lost = 2 * found.timing.election_max

    def asks(clock: float, *peers: int) -> None:
        request = Request(MessageType.CLIENT_REQUEST, 1, 2, 0, 0, 0, 0)
        sends = [Send(peer, request, round(1000 * clock) + peer) for peer in peers]
        check.takes(one, Tick(), Effects(sends=sends), clock)

    check.boots(one, LOADED, [])
    asks(1.0, 2, 3)
    check.takes(one, Failed(2, 1002), Effects(), 1.1)
    asks(1.2, 2)
    check.takes(one, Failed(2, 1202), Effects(), 1.3)
    asks(1.0 + lost, 2)
    check.takes(one, Failed(2, round(1000 * (1.0 + lost)) + 2), Effects(), 1.0 + lost)
    fires(check, lambda: asks(1.1 + lost, 2), "server 1 waits for an answer of server 3 for 2.100 s")
    check.takes(one, Tick(), Effects(), 1.2 + lost)  # a server that asks nobody has its reasons


def test_a_question_that_was_lost_with_its_connection_is_asked_again() -> None:
    found = facts([], [])
    check, one = OneQuestion(found), found.servers[1]

    def connects(leader: int = NOBODY, base: int = 0) -> None:
        check.boots(one, LOADED, [])
        one.leader, one.memory.base = leader, base
        question = Send(2, Request(MessageType.CLIENT_REQUEST, 1, 2, 0, 0, 0, 0), 1)
        check.takes(one, Tick(), Effects(sends=[question]), 1.0)
        check.takes(one, Reachable(2), Effects(), 1.1)

    fires(check, connects, "server 1 has lost its question to server 2, and does not ask again")
    connects(leader=2)
    connects(base=1)  # a server without the state before its log may have to wait until it is asked
    check.takes(one, Reachable(2), Effects(), 1.2)  # no question was on the way


class Led:
    """A leader with a log of four entries, and one peer."""

    def __init__(self) -> None:
        self.facts = facts([A1] * 4, [])
        self.check = NothingTwice(self.facts)
        self.server = leader(self.facts, 1, 1)
        self._tag = 0

    def take(self, event: Input, *sends: Send) -> None:
        self.check.takes(self.server, event, Effects(sends=list(sends)), 0.0)

    def entries(self, previous: int, *entries: Entry) -> Send:
        self._tag += 1
        return Send(2, Request(APPEND, 1, 2, 1, 1, previous, 0, entries), self._tag)

    def answer(self, to: Send, *, accepted: bool = True, term: int = 1) -> Answered:
        return Answered(2, to.tag, Response(ANSWER, 2, 1, term, 1, accepted=accepted))

    def block(self, index: int) -> Send:
        self._tag += 1
        value = SnapshotSyncRequest(index, 1, Configuration(0, 0, ()), 0, b"state", done=True).encode()
        entry = Entry(1, ValueType.SNAPSHOT_SYNC_REQUEST, value)
        return Send(2, Request(MessageType.INSTALL_SNAPSHOT_REQUEST, 1, 2, 1, 1, index, 0, (entry,)), self._tag)

    def repeats(self, send: Send, last: int = 2) -> None:
        text = f"which the server has, or which are on the way, up to {last}"
        fires(self.check, lambda: self.take(Tick(), send), text)


def test_a_leader_sends_no_entry_that_is_on_the_way() -> None:
    led = Led()
    led.take(Tick(), led.entries(0, A1, A1))
    led.take(Tick(), led.entries(2), led.entries(0))  # heartbeats
    led.repeats(led.entries(1, A1))
    led.take(Tick(), led.entries(2, A1))


def test_a_leader_sends_no_entry_that_was_acknowledged() -> None:
    led = Led()
    first = led.entries(0, A1, A1)
    led.take(Tick(), first)
    led.take(led.answer(first))
    led.repeats(led.entries(0, A1))
    led.take(Failed(2, 99), led.entries(2, A1))
    led.take(Reachable(2), led.entries(2, A1))  # the same entry once more, after a loss
    led.repeats(led.entries(1, A1), last=3)


@pytest.mark.parametrize("what", ["refused", "failed", "reconnected", "removed", "new term"])
def test_after_a_loss_entries_are_sent_again(what: str) -> None:
    led = Led()
    first = led.entries(1, A1)
    led.take(Tick(), first)
    match what:
        case "refused":
            led.take(led.answer(first, accepted=False), led.entries(0, A1))
        case "failed":
            led.take(Failed(2, first.tag), led.entries(0, A1))
        case "reconnected":
            led.take(Reachable(2), led.entries(0, A1))
        case "removed":
            led.server.configurations = [(3, (1,))]
            led.take(Tick())
            led.server.configurations = [(4, (1, 2))]
            led.take(Tick(), led.entries(0, A1))
        case "new term":
            led.server.term = 2
            led.take(Tick(), led.entries(0, A1))


def test_an_answer_of_another_term_proves_nothing() -> None:
    led = Led()
    first = led.entries(0, A1, A1)
    led.take(Tick(), first)
    led.take(led.answer(first, term=2))
    led.repeats(led.entries(0, A1))


def test_after_a_refusal_the_next_probe_begins_earlier() -> None:
    led = Led()
    first = led.entries(2, A1)
    led.take(Tick(), first)
    refusal = led.answer(first, accepted=False)
    same = led.entries(2, A1)
    fires(led.check, lambda: led.take(refusal, same), "refused what follows entry 2, and leader 1 probes after entry 2")
    led = Led()
    first = led.entries(2, A1)
    led.take(Tick(), first)
    led.take(led.answer(first, accepted=False), led.entries(1, A1))


def test_a_refused_snapshot_is_not_sent_again() -> None:
    led = Led()
    block = led.block(3)
    led.take(Tick(), block)
    answer = Response(RESPONSE_TYPE[block.request.type], 2, 1, 1, 0, accepted=False)
    led.take(Answered(2, block.tag, answer))
    again = led.block(3)
    fires(led.check, lambda: led.take(Tick(), again), "and the server has refused the snapshot up to 3")
    led.take(Tick(), led.block(4))


def test_a_request_keeps_to_the_limits() -> None:
    led = Led()
    led.facts.flow = Flow(append_entries=2)
    led.take(Tick(), led.entries(0, A1, A1))
    fires(led.check, lambda: led.take(Tick(), led.entries(2, A1, A1, A1)), "leader 1 sends 3 entries in one request")
    led = Led()
    led.facts.flow = Flow(append_bytes=20)
    led.take(Tick(), led.entries(0, A1))
    fires(led.check, lambda: led.take(Tick(), led.entries(1, A1, A1)), "leader 1 sends 2 entries in one request")


@pytest.mark.parametrize(
    ("vote", "last_log", "term", "wrong"),
    [
        ((1, NOBODY), (1, 1), 2, True),  # the candidate's log is as new
        ((1, NOBODY), (2, 1), 2, True),
        ((1, NOBODY), (0, 0), 2, False),
        ((1, NOBODY), (1, 1), 1, False),  # a live leader: the answer does not take the term
        ((1, 3), (1, 1), 2, True),  # an earlier term's vote
        ((2, 3), (1, 1), 2, False),
        ((2, 2), (1, 1), 2, True),
    ],
)
def test_a_refused_vote_has_a_reason(vote: tuple[int, int], last_log: tuple[int, int], term: int, wrong: bool) -> None:
    found = facts([A1], [], [])
    check, one = VotesExplained(found), found.servers[1]
    check.boots(one, LOADED._replace(hard_state=HardState(*vote)), [])
    request = Request(VOTE, 2, 1, 2, last_log[0], last_log[1], 0)

    def take(*, accepted: bool) -> None:
        reply = SendReply("token", Response(VOTED, 1, 2, term, 0, accepted=accepted))
        check.takes(one, Incoming("token", request), Effects(gated_replies=[reply]), 0.0)

    take(accepted=True)
    if wrong:
        fires(check, lambda: take(accepted=False), "server 1 refuses server 2 its vote in term 2, without a reason")
    else:
        take(accepted=False)


def test_a_vote_counts_from_its_write_on() -> None:
    found = facts([A1], [], [])
    check, one = VotesExplained(found), found.servers[1]
    check.boots(one, LOADED, [])
    check.takes(one, Tick(), Effects(write=Write(HardState(2, 3), 2, (), number=1)), 0.0)
    reply = SendReply("token", Response(VOTED, 1, 2, 2, 0, accepted=False))
    check.takes(one, Incoming("token", Request(VOTE, 2, 1, 2, 1, 1, 0)), Effects(gated_replies=[reply]), 0.0)
