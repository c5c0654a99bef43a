"""Each invariant about hearing and waiting notices a violation made by hand, and is silent when all is well."""

from gf_i2p.raft.effects import Effects, HardState, ReadReady, Send, SendReply, Write
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Reachable, Read, Tick, Unreachable
from gf_i2p.simulator.cluster.invariants.evidence import (
    CommitsProven,
    JoinersCaughtUp,
    LeaderIsHeard,
    PatientServers,
    ReadsConfirmed,
    WonByMajority,
)
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.facts import Facts, ServerFacts, Voters
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.raft.lab import application, configuration
from tests.simulator.cluster.invariants.made_facts import facts, fires, leader

A1 = application("a", 1)
APPEND = MessageType.APPEND_ENTRIES_REQUEST
VOTE = MessageType.REQUEST_VOTE_REQUEST


def loaded(term: int = 1) -> Loaded:
    return Loaded(HardState(term, NOBODY), 0, (), (), 1, 0, (0, 0), None, None, None)


def boot(check: Invariant, found: Facts) -> None:
    for server in found.servers.values():
        check.boots(server, loaded(server.term), [])


def voted(term: int, candidate: int) -> Write:
    return Write(HardState(term, candidate), 0, ())


def answer(peer: int, tag: int, term: int = 1) -> Answered:
    return Answered(peer, tag, Response(MessageType.APPEND_ENTRIES_RESPONSE, peer, 1, term, 1, accepted=True))


def sends(*items: tuple[int, int]) -> Effects:
    """Requests (peer, tag) of a leader."""
    return Effects(sends=[Send(peer, Request(APPEND, 1, peer, 1, 0, 0, 0), tag) for peer, tag in items])


def asks_for_votes(server: ServerFacts) -> Effects:
    request = Request(VOTE, server.id, 9, server.term, 0, 0, 0)
    return Effects(gated_sends=[Send(9, request, 1)])


def grants(server: ServerFacts) -> Effects:
    response = Response(MessageType.REQUEST_VOTE_RESPONSE, server.id, 3, server.term, 0, accepted=True)
    return Effects(gated_replies=[SendReply("token", response)])


def message(term: int, *, commit: int = 0, last: int = 0, entries: int = 0) -> Incoming:
    return Incoming("token", Request(APPEND, 1, 2, term, 0, last, commit, (A1,) * entries))


def test_a_leader_has_won_by_a_majority() -> None:
    found = facts([], [], [])
    check = WonByMajority(found)
    one = leader(found, 1, 5)
    check.is_durable(one, [voted(5, 1), voted(6, NOBODY)])
    fires(check, lambda: check.leads(one), r"leads in term 5 with the votes of \[1\] of \[1, 2, 3\]")
    check.is_durable(found.servers[2], [voted(5, 3), voted(4, 1)])
    fires(check, lambda: check.leads(one), r"with the votes of \[1\]")
    check.is_durable(found.servers[3], [voted(5, 1)])
    check.leads(one)
    two = leader(found, 2, 7)
    for voter in (1, 3):
        check.is_durable(found.servers[voter], [voted(7, 2)])
    fires(check, lambda: check.leads(two), "its own vote is not on its disk")


def test_a_leader_without_a_majority_steps_down() -> None:
    found = facts([], [], [], [], [])
    check = LeaderIsHeard(found)
    one, nothing = leader(found, 1, 1), Effects()
    limit = found.timing.election_max
    check.takes(one, Tick(), nothing, 10.0)
    check.takes(one, answer(2, 1), nothing, 10.0 + limit / 2)
    check.takes(one, Failed(3, 1), nothing, 10.0 + 1.1 * limit)

    def tick() -> None:
        check.takes(one, Tick(), nothing, 10.0 + 1.1 * limit)

    fires(check, tick, r"of \[1, 2, 3, 4, 5\] only \[2\] have answered")
    check.takes(one, answer(3, 2, term=2), nothing, 10.0 + 1.1 * limit)
    fires(check, tick, r"only \[2\] have answered")
    check.takes(one, answer(3, 2), nothing, 10.0 + 1.1 * limit)
    tick()
    one.leads = False
    check.takes(one, Tick(), nothing, 99.0)
    one.leads = True
    check.takes(one, Tick(), nothing, 100.0)
    one.term = 2
    check.takes(one, Tick(), nothing, 199.0)
    one.bootstrap = (1, 5)
    check.takes(one, Tick(), nothing, 199.0)  # this tick has removed three voters
    fires(check, lambda: check.takes(one, Tick(), nothing, 199.0 + 1.1 * limit), r"of \[1, 5\] only \[\]")


def test_a_read_is_confirmed() -> None:
    found = facts([], [], [])
    check = ReadsConfirmed(found)
    boot(check, found)
    one, ready = leader(found, 1, 1), Effects(reads_ready=[ReadReady("read", 1)])

    def take(event: Input, effects: Effects | None = None) -> None:
        check.takes(one, event, effects or Effects(), 0.0)

    take(Tick(), sends((2, 1), (3, 2)))
    take(Read("read"))
    fires(check, lambda: take(answer(2, 1), ready), r"only \[\] have answered a request that left after the read")
    take(Read("read"), sends((2, 3)))
    fires(check, lambda: take(answer(2, 3, term=2), ready), r"only \[\]")
    take(Read("read"), sends((2, 4)))
    take(answer(2, 4), ready)
    take(Read("read"), Effects(reads_refused=["read"]))
    take(Read("read"))
    one.leads = False
    fires(check, lambda: take(Tick()), "does not lead, and leaves 1 reads unanswered")


def test_a_follower_commits_what_is_proven() -> None:
    found = facts([A1] * 5, [])
    check = CommitsProven(found)
    boot(check, found)
    one = found.servers[1]

    def commit(index: int, event: Input) -> None:
        one.commit = index
        check.takes(one, event, Effects(), 0.0)

    commit(0, Tick())
    commit(2, message(1, commit=2, last=1, entries=3))
    fires(check, lambda: commit(4, message(1, commit=4, last=2, entries=1)), "commits up to 4, .* up to 3 only")
    fires(check, lambda: commit(5, message(1, commit=4, last=5)), "up to 4 only")
    vote = Incoming("token", Request(VOTE, 1, 2, 1, 0, 0, 9))
    one.commit = 0
    check.boots(one, loaded(), [])
    commit(3, vote)
    fires(check, lambda: commit(4, vote), "commits up to 4 at a REQUEST_VOTE_REQUEST")
    one.leads = True
    commit(5, answer(2, 1))


def test_servers_are_patient() -> None:
    found = facts([], [], [])
    check = PatientServers(found)
    boot(check, found)
    one, timing = found.servers[1], found.timing
    one.leader = 1

    def take(event: Input, effects: Effects, clock: float, *, term: int) -> None:
        one.term = term
        check.takes(one, event, effects, clock)

    def stand(clock: float, *, term: int) -> None:
        one.term = term
        take(Tick(), asks_for_votes(one), clock, term=term)

    take(message(1), Effects(), 10.0, term=1)
    early = 10.0 + timing.election_min / 2
    fires(check, lambda: stand(early, term=2), "stands for election in term 2, .* after a message of leader 1")
    check.boots(one, loaded(1), [])
    take(message(1), Effects(), 10.0, term=1)
    one.term = 2
    vote = grants(one)
    fires(check, lambda: take(Tick(), vote, early, term=2), "grants a vote in term 2")
    check.boots(one, loaded(1), [])
    take(message(1), Effects(), 10.0, term=1)
    take(Unreachable(1), Effects(), 10.0, term=1)
    stand(10.0 + timing.doubt, term=2)  # the leader cannot be dialled
    take(message(3), Effects(), 20.0, term=3)
    take(Unreachable(2), Effects(), 20.0, term=3)  # another peer cannot
    fires(check, lambda: stand(20.0 + timing.doubt, term=4), "stands for election in term 4")
    take(message(5), Effects(), 30.0, term=5)
    take(Unreachable(1), Effects(), 30.0, term=5)
    take(Reachable(1), Effects(), 30.0, term=5)
    fires(check, lambda: stand(30.0 + timing.doubt, term=6), "stands for election in term 6")
    take(message(6), Effects(), 35.0, term=6)
    take(Unreachable(1), Effects(), 35.0, term=6)
    take(Reachable(1), Effects(), 35.0 + timing.doubt, term=6)
    stand(35.1 + timing.doubt, term=7)  # the shortened wait had ended before the leader could be dialled again
    take(message(7), Effects(), 37.0, term=7)
    take(Unreachable(1, refused=True), Effects(), 37.0, term=7)
    early = 37.0 + timing.doubt_when_refused * 0.9
    fires(check, lambda: stand(early, term=8), "stands for election in term 8")
    check.boots(one, loaded(7), [])
    take(message(7), Effects(), 37.0, term=7)
    take(Unreachable(1, refused=True), Effects(), 37.0, term=7)
    take(Unreachable(1), Effects(), 37.0, term=7)
    stand(37.0 + timing.doubt_when_refused, term=8)  # the leader's machine refuses connections
    take(answer(2, 1, term=8), Effects(), 40.0, term=8)  # a higher term: that leader leads no more
    one.term, one.leader = 9, NOBODY
    take(Tick(), grants(one), 40.0, term=9)
    fires(check, lambda: stand(40.0 + timing.election_min / 2, term=10), "after it has granted a vote")
    stand(41.0 + timing.election_min, term=11)
    one.term = 12
    take(Tick(), grants(one), 50.0, term=12)
    one.leader = 1
    take(message(12), Effects(), 50.0, term=12)  # the candidate has won, and then cannot be dialled
    take(Unreachable(1), Effects(), 50.0, term=12)
    stand(50.0 + timing.doubt, term=13)


def test_a_joiner_has_caught_up() -> None:
    found = facts([A1] * 9, [A1] * 9, [A1], [A1] * 9)
    found.servers[3].bootstrap = ()
    check = JoinersCaughtUp(found)
    boot(check, found)
    one = leader(found, 1, 1)
    one.bootstrap, one.commit = (1, 2), 9

    def add(*voters: int, clock: float) -> None:
        voters_now: Voters = voters
        entry = Entry(1, ValueType.CONFIGURATION, configuration(voters_now).encode())
        check.takes(one, Tick(), Effects(write=Write(None, 10, (entry,))), clock)

    check.takes(one, Tick(), Effects(), 1.0)
    late = 1.0 + 2 * found.timing.election_max
    check.takes(one, Tick(), Effects(), late)
    fires(check, lambda: add(1, 2, 3, clock=late), "adds server 3, which has 1 of 9 committed entries")
    add(1, 2, 4, clock=late)
    one.configurations = [(5, (1, 2, 3))]
    add(1, 2, 3, clock=late)  # this server was a voter before
