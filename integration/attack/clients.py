"""Attacks with the key of a client that may only post: each wants the leader's time, memory, or rights of a server."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Final

from gf_i2p.wire.errors import ProtocolError
from gf_i2p.wire.limits import MAX_ENTRIES, MAX_ENTRIES_BYTES
from gf_i2p.wire.messages import MessageType, encode_request
from integration.attack import hostile_requests as hostile
from integration.attack.attack import MOST_SECONDS, Attack, Load, Outcome, Rights, Scene, named_after
from integration.attack.connections import (
    Session,
    bounded,
    client_credentials,
    endpoints,
    flood,
    flood_of_messages,
    flood_of_posts,
)

_ENDS: Final = (OSError, EOFError, ProtocolError)
_ANSWER_SECONDS: Final = 20.0
"""Seconds for answers to posts of the largest size, whatever the time of the attack."""
_PIECE: Final = 1 << 16


def _client(scene: Scene, name: str) -> Callable[[int], contextlib.AbstractAsyncContextManager[Session]]:
    """Return a function that opens a session of a client at a server."""
    places = endpoints(scene)
    credentials = {server: client_credentials(scene, name, server) for server in scene.servers}
    return lambda server: Session.open(places[server], credentials[server])


async def _send_all(scene: Scene, name: str, requests: list[bytes]) -> tuple[int, int]:
    """Send requests to the leader, three on each connection; return the numbers of accepted and refused ones."""
    open_session = _client(scene, name)
    accepted = refused = 0

    async def send(some: list[bytes]) -> None:
        nonlocal accepted, refused
        with contextlib.suppress(*_ENDS):
            async with open_session(scene.leader) as session:
                sending = asyncio.ensure_future(session.send(*some))
                for _ in some:
                    (answer,) = await session.answers(1)
                    accepted, refused = accepted + answer.accepted, refused + (not answer.accepted)
                await sending

    work = asyncio.gather(*(send(requests[at : at + 3]) for at in range(0, len(requests), 3)))
    await bounded(scene, work, least=_ANSWER_SECONDS)
    return accepted, refused


async def crafted_zeros(scene: Scene) -> Load:
    """A client posts nine requests of 16 MiB, of values that are slow to decode and look like status records.

    Harm: the leader checks for so long that the leader falls. An older version had no leader for 48 s.
    """
    data = encode_request(hostile.largest_post(hostile.zeros_of_json()))
    accepted, refused = await _send_all(scene, "crafted-zeros", [data] * 9)
    return Load(f"9 posts of 16 MiB: {accepted} taken, {refused} refused")


async def many_entries(scene: Scene) -> Load:
    """A client posts requests of as many empty entries as one request may have, on 32 connections.

    Harm: frames cost memory and time far above their bytes.
    """
    data = encode_request(hostile.post(*[b""] * MAX_ENTRIES))
    accepted, refused = await _send_all(scene, "many-entries", [data] * 96)
    return Load(f"96 posts of {MAX_ENTRIES:,} entries: {accepted} taken, {refused} refused")


async def post_flood(scene: Scene) -> Load:
    """A client posts small values as fast as answers come, on four connections.

    Harm: honest clients wait, or the disk fills up. The client's budget must end the flood.
    """
    answered, accepted = await flood_of_posts(
        scene, _client(scene, "post-flood"), hostile.post(b"x" * 1000), batch=64, most=500_000
    )
    return Load(f"{answered:,} posts, {accepted:,} accepted")


async def questions(scene: Scene) -> Load:
    """A client asks for the leader as fast as answers come, in posts without entries, which no budget counts.

    Harm: the event loop has no time for heartbeats.
    """
    answered, accepted = await flood_of_posts(
        scene, _client(scene, "questions"), hostile.post(), batch=64, most=500_000
    )
    return Load(f"{answered:,} posts, {accepted:,} accepted")


async def deaf(scene: Scene) -> Load:
    """A client posts on 32 connections, and never reads an answer.

    Harm: answers pile up in the leader's memory.
    """
    open_session, sent = _client(scene, "deaf"), 0
    posts = encode_request(hostile.post(b"x")) * 64

    async def post(server: int) -> None:
        nonlocal sent
        async with open_session(server) as session:
            session.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(200):
                await session.send(posts)
                sent += 64
            await asyncio.get_running_loop().create_future()

    await flood(scene, post, lanes=32, servers=(scene.leader,))
    return Load(f"32 connections, {sent:,} posts unread")


async def half_requests(scene: Scene) -> Load:
    """A client begins a request of 16 MiB on each of 64 connections, and sends the last bytes never.

    Harm: partly sent requests fill the memory: 1 GiB without the limit of each user.
    """
    open_session, sent = _client(scene, "half-requests"), 0
    data = encode_request(hostile.largest_post(b"x" * 8000))[:-1]

    async def begin(server: int) -> None:
        nonlocal sent
        async with open_session(server) as session:
            for at in range(0, len(data), _PIECE):
                await session.send(data[at : at + _PIECE])
                sent += _PIECE
            await asyncio.get_running_loop().create_future()

    await flood(scene, begin, lanes=64, servers=(scene.leader,))
    return Load(f"64 connections, {sent >> 20:,} MiB sent")


async def crowd(scene: Scene) -> Load:
    """A client logs in on 100 connections at each server, and stays.

    Harm: one user takes all file descriptors.
    """
    open_session, inside = _client(scene, "crowd"), 0

    async def stay(server: int) -> None:
        nonlocal inside
        async with open_session(server) as session:
            inside += 1
            await session.reader.read(1)

    count = await flood(scene, stay, lanes=100)
    return Load(f"{count:,} logins, {inside:,} let in")


async def refused_messages(scene: Scene) -> Load:
    """A client sends the messages of servers and administrators, at full speed, with each server's id as the source.

    Harm: the client deposes the leader, changes the log or the membership.
    """
    open_session = _client(scene, "refused-messages")
    kinds = [
        encode_request(each)
        for source in scene.servers
        for each in hostile.all_of_servers(source, scene.seized, scene.term, scene.commit, scene.servers)
    ]
    count, answered = await flood_of_messages(scene, open_session, kinds)
    return Load(f"{count:,} messages of 8 kinds", (f"{answered} forbidden messages got an answer",) if answered else ())


async def oversized(scene: Scene) -> Load:
    """A client announces an AppendEntries with 4 GiB of entries, and sends bytes as long as a server reads.

    Harm: the server reads past the entries of a sender that may send none, or keeps the bytes.
    """
    open_session, sent = _client(scene, "oversized"), 0

    async def once(server: int) -> None:
        nonlocal sent
        async with open_session(server) as session:
            await session.send(hostile.oversized_head(MessageType.APPEND_ENTRIES_REQUEST, scene.seized, scene.term))
            while sent < 1 << 30:
                await session.send(bytes(_PIECE))
                sent += _PIECE

    count = await flood(scene, once)
    return Load(f"{count:,} connections, {sent >> 20:,} MiB sent")


async def bombs(scene: Scene) -> Load:
    """A client sends gzip bombs: as LogPacks, which no client may send, and as values, which nobody unpacks.

    Harm: a server unpacks a bomb of a sender that may send none.
    """
    open_session = _client(scene, "bombs")
    packs = [encode_request(hostile.sync_log(scene.seized, scene.term, pack)) for pack in hostile.bombs()]
    value = encode_request(hostile.post(hostile.bomb(9, 64)))
    turns = itertools.count()

    async def once(server: int) -> None:
        async with open_session(server) as session:
            turn = next(turns)
            await session.send(value if turn % 4 == 3 else packs[turn % 3])
            await session.answers(1)

    return Load(f"{await flood(scene, once, lanes=2):,} bombs of 64 MiB to 1 GiB")


def _kept(
    run: Callable[[Scene], Awaitable[Load]], *, writes: bool = False, most_seconds: float = MOST_SECONDS
) -> Attack:
    return Attack(named_after(run), Rights.CLIENT, Outcome.KEPT, run, writes, most_seconds)


ATTACKS: Final = (
    # Honest posts wait behind some MiB on the disk: 2.6 s on a busy machine.
    _kept(crafted_zeros, writes=True, most_seconds=6.0),
    _kept(many_entries, writes=True, most_seconds=6.0),
    _kept(post_flood, writes=True),
    _kept(questions),
    # Without slices of each turn (`gf_i2p/transport/request_slices.py`), 2 to 4 s; with slices 0.2 to 0.4 s.
    _kept(deaf, writes=True, most_seconds=1.0),
    _kept(half_requests),
    _kept(crowd),
    _kept(refused_messages),
    _kept(oversized),
    _kept(bombs, writes=True),
)
assert MAX_ENTRIES_BYTES == 16 << 20, "the words of the attacks name the limit"
