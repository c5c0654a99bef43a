"""Several leaves of one server: each is asked for by itself, and a trouble names its leaf."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.node.files.router_settings import LeafSettings, LeavesTable
from gf_i2p.node.report.local_leaf import LocalLeaf, local_leaves
from gf_i2p.node.report.own_leaves import OwnLeaves
from gf_i2p.node.report.service_watch import MISSED
from integration.harness.processes import free_ports
from tests.node.routers import DOWN, FakeBridge
from tests.transport.harness import PATIENCE, soon, until

NAMES = ("one", "two", "three")


def up(leaves: OwnLeaves) -> dict[int, bool]:
    return {int.from_bytes(leaf.hash): leaf.up for leaf in leaves.leaves}


@pytest.fixture
def bridge() -> FakeBridge:
    return FakeBridge(leaf=1, more=2)


@pytest.fixture
def local() -> tuple[LocalLeaf, ...]:
    return tuple(LocalLeaf(LeafSettings(leaf=name)) for name in NAMES)


@pytest_asyncio.fixture
async def leaves(bridge: FakeBridge, local: tuple[LocalLeaf, ...]) -> AsyncIterator[OwnLeaves]:
    made = OwnLeaves(bridge, local, seconds=PATIENCE)
    yield made
    await made.close()


async def test_each_leaf_is_asked_for(bridge: FakeBridge, leaves: OwnLeaves) -> None:
    await soon(leaves.ask(PATIENCE))
    assert up(leaves) == {1: True, 2: True, 3: True}
    assert all(leaf.uptime_ms is not None for leaf in leaves.leaves)
    assert leaves.troubles == ()
    assert sorted(call for call in bridge.calls if call.startswith("leaf ")) == ["leaf 1", "leaf 2", "leaf 3"]


async def test_a_leaf_without_an_answer_delays_no_other(bridge: FakeBridge, leaves: OwnLeaves) -> None:
    answer = bridge.hang("leaf 2")
    asked = asyncio.create_task(leaves.ask(PATIENCE))
    await until(lambda: up(leaves) == {1: True, 3: True})
    bridge.leaf_up = False
    await soon(leaves.ask(0.01))
    await until(lambda: up(leaves) == {1: False, 3: False})
    assert bridge.under_way == ["leaf 2"], "asked once"
    assert leaves.troubles == ("leaf two: it has not answered yet",)
    answer.set()
    await soon(asked)
    assert up(leaves) == {1: False, 2: False, 3: False}


async def test_a_leaf_that_the_router_does_not_tell_is_named(bridge: FakeBridge, leaves: OwnLeaves) -> None:
    bridge.errors["leaf 3"] = DOWN
    await soon(leaves.ask(PATIENCE))
    assert up(leaves) == {1: True, 2: True}
    assert leaves.troubles == (f"leaf three: {DOWN}",)


async def test_a_leaf_whose_service_stops_is_named_and_is_down_alone(bridge: FakeBridge) -> None:
    ports = free_ports(3)
    settings = [
        LeafSettings(leaf=f"{name}", leaf_service=f"127.0.0.1:{port}") for name, port in zip(NAMES, ports, strict=True)
    ]
    local = local_leaves(LeavesTable(**settings[0].model_dump(), leaves=tuple(settings[1:])))
    changes: list[int] = []
    leaves = OwnLeaves(bridge, local, seconds=PATIENCE, on_answer=lambda: changes.append(1))
    await soon(leaves.ask(PATIENCE))
    before = len(changes)
    for number in (0, 1):
        service = local[number].service
        assert service is not None
        for _ in range(MISSED):
            await service.check()
    assert len(changes) == before + 2
    assert up(leaves) == {1: False, 2: False, 3: True}
    first, second = leaves.troubles
    assert f"{ports[0]} does not answer" in first
    assert "so the leaf one is not listed" in first
    assert "leaf_service in [publish]" in first
    assert "so the leaf two is not listed" in second
    assert "leaf_service in [[publish.leaves]]" in second
    await leaves.close()


async def test_a_leaf_that_is_down_says_why(bridge: FakeBridge, leaves: OwnLeaves) -> None:
    await soon(leaves.ask(PATIENCE))
    assert [why for _, why in leaves.told] == [None, None, None]
    bridge.leaf_up = False
    await soon(leaves.ask(PATIENCE))
    assert {why for _, why in leaves.told} == {"its lease set was not found"}
    bridge.destination = "the router has found the lease set"
    await soon(leaves.ask(PATIENCE))
    assert {why for _, why in leaves.told} == {"it no longer answers pings"}


async def test_a_leaf_with_two_faults_says_both(bridge: FakeBridge) -> None:
    (port,) = free_ports(1)
    local = local_leaves(LeavesTable(leaf="one", leaf_service=f"127.0.0.1:{port}"))
    leaves = OwnLeaves(bridge, local, seconds=PATIENCE)
    assert local[0].service is not None
    await local[0].service.check()
    await soon(leaves.ask(PATIENCE))
    assert [why for _, why in leaves.told] == ["its service does not answer"]
    bridge.leaf_up = False
    await soon(leaves.ask(PATIENCE))
    assert [why for _, why in leaves.told] == ["its lease set was not found; its service does not answer"]
    await leaves.close()


async def test_without_settings_the_router_names_the_leaf(bridge: FakeBridge) -> None:
    leaves = OwnLeaves(bridge, seconds=PATIENCE)
    await soon(leaves.ask(PATIENCE))
    assert leaves.leaves == (Leaf((1).to_bytes(32), up=True),)
    await leaves.close()
