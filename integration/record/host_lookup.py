"""`python -m integration.record.host_lookup`: record how real routers answer I2CP's HostLookup.

Run this inside a network with Java routers (CONTRIBUTING.md): `python -m integration.testnet run --java 1
--java-floodfills 0 -- python -m integration.record.host_lookup`. Writes `tests/bridges/i2cp/recorded_host_lookup.json`
again: for each kind of router the bytes of both sides, and the seconds until the answer. The destination's keys follow
from a number.
"""

import asyncio
import contextlib
import random
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bridges.i2cp.host_lookup import find_destination
from bridges.i2cp.settings import I2cpSettings
from bridges.sam.client import Sam
from gf_i2p.netdb.private_keys import DestinationKeys
from integration.harness.local_farm import until
from integration.record.beside_java import write_recording
from integration.record.router_version import router_version
from integration.testnet.router import I2CP_PORT, SAM_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

FILE: Final = Path(__file__).parents[2] / "tests" / "bridges" / "i2cp" / "recorded_host_lookup.json"
SEED: Final = 38
"""Seed of the keys of the destination that lives: `DestinationKeys.generate(random.Random(SEED).randbytes)`."""
NOBODY: Final = bytes(range(32))
"""Hash of no destination."""
KINDS: Final = ("i2pd", "java")
TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}
SECONDS: Final = 240.0
_FRAME_HEAD: Final = 5
_SET_DATE: Final = 33


class I2cpMiddleman:
    """Passes I2CP between the project's client and one router, and keeps the frames. A context manager."""

    def __init__(self, router: RouterPlace) -> None:
        self._router = router
        self._tasks: set[asyncio.Task[None]] = set()
        self.settings = I2cpSettings()
        """The settings that reach the middleman."""
        self.asked: list[tuple[float, bytes]] = []
        """Frames of the client, each with the monotonic second."""
        self.answered: list[tuple[float, bytes]] = []
        """Frames of the router."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.settings = I2cpSettings(port=self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await asyncio.gather(*self._tasks)  # they end with the client's connection

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        far_reader, far_writer = await asyncio.open_connection(self._router.address, I2CP_PORT)
        try:
            far_writer.write(await reader.readexactly(1))  # the byte that opens I2CP
            ways = (_pass(reader, far_writer, self.asked), _pass(far_reader, writer, self.answered))
            pending = {asyncio.create_task(way) for way in ways}
            try:
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in pending:
                    each.cancel()
                await asyncio.gather(*pending, return_exceptions=True)
        finally:
            far_writer.close()
            writer.close()
            self._tasks.discard(task)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: list[tuple[float, bytes]]) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readexactly(_FRAME_HEAD)
            frame = head + await reader.readexactly(int.from_bytes(head[:4]))
            kept.append((time.monotonic(), frame))
            writer.write(frame)


async def ask(router: RouterPlace, hash_: bytes) -> dict[str, Any]:
    """Ask once through a middleman; return the request, the answer, and the seconds between them."""
    async with I2cpMiddleman(router) as middleman:
        await find_destination(middleman.settings, hash_)
        (_, _), (asked, request) = middleman.asked
        (_, date), (answered, reply) = middleman.answered
        assert date[_FRAME_HEAD - 1] == _SET_DATE
    return {"request": request.hex(), "reply": reply.hex(), "seconds": round(answered - asked, 3)}


async def record(network: RouterNetwork) -> dict[str, Any]:
    """Let a destination live behind one router, and ask another router of each kind. Returns the recording."""
    keys = DestinationKeys.generate(random.Random(SEED).randbytes)
    home, *others = [router for router in network.of("i2pd") if not router.floodfill]
    asked = {"i2pd": others[0], "java": network.of("java")[-1]}
    found: dict[str, Any] = {}
    session = await Sam(home.address, SAM_PORT).session(keys, TUNNELS)
    try:
        for kind in KINDS:
            exchanges: dict[str, Any] = {}
            found[kind] = {"router": await router_version(network, asked[kind]), "exchanges": exchanges}
            settings = I2cpSettings(asked[kind].address, I2CP_PORT, allow_plain=True)

            async def lives(settings: I2cpSettings = settings) -> bool:
                return await find_destination(settings, keys.destination.hash) is not None

            # Java does not look again for some seconds after a look-up that failed.
            await until(f"{kind} finds the destination", SECONDS, lives, poll=2.0)
            exchanges["found"] = await ask(asked[kind], keys.destination.hash)
            exchanges["not found"] = await ask(asked[kind], NOBODY)
            print(kind, {name: exchange["seconds"] for name, exchange in exchanges.items()}, flush=True)
    finally:
        session.close()
    how = "from a destination behind another router of a private network, by python -m integration.record.host_lookup"
    return {"how": how, "seed": SEED, "routers": found}


if __name__ == "__main__":
    sys.exit(write_recording(FILE, record, usage=__doc__))
