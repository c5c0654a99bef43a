"""`python -m integration.record.sam`: run i2pd alone, ask the client's questions of its SAM, and keep every line.

Writes `tests/bridges/sam/recorded_sam.json` again. The client talks to a middleman, which passes lines on, and writes
the lines down. The keys in the file are thrown away with the router. Takes half a minute: i2pd makes no session in less
than 20 s.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bridges.errors import RouterError
from bridges.sam.client import Sam
from integration.harness.local_farm import until
from integration.testnet.namespace import check_programs, environment, inside
from integration.testnet.network import take_addresses
from integration.testnet.router import SAM_PORT, RouterProcess

FILE: Final = Path(__file__).parents[2] / "tests" / "bridges" / "sam" / "recorded_sam.json"
NOBODY: Final = "a" * 52 + ".b32.i2p"
SECONDS: Final = 60.0
_HELLO: Final = "HELLO VERSION MIN=3.1 MAX=3.1"
_OPTIONS: Final = {
    "inbound.length": "0",
    "outbound.length": "0",
    "inbound.quantity": "1",
    "outbound.quantity": "1",
}


class SamMiddleman:
    """The middleman between the project's SAM client and the router."""

    def __init__(self, address: str) -> None:
        """`address`: of the router's interfaces."""
        self._address = address
        self.exchanges: dict[str, tuple[str, str]] = {}
        """Requests and replies, without the line's end; a reply is empty where the router hung up."""
        self.seconds: dict[str, float] = {}
        """How long the router took for each reply."""
        self.name = ""
        """Name of the exchange that follows a HELLO."""
        self.connections = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the client."""
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection(self._address, SAM_PORT)
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                began = time.monotonic()
                far_writer.write(line)
                reply = await far_reader.readline()
                request = line.decode().rstrip("\n")
                name = "hello" if request == _HELLO else self.name
                self.exchanges[name] = (request, reply.decode().rstrip("\n"))
                self.seconds[name] = time.monotonic() - began
                writer.write(reply)
                if not reply:
                    break
        far_writer.close()
        writer.close()
        self.connections -= 1

    async def idle(self) -> bool:
        """Whether all connections have ended."""
        return self.connections == 0


async def record(directory: Path, version: str) -> None:
    """Run a router, record its answers to all requests of `ask`, and save the recording."""
    router = RouterProcess(0, directory / "router", floodfill=False, password="-")
    take_addresses([router.address])
    middleman = SamMiddleman(router.address)
    server = await asyncio.start_server(middleman.connected, "127.0.0.1", 0)
    router.start()
    try:
        await ask(middleman, Sam("127.0.0.1", server.sockets[0].getsockname()[1]), Sam(router.address))
    finally:
        router.stop()
        server.close()
    found = {
        "router": f"i2pd {version}",
        "how": "alone in a network namespace, its keys thrown away, by python -m integration.record.sam",
        "exchanges": {name: {"request": one, "reply": other} for name, (one, other) in middleman.exchanges.items()},
    }
    FILE.write_text(json.dumps(found, indent=1) + "\n")


async def ask(middleman: SamMiddleman, sam: Sam, directly: Sam) -> None:
    """Send the client's requests, and wrong requests whose answers the client must survive."""

    async def runs() -> bool:
        try:
            await directly.probe()
        except RouterError:
            return False
        return True

    await until("SAM answers", SECONDS, runs)
    middleman.name = "generate"
    keys = await sam.generate()
    for middleman.name, name in (("lookup", "ME"), ("lookup of nobody", NOBODY), ("lookup of a name", "nobody.i2p")):
        await sam.lookup(name)
    middleman.name = "session"
    session = await sam.session(keys, _OPTIONS)
    for middleman.name in ("forward", "forward twice"):
        with contextlib.suppress(RouterError):
            await session.forward("127.0.0.1", 4150)
    for middleman.name, peer in (("connect to nobody", NOBODY), ("connect to rubbish", "rubbish")):
        with contextlib.suppress(RouterError):
            await session.connect(peer)
    create = "SESSION CREATE STYLE={} ID={} DESTINATION={} SIGNATURE_TYPE=7"
    taken = middleman.exchanges["session"][0].split("ID=")[1].split()[0]
    for middleman.name, request in {
        "another version": "HELLO VERSION MIN=9.0 MAX=9.1",
        "id that is taken": create.format("STREAM", taken, "TRANSIENT"),
        "id with a mark": create.format("STREAM", "gf<3", "TRANSIENT"),
        "key that is none": create.format("STREAM", "gf4", "AAAA"),
        "style that is none": create.format("CARRIER-PIGEON", "gf5", "TRANSIENT"),
        "forward without session": "STREAM FORWARD ID=nosuch PORT=4150 HOST=127.0.0.1 SILENT=false",
        "connect without session": f"STREAM CONNECT ID=nosuch DESTINATION={NOBODY} SILENT=false",
        "nonsense": "MAKE TEA SUGAR=true",
    }.items():
        await say(sam, request)
    session.close()
    await until("all have hung up", SECONDS, middleman.idle)


async def say(sam: Sam, request: str) -> None:
    """Send a request that the project's client never sends."""
    reader, writer = await asyncio.open_connection(sam.host, sam.port)
    for line in (_HELLO, request) if not request.startswith("HELLO") else (request,):
        writer.write(f"{line}\n".encode())
        await reader.readline()
    writer.close()


def main() -> int:
    """Run this module again in fresh namespaces, and record there."""
    parser = argparse.ArgumentParser(prog="python -m integration.record.sam", description=__doc__)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.directory is not None:
        said = subprocess.run(["i2pd", "--version"], check=True, capture_output=True, text=True).stdout
        asyncio.run(record(options.directory, said.split()[2]))
        return 0
    check_programs()
    with tempfile.TemporaryDirectory() as directory:
        command = inside("integration.record.sam", ["--directory", directory])
        return subprocess.run(command, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
