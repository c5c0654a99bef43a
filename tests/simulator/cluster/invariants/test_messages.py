"""Each invariant about the content of messages notices a violation made by hand, and is silent when all is well."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gf_i2p.raft.effects import Effects, HardState, Send, SendReply, Snapshot, Write
from gf_i2p.raft.inputs import Incoming, Tick
from gf_i2p.simulator.cluster.invariants.messages import (
    BlocksTaken,
    HonestIndexes,
    PacksContinue,
    PacksTaken,
    RequestsAreTheLog,
)
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration, LogPack, SnapshotSyncRequest, record_bytes
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, OversizedRequest, Request, Response
from tests.raft.lab import application, configuration
from tests.simulator.cluster.invariants.made_facts import facts, fires, leader

A1, B1, C1 = application("a", 1), application("b", 1), application("c", 1)
APPEND = MessageType.APPEND_ENTRIES_REQUEST
SYNC = MessageType.SYNC_LOG_REQUEST
INSTALL = MessageType.INSTALL_SNAPSHOT_REQUEST


def packed(*entries: Entry, base: int = 0) -> Entry:
    return Entry(1, ValueType.LOG_PACK, LogPack(entries, base).encode())


@pytest.mark.parametrize(
    ("request_type", "entries", "accepted", "index", "wrong"),
    [
        (APPEND, (A1, B1), True, 5, False),
        (APPEND, (A1, B1), True, 4, True),
        (APPEND, (A1, B1), True, 6, True),
        (APPEND, (), True, 3, False),
        (APPEND, (A1,), False, 3, False),
        (APPEND, (A1,), False, 2, True),
        (APPEND, (A1,), False, 4, True),
        (APPEND, (A1,), False, 0, False),
        (SYNC, (packed(A1, B1, C1),), True, 6, False),
        (SYNC, (packed(A1, B1, C1),), True, 5, True),
        (SYNC, (packed(A1),), False, 1, False),
        (MessageType.JOIN_CLUSTER_REQUEST, (), True, 4, False),
        (MessageType.JOIN_CLUSTER_REQUEST, (), False, 3, True),
        (MessageType.LEAVE_CLUSTER_REQUEST, (), True, 5, True),
    ],
)
def test_a_follower_tells_the_index_that_follows(
    request_type: MessageType, entries: tuple[Entry, ...], accepted: bool, index: int, wrong: bool
) -> None:
    found = facts([A1, B1, C1], [])
    check = HonestIndexes(found)
    server = found.servers[1]
    server.commit = 2
    request = Request(request_type, 2, 1, 1, 1, 2, 0, entries)

    def take() -> None:
        response = Response(RESPONSE_TYPE[request_type], 1, 2, 1, index, accepted=accepted)
        check.takes(server, Incoming("token", request), Effects(gated_replies=[SendReply("token", response)]), 0.0)

    if wrong:
        fires(check, take, f"after entry 2, and asks for entry {index}")
    else:
        take()


@pytest.mark.parametrize("request_type", [APPEND, INSTALL, SYNC, MessageType.JOIN_CLUSTER_REQUEST])
def test_a_leader_whose_term_is_over_is_told_the_index_after_the_log(request_type: MessageType) -> None:
    found = facts([A1, B1, C1], [])
    check = HonestIndexes(found)

    def take(index: int) -> None:
        response = Response(RESPONSE_TYPE[request_type], 1, 2, 2, index, accepted=False)
        request = Request(request_type, 2, 1, 1, 1, 2, 0)
        effects = Effects(gated_replies=[SendReply("token", response)])
        check.takes(found.servers[1], Incoming("token", request), effects, 0.0)

    take(4)
    fires(check, lambda: take(3), "after entry 2, and asks for")
    fires(check, lambda: take(5), "after entry 2, and asks for")


def test_a_follower_asks_for_the_next_bytes_of_the_same_snapshot() -> None:
    found = facts([A1, B1, C1], [])
    check = HonestIndexes(found)
    server = found.servers[1]

    def take(offset: int, wanted: int, *, accepted: bool = True, index: int = 50, source: int = 2) -> None:
        block = SnapshotSyncRequest(index, 1, configuration((1, 2)), offset, b"data", done=False)
        value = Entry(1, ValueType.SNAPSHOT_SYNC_REQUEST, block.encode())
        request = Request(INSTALL, source, 1, 1, 1, 2, 0, (value,))
        response = Response(RESPONSE_TYPE[INSTALL], 1, source, 1, wanted, accepted=accepted)
        check.takes(server, Incoming("token", request), Effects(gated_replies=[SendReply("token", response)]), 0.0)

    take(0, 4)
    take(4, 8)
    take(0, 4)  # sent twice
    take(12, 8, accepted=False)
    take(12, 12, accepted=False)  # this snapshot does not help
    take(12, 0, accepted=False)
    fires(check, lambda: take(12, 7, accepted=False), "asks for byte 7")
    fires(check, lambda: take(12, 8, accepted=False, index=51), "asks for byte 8")
    fires(check, lambda: take(12, 8, accepted=False, source=3), "asks for byte 8")
    fires(check, lambda: take(0, 8, accepted=False, index=51), "refuses a INSTALL_SNAPSHOT_REQUEST after entry 2, and")
    fires(check, lambda: take(8, 13), "accepts a INSTALL_SNAPSHOT_REQUEST after entry 2, and asks for byte 13")
    take(8, 12)
    check.boots(server, Loaded(HardState(1, NOBODY), 0, (), (), 1, 0, (0, 0), None, None, None), [])
    fires(check, lambda: take(20, 12, accepted=False), "asks for byte 12")


def test_a_server_takes_what_continues_a_snapshot_and_installs_just_these_bytes() -> None:
    found = facts([A1, B1, C1], [])
    check, server, servers = BlocksTaken(found), found.servers[1], configuration((1, 2))
    whole = Snapshot(50, 1, servers, b"abcdef")

    def take(offset: int, data: bytes, done: bool = False, **told: Any) -> None:
        """`told`: what differs from an accepted block of server 2 that installs nothing."""
        block = SnapshotSyncRequest(50, 1, servers, offset, data, done=done)
        source, accepted = told.get("source", 2), told.get("accepted", True)
        value = Entry(1, ValueType.SNAPSHOT_SYNC_REQUEST, block.encode())
        response = Response(RESPONSE_TYPE[INSTALL], 1, source, 1, 0, accepted=accepted)
        effects = Effects(gated_replies=[SendReply("token", response)], restore=told.get("restore"))
        check.takes(server, Incoming("token", Request(INSTALL, source, 1, 1, 1, 2, 0, (value,))), effects, 0.0)

    take(0, b"abc")
    take(0, b"abc")  # sent twice
    take(5, b"f", accepted=False)  # a gap: nobody can say what the server has now
    take(3, b"def", accepted=False)
    take(0, b"abc")
    fires(check, lambda: take(3, b"de", accepted=False), "server 1 refuses the block from byte 3 on of a snapshot up")
    take(0, b"abc")
    take(3, b"de")
    fires(check, lambda: take(0, b"abc", accepted=False), "refuses the block from byte 0 on")
    fires(check, lambda: take(0, b"abc", restore=whole), "server 1 installs a snapshot before its last block")
    for restore, text in (
        (None, "server 1 has all of a snapshot up to 50, and installs nothing"),
        (replace(whole, data=b"abcde"), "server 1 has 6 bytes of a snapshot up to 50, and installs 5 bytes"),
        (replace(whole, configuration=configuration((1,))), "server 1 has 6 bytes"),
    ):
        take(0, b"abcd")
        fires(check, partial(take, 4, b"ef", True, restore=restore), text)
    take(0, b"abcd")
    take(0, b"ab", source=3)  # another leader's snapshot begins
    take(4, b"ef", True, accepted=False)
    take(0, b"abcdxyz")
    server.commit = 50
    take(4, b"ef", True, restore=whole)
    take(0, b"abcdef", True)  # the server has that state already
    server.memory.base = 51
    take(0, b"abcdef", True, accepted=False)  # the server has lost its state: this snapshot ends before its log
    server.memory.base = 50
    fires(check, lambda: take(0, b"abcdef", True, accepted=False), "refuses the block from byte 0 on")


def test_requests_are_the_log() -> None:
    found = facts([A1, B1, C1], [])
    check = RequestsAreTheLog(found)
    one = leader(found, 1, 1)
    one.commit = 2
    good = Request(APPEND, 1, 2, 1, 1, 1, 2, (B1, C1))

    def send(request: Request) -> None:
        check.takes(one, Tick(), Effects(sends=[Send(2, request, 1)]), 0.0)

    send(good)
    send(replace(good, entries=(B1,)))
    send(Request(MessageType.LEAVE_CLUSTER_REQUEST, 1, 2, 1, 0, 3, 2))
    for bad in (
        replace(good, last_log_term=2),
        replace(good, commit_index=3),
        replace(good, entries=(), commit_index=2),
        replace(good, entries=(C1,)),
        replace(good, entries=(B1, C1, C1)),
        Request(MessageType.LEAVE_CLUSTER_REQUEST, 1, 2, 1, 1, 3, 2),
    ):
        fires(check, lambda bad=bad: send(bad), r"server 1 sends a \w+ after entry")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("offset", "data", "done", "index", "wrong"),
    [
        (0, b"abc", False, 3, False),
        (3, b"def", True, 3, False),
        (3, b"xyz", True, 4, False),  # an older snapshot, which the leader has replaced meanwhile
        (3, b"dex", True, 3, True),
        (6, b"", True, 3, True),
        (0, b"abc", True, 3, True),
        (3, b"def", False, 3, True),
    ],
)
def test_a_block_is_a_part_of_the_leaders_snapshot(
    offset: int, data: bytes, done: bool, index: int, wrong: bool
) -> None:
    found = facts([A1, B1, C1], [])
    check, one = RequestsAreTheLog(found), leader(found, 1, 1)
    one.memory.snapshot = Snapshot(3, 1, configuration((1, 2)), b"abcdef")
    block = SnapshotSyncRequest(index, 1, configuration((1, 2)), offset, data, done=done)
    request = Request(INSTALL, 1, 2, 1, 1, 3, 2, (Entry(1, ValueType.SNAPSHOT_SYNC_REQUEST, block.encode()),))

    def send() -> None:
        check.takes(one, Tick(), Effects(sends=[Send(2, request, 1)]), 0.0)

    if wrong:
        fires(check, send, f"server 1 sends {len(data)} bytes of its snapshot, from byte {offset}")
    else:
        send()


@pytest.mark.parametrize(
    ("terms", "named", "term", "index", "wrong"),
    [
        ((1, 1, 3, 3), 4, 2, 3, False),  # entries of a later term cannot agree
        ((1, 1, 3, 3), 4, 2, 2, False),  # no follower asks for an entry before the second
        ((1, 1, 1, 3, 3), 5, 2, 3, True),  # entry 3 may agree
        ((1, 1, 2, 2, 2), 5, 3, 3, False),  # the term of the entry that differs is skipped as a whole
        ((1, 1, 1, 2, 2), 5, 3, 3, True),
        ((1, 1, 1, 1), 8, 1, 5, False),  # the log is too short
        ((1, 1, 1, 1), 8, 1, 4, True),
    ],
)
def test_a_follower_goes_back_no_further_than_it_must(
    terms: tuple[int, ...], named: int, term: int, index: int, wrong: bool
) -> None:
    found = facts([application("a", each) for each in terms], [])
    check, one = HonestIndexes(found), found.servers[1]
    request = Request(APPEND, 2, 1, 4, term, named, 0)
    response = Response(RESPONSE_TYPE[APPEND], 1, 2, 4, index, accepted=False)

    def take() -> None:
        check.takes(one, Incoming("token", request), Effects(gated_replies=[SendReply("token", response)]), 0.0)

    if wrong:
        fires(check, take, f"server 1 refuses a APPEND_ENTRIES_REQUEST after entry {named}, and asks for entry {index}")
    else:
        take()


class Newcomer:
    """Newcomer 1, which leader 2 has invited in term 1."""

    def __init__(self) -> None:
        self.facts = facts([A1, B1, C1], [])
        self.check, self.server = PacksTaken(self.facts), self.facts.servers[1]
        self.answer(MessageType.JOIN_CLUSTER_REQUEST, 0, 4, accepted=True)

    def answer(
        self,
        kind: MessageType,
        previous: int,
        index: int,
        *,
        accepted: bool,
        term: int = 1,
        restore: Snapshot | None = None,
        write: Write | None = None,
    ) -> None:
        request = Request(kind, 2, 1, term, 0, previous, 0)
        response = Response(RESPONSE_TYPE[kind], 1, 2, 1, index, accepted=accepted)
        effects = Effects(gated_replies=[SendReply("token", response)], restore=restore, write=write)
        self.check.takes(self.server, Incoming("token", request), effects, 0.0)

    def refuses(self, previous: int, *, fires_: bool, asks_for: int | None = None) -> None:
        def act() -> None:
            self.answer(SYNC, previous, previous + 1 if asks_for is None else asks_for, accepted=False)

        if fires_:
            fires(self.check, act, f"refuses the pack after entry {previous}")
        else:
            act()


def test_a_newcomer_takes_the_pack_after_what_it_took() -> None:
    fresh, taking, restored, restarted, deposed = (Newcomer() for _ in range(5))
    fresh.refuses(1, asks_for=1, fires_=False)  # a gap
    fresh.refuses(1, asks_for=2, fires_=True)
    fresh.refuses(0, fires_=True)
    taking.answer(SYNC, 0, 6, accepted=True)
    taking.refuses(6, asks_for=6, fires_=False)
    taking.answer(SYNC, 2, 5, accepted=False)  # JRaft's form: a pack that brings nothing new
    taking.refuses(5, fires_=True)
    appended = Write(None, 4, (A1,))
    taking.answer(SYNC, 3, 5, accepted=True, write=appended)
    text = "newcomer 1 appends the entries of a pack that it refuses"
    fires(taking.check, lambda: taking.answer(SYNC, 3, 5, accepted=False, write=appended), text)
    restored.answer(INSTALL, 9, 100, accepted=True, restore=Snapshot(9, 1, Configuration(0, 0, ()), b"x"))
    restored.refuses(9, fires_=True)
    restarted.check.boots(restarted.server, Loaded(HardState(1, NOBODY), 0, (), (), 1, 0, (0, 0), None, None, None), [])
    restarted.refuses(0, fires_=False)
    deposed.answer(SYNC, 0, 1, accepted=False, term=0)


def test_packs_continue() -> None:
    found = facts([A1, B1, C1], [])
    check = PacksContinue(found)
    one = leader(found, 1, 1)

    def send(previous: int, *entries: Entry, base: int) -> None:
        request = Request(SYNC, 1, 2, 1, 0, previous, 0, (packed(*entries, base=base),))
        check.takes(one, Tick(), Effects(sends=[Send(2, request, 1)]), 0.0)

    fires(check, lambda: send(0, A1, base=7), "with the offset 7 instead of 0")
    send(0, A1, B1, base=0)
    both = record_bytes((A1, B1))
    fires(check, lambda: send(2, C1, base=both + 1), f"the offset {both + 1} instead of {both}")
    send(2, C1, base=both)
    send(1, B1, C1, base=record_bytes((A1,)))  # the server took a part of the first pack
    invitation = Request(MessageType.JOIN_CLUSTER_REQUEST, 1, 2, 1, 0, 3, 0)
    check.takes(one, Tick(), Effects(sends=[Send(2, invitation, 2)]), 0.0)
    send(0, A1, base=0)


def test_a_question_for_the_leader_has_zeros_only() -> None:
    found = facts([A1], [])
    check = RequestsAreTheLog(found)

    def asks(term: int, last_term: int, last: int, commit: int) -> None:
        request = Request(MessageType.CLIENT_REQUEST, 1, 2, term, last_term, last, commit)
        check.takes(found.servers[1], Tick(), Effects(sends=[Send(2, request, 1)]), 0.0)

    asks(0, 0, 0, 0)
    for place in range(4):
        fires(check, partial(asks, *(int(each == place) for each in range(4))), "server 1 sends")


@pytest.mark.parametrize(
    ("request_type", "accepted", "index", "follows", "wrong"),
    [
        (APPEND, True, 3, False, None),
        (APPEND, True, 3, True, "says that it can follow"),
        (APPEND, True, 4, False, "asks for entry 4"),
        (SYNC, False, 4, False, None),
        (SYNC, True, 4, False, "asks for entry 4"),
        (SYNC, False, 3, False, "asks for entry 3"),
        (INSTALL, False, 0, False, None),
        (INSTALL, False, 4, False, "asks for byte 4"),
    ],
)
def test_entries_over_a_limit_are_passed_over(
    request_type: MessageType, accepted: bool, index: int, follows: bool, wrong: str | None
) -> None:
    found = facts([A1, B1, C1], [])
    check, one = HonestIndexes(found), found.servers[1]
    one.cannot_follow = not follows
    request = OversizedRequest(request_type, 2, 1, 1, 1, 2, 0, fault="too large")
    response = Response(RESPONSE_TYPE[request_type], 1, 2, 1, index, accepted=accepted)

    def take() -> None:
        check.takes(one, Incoming("token", request), Effects(gated_replies=[SendReply("token", response)]), 0.0)

    if wrong is None:
        take()
    else:
        fires(check, take, wrong)


def test_a_server_that_cannot_follow_says_so_until_it_has_taken_something() -> None:
    found = facts([A1], [])
    check, one = HonestIndexes(found), found.servers[1]
    append = Incoming("token", Request(APPEND, 2, 1, 1, 1, 9, 0))
    one.cannot_follow = True
    check.takes(one, append, Effects(), 0.0)
    one.cannot_follow = False
    refuses = SendReply("token", Response(RESPONSE_TYPE[APPEND], 1, 2, 1, 2, accepted=False))
    text = "server 1 can follow its leader again, and has taken nothing"
    fires(check, lambda: check.takes(one, append, Effects(gated_replies=[refuses]), 0.0), text)
    one.cannot_follow = True
    taken = SendReply("token", Response(RESPONSE_TYPE[APPEND], 1, 2, 1, 10, accepted=True))
    snapshot = Snapshot(9, 1, Configuration(0, 0, ()), b"x")
    for effects in (Effects(gated_replies=[taken]), Effects(gated_replies=[refuses], restore=snapshot)):
        fires(check, partial(check.takes, one, append, effects, 0.0), "server 1 has followed its leader, and says that")


@pytest.mark.parametrize(
    ("leads", "leader", "accepted", "named", "index", "right"),
    [
        (True, 1, True, 1, 4, True),
        (True, 1, True, 1, 3, False),
        (True, 1, False, 1, 4, False),
        (False, 2, True, 2, 4, False),
        (False, 2, False, 2, 4, True),
        (False, 2, False, 2, 3, False),
        (False, 2, False, NOBODY, 0, True),
        (False, NOBODY, False, NOBODY, 0, True),
        (False, NOBODY, False, NOBODY, 1, False),
        (False, 2, False, 2, 0, False),
        (False, 2, False, 3, 4, False),
    ],
)
def test_an_answer_to_a_question_names_a_leader_that_is_heard(
    leads: bool, leader: int, accepted: bool, named: int, index: int, right: bool
) -> None:
    found = facts([A1, B1, C1], [])
    check, one = HonestIndexes(found), found.servers[1]
    one.leads, one.leader = leads, leader
    request = Request(MessageType.CLIENT_REQUEST, 2, 1, 0, 0, 0, 0)
    response = Response(MessageType.APPEND_ENTRIES_RESPONSE, 1, named, 1, index, accepted=accepted)

    def take() -> None:
        check.takes(one, Incoming("token", request), Effects(replies=[SendReply("token", response)]), 0.0)

    if right:
        take()
    else:
        fires(check, take, "by its answer")
