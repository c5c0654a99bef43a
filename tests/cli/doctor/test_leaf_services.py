"""Findings of doctor about the services behind the leaves, and about the forwarders in front of these services."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.doctor.checks import CheckResult, CheckState
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.file_names import CONFIG_FILE
from integration.harness.processes import free_ports
from tests.cli.routers import Place, RunningNode, ScriptedRouter, having, remedy
from tests.transport.harness import Identity

LOAD = {"connections": 2, "max_connections": 256, "bytes_per_second": 0, "max_bytes_per_second": None}


class LeafPlace(Place):
    """A directory whose leaf has a service and a forwarder."""

    def __init__(self, directory: Path, router: ScriptedRouter) -> None:
        super().__init__(directory, router)
        self.service, self.forward = free_ports(2)
        self.change(
            CONFIG_FILE,
            ('# leaf_service = "127.0.0.1:8080"', f'leaf_service = "127.0.0.1:{self.service}"'),
            ('# leaf_forward = "127.0.0.1:8081"', f'leaf_forward = "127.0.0.1:{self.forward}"'),
        )

    def running(self, *, counts: bool) -> RunningNode:
        """A node that runs. `counts`: whether the node tells the load of the leaf's forwarder."""
        loads: dict[str, Any] = {self.leaf.destination.b32: LOAD} if counts else {}
        return RunningNode(self.directory, farm={"leaf_loads": loads})

    async def forwarder(self) -> CheckResult:
        """Look at the forwarder; the service answers."""
        async with listening(self.service):
            found = await self.look()
        failed = set(having(CheckState.FAIL, found))
        assert failed <= {"leaf forwarder"}
        return found["leaf forwarder"]


@asynccontextmanager
async def listening(port: int) -> AsyncIterator[None]:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port):
        yield


async def test_the_service_behind_a_leaf_must_answer(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = LeafPlace(tmp_path, router)
        async with place.running(counts=True), listening(place.forward):
            async with listening(place.service):
                found = await place.look()
            assert having(CheckState.FAIL, found) == having(CheckState.WARN, found) == {}
            assert found["leaf service"].text == f"127.0.0.1:{place.service} answers"
            found = await place.look()
    assert set(having(CheckState.FAIL, found)) == {"leaf service"}
    assert found["leaf service"].text.startswith(f"the service at 127.0.0.1:{place.service} does not answer (")
    assert found["leaf service"].text.endswith("): this leaf is not listed")
    assert remedy(found["leaf service"]).startswith("start the service, or correct leaf_service in [publish]")


async def test_each_leaf_has_its_own_service(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = LeafPlace(tmp_path, router)
        other, (port,) = DestinationKeys.generate().destination, free_ports(1)
        router.i2cp.netdb[other.hash] = other
        further = f'[[publish.leaves]]\nleaf = "{other.b32}"\nleaf_service = "127.0.0.1:{port}"\n#'
        place.change(CONFIG_FILE, ("# [[publish.leaves]]", further))
        async with place.running(counts=True), listening(place.forward), listening(place.service):
            found = await place.look()
    assert set(having(CheckState.FAIL, found)) == {"leaf 2 service"}
    assert "correct leaf_service in [[publish.leaves]]" in remedy(found["leaf 2 service"])
    assert found["leaf 1 service"].state is CheckState.OK
    assert "leaf 2 forwarder" not in found


async def test_the_forwarder_of_a_running_node(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = LeafPlace(tmp_path, router)
        address = f"127.0.0.1:{place.forward}"
        async with place.running(counts=True):
            async with listening(place.forward):
                result = await place.forwarder()
                assert result.state is CheckState.OK
                assert result.text == f"the node listens at {address}, and passes on to 127.0.0.1:{place.service}"
            result = await place.forwarder()
            assert result.state is CheckState.FAIL
            assert result.text == f"the node runs, and does not listen at {address}"
            assert "restart the node" in remedy(result)
        async with place.running(counts=False):
            async with listening(place.forward):
                result = await place.forwarder()
                assert result.state is CheckState.FAIL
                assert result.text == f"the node cannot listen at {address} (Address already in use)"
                assert "stop the program that listens there, or correct leaf_forward in [publish]" in remedy(result)
            assert (await place.forwarder()).text == f"the node runs, and does not listen at {address}"


async def test_the_forwarder_of_a_node_that_does_not_run(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = LeafPlace(tmp_path, router)
        address = f"127.0.0.1:{place.forward}"
        result = await place.forwarder()
        assert (result.state, result.text) == (CheckState.OK, f"{address} is free for the node, which does not run")
        with socket.create_server(("127.0.0.1", place.forward)):
            result = await place.forwarder()
        assert result.state is CheckState.FAIL
        assert result.text == f"the node cannot listen at {address} (Address already in use)"


@pytest.mark.parametrize("host", ["192.0.2.1", "[::1]", "0.0.0.0", "[::]"])
async def test_a_forwarder_at_other_addresses(tmp_path: Path, identity: Identity, host: str) -> None:
    async with ScriptedRouter(identity) as router:
        place = LeafPlace(tmp_path, router)
        place.change(
            CONFIG_FILE,
            ("\n[router]\n", "\n[router]\nbeyond_loopback = true\n"),
            (f"127.0.0.1:{place.forward}", f"{host}:{place.forward}"),
        )
        result = await place.forwarder()
        if host == "192.0.2.1":
            assert result.text == f"the node cannot listen at {host}:{place.forward} (Cannot assign requested address)"
        else:
            assert result.text.startswith(f"{host}:{place.forward} is free")
