"""Each invariant about hearing and waiting notices a violation made by hand, and is silent when all is well."""

from gf_i2p.raft.effects import Effects, HardState, ReadReady, Send, Write
from gf_i2p.raft.inputs import Answered, Incoming, Input, Read, Tick
from gf_i2p.simulator.cluster.hearing_invariants import (
    CommitsProven,
    ReadsConfirmed,
    WonByMajority,
)
from gf_i2p.simulator.cluster.invariant import Invariant
from gf_i2p.simulator.facts import Facts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.raft.lab import application
from tests.simulator.cluster.made_facts import facts, fires, leader

A1 = application("a", 1)
APPEND = MessageType.APPEND_ENTRIES_REQUEST
VOTE = MessageType.REQUEST_VOTE_REQUEST


def loaded(term: int = 1) -> Loaded:
    return Loaded(HardState(term, NOBODY), 0, (), (), 1, (0, 0), None, None, None)


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


def test_a_read_is_confirmed() -> None:
    found = facts([], [], [])
    check = ReadsConfirmed(found)
    boot(check, found)
    one, ready = leader(found, 1, 1), Effects(reads_ready=[ReadReady("read", 1)])

    def take(event: Input, effects: Effects | None = None) -> None:
        check.takes(one, event, effects or Effects())

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
        check.takes(one, event, Effects())

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
