"""`python -m integration.record.streaming`: record an i2pd client's packets to a service of this project.

Run this inside a network: `python -m integration.testnet run -- python -m integration.record.streaming`. Writes
`tests/bridges/streaming/recorded_streaming.json` again: the I2CP payloads of three requests through the client's HTTP
proxy. The service's keys follow from a number, so that tests have the same keys.
"""

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Final
from unittest.mock import patch

import aiohttp
from aiohttp import web

from bridges.hosting_protocol import ServiceOffer
from bridges.i2cp.service_hosting import I2cpHosting
from bridges.i2cp.settings import I2cpSettings
from bridges.streaming import tcp_forward
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import SERVICE_OPTIONS
from integration.harness.local_farm import until
from integration.harness.web_server import web_server
from integration.testnet.router import I2CP_PORT, PROXY_PORT
from integration.testnet.router_network import RouterNetwork

FILE: Final = Path(__file__).parents[2] / "tests" / "bridges" / "streaming" / "recorded_streaming.json"
SEED: Final = 150
"""Seed of the service's keys: `DestinationKeys.generate(random.Random(SEED).randbytes)`."""
BODIES: Final = (b"", b"a form", bytes(6000))
"""Bodies of the requests."""
SECONDS: Final = 60.0


class RecordingForwarder(tcp_forward.Forwarder):
    """A forwarder that keeps all payloads."""

    heard: Final[list[bytes]] = []

    def receive(self, payload: bytes) -> None:
        """Keep a payload, then forward as usual."""
        self.heard.append(payload)
        super().receive(payload)


async def _hello(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(text="hello")


async def record(network: RouterNetwork) -> None:
    """Serve, ask, and write the file."""
    keys = DestinationKeys.generate(random.Random(SEED).randbytes)
    published = int(time.time())

    def next_published() -> int:
        nonlocal published
        published = max(int(time.time()), published + 1)
        return published

    async def announce(lease_set: LeaseSet2) -> None:
        pass

    app = web.Application()
    app.add_routes([web.route("*", "/", _hello)])
    async with web_server(app) as target:
        near, far = network.routers[-2:]
        options = {**SERVICE_OPTIONS, "inbound.length": "1", "outbound.length": "1"}
        offer = ServiceOffer(keys, target, next_published, announce, http=True, options=options)
        service = await I2cpHosting(I2cpSettings(near.address, I2CP_PORT, allow_plain=True)).open(offer)
        try:
            async with aiohttp.ClientSession() as web_client:

                async def ask(body: bytes) -> bool:
                    url, proxy = f"http://{keys.destination.b32}/", f"http://{far.address}:{PROXY_PORT}"
                    async with web_client.post(url, data=body, proxy=proxy) as answer:
                        return await answer.text() == "hello"

                async def reached() -> bool:
                    return await ask(b"")

                await until("the service is reached", SECONDS, reached)
                await until("its stream has ended", SECONDS, lambda: _none(service.streams))
                RecordingForwarder.heard.clear()
                for body in BODIES:
                    assert await ask(body)
                    await until("the stream has ended", SECONDS, lambda: _none(service.streams))
        finally:
            await service.close()
    recorded = {"router": "i2pd", "seed": SEED, "payloads": [payload.hex() for payload in RecordingForwarder.heard]}
    FILE.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")


async def _none(streams: int) -> bool:
    return streams == 0


async def _main() -> int:
    network = RouterNetwork.here()
    if network is None:
        print("run it inside a network: python -m integration.testnet run -- …", file=sys.stderr)
        return 2
    async with network as inside:
        with patch("bridges.i2cp.service_hosting.Forwarder", RecordingForwarder):
            await record(inside)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
