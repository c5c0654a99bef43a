"""Attacks without credentials: each wants connections, memory or processor time of the servers, or a look inside."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.key_credentials import KeyCredentials
from integration.attack.attack import CLUSTER, FOREIGN, HONEST, Attack, Load, Outcome, Rights, Scene, named_after
from integration.attack.connections import connected, endpoints, exchange, flood, half_hello, try_login

_GET: Final = f"GET /GarlicFarm/{CLUSTER}/1/websocket HTTP/1.1\r\nHost: farm.example:1\r\n"
_SOURCES: Final = 6
"""Loopback addresses from which silent connections come: more than the limit for one source lets in."""


async def silent_connections(scene: Scene) -> Load:
    """A stranger opens many connections from several addresses, says nothing, and replaces each that is ended.

    Harm: the servers' slots and file descriptors are taken, and no client gets in.
    """
    places, sources = endpoints(scene), iter(range(1 << 30))

    async def once(server: int) -> None:
        source = f"127.0.0.{2 + next(sources) % _SOURCES}"
        async with connected(places[server], tls=False, source=source) as (reader, _):
            await reader.read(1)

    return Load(f"600 held, {await flood(scene, once, lanes=200):,} dials")


async def half_handshakes(scene: Scene) -> Load:
    """A stranger sends the first half of a TLS hello, and waits.

    Harm: half-open TLS states fill the memory, or hold the slots.
    """
    places, hello = endpoints(scene), half_hello()

    async def once(server: int) -> None:
        async with connected(places[server], tls=False) as (reader, writer):
            writer.write(hello)
            await reader.read(1)

    return Load(f"192 held, {await flood(scene, once, lanes=64):,} half hellos")


async def dripped_heads(scene: Scene) -> Load:
    """A stranger completes TLS, and sends an HTTP head byte by byte, up to the limit of connections of one source.

    Harm: each byte renews a deadline, and the slots stay taken.
    """
    places = endpoints(scene)
    sent = 0

    async def once(server: int) -> None:
        nonlocal sent
        async with connected(places[server]) as (reader, writer):
            ended = asyncio.ensure_future(reader.read(1))
            for byte in _GET.encode() + b"X: " + b"x" * 10_000:
                writer.write(bytes([byte]))
                sent += 1
                await asyncio.wait([ended], timeout=0.1)
                if ended.done():
                    return

    await flood(scene, once, lanes=31)
    return Load(f"93 connections, {sent:,} bytes")


async def giant_heads(scene: Scene) -> Load:
    """A stranger sends HTTP heads at and over the limits: long lines, thousands of lines, a long Authorization.

    Harm: the parser takes memory, or processor time that grows faster than the head.
    """
    places = endpoints(scene)
    nonces = ", ".join(f'a{number}="{"b" * 900}"' for number in range(17))
    heads = [
        (_GET + "X: " + "x" * 1_000_000).encode(),
        (_GET + "a: b\r\n" * 20_000 + "\r\n").encode(),
        (_GET + "\r" * 15_000 + "\n\r\n").encode(),
        (_GET + f"Authorization: Digest {nonces}\r\n\r\n").encode(),
        (_GET + "Authorization: Digest " + "a=," * 5_000 + "\r\n\r\n").encode(),
        (_GET + "\r\n".join(f"x{number}: {'y' * 200}" for number in range(61)) + "\r\n\r\n").encode(),
    ]
    turns = iter(range(1 << 30))

    async def once(server: int) -> None:
        await exchange(places[server], heads[next(turns) % len(heads)])

    return Load(f"{await flood(scene, once):,} heads of 15 KB to 1 MB")


async def garbage(scene: Scene) -> Load:
    """A stranger sends random bytes, inside TLS and in its place.

    Harm: a decoder fails with an error that ends more than the connection.
    """
    places, dice = endpoints(scene), random.Random(scene.seed)

    async def once(server: int) -> None:
        await exchange(places[server], dice.randbytes(dice.randint(1, 4096)), tls=dice.random() < 0.7)

    return Load(f"{await flood(scene, once):,} connections of garbage")


async def wrong_paths(scene: Scene) -> Load:
    """A stranger asks for paths that do not exist, and for farms of other names.

    Harm: an answer tells more than the same 404, or the flood starves the farm.
    """
    places = endpoints(scene)
    targets = ("/", "/status", "/GarlicFarm/other/1/websocket", f"/GarlicFarm/{CLUSTER}/2/websocket", "/" + "a" * 8000)
    turns = iter(range(1 << 30))
    answers: set[bytes] = set()

    async def once(server: int) -> None:
        target = targets[next(turns) % len(targets)]
        answers.add(await exchange(places[server], f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode()))

    count = await flood(scene, once)
    different = answers - {b""}
    harm = () if len(different) <= 1 else (f"wrong paths got {len(different)} different answers",)
    return Load(f"{count:,} requests", harm)


async def _logins(scene: Scene, credentials: dict[int, Credentials]) -> Load:
    """Log in again and again. A login that succeeds is harm."""
    places, inside = endpoints(scene), 0

    async def once(server: int) -> None:
        nonlocal inside
        streams = await try_login(places[server], credentials[server])
        if streams is not None:
            inside += 1
            streams[1].transport.abort()

    count = await flood(scene, once)
    return Load(f"{count:,} logins", (f"{inside} wrong logins were let in",) if inside else ())


async def wrong_passwords(scene: Scene) -> Load:
    """A stranger guesses the password of a user that logs in by Digest.

    Harm: the user is locked out, the nonces of honest users go stale, or the flood starves the farm.
    """
    return await _logins(scene, {server: Credentials(f"client-{FOREIGN}", "guessed") for server in scene.servers})


async def wrong_keys(scene: Scene) -> Load:
    """A stranger logs in as the honest client and as a server, with a key of the stranger's own.

    Harm: checks of signatures starve the farm, or the honest client is locked out.
    """
    users = {1: f"client-{HONEST}", 2: f"server-{scene.leader}", 3: f"client-{HONEST}"}
    return await _logins(
        scene, {server: KeyCredentials(users[server], server, [LoginKey.generate()]) for server in scene.servers}
    )


async def unknown_users(scene: Scene) -> Load:
    """A stranger logs in as users that do not exist, by password and by key.

    Harm: the server remembers something for each name, or the flood starves the farm.
    """
    return await _logins(
        scene,
        {
            server: Credentials(f"client-nobody-{server}", "guessed")
            if server % 2
            else KeyCredentials(f"server-{90 + server}", server, [LoginKey.generate()])
            for server in scene.servers
        },
    )


def _kept(run: Callable[[Scene], Awaitable[Load]]) -> Attack:
    return Attack(named_after(run), Rights.STRANGER, Outcome.KEPT, run)


ATTACKS: Final = tuple(
    map(
        _kept,
        (
            silent_connections,
            half_handshakes,
            dripped_heads,
            giant_heads,
            garbage,
            wrong_paths,
            wrong_passwords,
            wrong_keys,
            unknown_users,
        ),
    )
)
