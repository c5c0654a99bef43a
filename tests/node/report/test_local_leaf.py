"""This machine's part of a leaf: the service, the load, the uptime."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.node.files.router_settings import LeafSettings
from gf_i2p.node.report.local_leaf import LocalLeaf
from integration.harness.processes import free_ports

UP, DOWN = Leaf(bytes(32), up=True), Leaf(bytes(32), up=False)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_uptime_counts_from_the_first_answer_that_finds_the_leaf_up() -> None:
    clock = Clock()
    local = LocalLeaf(LeafSettings(leaf="x"), clock=clock)
    assert local.completed(None) is None
    assert local.completed(DOWN) == DOWN
    for seconds in (0, 7, 3600):
        clock.now = 1000.0 + seconds
        found = local.completed(UP)
        assert found is not None
        assert (found.up, found.uptime_ms) == (True, seconds * 1000)
    assert local.completed(DOWN) == DOWN
    found = local.completed(UP)
    assert found is not None
    assert found.uptime_ms == 0


async def test_the_load_of_the_forwarder_is_the_leafs() -> None:
    service, forward = free_ports(2)
    settings = LeafSettings(
        leaf="x",
        leaf_service=f"127.0.0.1:{service}",
        leaf_forward=f"127.0.0.1:{forward}",
        leaf_connections=9,
        leaf_bandwidth_kib=3,
    )
    local = LocalLeaf(settings)
    found = local.completed(UP)
    assert found is not None
    assert (found.current_connections, found.configured_connections) == (0, 9)
    assert (found.current_bandwidth, found.configured_bandwidth) == (0, 3 << 10)
    assert local.trouble is None
    assert local.service is not None
    await local.service.check()
    found = local.completed(UP)
    assert found is not None
    assert (found.up, found.uptime_ms) == (False, None)
    assert "leaf_service in [publish]" in str(local.service.trouble)


async def test_a_leaf_whose_forwarder_cannot_listen_is_down_and_has_no_load() -> None:
    (service,) = free_ports(1)
    async with listening() as taken:
        settings = LeafSettings(leaf="x", leaf_service=f"127.0.0.1:{service}", leaf_forward=f"127.0.0.1:{taken}")
        local = LocalLeaf(settings)
        assert local.forward is not None
        await local.forward.run()
        found = local.completed(UP)
    assert found is not None
    assert (found.up, found.uptime_ms, found.current_connections, found.current_bandwidth) == (False, None, None, None)
    assert "leaf_forward in [publish]" in str(local.trouble)
    assert local.fault == "its forwarder cannot listen"


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """Take a port."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
