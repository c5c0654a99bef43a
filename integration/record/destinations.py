"""`python -m integration.record.destinations`: record answers of real routers about a destination and its end.

Run this inside a network of both kinds of router:

    python -m integration.testnet run --java 3 -- python -m integration.record.destinations

Writes `tests/bridges/recorded/destinations.json` again: I2CP's HostLookup, SAM's NAMING LOOKUP and STREAM CONNECT, each
with the seconds for the answer. The keys in the file are thrown away. Takes up to half an hour: lease sets live for ten
minutes after the end of a destination, and Java tries for five minutes to open a stream.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from bridges.errors import RouterError
from bridges.i2cp.host_lookup import has_lease_set
from bridges.i2cp.settings import I2cpSettings
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.router_status import I2pControl
from bridges.sam.client import Sam, SamSession
from gf_i2p.netdb.private_keys import DestinationKeys
from integration.harness.local_farm import until
from integration.record.sam import NOBODY, SamMiddleman
from integration.testnet.router import I2CP_PORT, I2PCONTROL_PORT, SAM_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

FILE: Final = Path(__file__).parents[2] / "tests" / "bridges" / "recorded" / "destinations.json"
SECONDS: Final = 300.0
END_SECONDS: Final = 900.0
CONNECT_SECONDS: Final = 600.0
_TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}
_LOOKUP: Final = 38
_REPLY: Final = 39


class I2cpMiddleman:
    """The middleman between the project's I2CP client and the router. Keeps the last HostLookup and its answer."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.request = b""
        self.reply = b""
        self.seconds = 0.0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the client."""
        far_reader, far_writer = await asyncio.open_connection(self._address, I2CP_PORT)
        far_writer.write(await reader.readexactly(1))
        ways = [
            asyncio.create_task(self._pass(reader, far_writer)),
            asyncio.create_task(self._pass(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            far_writer.close()
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass frames of length, type and body on."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(5)
                frame = head + await reader.readexactly(int.from_bytes(head[:4]))
                if head[4] == _LOOKUP:
                    self.request, self._began = frame, time.monotonic()
                elif head[4] == _REPLY:
                    self.reply, self.seconds = frame, time.monotonic() - self._began
                writer.write(frame)
                await writer.drain()


class Asked:
    """One router that is asked, and its answers so far."""

    def __init__(self, router: RouterPlace) -> None:
        self.router = router
        self.host_lookup: dict[str, dict[str, Any]] = {}
        self.sam: dict[str, dict[str, Any]] = {}
        self._middleman = SamMiddleman(router.address)

    async def start(self) -> None:
        """Start the middlemen, and a session that opens streams."""
        middleman = self._i2cp_middleman = I2cpMiddleman(self.router.address)
        i2cp = await asyncio.start_server(middleman.connected, "127.0.0.1", 0)
        sam = await asyncio.start_server(self._middleman.connected, "127.0.0.1", 0)
        self._i2cp = I2cpSettings("127.0.0.1", i2cp.sockets[0].getsockname()[1])
        self._sam = Sam("127.0.0.1", sam.sockets[0].getsockname()[1])
        self._servers = i2cp, sam
        self._middleman.name = "session"
        self._session = await opened(self._sam, DestinationKeys.generate())
        self._id = self._middleman.exchanges["session"][0].split("ID=")[1].split()[0]

    async def looks(self, name: str, hash_: bytes) -> bool:
        """Ask by HostLookup; keep the answer under this name."""
        found = await has_lease_set(self._i2cp, hash_)
        man = self._i2cp_middleman
        self.host_lookup[name] = {
            "request": man.request.hex(),
            "reply": man.reply.hex(),
            "seconds": round(man.seconds, 3),
        }
        return found

    async def finds_name(self, name: str, address: str) -> bool:
        """Ask by NAMING LOOKUP; keep the answer under this name."""
        self._middleman.name = name
        found = await self._sam.lookup(address) is not None
        self._keep(name)
        return found

    async def connects(self, name: str, address: str) -> None:
        """Connect; keep the answer under this name. Waits as long as the router does."""
        line = f"STREAM CONNECT ID={self._id} DESTINATION={address} SILENT=false"
        self._middleman.name = name
        reader, writer = await asyncio.open_connection(self._sam.host, self._sam.port)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                for each in ("HELLO VERSION MIN=3.1 MAX=3.1", line):
                    writer.write(f"{each}\n".encode())
                    await reader.readline()
        finally:
            writer.close()
        self._keep(name)

    def _keep(self, name: str) -> None:
        request, reply = self._middleman.exchanges[name]
        self.sam[name] = {"request": request, "reply": reply, "seconds": round(self._middleman.seconds[name], 3)}

    async def stop(self) -> None:
        """End the session and the middlemen."""
        self._session.close()
        for server in self._servers:
            server.close()


async def opened(sam: Sam, keys: DestinationKeys) -> SamSession:
    """Open a session as soon as the router has tunnels."""
    sessions: list[SamSession] = []

    async def is_open() -> bool:
        with contextlib.suppress(RouterError):
            sessions.append(await sam.session(keys, _TUNNELS))
        return bool(sessions)

    await until("a session", SECONDS, is_open, poll=2.0)
    return sessions[0]


async def record(network: RouterNetwork) -> None:
    """Ask a router of each kind about a destination beside an i2pd, and write the file."""
    i2pd, java = ([router for router in network.of(kind) if not router.floodfill] for kind in ("i2pd", "java"))
    leaf = DestinationKeys.generate()
    hash_, address = leaf.destination.hash, leaf.destination.b32
    both = [Asked(i2pd[-1]), Asked(java[-1])]
    for asked in both:
        await asked.start()
    session = await opened(Sam(i2pd[0].address, SAM_PORT), leaf)
    for asked in both:
        print(f"{asked.router.kind}: a living destination, and one that never was", flush=True)
        await until("the destination is found", SECONDS, lambda a=asked: a.looks("living", hash_), poll=2.0)  # type: ignore[misc]
        await asked.looks("living", hash_)
        await asked.looks("nobody", DestinationKeys.generate().destination.hash)
        await asked.finds_name("lookup of the living", address)
        await asked.finds_name("lookup of nobody", NOBODY)
        await asked.connects("connect to nobody", NOBODY)
    session.close()
    print("the destination has ended", flush=True)
    await asyncio.gather(*(asked.connects("connect to the dead", address) for asked in both))
    for asked in both:
        print(f"{asked.router.kind}: until its lease set is forgotten", flush=True)
        await until("the dead one is forgotten", END_SECONDS, _not(lambda a=asked: a.looks("dead", hash_)), poll=5.0)  # type: ignore[misc]
        await asked.finds_name("lookup of the dead", address)
    await asyncio.gather(*(asked.connects("connect to the forgotten", address) for asked in both))
    found = []
    for asked in both:
        await asked.stop()
        version = await _version(asked.router, network.password)
        answers = {"host_lookup": asked.host_lookup, "sam": asked.sam}
        found.append({"router": version, "kind": asked.router.kind, **answers})
    how = "in a private network, by python -m integration.record.destinations; the keys were thrown away"
    recorded = {"how": how, "destination": leaf.destination.base64, "routers": found}
    FILE.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")


def _not(condition: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    async def negated() -> bool:
        return not await condition()

    return negated


async def _version(router: RouterPlace, password: str) -> str:
    url = f"https://{router.address}:{I2PCONTROL_PORT}/"
    control = I2pControl(I2pControlAccess(url, password, any_certificate=True))
    try:
        status = await control.local_router_status()
    finally:
        await control.close()
    return f"{'Java I2P' if router.kind == 'java' else 'i2pd'} {status.version}"


async def _main() -> int:
    network = RouterNetwork.here()
    if network is None:
        print("run this inside a network: python -m integration.testnet run --java 3 -- …", file=sys.stderr)
        return 2
    async with network as inside:
        if not inside.of("java"):
            print("this network has no Java router: python -m integration.testnet run --java 3 -- …", file=sys.stderr)
            return 2
        await record(inside)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
