"""`python -m integration.record.java_sam`: record a Java router's SAM about a destination that lives, and then is dead.

Run this inside a network with Java routers (CONTRIBUTING.md): `python -m integration.testnet run --java 1
--java-floodfills 0 -- python -m integration.record.java_sam`. Writes `tests/bridges/sam/recorded_java_sam.json` again:
the lines of both sides, and the seconds until each answer. Takes 20 minutes: a lease set ends after ten, and Java tries
to open a stream for six.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, Final

from bridges.i2cp.host_lookup import has_lease_set
from bridges.i2cp.settings import I2cpSettings
from bridges.sam.client import Sam
from gf_i2p.netdb.private_keys import DestinationKeys
from integration.harness.local_farm import until
from integration.record.beside_java import write_recording
from integration.record.router_version import router_version
from integration.testnet.router import I2CP_PORT, SAM_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

FILE: Final = Path(__file__).parents[2] / "tests" / "bridges" / "sam" / "recorded_java_sam.json"
NOBODY: Final = "a" * 52 + ".b32.i2p"
TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}
SECONDS: Final = 240.0
FORGETS_SECONDS: Final = 900.0
"""Most seconds until the dead destination's lease set has ended."""
CONNECT_SECONDS: Final = 600.0
_SESSION: Final = "gfrecord"
_HELLO: Final = "HELLO VERSION MIN=3.1 MAX=3.1"


class JavaSamRecorder:
    """Asks SAM of one Java router, line by line, and keeps the lines."""

    def __init__(self, router: RouterPlace) -> None:
        self._router = router
        self.exchanges: dict[str, dict[str, object]] = {}
        self._control: asyncio.StreamWriter | None = None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._router.address, SAM_PORT)
        writer.write(f"{_HELLO}\n".encode())
        assert b"RESULT=OK" in await reader.readline()
        return reader, writer

    async def start(self) -> None:
        """Open the session that streams need. The session's lines have private keys, and are not kept."""
        options = " ".join(f"{name}={value}" for name, value in TUNNELS.items())
        reader, self._control = await self._open()
        create = f"SESSION CREATE STYLE=STREAM ID={_SESSION} DESTINATION=TRANSIENT SIGNATURE_TYPE=7"
        self._control.write(f"{create} i2cp.leaseSetEncType=4,0 {options}\n".encode())
        assert b"RESULT=OK" in await reader.readline()

    def close(self) -> None:
        """End the session."""
        if self._control is not None:
            self._control.close()

    async def ask(self, name: str, request: str) -> None:
        """Send one line, and keep the line, the reply and the seconds."""
        reader, writer = await self._open()
        try:
            began = time.monotonic()
            writer.write(f"{request}\n".encode())
            async with asyncio.timeout(CONNECT_SECONDS):
                reply = (await reader.readline()).decode().rstrip("\n")
            seconds = round(time.monotonic() - began, 3)
        finally:
            writer.close()
        self.exchanges[name] = {"request": request, "reply": reply, "seconds": seconds}
        print(f"{name}: {seconds} s, {reply[:60]}", flush=True)


async def record(network: RouterNetwork) -> dict[str, Any]:
    """Ask about a destination before and after its death, and about a destination that never was; return all."""
    router = network.of("java")[-1]
    home = next(each for each in network.of("i2pd") if not each.floodfill)
    keys = DestinationKeys.generate()
    b32 = keys.destination.b32
    settings = I2cpSettings(router.address, I2CP_PORT, allow_plain=True)
    recorder = JavaSamRecorder(router)
    session = await Sam(home.address, SAM_PORT).session(keys, TUNNELS)
    try:
        await recorder.start()

        async def lives() -> bool:
            return await has_lease_set(settings, keys.destination.hash)

        await until("Java finds the destination", SECONDS, lives, poll=2.0)
        await recorder.ask("lookup of the living", f"NAMING LOOKUP NAME={b32}")
    finally:
        session.close()
    died = time.monotonic()
    try:
        await recorder.ask("lookup of nobody", f"NAMING LOOKUP NAME={NOBODY}")
        await recorder.ask("connect to nobody", f"STREAM CONNECT ID={_SESSION} DESTINATION={NOBODY} SILENT=false")

        async def is_gone() -> bool:
            return not await has_lease_set(settings, keys.destination.hash)

        await until("Java finds the destination no more", FORGETS_SECONDS, is_gone, poll=10.0)
        print(f"HostLookup says so {time.monotonic() - died:.0f} s after the end", flush=True)
        await recorder.ask("lookup of the dead", f"NAMING LOOKUP NAME={b32}")
        await recorder.ask("connect to the dead", f"STREAM CONNECT ID={_SESSION} DESTINATION={b32} SILENT=false")
        await recorder.ask("lookup of the dead, later", f"NAMING LOOKUP NAME={b32}")
    finally:
        recorder.close()
    version = await router_version(network, router)
    how = "beside an i2pd with the destination, in a private network, by python -m integration.record.java_sam"
    return {"router": version, "how": how, "exchanges": recorder.exchanges}


if __name__ == "__main__":
    sys.exit(write_recording(FILE, record, usage=__doc__))
