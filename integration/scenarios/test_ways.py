"""A node behind a server tunnel, reached through another router by each proxy method and by the node's own session."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from gf_i2p.admin.client import RemoteApi
from gf_i2p.cli.pipeline.web_hook import HookFile, WebHook
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.file_names import CONFIG_FILE, DESTINATION_FILE
from gf_i2p.node.files.router_settings import ClientProxyTable
from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxyMethod, ProxySettings
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.local_farm import NotSeenError, until
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import PROXY_PORT, SOCKS_PORT
from integration.testnet.router_network import RouterNetwork
from integration.testnet.server_tunnels import ServerTunnel

pytestmark = pytest.mark.timeout(1800)

SECONDS: Final = 480.0
"""The router builds new tunnels, and one failed attempt may take a minute."""


@pytest_asyncio.fixture
async def farm(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[I2pFarm]:
    """A farm of one server behind the router's server tunnel."""
    router = network.routers[-1]
    with I2pFarm(tmp_path, [router], password=network.password, admins=["far"]) as made:
        made.place()
        node = made.node(1)
        config = node / CONFIG_FILE
        config.write_text(config.read_text().replace('inbound = "sam"', 'inbound = "tunnel"'))
        port = Endpoint.parse(_value(config.read_text(), "listen")).port
        keys = DestinationKeys.parse((node / DESTINATION_FILE).read_bytes())
        tunnel = ServerTunnel(router, keys, port, "farm")
        tunnel.add()
        await network.stop(router)
        await network.start(router)
        made.start_all()
        yield made
        tunnel.remove()
        await network.stop(router)
        await network.start(router)


def _value(text: str, key: str) -> str:
    line = next(line for line in text.splitlines() if line.startswith(f"{key} = "))
    return line.split('"')[1]


@pytest.mark.slow  # restarts a router
async def test_every_way_leads_to_a_server_tunnel(network: RouterNetwork, farm: I2pFarm) -> None:
    ways = {ProxyMethod.GET: PROXY_PORT, ProxyMethod.CONNECT: PROXY_PORT, ProxyMethod.SOCKS5: SOCKS_PORT}
    proxies = [ProxySettings(network.routers[-2].address, port, way) for way, port in ways.items()]
    links = [_link(farm, proxy) for proxy in proxies]
    began = time.monotonic()
    for link in links:
        link.start()
    try:
        for link, proxy in zip(links, proxies, strict=True):
            try:
                await until(f"let in by {proxy.way}", SECONDS, partial(_is_up, link), poll=0.1)
            except NotSeenError:
                print(*(each.last_error for each in links), farm.complaints(), sep="\n")
                raise
            print(f"by {proxy.way}: let in {time.monotonic() - began:.1f} s after the router's start")
            began_asking = time.monotonic()
            assert (await _api(farm, proxy).request("GET", "/v1/status", seconds=60.0))["id"] == 1
            print(f"by {proxy.way}: the node's status came in {time.monotonic() - began_asking:.2f} s")
        host, said = await asyncio.to_thread(_post_alert, farm, proxies[-1])
        assert said == [f"the web hook at {host} has not taken an alert: it answers 404"], "the node is no web hook"
    finally:
        for link in links:
            await link.stop()


def _post_alert(farm: I2pFarm, proxy: ProxySettings) -> tuple[str, list[str]]:
    """Post an alert to server 1 through the SOCKS proxy; return the server's host, and the words to the operator."""
    host = DestinationKeys.parse((farm.node(1) / DESTINATION_FILE).read_bytes()).destination.b32
    fields = {"url": f"http://{host}/alerts", "proxy": f"socks5h://{proxy.host}:{proxy.port}"}
    said: list[str] = []
    hook = WebHook(HookFile.model_validate(fields), said.append)
    hook.send({"text": "a test"})
    hook.close(SECONDS)
    return host, said


def _link(farm: I2pFarm, proxy: ProxySettings) -> PeerLink:
    client = ClientFile.load(farm.client_file)
    destination = DestinationKeys.parse((farm.node(1) / DESTINATION_FILE).read_bytes()).destination
    return PeerLink(
        I2pTransport(proxy),
        Endpoint(destination.b32, 80),
        client.cluster,
        client.login.at(1),
        request_seconds=20.0,
        handshake_seconds=60.0,
    )


def _api(farm: I2pFarm, proxy: ProxySettings) -> RemoteApi:
    """Make the administrator's client, which uses this proxy."""
    file = ClientFile.load(farm.directory / "admin-far.toml")
    table = ClientProxyTable(proxy=f"{proxy.host}:{proxy.port}", way=proxy.way.value, beyond_loopback=True)
    servers = tuple(
        server.model_copy(update={"endpoint": f"tcp://{Endpoint.parse(server.endpoint).host}:80"})
        for server in file.servers
    )
    return RemoteApi(file.model_copy(update={"i2p": table, "servers": servers}))


async def _is_up(link: PeerLink) -> bool:
    return link.connected
