"""The monitoring pages of real nodes, asked as a monitoring system would."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gf_i2p.admin.monitoring import loop_lag
from gf_i2p.admin.monitoring.listener import Monitoring
from gf_i2p.admin.monitoring.metrics import NodeFigures
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.node import Node
from gf_i2p.node.status.node_status import status
from integration.harness.local_farm import becomes
from integration.harness.processes import free_ports
from tests.node.farm import NodeFarm
from tests.node.routers import DOWN, FakeBridge


@asynccontextmanager
async def monitored(nodes: Sequence[Node], stopped: Mapping[str, str] | None = None) -> AsyncIterator[str]:
    """Yield the address of the pages about these nodes."""
    (port,) = free_ports(1)
    started = time.monotonic()

    def figures() -> list[NodeFigures]:
        return [NodeFigures(status(node, started), node.driver.measured) for node in nodes]

    monitoring = Monitoring(("127.0.0.1", port), figures, lambda: stopped or {})
    await monitoring.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await monitoring.stop()


async def get(url: str, **options: Any) -> tuple[int, Any, Mapping[str, str]]:
    async with aiohttp.ClientSession() as session, session.get(url, **options) as response:
        body = await (response.json() if response.content_type == "application/json" else response.text())
        return response.status, body, response.headers


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return each sample by its name and its labels without the server's own."""
    return {
        (sample.name, tuple(sorted((k, v) for k, v in sample.labels.items() if k not in {"cluster", "server"}))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_farm_that_loses_its_quorum_says_so_on_each_page(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.leader()
        node = farm.nodes[leader.driver.core.id]
        await becomes("all are connected", lambda: all(link.connected for link in node.links.values()))
        await node.driver.post([b"{}"], seconds=30)
        async with monitored([node]) as address:
            code, document, headers = await get(f"{address}/readyz")
            own = {"cluster": "farm", "id": node.driver.core.id, "state": "healthy", "reasons": []}
            assert (code, document) == (200, {"state": "healthy", "nodes": [own], "stopped": {}})
            assert not {"Server", "Date"} & headers.keys()
            assert (await get(f"{address}/healthz"))[:2] == (200, document)
            code, text, headers = await get(f"{address}/metrics")
            assert (code, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
            found = samples(text)
            assert found["gf_i2p_has_leader", ()] == found["gf_i2p_is_leader", ()] == 1
            assert found["gf_i2p_health", (("state", "healthy"),)] == 1
            assert found["gf_i2p_commit_index", ()] == node.driver.core.commit
            assert found["gf_i2p_commit_seconds_count", ()] > 0
            assert found["gf_i2p_log_write_seconds_count", ()] > 0
            assert found["process_resident_memory_bytes", ()] > 1 << 20

            others = [server for server in farm.nodes if server != node.driver.core.id]
            for server in others:
                await farm.stop(server)
            await becomes("no leader", lambda: not node.has_leader)
            await becomes("nobody is connected", lambda: not any(link.connected for link in node.links.values()))
            code, document, _ = await get(f"{address}/readyz")
            assert (code, document["state"]) == (503, "unavailable")
            missing = ", ".join(map(str, others))
            assert document["nodes"][0]["reasons"][0] == (
                f"No quorum: 1 of 3 servers are reached, and 2 are needed. Missing: {missing}."
            )
            assert (await get(f"{address}/healthz"))[0] == 200, "a restart would not help"
            found = samples((await get(f"{address}/metrics"))[1])
            assert found["gf_i2p_has_leader", ()] == 0
            assert found["gf_i2p_servers_reached", ()] == 1
            assert found["gf_i2p_peer_connected", (("peer", str(others[0])),)] == 0


async def test_a_node_that_has_stopped_by_itself_makes_the_process_unhealthy() -> None:
    async with monitored([], {"farm/server-1": "the disk has failed"}) as address:
        code, document, _ = await get(f"{address}/healthz")
        assert (code, document["state"]) == (503, "unavailable")
        assert document["stopped"] == {"farm/server-1": "the disk has failed"}


@pytest.mark.parametrize(
    ("host", "code"),
    [("localhost:9", 200), ("node", 200), ("192.0.2.1:9", 200), ("[::1]:9", 200), ("evil.example", 404)],
)
async def test_a_name_of_another_host_is_refused(host: str, code: int) -> None:
    async with monitored([]) as address:
        assert (await get(f"{address}/metrics", headers={"Host": host}))[0] == code


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/metrics"), ("DELETE", "/healthz"), ("GET", "/"), ("GET", "/v1")]
)
async def test_there_is_nothing_else(method: str, path: str) -> None:
    async with (
        monitored([]) as address,
        aiohttp.ClientSession() as session,
        session.request(method, f"{address}{path}") as response,
    ):
        assert response.status in {404, 405}
        assert "Server" not in response.headers


async def test_a_request_that_cannot_be_read_leaves_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with monitored([]) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.")
        writer.close()
    assert caplog.records == []


async def test_a_farm_that_should_publish_and_cannot_is_seen_as_such(tmp_path: Path) -> None:
    bridge = FakeBridge(errors={"status": DOWN})
    async with NodeFarm(tmp_path, servers=1, bridges={1: bridge}, keys=DestinationKeys.generate()) as farm:
        node = await farm.leader()
        await becomes("a record", lambda: 1 in node.farm_tasks.view.state.records)
        async with monitored([node]) as address:
            found = samples((await get(f"{address}/metrics"))[1])
        assert found["gf_i2p_publishes", ()] == 1
        assert found["gf_i2p_publisher", ()] == 0
        assert found["gf_i2p_router_up", ()] == 0


async def test_the_lag_of_the_event_loop_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_lag, "EVERY_SECONDS", 0.001)
    async with monitored([]) as address:

        async def lag() -> float:
            found = samples((await get(f"{address}/metrics"))[1])
            return found["gf_i2p_event_loop_lag_seconds_count", ()]

        before = await lag()
        await becomes("the lag was measured", lambda: True)
        while await lag() <= before:
            pass
