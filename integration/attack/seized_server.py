"""Attacks with the key of one server: each wants the term, the log, the state or the membership of the farm.

The seized server's own process runs on, so the farm hears both.
"""

import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Final

from gf_i2p.farm.state import FarmState
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import ProtocolError
from gf_i2p.wire.log_values import ClusterServer, Configuration, SnapshotSyncRequest
from gf_i2p.wire.messages import MessageType, Request, Response, encode_request
from integration.attack import hostile_requests as hostile
from integration.attack.attack import AHEAD, CLUSTER, Attack, Load, Outcome, Rights, Scene, named_after
from integration.attack.connections import (
    Session,
    bounded,
    endpoints,
    flood,
    flood_of_messages,
    flood_of_posts,
    seized_credentials,
)

_FAR: Final = 2**32
_ANSWER_SECONDS: Final = 5.0
_PIECE: Final = 1 << 16
_ENDS: Final = (OSError, EOFError, ProtocolError)
_APPEND: Final = MessageType.APPEND_ENTRIES_REQUEST


def _seized(scene: Scene) -> Callable[[int], contextlib.AbstractAsyncContextManager[Session]]:
    """Return a function that opens a session of the seized server at another server."""
    places = endpoints(scene)
    credentials = {server: seized_credentials(scene, server) for server in scene.others}
    return lambda server: Session.open(places[server], credentials[server])


async def _ask(scene: Scene, server: int, *requests: Request) -> list[Response]:
    """Send requests in one connection; return the responses that come before the server ends the connection."""
    responses: list[Response] = []

    async def work() -> None:
        with contextlib.suppress(*_ENDS):
            async with _seized(scene)(server) as session:
                await session.send(*map(encode_request, requests))
                for _ in requests:
                    responses.extend(await session.answers(1))

    await bounded(scene, work(), least=_ANSWER_SECONDS)
    return responses


def _accepted(responses: dict[int, list[Response]], what: str) -> tuple[str, ...]:
    """Return a sentence for each server that has accepted a request."""
    return tuple(
        f"server {server} has accepted {what}"
        for server, answers in responses.items()
        if any(each.accepted for each in answers)
    )


def _configuration(scene: Scene, index: int) -> Configuration:
    """Return a Configuration of the farm's own servers, as of entry `index`."""
    places = endpoints(scene)
    return Configuration(index, 0, tuple(ClusterServer(server, str(places[server])) for server in scene.servers))


def _next_terms(scene: Scene) -> list[tuple[int, int]]:
    """Return each other server with a term above the present one, and above all terms of elections meanwhile."""
    return [(server, scene.term + 1 + 10 * number) for number, server in enumerate(scene.others)]


def _hostile_entry(term: int) -> Entry:
    return Entry(term, ValueType.APPLICATION, hostile.MARK)


async def borrowed_names(scene: Scene) -> Load:
    """A seized server sends messages in the names of other servers, and adds and removes other servers.

    Harm: one server's key is worth the keys of all.
    """
    open_session = _seized(scene)
    requests = [
        encode_request(each)
        for source in scene.others
        for each in hostile.all_of_servers(source, source, scene.term, scene.commit, scene.servers)
    ]
    count, answered = await flood_of_messages(scene, open_session, requests, servers=scene.others)
    return Load(f"{count:,} messages of 8 kinds", (f"{answered} of them got an answer",) if answered else ())


async def second_leader(scene: Scene) -> Load:
    """A seized server claims to lead the present term: heartbeats, entries, a snapshot, an invitation, a farewell.

    Harm: a follower follows two leaders.
    """
    open_session, term, source = _seized(scene), scene.term, scene.seized
    index = scene.commit + AHEAD
    block = SnapshotSyncRequest(index, term, _configuration(scene, index), 0, FarmState(CLUSTER).encode(), done=True)
    requests = [
        hostile.request(_APPEND, source, term, previous=(scene.proved_term, scene.proved), commit=scene.commit + 100),
        hostile.request(_APPEND, source, term, _hostile_entry(term), previous=(scene.proved_term, scene.proved)),
        hostile.snapshot(source, term, block),
        hostile.request(
            MessageType.JOIN_CLUSTER_REQUEST,
            source,
            term,
            Entry(0, ValueType.CONFIGURATION, _configuration(scene, index).encode()),
        ),
        hostile.request(MessageType.LEAVE_CLUSTER_REQUEST, source, term),
        hostile.sync_log(source, term, hostile.bomb(9, 10)),
    ]
    encoded, turns, accepted = [encode_request(each) for each in requests], itertools.count(), 0

    async def once(server: int) -> None:
        nonlocal accepted
        async with open_session(server) as session:
            await session.send(encoded[next(turns) % len(encoded)])
            accepted += sum(answer.accepted for answer in await session.answers(1))

    count = await flood(scene, once, servers=scene.others)
    return Load(f"{count:,} claims of 6 kinds", (f"{accepted} claims were accepted",) if accepted else ())


async def vote_storm(scene: Scene) -> Load:
    """A seized server asks for votes in ever higher terms, with a log that is ahead of all, at full speed.

    Harm: each request raises the term, and the leader falls.
    """
    open_session, terms = _seized(scene), itertools.count(scene.term + 1)
    answered = granted = 0

    async def ask(server: int) -> None:
        nonlocal answered, granted
        async with open_session(server) as session:
            while answered < 500_000:
                votes = [
                    hostile.request(
                        MessageType.REQUEST_VOTE_REQUEST,
                        scene.seized,
                        next(terms),
                        previous=(scene.term, scene.commit + 1000),
                    )
                    for _ in range(32)
                ]
                answers = await session.ask(*votes)
                answered += len(answers)
                granted += sum(answer.accepted for answer in answers)

    await flood(scene, ask, lanes=2, servers=scene.others)
    return Load(f"{answered:,} vote requests", (f"{granted} votes were granted",) if granted else ())


async def own_endpoint(scene: Scene) -> Load:
    """A seized server asks to be added again, at another endpoint.

    Harm: the farm's servers dial the attacker's machine, and the true server is cut off.
    """
    added = ClusterServer(scene.seized, "tcp://127.0.0.1:9").encode()
    request = hostile.request(
        MessageType.ADD_SERVER_REQUEST, scene.seized, scene.term, Entry(0, ValueType.CLUSTER_SERVER, added)
    )
    answers = {server: await _ask(scene, server, request) for server in scene.others}
    return Load(f"{len(scene.others)} requests", _accepted(answers, "another endpoint"))


async def server_posts(scene: Scene) -> Load:
    """A seized server posts at full speed.

    Harm: honest clients wait, or the disk fills up. The server's budget must end the flood.
    """
    request = hostile.post(hostile.zeros_of_json(), source=scene.seized)
    answered, accepted = await flood_of_posts(scene, _seized(scene), request, batch=16, most=100_000)
    return Load(f"{answered:,} posts of 8 KiB, {accepted:,} accepted")


async def giant_entries(scene: Scene) -> Load:
    """A seized server sends an AppendEntries with 4 GiB of entries, in a lower term, as fast as a server reads.

    Harm: bytes that a server reads past leave no time for the farm.
    """
    open_session, sent = _seized(scene), 0

    async def once(server: int) -> None:
        nonlocal sent
        async with open_session(server) as session:
            await session.send(hostile.oversized_head(_APPEND, scene.seized, max(scene.term - 1, 0)))
            while sent < 1 << 30:
                await session.send(bytes(_PIECE))
                sent += _PIECE

    await flood(scene, once, lanes=1, servers=scene.others)
    return Load(f"2 connections, {sent >> 20:,} MiB sent")


async def far_terms(scene: Scene) -> Load:
    """A seized server claims to lead a term that is 2^32 higher, at both other servers.

    Harm: the terms come to an end, or servers refuse each other for ever. An operator then has no way on:
    tests/node/recovery/test_far_terms.py has newcomers and `recover` after such claims.
    """
    claim = hostile.request(_APPEND, scene.seized, scene.term + _FAR)
    answers = {server: await _ask(scene, server, claim) for server in scene.others}
    return Load("a term 2^32 higher, at 2 servers", _accepted(answers, "a far term"))


async def overwritten_entries(scene: Scene) -> Load:
    """A seized server claims the next term, and sends entries in the place of committed ones.

    Harm: an acknowledged entry is gone.
    """
    answers = {}
    for server, term in _next_terms(scene):
        entries = [_hostile_entry(term)] * 3
        claim = hostile.request(
            _APPEND, scene.seized, term, *entries, previous=(scene.proved_term, scene.proved), commit=scene.commit + 9
        )
        answers[server] = await _ask(scene, server, claim)
    return Load("3 entries at 2 servers", _accepted(answers, "entries in the place of committed ones"))


async def garbage_snapshot(scene: Scene) -> Load:
    """A seized server claims the next term, and installs snapshots that are no state of the farm.

    Harm: bytes that nobody can read replace a log, and the server never starts again.
    """
    index, answers = scene.commit + AHEAD, {}
    for server, term in _next_terms(scene):
        blocks = [
            SnapshotSyncRequest(index, term, _configuration(scene, index), 0, data, done=True)
            for data in (b"garbage", b"", b"{}", b"[" * 5_000)
        ]
        found = [await _ask(scene, server, hostile.snapshot(scene.seized, term, each)) for each in blocks]
        answers[server] = list(itertools.chain(*found))
    return Load("4 snapshots at 2 servers", _accepted(answers, "a snapshot of garbage"))


async def packed_bombs(scene: Scene) -> Load:
    """A seized server claims the next term, invites the others, and sends LogPacks that unpack to a GiB.

    Harm: a server runs out of memory.
    """
    term, sent, answers = scene.term + 1, 0, dict[int, list[Response]]()
    invitation = Entry(0, ValueType.CONFIGURATION, _configuration(scene, scene.commit).encode())
    for server in scene.others:
        answers[server] = []
        for pack in hostile.bombs():
            found = await _ask(
                scene,
                server,
                hostile.request(MessageType.JOIN_CLUSTER_REQUEST, scene.seized, term, invitation),
                hostile.sync_log(scene.seized, term, pack),
            )
            answers[server] += found[1:]
            sent += 1
            term = max([term, *(each.term + 1 for each in found if not each.accepted)])
    return Load(f"{sent} bombs of 64 MiB to 1 GiB", _accepted(answers, "a bomb"))


async def made_up_state(scene: Scene) -> Load:
    """A seized server claims the next term, and installs a well-formed snapshot with an empty state on a follower.

    Harm: the follower's log, and in the end the farm's state, are the attacker's. No server can see from a snapshot
    that nobody elected the sender (docs/design/consensus.md).
    """
    follower, index, term = scene.others[1], scene.commit + AHEAD, scene.term + 1
    block = SnapshotSyncRequest(index, term, _configuration(scene, index), 0, FarmState(CLUSTER).encode(), done=True)
    answers = await _ask(scene, follower, hostile.snapshot(scene.seized, term, block))
    taken = any(each.accepted for each in answers)
    return Load(f"1 snapshot: server {follower} has {'taken' if taken else 'refused'} the state")


async def made_up_tail(scene: Scene) -> Load:
    """A seized server claims the next term, and sends entries that follow all committed ones, to a follower.

    Harm: the uncommitted tail is the attacker's (docs/design/consensus.md).
    """
    follower, term = scene.others[1], scene.term + 1
    # A follower that refuses an entry tells the end of its log, and then hears no other leader of a lower term.
    probe = hostile.request(_APPEND, scene.seized, term, previous=(scene.term, scene.commit + 10_000))
    (end,) = await _ask(scene, follower, probe)
    claim = hostile.request(
        _APPEND,
        scene.seized,
        term,
        _hostile_entry(term),
        previous=(scene.term, end.next_index - 1),
        commit=end.next_index,
    )
    answers = await _ask(scene, follower, claim)
    taken = any(each.accepted for each in answers)
    return Load(f"1 entry: server {follower} has {'taken' if taken else 'refused'} the entry")


def _attack(run: Callable[[Scene], Awaitable[Load]], outcome: Outcome, *, writes: bool = False) -> Attack:
    return Attack(named_after(run), Rights.SERVER, outcome, run, writes)


ATTACKS: Final = (
    _attack(borrowed_names, Outcome.KEPT),
    _attack(second_leader, Outcome.KEPT),
    _attack(vote_storm, Outcome.KEPT),
    _attack(own_endpoint, Outcome.KEPT),
    _attack(server_posts, Outcome.KEPT, writes=True),
    _attack(giant_entries, Outcome.KEPT),
    _attack(overwritten_entries, Outcome.BACK),
    _attack(garbage_snapshot, Outcome.BACK),
    _attack(packed_bombs, Outcome.BACK),
    _attack(far_terms, Outcome.BACK),
    _attack(made_up_tail, Outcome.SHOWN),
    _attack(made_up_state, Outcome.SHOWN),
)
