"""`python -m integration.record.i2pcontrol`: run i2pd alone, ask the client's questions, and keep every byte.

Writes `tests/bridges/recorded/i2pd-VERSION.json` again. The client talks to a middleman, which ends the client's TLS,
talks to the router in the client's place, and writes both sides down.
"""

import argparse
import asyncio
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from bridges.errors import RouterError
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.router_status import I2pControl
from gf_i2p.transport.tls.certificates import make_certificate
from integration.harness.local_farm import until
from integration.testnet.namespace import check_programs, environment, inside
from integration.testnet.network import take_addresses
from integration.testnet.router import I2PCONTROL_PORT, RouterProcess
from tests.bridges.simulated_i2pcontrol import PASSWORD, Exchange, Recording

TUNNELS: Final = ("check", "web.test")
"""Names of tunnels. The second name has a dot, which i2pd prints as nesting."""
SECONDS: Final = 60.0
_READ_BYTES: Final = 65_536


class I2pControlMiddleman:
    """The middleman between one client and one router."""

    def __init__(self, router: RouterProcess) -> None:
        self._router = router
        self.exchanges: dict[object, Exchange] = {}
        """The last exchange of each kind."""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the client."""
        request = await reader.read(_READ_BYTES)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            far_reader, far_writer = await asyncio.open_connection(self._router.address, I2PCONTROL_PORT, ssl=context)
        except OSError:
            writer.close()
            return
        far_writer.write(request)
        reply = await far_reader.read()
        far_writer.close()
        exchange = Exchange(request, reply)
        self.exchanges[exchange.kind] = exchange
        writer.write(reply)
        writer.close()


async def record(directory: Path) -> None:
    """Run a router, record its answers to all requests of `ask`, and save the recording."""
    router = RouterProcess(0, directory / "router", floodfill=False, password=PASSWORD)
    take_addresses([router.address])
    router.directory.mkdir()
    (router.directory / "tunnels.conf").write_text(
        "".join(f"[{name}]\ntype = server\nhost = 127.0.0.1\nport = 80\nkeys = {name}.dat\n" for name in TUNNELS)
    )
    certificate, key = make_certificate("middleman")
    (directory / "middle.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "middle.pem")
    middleman = I2pControlMiddleman(router)
    server = await asyncio.start_server(middleman.connected, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    router.start()
    try:
        version = await ask(url)
    finally:
        router.stop()
        server.close()
    how = f"recorded from i2pd {version} alone in a network namespace, by python -m integration.record.i2pcontrol"
    Recording(f"i2pd {version}", how, tuple(middleman.exchanges.values())).save(f"i2pd-{version}")


async def ask(url: str) -> str:
    """Send the client's requests, and wrong requests with answers that the client must survive; return the version."""
    control = I2pControl(I2pControlAccess(url, PASSWORD, any_certificate=True), ask_for_tunnels=True)

    async def runs() -> bool:
        return await refused(control, "Echo", {"Echo": "gf"}) is None and len(await control.tunnels()) == len(TUNNELS)

    await until("i2pd runs its tunnels", SECONDS, runs)
    status = await control.local_router_status()
    await control.local_router_status()  # the second time the client asks only for values that the router has given
    await refused(control, "GetRate", {"Stat": "jobQueue.jobLag", "Period": 60_000})
    await refused(control, "ClientServicesInfo", {"Unknown": None, "I2PTunnel": None})
    await control.call("ClientServicesInfo", {"SAM": None})
    await control.close()
    stranger = I2pControl(I2pControlAccess(url, "wrong", any_certificate=True))
    await refused(stranger, "Echo", {"Echo": "gf"})
    await stranger.close()
    assert status.version is not None
    return status.version


async def refused(control: I2pControl, method: str, params: dict[str, str | int | None]) -> RouterError | None:
    """Call a method, and return the error."""
    try:
        await control.call(method, params)
    except RouterError as error:
        return error
    return None


def main() -> int:
    """Run this module again in fresh namespaces, and record there."""
    parser = argparse.ArgumentParser(prog="python -m integration.record.i2pcontrol", description=__doc__)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.directory is not None:
        asyncio.run(record(options.directory))
        return 0
    check_programs()
    with tempfile.TemporaryDirectory() as directory:
        command = inside("integration.record.i2pcontrol", ["--directory", directory])
        return subprocess.run(command, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
