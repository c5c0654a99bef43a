"""Each invariant about changes of the servers notices a violation made by hand, and is silent when all is well."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from gf_i2p.raft.effects import Effects, Send, SendReply, Write
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Reachable, Stored, Tick
from gf_i2p.raft.membership_change import JOIN_PATIENCE, MAX_ROUNDS
from gf_i2p.simulator.cluster.invariants.joining import (
    ChangesExplained,
    JoinGoesOn,
    LeaversForgotten,
    LeavingWaits,
    RemovalTold,
)
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import LogPack, encode_server_id
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, Request, Response
from tests.raft.lab import application, configuration
from tests.simulator.cluster.invariants.made_facts import facts, fires, leader

JOIN, PACK = MessageType.JOIN_CLUSTER_REQUEST, MessageType.SYNC_LOG_REQUEST
BLOCK = MessageType.INSTALL_SNAPSHOT_REQUEST


class Inviting:
    """Leader 1 of a farm of two servers, which has invited server 3."""

    def __init__(self) -> None:
        self.facts = facts([application("a", 1)] * 9, [])
        self.check = JoinGoesOn(self.facts)
        self.server = leader(self.facts, 1, 1)
        self.server.contacts = {2: "tcp://b:1", 3: "tcp://c:1"}
        self.server.deadline, self.server.commit = 0.0, 9
        self._tag = 0
        self.invitation = self.request(JOIN)
        self.take(Tick(), self.invitation)

    def request(self, kind: MessageType, previous: int = 0) -> Send:
        self._tag += 1
        self.last = Send(3, Request(kind, 1, 3, 1, 1, previous, 0), self._tag)
        return self.last

    def answer(self, to: Send, next_index: int = 9, *, accepted: bool = True, term: int = 1) -> Answered:
        kind = RESPONSE_TYPE[to.request.type]
        return Answered(3, to.tag, Response(kind, 3, 1, term, next_index, accepted=accepted))

    def pack(self, previous: int, length: int) -> Send:
        send = self.request(PACK, previous)
        pack = Entry(1, ValueType.LOG_PACK, LogPack((application("a", 1),) * length).encode())
        return send._replace(request=replace(send.request, entries=(pack,)))

    def adds(self, event: Input, clock: float) -> None:
        """Make the newcomer a voter."""
        self.server.bootstrap = (1, 2, 3)
        self.take(event, clock=clock)

    def take(
        self, event: Input, *sends: Send, notice: str | None = None, wanted: bool = False, clock: float = 0.0
    ) -> None:
        self.check.takes(self.server, event, Effects(sends=list(sends), notice=notice, snapshot_wanted=wanted), clock)

    def stops(self, event: Input) -> None:
        fires(self.check, lambda: self.take(event), "leader 1 has an answer of newcomer 3, and does not go on")


def test_each_answer_is_followed_by_the_next_request() -> None:
    inviting = Inviting()
    block, pack = inviting.request(BLOCK, 4), inviting.pack(4, 1)
    inviting.take(inviting.answer(inviting.invitation), block)
    inviting.take(inviting.answer(block), pack)
    inviting.take(inviting.answer(block))  # an answer that came twice
    inviting.stops(inviting.answer(pack))


def test_an_end_of_the_join_is_no_lack_of_a_request() -> None:
    inviting = Inviting()
    inviting.take(inviting.answer(inviting.invitation, accepted=False), notice="the server refuses")
    inviting.take(Tick())


@pytest.mark.parametrize(
    ("next_index", "is_taken"), [(0, False), (4, True), (5, True), (6, True), (7, True), (8, False)]
)
def test_a_newcomer_that_knows_what_it_needs_is_not_given_up(next_index: int, is_taken: bool) -> None:
    inviting = Inviting()
    pack = inviting.pack(4, 2)
    inviting.take(inviting.answer(inviting.invitation), pack)
    answer = inviting.answer(pack, next_index)
    if is_taken:
        fires(
            inviting.check,
            lambda: inviting.take(answer, notice="too slow"),
            "leader 1 gives newcomer 3 up, after . answers that were late or brought nothing: too slow",
        )
    else:
        inviting.take(answer, notice="the server takes no entries")


def slow(late: int, commit: int = 2) -> tuple[Inviting, Answered, float]:
    """A leader whose newcomer has answered `late` times too late; the next answer, and its time."""
    inviting = Inviting()
    inviting.server.commit = commit
    pause, clock = inviting.facts.timing.election_max + 0.1, 0.0
    pack = inviting.pack(0, 2)
    inviting.take(inviting.answer(inviting.invitation), pack)
    for _ in range(late - 1):
        clock += pause
        before, pack = pack, inviting.pack(0, 2)
        inviting.take(inviting.answer(before, 3), pack, clock=clock)
    return inviting, inviting.answer(pack, 3), clock + pause


def test_a_slow_newcomer_is_given_up_only_after_many_rounds() -> None:
    inviting, answer, clock = slow(MAX_ROUNDS)
    inviting.take(answer, notice="too slow", clock=clock)
    for inviting, answer, clock in (slow(MAX_ROUNDS - 1), slow(MAX_ROUNDS, commit=9)):  # of 9, packs to 2 are no last
        fires(
            inviting.check,
            partial(inviting.take, answer, notice="too slow", clock=clock),
            "leader 1 gives newcomer 3 up, after . answers that were late or brought nothing: too slow",
        )


def test_a_newcomer_is_given_up_with_a_reason() -> None:
    inviting = Inviting()
    inviting.server.contacts = {2: "tcp://b:1"}
    fires(inviting.check, lambda: inviting.take(Tick()), "leader 1 gives newcomer 3 up, and gives no reason")
    inviting = Inviting()
    inviting.server.contacts = {2: "tcp://b:1"}
    inviting.take(Tick(), notice="it was not heard", clock=JOIN_PATIENCE * inviting.facts.timing.election_max)


def test_a_silent_newcomer_is_given_up_neither_too_soon_nor_never() -> None:
    patience = JOIN_PATIENCE * Inviting().facts.timing.election_max
    early, late, heard = Inviting(), Inviting(), Inviting()
    text = "leader 1 gives a newcomer up that was silent for"
    fires(early.check, lambda: early.take(Tick(), notice="it was not heard", clock=patience - 0.1), text)
    text = "leader 1 waits on for a newcomer that was silent for"
    fires(late.check, lambda: late.take(Tick(), clock=patience + 0.1), text)
    heard.take(heard.answer(heard.invitation), heard.pack(0, 1), clock=1.0)
    heard.take(Tick(), clock=patience + 0.5)


def test_a_newcomer_that_accepts_the_invitation_is_not_given_up() -> None:
    inviting = Inviting()
    answer = inviting.answer(inviting.invitation)
    fires(inviting.check, lambda: inviting.take(answer, notice="no"), "leader 1 gives newcomer 3 up, after . answers")


def test_a_snapshot_that_must_be_made_first_is_no_lack_of_a_request() -> None:
    inviting = Inviting()
    inviting.take(inviting.answer(inviting.invitation), wanted=True)


def joins(inviting: Inviting) -> None:
    inviting.server.bootstrap = (1, 2, 3)


def leads_anew(inviting: Inviting) -> None:
    inviting.server.term = 2


def resigns(inviting: Inviting) -> None:
    inviting.server.leads = False


@pytest.mark.parametrize("change", [joins, leads_anew, resigns])
def test_after_the_join_and_after_the_term_nothing_is_owed(change: Callable[[Inviting], None]) -> None:
    inviting = Inviting()
    change(inviting)
    inviting.take(inviting.answer(inviting.invitation))


@pytest.mark.parametrize("event", [Failed(3, 1), Reachable(3), Reachable(2)])
def test_after_a_loss_the_next_tick_goes_on(event: Input) -> None:
    inviting = Inviting()
    inviting.take(event)


def test_the_packs_go_on_after_the_snapshot() -> None:
    inviting = Inviting()
    block = inviting.request(BLOCK, 4)
    inviting.take(inviting.answer(inviting.invitation), block)
    wrong = inviting.request(PACK, 5)
    fires(
        inviting.check,
        lambda: inviting.take(inviting.answer(block, 100), wrong),
        "newcomer 3 has a snapshot up to 4, and leader 1 goes on after 5",
    )


def test_a_newcomer_that_took_nothing_once_is_not_given_up() -> None:
    inviting = Inviting()
    inviting.take(inviting.answer(inviting.invitation), inviting.pack(4, 3))
    answer = inviting.answer(inviting.last, 1, accepted=False)
    fires(
        inviting.check,
        lambda: inviting.take(answer, notice="it is odd"),
        "leader 1 gives newcomer 3 up, after 1 answers that were late or brought nothing: it is odd",
    )


def test_a_lost_request_leaves_again_a_heartbeat_later() -> None:
    inviting = Inviting()
    heartbeat = inviting.facts.timing.heartbeat
    inviting.server.deadline = heartbeat
    inviting.take(Failed(3, inviting.invitation.tag))
    inviting.server.deadline = 1.5 * heartbeat
    fires(inviting.check, lambda: inviting.take(Tick()), "leader 1 has no request to newcomer 3, and plans none")
    inviting.take(Tick(), wanted=True, clock=heartbeat / 2)  # the snapshot must be made first
    inviting.take(Tick(), inviting.request(JOIN), clock=heartbeat)
    inviting.server.deadline = 9.0
    inviting.take(Tick(), clock=heartbeat)  # a request is on the way


def test_a_newcomer_that_takes_nothing_is_given_up() -> None:
    stubborn, patient = Inviting(), Inviting()
    for inviting in (stubborn, patient):
        inviting.take(inviting.answer(inviting.invitation), inviting.pack(4, 3))
        for _ in range(MAX_ROUNDS - 1):
            inviting.take(inviting.answer(inviting.last, 1, accepted=False))
            inviting.take(Tick(), inviting.request(JOIN))
            inviting.take(inviting.answer(inviting.last), inviting.pack(4, 3))
    again = stubborn.answer(stubborn.last, 1, accepted=False)
    fires(stubborn.check, lambda: stubborn.take(again), "newcomer 3 takes nothing, and leader 1 does not give up")
    patient.take(patient.answer(patient.last, 1, accepted=False), notice="server 3 takes no entries")


def test_a_newcomer_with_all_committed_entries_becomes_a_voter_at_once() -> None:
    late = Inviting().facts.timing.election_max + 0.1
    for commit, clock, is_owed in ((6, 0.1, True), (7, 0.1, False), (6, late, False)):
        inviting = Inviting()
        inviting.server.commit = commit
        pack = inviting.pack(4, 2)
        inviting.take(inviting.answer(inviting.invitation), pack)
        more, answer = inviting.pack(6, 1), inviting.answer(pack, 7)
        if is_owed:
            text = "newcomer 3 has caught up, and leader 1 sends it more"
            fires(inviting.check, lambda: inviting.take(answer, more, clock=clock), text)  # noqa: B023
        else:
            inviting.take(answer, more, clock=clock)


def test_a_newcomer_that_asks_for_what_was_never_offered_becomes_no_voter() -> None:
    inviting = Inviting()
    pack = inviting.pack(4, 2)
    inviting.take(inviting.answer(inviting.invitation), pack)
    text = "newcomer 3 asks for entry 9, which leader 1 has not offered, and becomes a voter"
    fires(inviting.check, lambda: inviting.adds(inviting.answer(pack, 9), 0.1), text)


@pytest.mark.parametrize(("commit", "clock", "is_early"), [(10, 0.1, False), (30, 0.1, True), (6, 9.0, False)])
def test_a_newcomer_that_lacks_many_entries_becomes_no_voter(commit: int, clock: float, is_early: bool) -> None:
    inviting = Inviting()
    inviting.server.commit = commit
    pack = inviting.pack(4, 2)
    inviting.take(inviting.answer(inviting.invitation), pack)
    if is_early:
        text = "newcomer 3 lacks 24 entries, and leader 1 makes it a voter"
        fires(inviting.check, lambda: inviting.adds(inviting.answer(pack, 7), clock), text)
    else:
        inviting.adds(inviting.answer(pack, 7), clock)


def test_an_answer_of_another_term_is_left_to_other_rules() -> None:
    inviting = Inviting()
    inviting.take(inviting.answer(inviting.invitation, term=2))


def test_a_newcomer_that_took_nothing_is_invited_again() -> None:
    inviting = Inviting()
    pack, again = inviting.pack(4, 1), inviting.request(JOIN)
    inviting.take(inviting.answer(inviting.invitation), pack)
    inviting.take(inviting.answer(pack, 5, accepted=False))
    late = inviting.request(PACK, 4)
    text = "newcomer 3 took nothing of a pack, and leader 1 sends no new invitation"
    fires(inviting.check, lambda: inviting.take(Tick(), late), text)
    inviting.take(Tick(), again)
    inviting.stops(inviting.answer(again))


class Asked:
    """Leader 1 of a farm of servers 1 and 2, which refuses changes of the servers. All four entries are committed."""

    def __init__(self) -> None:
        self.facts = facts([application("a", 1)] * 4, [])
        self.check = ChangesExplained(self.facts)
        self.server = leader(self.facts, 1, 1)
        self.server.commit = 4

    def take(self, *sends: Send, entries: tuple[Entry, ...] = (), notice: str | None = None) -> None:
        write = Write(None, 5, entries, number=1) if entries else None
        self.check.takes(self.server, Tick(), Effects(write=write, sends=list(sends), notice=notice), 0.0)

    def refuse(self, *, add: int | None = None, remove: int | None = None) -> None:
        if add is not None:
            kind, value = MessageType.ADD_SERVER_REQUEST, configuration([add]).servers[0].encode()
        else:
            assert remove is not None
            kind, value = MessageType.REMOVE_SERVER_REQUEST, encode_server_id(remove)
        request = Request(kind, NOBODY, 1, 0, 0, 0, 0, (Entry(0, ValueType.CLUSTER_SERVER, value),))
        reply = SendReply("order", Response(RESPONSE_TYPE[kind], 1, 1, 1, 5, accepted=False))
        self.check.takes(self.server, Incoming("order", request), Effects(replies=[reply]), 0.0)

    def accept(self, request: Request, *sends: Send, entries: tuple[Entry, ...] = (), index: int = 5) -> None:
        write = Write(None, 5, entries, number=1) if entries else None
        response = Response(RESPONSE_TYPE[request.type], 1, 1, 1, index, accepted=True)
        effects = Effects(write=write, sends=list(sends), replies=[SendReply("order", response)])
        self.check.takes(self.server, Incoming("order", request), effects, 0.0)

    def is_wrong(self) -> None:
        fires(self.check, lambda: self.refuse(add=3), "leader 1 refuses a ADD_SERVER_REQUEST without a reason")
        fires(self.check, lambda: self.refuse(remove=2), "leader 1 refuses a REMOVE_SERVER_REQUEST without a reason")


def test_a_refused_change_needs_a_reason() -> None:
    asked = Asked()
    asked.is_wrong()
    asked.refuse(add=2)  # a voter
    asked.refuse(remove=3)  # no voter
    asked.server.bootstrap = (1,)
    asked.refuse(remove=1)  # the only voter


def order(*, add: int | None = None, remove: int | None = None) -> Request:
    """An operator's order."""
    if add is not None:
        kind, value = MessageType.ADD_SERVER_REQUEST, configuration([add]).servers[0].encode()
    else:
        assert remove is not None
        kind, value = MessageType.REMOVE_SERVER_REQUEST, encode_server_id(remove)
    return Request(kind, NOBODY, 1, 0, 0, 0, 0, (Entry(0, ValueType.CLUSTER_SERVER, value),))


def test_an_accepted_change_begins_at_once() -> None:
    invites = Send(3, Request(JOIN, 1, 3, 1, 1, 4, 4), 1)
    tells = Send(2, Request(MessageType.LEAVE_CLUSTER_REQUEST, 1, 2, 1, 0, 4, 4), 1)
    removal = (Entry(1, ValueType.CONFIGURATION, b""),)
    Asked().accept(order(add=3), invites)
    Asked().accept(order(add=2))  # a voter already
    Asked().accept(order(remove=2), tells)
    Asked().accept(order(remove=1), entries=removal)
    for request, sends in ((order(add=3), []), (order(add=2), [invites]), (order(remove=2), [])):
        made = Asked()
        text = f"leader 1 accepts a {request.type.name}, and does not begin the change"
        fires(made.check, partial(made.accept, request, *sends), text)
    made = Asked()
    fires(made.check, lambda: made.accept(order(remove=1)), "and does not begin the change")
    made = Asked()
    fires(made.check, lambda: made.accept(order(add=2), index=4), "with the index 4, and its log ends before 5")


def test_a_change_under_way_is_a_reason_until_it_ends() -> None:
    for end in ({"notice": "failed"}, {"entries": (Entry(1, ValueType.CONFIGURATION, b""),)}):
        asked = Asked()
        asked.take(Send(3, Request(JOIN, 1, 3, 1, 1, 4, 4), 1))
        asked.refuse(add=4)
        asked.take(entries=(application("b", 1),))
        asked.refuse(remove=2)
        asked.take(**end)
        asked.is_wrong()


def test_what_is_not_committed_is_a_reason() -> None:
    asked = Asked()
    asked.server.configurations = [(4, (1, 2))]
    asked.is_wrong()
    asked.server.commit = 3
    asked.refuse(add=3)
    asked = Asked()
    asked.server.term = 2
    asked.refuse(add=3)


def test_a_server_that_knows_of_its_removal_gets_no_more_entries() -> None:
    def told(commit: int, *, accepted: bool = True) -> tuple[LeaversForgotten, Callable[..., None]]:
        found = facts([application("a", 1)] * 3, [], [])
        check, one = LeaversForgotten(found), leader(found, 1, 1)
        one.configurations = [(1, (1, 2, 3)), (3, (1, 2))]

        def sends(event: Input, tag: int) -> None:
            request = Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 3, 1, 1, 3, commit)
            check.takes(one, event, Effects(sends=[Send(3, request, tag)]), 0.0)

        sends(Tick(), 1)
        answer = Response(MessageType.APPEND_ENTRIES_RESPONSE, 3, 1, 1, 4, accepted=accepted)
        check.takes(one, Answered(3, 1, answer), Effects(), 0.0)
        return check, sends

    check, sends = told(3)
    fires(check, lambda: sends(Tick(), 2), "leader 1 sends entries to server 3, which knows of its removal")
    told(2)[1](Tick(), 2)  # the removal was not committed
    told(3, accepted=False)[1](Tick(), 2)
    check, sends = told(3)
    check.facts.servers[1].configurations.append((4, (1, 2, 3)))  # the server comes back
    sends(Tick(), 2)


def test_a_removed_server_is_no_stranger_until_it_knows_or_is_silent_for_long() -> None:
    found = facts([], [], [])
    check, one = LeaversForgotten(found), leader(found, 1, 1)
    one.contacts = {2: "tcp://b:1", 3: "tcp://c:1"}
    check.takes(one, Tick(), Effects(), 0.0)
    one.configurations = [(2, (1, 2))]
    check.takes(one, Tick(), Effects(), 1.0)
    one.contacts = {2: "tcp://b:1"}
    text = "leader 1 forgets server 3, which does not know of its removal"
    over = 1.0 + JOIN_PATIENCE * found.timing.election_max
    fires(check, lambda: check.takes(one, Tick(), Effects(), over - 0.1), text)
    check.takes(one, Tick(), Effects(sends=[Send(3, Request(JOIN, 1, 3, 1, 1, 4, 4), 1)]), over - 0.1)
    check.takes(one, Tick(), Effects(), over - 0.1)  # the server was invited again, and has refused


class Told:
    """A leader that has told server 3 to leave, at 1.0 s."""

    def __init__(self) -> None:
        self.facts = facts([], [], [])
        self.check, self.server = LeavingWaits(self.facts), leader(self.facts, 1, 1)
        self.over = self.server.deadline = 1.0 + self.facts.timing.election_min
        leave = Send(3, Request(MessageType.LEAVE_CLUSTER_REQUEST, 1, 3, 1, 0, 0, 0), 7)
        self.check.takes(self.server, Tick(), Effects(sends=[leave]), 1.0)

    def take(self, event: Input, clock: float, *, removes: bool = True) -> None:
        if removes:
            self.server.configurations = [(2, (1, 2))]
        self.check.takes(self.server, event, Effects(), clock)


def test_a_server_that_was_told_to_leave_gets_the_time_to_answer() -> None:
    answer = Response(MessageType.LEAVE_CLUSTER_RESPONSE, 3, 1, 1, 1, accepted=True)
    for event in (Answered(3, 7, answer), Failed(3, 7)):
        Told().take(event, 1.1)
    made = Told()
    made.take(Tick(), 1.1, removes=False)
    made.take(Tick(), made.over)
    made.take(Tick(), made.over)
    early = Told()
    fires(early.check, lambda: early.take(Tick(), early.over - 0.1), "leader 1 removes server 3, 0.400 s after it was")
    for event in (Answered(3, 7, answer), Failed(3, 7)):
        slow_ = Told()
        fires(
            slow_.check, partial(slow_.take, event, 1.1, removes=False), "leader 1 has an answer of server 3, and does"
        )
    Told().take(Answered(3, 7, replace(answer, term=2)), 1.1, removes=False)
    other = Told()
    fires(other.check, lambda: other.take(Failed(3, 8), 1.1), "leader 1 removes server 3, 0.100 s after it was told")
    late = Told()
    fires(late.check, lambda: late.take(Tick(), late.over + 0.1, removes=False), "waits for server 3 to leave, for 0.6")
    deposed = Told()
    deposed.server.leads = False
    deposed.take(Tick(), 1.1)
    sleepy = Told()
    sleepy.server.deadline = sleepy.over + 0.1
    fires(sleepy.check, lambda: sleepy.take(Reachable(2), 1.1, removes=False), "waits 0.100 s too long for server 3 to")


class Removed:
    """Leader 1 of three servers, which has appended its own removal. Server 2 has taken it, and server 3 has not."""

    def __init__(self) -> None:
        self.facts = facts([application("a", 1)] * 3, [], [])
        self.check, self.server = RemovalTold(self.facts), leader(self.facts, 1, 1)
        self.server.configurations, self.server.commit = [(3, (2, 3))], 3
        request = Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 1, 1, 2, 0, (application("a", 1),))
        self.take(Tick(), Send(2, request, 1), Send(3, request, 2))
        self.take(self.accepts(2, 1))

    def accepts(self, peer: int, tag: int) -> Answered:
        response = Response(MessageType.APPEND_ENTRIES_RESPONSE, peer, 1, 1, 4, accepted=True)
        return Answered(peer, tag, response)

    def take(self, event: Input, *sends: Send) -> None:
        self.check.takes(self.server, event, Effects(sends=list(sends)), 0.0)

    def steps_down(self, event: Input, *told: int, commit: int = 3) -> None:
        self.server.leads = False
        request = Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 1, 1, 3, commit)
        self.take(event, *(Send(peer, request, 9) for peer in told))


def test_a_leader_tells_of_its_removal_before_it_steps_down() -> None:
    Removed().steps_down(Removed().accepts(3, 2), 2, 3)
    Removed().steps_down(Tick())  # a majority was not heard
    silent, mute = Removed(), Removed()
    fires(silent.check, lambda: silent.steps_down(silent.accepts(3, 2), 3), "steps down, and does not tell server 2 of")
    fires(mute.check, lambda: mute.steps_down(Stored(3), 2, commit=0), "and does not tell server 2 of its removal")
    Removed().steps_down(Stored(3), 2)  # whether the log of server 3 agrees is not known
    stays, later = Removed(), Removed()
    stays.server.configurations = [(3, (1, 2, 3))]
    stays.steps_down(Stored(3))
    later.server.term = 2
    later.steps_down(Stored(3))
    uncommitted = Removed()
    uncommitted.server.commit = 2
    uncommitted.steps_down(Stored(3))  # for another reason


def test_only_a_leader_accepts_a_change_of_the_servers() -> None:
    found = facts([], [])
    check, one = ChangesExplained(found), found.servers[1]
    request = Request(MessageType.REMOVE_SERVER_REQUEST, NOBODY, 1, 0, 0, 0, 0)
    for accepted in (False, True):
        response = Response(MessageType.REMOVE_SERVER_RESPONSE, 1, 2, 1, 1, accepted=accepted)
        answered = Effects(replies=[SendReply("token", response)])
        take = partial(check.takes, one, Incoming("token", request), answered, 0.0)
        if accepted:
            fires(check, take, "server 1 does not lead, and accepts a change of the servers")
        else:
            take()
