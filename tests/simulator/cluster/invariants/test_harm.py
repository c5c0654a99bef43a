"""Every invariant notices a violation made by hand, and is silent when all is well."""

from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import cast

import pytest

from gf_i2p.farm.choice.candidates import Setting
from gf_i2p.raft.allowance import TERMS_A_SECOND, TERMS_AT_ONCE
from gf_i2p.raft.effects import Effects, HardState, Send, SendReply, Snapshot, Write
from gf_i2p.raft.inputs import Incoming, Tick
from gf_i2p.simulator.cluster.clients import OperationHistory
from gf_i2p.simulator.cluster.farm import SimulatedFarm
from gf_i2p.simulator.cluster.invariants.all_invariants import ALL
from gf_i2p.simulator.cluster.invariants.harm import (
    Acknowledged,
    CommitsOwnTerm,
    CommittedOnMajority,
    DiskKeeps,
    ElectionSafety,
    ForgeriesRefused,
    FreshReads,
    LeaderAppendOnly,
    LeaderCompleteness,
    LiveLeaderStays,
    LogMatching,
    NobodyAccused,
    NothingFalls,
    OnePendingChange,
    PersistedBeforeSent,
    SameChoice,
    SnapshotSafety,
    StateMachineSafety,
    TermsBounded,
    VoteOnce,
)
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.cluster.linearizability import OperationKind
from gf_i2p.simulator.cluster.plan import draw
from gf_i2p.simulator.facts import FarmChoice, Hearing, ServerFacts, ShadowLog, Violation
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, Request, Response
from tests.raft.lab import application, configuration
from tests.simulator.cluster import invariants
from tests.simulator.cluster.invariants.made_facts import facts, fires, leader

A1, B1, C1, A2 = application("a", 1), application("b", 1), application("c", 1), application("a", 2)


def servers_entry(term: int, index: int, *ids: int) -> Entry:
    value = configuration(ids)
    return Entry(term, ValueType.CONFIGURATION, type(value)(index, 0, value.servers).encode())


def snapshot(index: int, data: bytes = b"state") -> Snapshot:
    return Snapshot(index, 1, configuration((1, 2)), data)


def vote(term: int, candidate: int) -> SendReply:
    return SendReply("token", Response(MessageType.REQUEST_VOTE_RESPONSE, 1, candidate, term, 0, accepted=True))


def acknowledgement(term: int, next_index: int) -> SendReply:
    return SendReply("token", Response(MessageType.APPEND_ENTRIES_RESPONSE, 1, 2, term, next_index, accepted=True))


def request(message_type: MessageType, term: int) -> Send:
    return Send(2, Request(message_type, 1, 2, term, 0, 0, 0), 1)


def test_election_safety() -> None:
    found = facts([], [])
    check = ElectionSafety(found)
    check.leads(leader(found, 1, 3))
    check.leads(leader(found, 1, 4))
    check.leads(leader(found, 2, 5))
    fires(check, lambda: check.leads(leader(found, 2, 4)), "servers 1 and 2 both lead in term 4")


def test_leader_append_only() -> None:
    found = facts([A1, B1])
    check = LeaderAppendOnly(found)
    server = leader(found, 1, 1)
    check.writes(server, Write(None, 3, (C1,)), 1, leads=True)
    check.writes(server, Write(None, 2, (A2,)), 2, leads=False)
    fires(check, lambda: check.writes(server, Write(None, 2, (C1,)), 1, leads=True), "leader 1 replaces its entries")


def test_log_matching() -> None:
    found = facts([], [], [])
    check = LogMatching(found)
    one, two, three = found.servers.values()
    for server in (one, two):
        check.writes(server, Write(None, 1, (A1, B1)), 1, leads=False)
    check.writes(three, Write(None, 1, (A2,)), 2, leads=False)
    fires(check, lambda: check.writes(three, Write(None, 1, (C1,)), 2, leads=False), "differ in entry 1 of term 1")


def test_log_matching_sees_a_different_past() -> None:
    found = facts([], [])
    check = LogMatching(found)
    one, two = found.servers.values()
    check.writes(one, Write(None, 1, (A1, A2)), 2, leads=False)
    two.take(Write(None, 1, (A1, B1)), [])
    fires(check, lambda: check.writes(two, Write(None, 1, (A2, A2)), 2, leads=False), "the term before that entry")


def test_leader_completeness() -> None:
    found = facts([A1, B1], [A1])
    check = LeaderCompleteness(found)
    found.committed, found.marks = [A1, B1], [(2, 3)]
    check.leads(leader(found, 1, 4))
    check.leads(leader(found, 2, 2))
    fires(check, lambda: check.leads(leader(found, 2, 5)), "server 2, leader of term 5, lacks some of the 2 entries")


def test_leader_completeness_of_who_leads_already() -> None:
    found = facts([A1, B1], [A1])
    check = LeaderCompleteness(found)
    leader(found, 2, 5)
    found.committed = [A1, B1]
    fires(check, lambda: check.committed(leader(found, 1, 3), 2), "server 2, leader of term 5")


def test_state_machine_safety() -> None:
    found = facts([A1, B1], [A1, C1])
    check = StateMachineSafety(found)
    one, two = found.servers.values()
    found.committed = [A1, B1]
    one.commit = two.commit = 2
    check.commits(one, 0)
    fires(check, lambda: check.commits(two, 1), "server 2 commits other entries between 2 and 2")
    check.applies(one, 2, B1)
    fires(check, lambda: check.applies(one, 2, C1), "applies an entry 2 that differs")
    fires(check, lambda: check.applies(one, 3, C1), "applies entry 3, but its commit index is 2")
    two.commit = 3
    fires(check, lambda: check.commits(two, 2), "commits up to 3, but its log ends at 2")


def test_committed_on_a_majority() -> None:
    found = facts([A1], [A1], [])
    check = CommittedOnMajority(found)
    found.committed = [A1]
    check.committed(found.servers[1], 1)
    found.servers[2].durable = ShadowLog([A2])
    fires(check, lambda: check.committed(found.servers[1], 1), r"durable only on \[1\] of the servers \[1, 2, 3\]")


def test_commits_its_own_term() -> None:
    found = facts([A1, A2])
    check = CommitsOwnTerm(found)
    server = leader(found, 1, 2)
    server.commit = 2
    check.commits(server, 0)
    server.commit = 1
    fires(check, lambda: check.commits(server, 0), "leader 1 of term 2 commits up to entry 1, of term 1")


def test_nothing_falls() -> None:
    found = facts([A1], term=3)
    check = NothingFalls(found)
    found.servers[1].commit = 1
    check.steps(found.servers[1], 3, 1, Effects())
    fires(check, lambda: check.steps(found.servers[1], 2, 1, Effects()), "to 2, 1")
    fires(check, lambda: check.steps(found.servers[1], 3, 0, Effects()), "to 3, 0")


def test_votes_once() -> None:
    found = facts([], [])
    check = VoteOnce(found)
    one = found.servers[1]
    check.sends(one, vote(4, 2))
    check.sends(one, vote(4, 2))
    check.sends(one, vote(5, 3))
    fires(check, lambda: check.sends(one, vote(4, 3)), "server 1 votes for 2 and for 3 in term 4")
    fires(check, lambda: check.sends(one, request(MessageType.REQUEST_VOTE_REQUEST, 5)), "for 3 and for 1 in term 5")
    stored = [Write(HardState(4, 1), 0, ()), Write(HardState(6, NOBODY), 0, ())]
    fires(check, lambda: check.is_durable(one, stored), "for 2 and for 1 in term 4")


def test_persisted_before_sent() -> None:
    found = facts([A1], [])
    check = PersistedBeforeSent(found)
    one = found.servers[1]
    one.hard_state = HardState(3, 2)
    check.sends(one, vote(3, 2))
    check.sends(one, acknowledgement(3, 2))
    check.sends(one, acknowledgement(2, 9))
    check.sends(one, request(MessageType.APPEND_ENTRIES_REQUEST, 3))
    fires(check, lambda: check.sends(one, vote(3, 1)), "sends its vote for 1 in term 3")
    fires(check, lambda: check.sends(one, vote(4, 1)), "sends term 4")
    fires(check, lambda: check.sends(one, acknowledgement(3, 3)), "acknowledges up to 2, but has only entries up to 1")
    one.memory.take(Write(None, 1, (application("new", 3), A1)), [])
    check.sends(one, acknowledgement(3, 2))  # in memory a later term may have replaced the first one
    one.term = 3
    fires(
        check, lambda: check.sends(one, acknowledgement(3, 2)), "up to 1 of term 3, but has another entry 1, of term 1"
    )
    fires(check, lambda: check.sends(one, request(MessageType.APPEND_ENTRIES_REQUEST, 4)), "sends term 4")
    fires(check, lambda: check.sends(one, request(MessageType.REQUEST_VOTE_REQUEST, 3)), "sends its vote for 1")


def test_a_disk_keeps() -> None:
    found = facts([A1, A2], term=2)
    check = DiskKeeps(found)
    one = found.servers[1]
    sound = Loaded(HardState(2, NOBODY), 2, ((1, 1), (2, 2)), (), 1, 0, (0, 0), None, None, None)
    check.boots(one, sound, [A1, A2])
    fires(check, lambda: check.boots(one, sound._replace(hard_state=HardState(1, NOBODY)), [A1, A2]), "instead of")
    fires(check, lambda: check.boots(one, sound._replace(terms=((1, 1),)), [A1, A2]), "a log that differs")
    fires(check, lambda: check.boots(one, sound, [A1]), "a log that differs")
    one.durable.take(Write(None, 0, (), snapshot(1), 1), [])
    dropped = sound._replace(base=(1, 1), snapshot=snapshot(1))
    check.boots(one, dropped, [A2])
    fires(check, lambda: check.boots(one, dropped._replace(base=(0, 0)), [A2]), "a snapshot or base that differs")
    fires(check, lambda: check.boots(one, dropped._replace(snapshot=None), [A2]), "a snapshot or base that differs")


def test_snapshot_safety() -> None:
    voters = servers_entry(1, 1, 1, 2)
    found = facts([voters, A1], [voters, A1])
    found.committed = [voters, A1]
    check = SnapshotSafety(found)
    one, two = found.servers.values()

    def keeps(server: ServerFacts, kept: Snapshot, drop: int = 0) -> None:
        check.keeps(server, Write(None, 0, (), kept, drop))

    keeps(one, snapshot(2), 2)
    keeps(two, snapshot(2))
    fires(check, lambda: keeps(two, snapshot(2, b"other")), "a state at 2 that differs")
    fires(check, lambda: check.restores(two, 2, b"other"), "a state at 2 that differs")
    fires(check, lambda: keeps(two, snapshot(3)), "2 are committed")
    fires(check, lambda: keeps(two, snapshot(1), 2), "up to 1 and drops up to 2")
    fires(check, lambda: keeps(two, replace(snapshot(2), term=2)), "with a wrong term")
    fires(
        check,
        lambda: keeps(two, replace(snapshot(2), configuration=configuration((1,)))),
        r"with wrong servers: \(1,\)",
    )
    two.memory.snapshot = snapshot(2)
    fires(check, lambda: keeps(two, snapshot(1)), "from a snapshot up to 2 to one up to 1")


def test_one_pending_change() -> None:
    found = facts([A1], [], [])
    check = OnePendingChange(found)
    one = leader(found, 1, 1)
    change = Write(None, 2, (servers_entry(1, 2, 1, 2),))
    fires(check, lambda: check.writes(one, change, 1, leads=True), "before it has committed an entry of its term")
    one.commit = 1
    check.writes(one, change, 1, leads=True)
    check.writes(one, Write(None, 2, (servers_entry(1, 2, 1, 2, 3),)), 1, leads=True)
    two_at_once = Write(None, 2, (servers_entry(1, 2, 1),))
    fires(check, lambda: check.writes(one, two_at_once, 1, leads=True), r"changes servers \[2, 3\] at once")
    check.writes(one, two_at_once, 1, leads=False)
    one.take(change, [])
    again = Write(None, 3, (servers_entry(1, 3, 1, 2, 4),))
    fires(
        check, lambda: check.writes(one, again, 1, leads=True), "server 4 at 3 while the change at 2 is not committed"
    )
    one.commit = 2
    check.writes(one, again, 1, leads=True)


def test_acknowledged() -> None:
    found = facts([A1, B1])
    check = Acknowledged(found)
    found.committed = [A1, B1]
    check.committed(found.servers[1], 1)
    check.acknowledges([b"a", b"b"], 2)
    check.refuses([b"d"])
    fires(check, lambda: check.acknowledges([b"c"], 2), "entries up to 2 are acknowledged")
    fires(check, lambda: check.acknowledges([b"c"], 3), "entries up to 3 are acknowledged")
    fires(check, lambda: check.refuses([b"b"]), "'b' is refused, and is committed")
    found.committed.append(application("d", 1))
    fires(check, lambda: check.committed(found.servers[1], 3), "'d' was refused, and is committed")


def test_fresh_reads() -> None:
    found = facts([])
    check = FreshReads(found)
    check.reads(found.servers[1], 5, 5)
    fires(check, lambda: check.reads(found.servers[1], 4, 5), "serves a read at 4, but 5 was acknowledged before")


def test_the_same_choice() -> None:
    found = facts([], [])
    check = SameChoice(found)
    one = FarmChoice(1, Setting("meta"), ())
    check.chooses(found.servers[1], 5, one)
    check.chooses(found.servers[2], 5, FarmChoice(1, Setting("meta"), ()))
    check.chooses(found.servers[2], 6, one._replace(publisher=None))
    fires(check, lambda: check.chooses(found.servers[1], 6, one), "server 1 has 1 as publisher, but another had None")
    other = one._replace(setting=Setting("meta", bytes(32)))
    fires(check, lambda: check.chooses(found.servers[1], 5, other), "as setting, but another had Setting")
    fires(check, lambda: check.chooses(found.servers[1], 5, one._replace(leaves=(b"leaf",))), "as leaves, but another")


def test_nobody_is_accused() -> None:
    found = facts([])
    check = NobodyAccused(found)
    check.steps(found.servers[1], 1, 0, Effects())
    fires(check, lambda: check.steps(found.servers[1], 1, 0, Effects(violation="it lies")), "server 1 says: it lies")
    found.denier = 2
    check.steps(found.servers[1], 1, 0, Effects(violation="server 2 has lost acknowledged entries"))
    fires(check, lambda: check.steps(found.servers[1], 1, 0, Effects(violation="it lies")), "server 1 says: it lies")


def test_a_forged_message_is_named_and_changes_nothing() -> None:
    found = facts([A1])
    check, one = ForgeriesRefused(found), found.servers[1]
    event, named = Tick(), Effects(violation="it lies")
    check.takes(one, event, Effects(), 0.0)
    NobodyAccused(found).steps(one, 1, 0, Effects())
    found.forged = True
    check.takes(one, event, named, 0.0)
    NobodyAccused(found).steps(one, 1, 0, named)
    fires(check, lambda: check.takes(one, event, Effects(), 0.0), "server 1 does not say that a message is forged")
    written = Effects(violation="it lies", write=Write(None, 2, (B1,), number=1))
    fires(check, lambda: check.takes(one, event, written, 0.0), "server 1 acts on a forged message")
    reply = SendReply("token", Response(MessageType.APPEND_ENTRIES_RESPONSE, 1, 2, 1, 1, accepted=False))
    for answered in (
        Effects(violation="it lies", replies=[reply]),
        Effects(violation="it lies", gated_replies=[reply]),
    ):
        fires(check, partial(check.takes, one, event, answered, 0.0), "server 1 acts on a forged message")


def test_others_raise_a_term_at_a_bounded_rate() -> None:
    found = facts([A1], [A1])
    one = found.servers[1]
    one.configurations = [(1, (1, 2))]
    loaded = cast("Loaded", SimpleNamespace(hard_state=HardState(1, NOBODY)))

    def claim(term: int, kind: MessageType = MessageType.APPEND_ENTRIES_REQUEST) -> Incoming:
        return Incoming("token", Request(kind, 2, 1, term, 0, 0, 0))

    def checked(reached: int, event: Incoming, effects: Effects, clock: float) -> None:
        check = TermsBounded(found)
        one.term = 1
        check.boots(one, loaded, [A1])
        check.takes(one, claim(1), Effects(), 0.0)
        one.term = reached
        check.takes(one, event, effects, clock)

    named = Effects(violation="it is far away")
    checked(1 + TERMS_AT_ONCE, claim(2**60), named, 0.0)
    checked(1 + TERMS_AT_ONCE + TERMS_A_SECOND, claim(1 + TERMS_AT_ONCE + TERMS_A_SECOND), Effects(), 1.0)
    own = Effects(write=Write(HardState(3 + TERMS_AT_ONCE, 1), 0, (), number=1))
    checked(3 + TERMS_AT_ONCE, claim(1), own, 0.0)
    checked(1, claim(2**60, MessageType.REQUEST_VOTE_REQUEST), Effects(), 0.0)  # refused, as the leader is live
    checked(1, claim(2**60, MessageType.CLIENT_REQUEST), Effects(), 0.0)  # its term means nothing
    check = TermsBounded(found)
    raised = partial(checked, 3 + TERMS_AT_ONCE, claim(3 + TERMS_AT_ONCE), Effects(), 0.0)
    fires(check, raised, f"raised the term of server 1 by {TERMS_AT_ONCE + 2}")
    fires(check, partial(checked, 2, claim(2**60), Effects(), 0.0), "server 1 does not say that term")
    accepted = Effects(violation="it is far away", gated_replies=[vote(2, 2)])
    fires(check, partial(checked, 2, claim(2**60), accepted, 0.0), "server 1 answers a request of term")
    refused = Effects(violation="it is far away", replies=[acknowledgement(2, 1)])
    fires(check, partial(checked, 2, claim(2**60), refused, 0.0), "server 1 answers a request of term")
    votes = partial(checked, 2, claim(2**60, MessageType.REQUEST_VOTE_REQUEST), accepted, 0.0)
    fires(check, votes, "server 1 answers a request of term")


def test_a_live_leader_stays() -> None:
    found = facts([], [], [], term=1)
    leader(found, 1, 1)
    follower, candidate = found.servers[2], found.servers[3]
    candidate.term = 2
    found.now = lambda: 10.0
    check = LiveLeaderStays(found)
    check.stands(candidate)
    for hearing in (Hearing(1, 1, 9.9, 10.0), Hearing(1, 1, 0.0, 9.0), Hearing(1, 0, 0.0, 10.0)):
        follower.hearing = hearing
        check.stands(candidate)
    follower.hearing = Hearing(1, 1, 0.0, 10.0)
    fires(check, lambda: check.stands(candidate), r"server 3 stands for election in term 2, but servers \[1, 2\] of")
    follower.up = False
    check.stands(candidate)
    follower.up, found.servers[1].up = True, False
    check.stands(candidate)
    found.servers[1].up, follower.term = True, 2
    check.stands(candidate)


def test_a_leader_elected_a_moment_ago_may_have_agreed_to_the_election() -> None:
    found = facts([], [], term=1)
    leader(found, 1, 1).configurations = [(1, (1,))]
    found.servers[2].term = 2
    found.now = lambda: 10.0
    check = LiveLeaderStays(found)
    fires(check, lambda: check.stands(found.servers[2]), "server 2 stands for election in term 2")
    found.servers[1].led_since = 9.9
    check.stands(found.servers[2])


def test_a_minority_that_hears_a_leader_keeps_nobody_from_an_election() -> None:
    found = facts([], [], [], [], [], term=1)
    leader(found, 1, 1)
    found.servers[3].term = 2
    found.now = lambda: 10.0
    check = LiveLeaderStays(found)
    found.servers[2].hearing = Hearing(1, 1, 0.0, 10.0)
    check.stands(found.servers[3])
    found.servers[4].hearing = Hearing(1, 1, 0.0, 10.0)
    fires(check, lambda: check.stands(found.servers[3]), r"servers \[1, 2, 4\] of \[1, 2, 3, 4, 5\] hear server 1")


def test_registers_are_linearizable() -> None:
    history = OperationHistory(2)
    first = history.begin(1, OperationKind.WRITE, 7)
    history.returned(1, first)
    stale = history.begin(1, OperationKind.READ)
    history.returned(1, stale)
    with pytest.raises(Violation, match=r"register 1 is possible: 1-2 write 7; 3-4 read 0"):
        history.check()


def test_liveness_says_what_is_missing() -> None:
    with closing(SimulatedFarm(draw(1, 3))) as farm:
        farm.begin()
        assert farm.unsettled() == "the leaders are []"
        farm.servers[2].end(silently=True)
        assert farm.unsettled() == "the leaders are []"
        assert farm.unequal() == "the publishers are ['None']"


def test_every_invariant_is_tested_here_and_says_what_it_states() -> None:
    elsewhere = {"StepsSucceed", "Linearizable", "Liveness", "Bounded"}
    modules = [import_module(f"{invariants.__name__}.{found.name}") for found in iter_modules(invariants.__path__)]
    names = {name: each for module in modules for name, each in vars(module).items()}
    tested = {name for name, each in names.items() if isinstance(each, type) and issubclass(each, Invariant)}
    assert {each.__name__ for each in ALL} - elsewhere == tested - {"Invariant"}
    assert all(each.__doc__ and each.__doc__ != Invariant.__doc__ for each in ALL)
    assert len(RESPONSE_TYPE) == 9, "a new kind of message: which invariants hold for it?"
