"""Each invariant about acts that are owed at once notices a violation made by hand, and is silent when all is well."""

from dataclasses import replace
from functools import partial

import pytest

from gf_i2p.raft.effects import Effects, HardState, ReadReady, Send, SendReply, Snapshot, Write
from gf_i2p.raft.election_timeout import LAST_RESORT
from gf_i2p.raft.inputs import (
    Answered,
    Failed,
    Incoming,
    Input,
    Proposal,
    Propose,
    Reachable,
    Read,
    Snapshotted,
    Stored,
    Tick,
    Unreachable,
)
from gf_i2p.raft.settings import Flow, Timing
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.cluster.invariants.promptness import (
    CallersAnswered,
    DenialsReported,
    LeaderGoesOn,
    PatienceEnds,
    ReadsEnd,
    SnapshotsKept,
)
from gf_i2p.simulator.cluster.plan import slower
from gf_i2p.simulator.facts import ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import SnapshotSyncRequest
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.raft.lab import application, configuration
from tests.simulator.cluster.invariants.made_facts import facts, fires, leader

A1 = application("a", 1)
APPEND, ANSWER = MessageType.APPEND_ENTRIES_REQUEST, MessageType.APPEND_ENTRIES_RESPONSE
LOADED = Loaded(HardState(1, NOBODY), 0, (), (), 1, 0, (0, 0), None, None, None)
NOTHING = Effects()


def incoming(message_type: MessageType = APPEND, source: int = 2, term: int = 1) -> Incoming:
    return Incoming("token", Request(message_type, source, 1, term, 0, 0, 0))


def reply(message_type: MessageType = ANSWER, *, accepted: bool = True) -> SendReply:
    return SendReply("token", Response(message_type, 1, 2, 1, 1, accepted=accepted))


def test_callers_get_an_answer() -> None:
    found = facts([], [])
    check, one = CallersAnswered(found), leader(found, 1, 1)
    check.boots(one, LOADED, [])
    fires(check, lambda: check.takes(one, incoming(), NOTHING, 0.0), "takes a APPEND_ENTRIES_REQUEST, and gives no")
    named = Effects(dropped=["token"], violation="it lies")
    for effects in (Effects(gated_replies=[reply()]), Effects(replies=[reply()]), named):
        check.boots(one, LOADED, [])
        check.takes(one, incoming(), effects, 0.0)
    unnamed = Effects(dropped=["token"])
    fires(check, lambda: check.takes(one, incoming(), unnamed, 0.0), "drops a APPEND_ENTRIES_REQUEST without a reason")
    check.takes(one, Propose([Proposal("a", [A1]), Proposal("b", [A1])]), NOTHING, 0.0)
    check.takes(one, incoming(MessageType.CLIENT_REQUEST), NOTHING, 0.0)
    check.takes(one, Tick(), NOTHING, 0.0)
    one.leads = False
    fires(check, lambda: check.takes(one, Tick(), Effects(dropped=["a", "token"]), 0.0), "gives 1 callers no answer")
    check.takes(one, Tick(), Effects(dropped=["b"]), 0.0)


class Led:
    """A leader with a log of three entries, and one peer."""

    def __init__(self, flow: Flow | None = None) -> None:
        self.facts = facts([A1, A1, A1], [])
        if flow is not None:
            self.facts.flow = flow
        self.check: Invariant = LeaderGoesOn(self.facts)
        self.server = leader(self.facts, 1, 1)
        self._tag = 0

    def take(self, event: Input, *sends: Send, wanted: bool = False) -> None:
        self.check.takes(self.server, event, Effects(sends=list(sends), snapshot_wanted=wanted), 0.0)

    def entries(self, previous: int, *entries: Entry) -> Send:
        self._tag += 1
        return Send(2, Request(APPEND, 1, 2, 1, 1, previous, 0, entries), self._tag)

    def block(self, offset: int, *, done: bool) -> Send:
        self._tag += 1
        value = SnapshotSyncRequest(2, 1, configuration((1, 2)), offset, b"data", done).encode()
        entry = Entry(1, ValueType.SNAPSHOT_SYNC_REQUEST, value)
        return Send(2, Request(MessageType.INSTALL_SNAPSHOT_REQUEST, 1, 2, 1, 0, 0, 0, (entry,)), self._tag)

    def answer(self, to: Send, index: int, *, accepted: bool = True, term: int = 1) -> Answered:
        return Answered(2, to.tag, Response(ANSWER, 2, 1, term, index, accepted=accepted))

    def stops(self, event: Input) -> None:
        fires(self.check, lambda: self.take(event), "leader 1 has an answer of server 2, and does not go on")


def test_a_leader_sends_the_next_entries_at_once() -> None:
    led = Led()
    first = led.entries(0, A1)
    led.take(Tick(), first)
    led.stops(led.answer(first, 2))
    led = Led()
    first, second = led.entries(0, A1), led.entries(1, A1)
    led.take(Tick(), first)
    led.take(led.answer(first, 2), second)
    third = led.entries(2, A1)
    led.take(led.answer(second, 3), third)
    led.take(led.answer(third, 4))  # the follower has all entries
    led.take(led.answer(third, 2))  # a second answer answers nothing


def test_a_leader_sends_new_entries_at_once_to_a_voter_that_agrees() -> None:
    def agreed() -> Led:
        led = Led()
        first = led.entries(0, A1, A1, A1)
        led.take(Tick(), first)
        led.take(led.answer(first, 4))
        return led

    def proposes(led: Led, *sends: Send) -> None:
        write = Write(None, 4, (A1,), number=1)
        event = Propose([Proposal("token", [A1])])
        led.check.takes(led.server, event, Effects(sends=list(sends), write=write), 0.0)

    led = agreed()
    fires(led.check, lambda: proposes(led), "leader 1 has new entries, and sends server 2 nothing")
    led = agreed()
    proposes(led, led.entries(3, A1))
    led = agreed()
    led.take(Reachable(2))
    proposes(led)  # the leader must first see whether the logs agree


def test_a_leader_commits_at_once_what_a_majority_has() -> None:
    led = Led()
    first = led.entries(0, A1)
    led.take(Tick(), first)
    led.server.stored = 3
    rest = led.entries(1, A1, A1)
    fires(led.check, lambda: led.take(led.answer(first, 2), rest), "leader 1 does not commit entry 1, which a majority")
    led.server.commit = 1
    led.take(Stored(1))
    led.server.term = 2
    probe = led.entries(1, A1)
    led.take(Tick(), probe)
    led.take(Stored(2))  # entries of an old term wait for an entry of the new term


def test_a_leader_steps_back_at_once() -> None:
    led = Led()
    probe = led.entries(3)
    led.take(Tick(), probe)
    led.stops(led.answer(probe, 2, accepted=False))
    led = Led()
    probe = led.entries(3)
    led.take(Tick(), probe)
    led.take(led.answer(probe, 2, accepted=False), led.entries(1, A1, A1))
    led = Led()
    probe = led.entries(3)
    led.take(Tick(), probe)
    led.stops(led.answer(probe, 0, accepted=False))  # the follower needs a snapshot
    led = Led()
    probe = led.entries(3)
    led.take(Tick(), probe)
    led.take(led.answer(probe, 0, accepted=False), led.block(0, done=True))
    led.take(led.answer(probe, 2, accepted=False))  # a second answer answers nothing
    led = Led()
    probe = led.entries(3)
    led.take(Tick(), probe)
    led.take(led.answer(probe, 2, term=2, accepted=False))  # an answer of a higher term


def test_a_leader_sends_the_next_block_at_once() -> None:
    led = Led()
    block = led.block(0, done=False)
    led.take(Tick(), block)
    led.stops(led.answer(block, 4))
    led = Led()
    block = led.block(0, done=False)
    led.take(Tick(), block)
    last = led.block(4, done=True)
    led.take(led.answer(block, 4), last)
    led.stops(led.answer(last, 8))  # entry 3 follows the snapshot
    led = Led()
    last = led.block(4, done=True)
    led.take(Tick(), last)
    led.stops(led.answer(last, 0, accepted=False))  # the follower wants the block at 0
    led = Led()
    last = led.block(4, done=True)
    led.take(Tick(), last)
    led.take(led.answer(last, 4, accepted=False))  # the follower does not want this snapshot


def test_a_leader_has_few_requests_on_the_way() -> None:
    led = Led(Flow(in_flight=2))
    led.take(Tick(), led.entries(0, A1), led.entries(1, A1))
    fires(led.check, lambda: led.take(Tick(), led.entries(2, A1)), "leader 1 has 3 requests to 2 on the way")
    for lost in (Reachable(2), Failed(2, 1)):
        led = Led(Flow(in_flight=2))
        led.take(Tick(), led.entries(0, A1), led.entries(1, A1))
        led.take(lost, led.entries(0, A1))
        led.take(Tick(), led.entries(1, A1))


class Denied(Led):
    """A leader whose follower has acknowledged entry 3."""

    def __init__(self) -> None:
        super().__init__()
        self.check = DenialsReported(self.facts)
        sent = self.entries(2, A1)
        self.take(Tick(), sent)
        self.take(self.answer(sent, 4))

    def denies(self, previous: int, index: int = 1) -> Answered:
        beat = self.entries(previous)
        self.take(Tick(), beat)
        return self.answer(beat, index, accepted=False)


def test_a_leader_reports_once_that_a_follower_has_lost_its_log() -> None:
    reports = Effects(violation="server 2 has lost acknowledged entries")
    silent, told, other = Denied(), Denied(), Denied()
    fires(silent.check, partial(silent.take, silent.denies(3)), "does not report server 2, which denies entries")
    told.check.takes(told.server, told.denies(3), reports, 0.0)
    told.take(told.denies(2))
    told.server.term = 2
    told.take(told.answer(told.entries(3), 1, accepted=False))  # another term, which knows of no acknowledgement
    other.take(other.denies(3, 0))  # the follower needs a snapshot
    other.take(other.denies(0))
    other.facts.servers[1].memory = facts([A1] * 9).servers[1].memory
    other.take(other.denies(5))


class Patient:
    """A follower of server 2 in term 1, heard at 10 s, with a check that knows this."""

    def __init__(self) -> None:
        self.facts = facts([], [], [])
        self.timing = self.facts.timing
        self.check = PatienceEnds(self.facts)
        self.server = self.facts.servers[1]
        self.server.term, self.server.started_at = 1, 1.0
        self.check.boots(self.server, LOADED, [])
        self.server.leader = 2
        self.take(incoming(), 10.0)

    def take(self, event: Input, at: float, effects: Effects = NOTHING, *, deadline: float = 0.0) -> None:
        self.server.deadline = deadline
        self.check.takes(self.server, event, effects, at)


def votes(server: ServerFacts) -> Effects:
    return Effects(gated_sends=[Send(3, Request(MessageType.REQUEST_VOTE_REQUEST, server.id, 3, 2, 0, 0, 0), 1)])


QUESTION = Effects(sends=[Send(3, Request(MessageType.CLIENT_REQUEST, 1, 3, 0, 0, 0, 0), 1)])


def test_a_silent_leader_is_given_up() -> None:
    made = Patient()
    limit = 10.0 + made.timing.election_max + made.timing.heartbeat
    made.take(Tick(), limit)
    fires(made.check, lambda: made.take(Tick(), limit + 0.01), "still follows server 2, which is silent for")
    made.server.leader = NOBODY
    made.take(Tick(), limit + 0.01)


def test_shorter_time_outs_end_the_patience_sooner() -> None:
    made = Patient()
    fast, slow = made.timing, slower(made.timing, 2.0)
    made.facts.slowest = made.server.timing = slow
    made.take(incoming(), 10.0)
    made.take(Tick(), 10.0 + slow.election_max)
    made.server.timing = fast
    made.check.retimed(made.server, 10.5)
    limit = 10.5 + fast.election_max + slow.heartbeat
    assert limit < 10.0 + slow.election_max
    made.take(Tick(), limit)
    fires(made.check, lambda: made.take(Tick(), limit + 0.01), "still follows server 2")
    made.server.leads = True
    made.check.retimed(made.server, 10.0)


def test_longer_time_outs_keep_a_server_that_has_heard_nobody_from_standing() -> None:
    fast, slow = Patient().timing, slower(Patient().timing, 2.0)
    for heard in (False, True):
        made = Patient()
        made.check.boots(made.server, LOADED, [])
        made.server.leader = NOBODY
        made.server.timing = slow
        made.check.retimed(made.server, 1.1)
        if heard:
            made.server.leader = 2
            made.take(incoming(), 1.1)
            made.take(Tick(), 1.1 + fast.election_min, votes(made.server))
        else:
            soon = 1.1 + slow.election_min
            early = partial(made.take, Tick(), soon - 0.01, votes(made.server))
            fires(made.check, early, "server 1 stands for election")
            made.take(Tick(), soon, votes(made.server))


def test_a_server_that_starts_asks_nobody_for_a_moment() -> None:
    made = Patient()
    made.check.boots(made.server, LOADED, [])
    made.server.leader = NOBODY
    soon = 1.0 + made.timing.doubt
    made.take(Reachable(3), 1.0, QUESTION)
    fires(made.check, lambda: made.take(Tick(), soon - 0.01, QUESTION), "asks for the leader, 0.240 s after its start")
    made.take(Tick(), soon, QUESTION)


def test_a_leader_that_cannot_be_dialled_is_given_up_sooner() -> None:
    made, timing = Patient(), Patient().timing
    soon = 10.0 + timing.doubt
    fires(made.check, lambda: made.take(Unreachable(2), 10.0, deadline=soon + 0.1), "does nothing until 0.100 s after")
    made = Patient()
    made.take(Unreachable(2), 10.0, deadline=soon)
    made.take(Unreachable(2), 10.1, deadline=soon + 0.1)  # the questions have begun
    limit = soon + timing.election_min + timing.heartbeat
    assert limit < 10.0 + timing.election_max + timing.heartbeat
    made.take(Tick(), limit)
    fires(made.check, lambda: made.take(Tick(), limit + 0.01), "still follows server 2")
    made.take(Reachable(2), limit)
    made.take(Tick(), limit + 0.01)


def test_a_leader_whose_machine_refuses_connections_is_given_up_soonest() -> None:
    made, timing = Patient(), Patient().timing
    soon, refused = 10.0 + timing.doubt_when_refused, Unreachable(2, refused=True)
    fires(made.check, lambda: made.take(refused, 10.0, deadline=soon + 0.1), "does nothing until 0.100 s after")
    made = Patient()
    made.take(Unreachable(2), 10.0, deadline=10.0 + timing.doubt)
    fires(made.check, lambda: made.take(refused, 10.0, deadline=soon + 0.1), "does nothing until 0.100 s after")
    made = Patient()
    made.take(refused, 10.0, deadline=soon)
    made.take(refused, 10.1, deadline=soon + 0.1)  # the questions have begun
    made.take(Unreachable(2), 10.1, deadline=soon + 0.1)
    made.take(Tick(), soon, QUESTION)
    limit = soon + timing.election_min / 2 + timing.heartbeat
    made.take(Tick(), limit)
    fires(made.check, lambda: made.take(Tick(), limit + 0.01), "still follows server 2")
    made.take(Reachable(2), limit)
    made.take(Tick(), limit + 0.01)


def test_a_refusal_shows_no_more_than_silence_after_the_leader_was_heard_again() -> None:
    made, timing = Patient(), Patient().timing
    refused = Unreachable(2, refused=True)
    made.take(refused, 10.0, deadline=10.0 + timing.doubt_when_refused)
    made.take(incoming(), 10.1)
    made.take(refused, 10.1, deadline=10.1 + timing.doubt)
    made.take(Reachable(2), 10.2)
    late = 10.2 + timing.doubt
    fires(made.check, lambda: made.take(refused, 10.2, deadline=late), "does nothing until")


def test_a_server_that_hears_its_leader_asks_nobody() -> None:
    made, timing = Patient(), Patient().timing
    early = 10.0 + timing.election_min - 0.01
    fires(made.check, lambda: made.take(Tick(), early, QUESTION), "asks for the leader, 0.490 s after a message")
    made.take(Tick(), early + 0.01, QUESTION)
    made.take(Unreachable(2), 10.1)
    made.take(Tick(), 10.0 + timing.doubt, QUESTION)
    made = Patient()
    granted = Effects(gated_replies=[reply(MessageType.REQUEST_VOTE_RESPONSE)])
    made.take(incoming(MessageType.REQUEST_VOTE_REQUEST), 10.1, granted)
    made.take(Tick(), 10.2, QUESTION)  # the vote's own pause counts


def test_a_server_waits_after_its_start_and_after_its_leadership() -> None:
    made = Patient()
    made.check.boots(made.server, LOADED, [])
    made.server.leader = NOBODY
    early = 1.0 + made.timing.election_min - 0.01
    fires(made.check, lambda: made.take(Tick(), early, votes(made.server)), "0.490 s after its start")
    made.take(Tick(), early + 0.01, votes(made.server))
    made.server.leads = True
    made.take(Tick(), 20.0)
    made.server.leads = False
    made.take(Tick(), 21.0)
    fires(made.check, lambda: made.take(Tick(), 21.1, votes(made.server)), "0.100 s after its start, or after the end")
    made.take(Tick(), 21.0 + made.timing.election_min, votes(made.server))


@pytest.mark.parametrize("asked", [True, False])
def test_a_server_outside_the_configuration_waits_to_be_asked(asked: bool) -> None:
    made = Patient()
    made.server.bootstrap = (2, 3)
    made.server.leader = NOBODY
    if asked:
        made.take(incoming(MessageType.REQUEST_VOTE_REQUEST, source=3), 10.1)
        made.take(Tick(), 11.0, votes(made.server))
        return
    fires(made.check, lambda: made.take(Tick(), 11.0, votes(made.server)), "is no voter, was not asked, and stands")
    made = Patient()
    made.server.bootstrap, made.server.leader, made.server.stands_at = (2, 3), NOBODY, 10.9
    made.take(Reachable(2), 10.5)
    for end in range(11, 11 + LAST_RESORT):
        made.server.stands_at = end + 0.9
        made.take(Tick(), float(end))
        made.take(Tick(), end + 0.5)
    fires(made.check, lambda: made.take(Reachable(3), 16.5, votes(made.server)), "is no voter, was not asked, and")
    made.take(Tick(), 17.0, votes(made.server))  # the last resort


def test_reads_end() -> None:
    found = facts([A1], [])
    check, one = ReadsEnd(found), leader(found, 1, 1)
    one.commit = 1
    check.boots(one, LOADED, [])
    beat = found.timing.heartbeat

    def wait(beats: int, begin: float) -> None:
        for number in range(beats):
            check.takes(one, Tick(), NOTHING, begin + number * beat)

    most = round(5 * found.timing.election_max / beat)
    check.takes(one, Read("read"), NOTHING, 0.0)
    wait(most, 0.0)
    check.takes(one, Tick(), NOTHING, 900.0)  # the process was paused
    fires(check, lambda: wait(3, 900.0), "leaves a read without an answer")
    check.takes(one, Tick(), Effects(reads_ready=[ReadReady("read", 1)]), 901.0)
    twice = Effects(reads_ready=[ReadReady("read", 1)])
    fires(check, lambda: check.takes(one, Tick(), twice, 901.0), "server 1 answers a read twice")
    check.takes(one, Read("other"), Effects(reads_refused=["other"]), 901.0)
    wait(2 * most, 901.0)
    check.takes(one, Read("early"), NOTHING, 950.0)
    one.commit = 0
    wait(2 * most, 950.0)  # the leader has committed nothing of its term


def test_reads_that_wait_make_a_round_begin() -> None:
    found = facts([A1], [A1])
    check, one = ReadsEnd(found), leader(found, 1, 1)
    answered = Answered(2, 1, Response(ANSWER, 2, 1, 1, 2, accepted=True))
    beat = Send(2, Request(APPEND, 1, 2, 1, 1, 1, 1), 2)
    check.boots(one, LOADED, [])
    check.takes(one, Read("first"), NOTHING, 0.0)
    check.takes(one, answered, NOTHING, 0.0)  # no entry of the leader's term is committed
    one.commit = 1
    fires(check, lambda: check.takes(one, answered, NOTHING, 0.0), "leader 1 begins no round for 1 reads that wait")
    check.takes(one, answered, Effects(sends=[beat]), 0.0)
    check.takes(one, Read("second"), NOTHING, 0.0)
    ready = [ReadReady("first", 1)]
    check.takes(one, answered, Effects(sends=[beat], reads_ready=ready), 0.0)
    check.takes(one, Read("third"), NOTHING, 0.0)
    ends = Effects(reads_ready=[ReadReady("second", 1)])
    fires(check, lambda: check.takes(one, answered, ends, 0.0), "leader 1 begins no round for 1 reads that wait")
    check.takes(one, answered, Effects(reads_ready=[ReadReady("third", 1)]), 0.0)


def test_a_leader_that_is_the_only_voter_lets_no_read_wait() -> None:
    for servers, is_owed in ((1, True), (2, False)):
        found = facts(*([A1],) * servers)
        check, one = ReadsEnd(found), leader(found, 1, 1)
        one.commit = 1
        check.boots(one, LOADED, [])
        take = partial(check.takes, one, Read("read"), NOTHING, 0.0)
        if is_owed:
            fires(check, take, "leader 1 is the only voter, and lets 1 reads wait")
        else:
            take()


@pytest.mark.parametrize("doubt", [0.19, 0.24, 0.51])
def test_a_follower_doubts_its_leader_neither_too_soon_nor_too_late(
    monkeypatch: pytest.MonkeyPatch, doubt: float
) -> None:
    found = facts([], [])
    check = PatienceEnds(found)
    check.boots(found.servers[1], LOADED, [])
    monkeypatch.setattr(Timing, "doubt", doubt)
    fires(check, lambda: check.boots(found.servers[1], LOADED, []), f"has a doubt of {doubt}")
    monkeypatch.undo()
    monkeypatch.setattr(Timing, "doubt_when_refused", 0.1)
    fires(check, lambda: check.retimed(found.servers[1], 1.0), "has a doubt of 0.25 and 0.1 s")


def test_snapshots_are_kept() -> None:
    found = facts([A1, A1, A1])
    check, one = SnapshotsKept(found), found.servers[1]
    event = Snapshotted(2, b"state", 0)
    fires(check, lambda: check.takes(one, event, NOTHING, 0.0), "does not keep the snapshot up to 2")
    one.memory.snapshot = Snapshot(2, 1, configuration((1,)), b"state")
    check.takes(one, event, NOTHING, 0.0)
    one.memory.snapshot, one.memory.base = None, 3
    check.takes(one, event, NOTHING, 0.0)  # an installed snapshot was newer, and is damaged now
    leaders = Snapshot(5, 1, configuration((1,)), b"state")
    installs = Effects(restore=leaders, write=Write(None, 0, (), leaders, install=True))
    check.takes(one, incoming(), installs, 0.0)
    one.memory.snapshot = leaders
    wants, refusal = Effects(snapshot_wanted=True), MessageType.INSTALL_SNAPSHOT_RESPONSE
    fires(check, partial(check.takes, one, Tick(), wants, 0.0), "server 1 asks for a snapshot, and has one up to 5")
    check.takes(one, Answered(2, 7, Response(refusal, 2, 1, 1, 0, accepted=False)), wants, 0.0)
    one.memory.snapshot = replace(leaders, index=6)
    fires(check, partial(check.takes, one, Tick(), wants, 0.0), "server 1 asks for a snapshot, and has one up to 6")
    one.memory.snapshot = None
    check.takes(one, Tick(), wants, 0.0)
    for lost in (Effects(restore=leaders), Effects(restore=leaders, write=Write(None, 1, (A1,), number=1))):
        fires(check, partial(check.takes, one, incoming(), lost, 0.0), "does not keep the leader's snapshot up to 5")
