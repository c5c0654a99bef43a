"""Shared parts of the tests of the served bridge: a server on a simulated router, and clients."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.router_status import I2pControl
from bridges.serving.bridge_server import BridgeServer
from bridges.serving.http_server import HttpLimits
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.bridges.fake_bridge import FakeBridge
from tests.bridges.i2cp.test_publisher import publication
from tests.bridges.simulated_i2pcontrol import PASSWORD as ROUTER_PASSWORD
from tests.bridges.simulated_i2pcontrol import SimulatedRouter
from tests.netdb.strategies import KEYS, NOW
from tests.transport.harness import Identity, soon

PASSWORD = "correct horse battery"
MASTER = KEYS.destination.hash


def published(time: int = NOW, keys: DestinationKeys = KEYS, **more: Any) -> dict[str, Any]:
    """Make the parameters of PublishMetaLS."""
    made = publication(time, keys)
    return {
        "MasterHash": to_base64(keys.destination.hash),
        "LeaseSet": to_base64(made.lease_set.data),
        "SessionConfig": to_base64(made.session),
        **more,
    }


def about(keys: DestinationKeys = KEYS) -> dict[str, Any]:
    return {"MasterHash": to_base64(keys.destination.hash)}


class Served:
    """A running endpoint of `gf-i2p bridge serve`, and the calls that a test makes there."""

    def __init__(self, server: BridgeServer, bridge: FakeBridge, port: int, tls: ssl.SSLContext | None) -> None:
        self.server = server
        self.bridge = bridge
        self.port = port
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{port}/"
        self._tls = tls
        self._token: str | None = None

    def _client_tls(self) -> ssl.SSLContext | None:
        if self._tls is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self._client_tls())

    async def raw(self, data: bytes) -> bytes:
        """Send bytes to the endpoint on a new connection; return all received bytes."""
        reader, writer = await soon(self.connect())
        writer.write(data)
        answer = b""
        try:
            answer = await soon(reader.read())
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
        return answer

    async def post(self, body: bytes) -> bytes:
        """Send a body; return the whole answer."""
        return await self.raw(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def send(self, request: object) -> Any:
        """POST a JSON value to the endpoint; return the JSON of the answer."""
        answer = await self.post(json.dumps(request).encode())
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), answer
        return json.loads(body)

    async def ask(self, method: str, **params: Any) -> Any:
        """Call a method without a token."""
        return await self.send({"id": 1, "jsonrpc": "2.0", "method": method, "params": params})

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method with a token."""
        if self._token is None:
            answer = await self.ask("Authenticate", API=1, Password=PASSWORD)
            self._token = answer["result"]["Token"]
        return await self.ask(method, **params, Token=self._token)

    async def code(self, method: str, **params: Any) -> int:
        """Call a method with a token, and return the code of the error in the answer."""
        answer = await self.call(method, **params)
        return int(answer["error"]["code"])


@asynccontextmanager
async def serving(
    router: SimulatedRouter | None = None,
    identity: Identity | None = None,
    tls: ssl.SSLContext | None = None,
    *,
    limits: HttpLimits | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    control = None
    if router is not None:
        assert identity is not None
        control = I2pControl(I2pControlAccess(router.url, ROUTER_PASSWORD, fingerprint=identity.fingerprint))
    bridge = FakeBridge()
    server = BridgeServer(bridge, control, PASSWORD, tls, limits=limits, **options)
    port = await server.start("127.0.0.1", 0)
    try:
        yield Served(server, bridge, port, tls)
    finally:
        await soon(server.stop())
        if control is not None:
            await control.close()
