"""A node's part in the farm follows from the configuration: reports, publishing, and the words of the status."""

import asyncio
import socket
from pathlib import Path

import pytest

from bridges.hosting_protocol import MAX_STREAMS_PER_DESTINATION, StreamLimits
from gf_i2p.farm.pieces import whole
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.node import Node
from gf_i2p.node.publish.failover import FailoverPublisher
from gf_i2p.node.publish.meta import MetaPublisher
from gf_i2p.node.status.node_status import explanation
from gf_i2p.node.status.publishing_status import publishing_status
from integration.harness.local_farm import becomes
from integration.harness.processes import free_ports
from tests.bridges.simulated_hosting import SimulatedHosting
from tests.netdb.strategies import KEYS
from tests.node.farm import NodeFarm
from tests.node.routers import FakeBridge

SERVICE = '[publish.service]\ntarget = "127.0.0.1:8080"\n'


def farm_of_one(directory: Path, lines: str, tables: str = "") -> NodeFarm:
    made = NodeFarm(directory, 1, bridges={1: FakeBridge(leaf=7)}, keys=KEYS)
    path = made.path(1) / CONFIG_FILE
    path.write_text(path.read_text().replace('mode = "meta"\n', lines) + tables)
    return made


async def posted(node: Node) -> StatusRecord:
    records = node.farm_tasks.view.state.records
    await becomes("a record with the leaf", lambda: 1 in records and records[1].leaves != ())
    return records[1]


@pytest.mark.parametrize(
    ("lines", "tables", "publish_config", "publishes"),
    [
        ('mode = "meta"\n', "", "auto", True),
        ('mode = "meta"\npublish = "on"\n', "", "on", True),
        ('mode = "dry-run"\n', "", "auto", True),
        ('mode = "meta"\npublish = "off"\n', "", "off", False),
        ('mode = "off"\n', "", "off", False),
    ],
)
async def test_modes(tmp_path: Path, lines: str, tables: str, publish_config: str, publishes: bool) -> None:
    async with farm_of_one(tmp_path, lines, tables) as farm:
        node = await farm.leader()
        record = await posted(node)
        assert record.meta is not None
        assert record.config is not None
        assert record.meta.publish_config == publish_config
        assert f'"{record.config.mode}"' in lines
        assert isinstance(node.farm_tasks.publisher, MetaPublisher) is publishes
        if publishes:
            await becomes("published", lambda: publishing_status(node.farm_tasks)["publishing"] is not None)
        status = publishing_status(node.farm_tasks)
        assert (status["mode"], status["publish"]) == (record.config.mode, publish_config)
        assert status["publisher"] == (1 if publishes else None)
        bridge = farm.bridges[1]
        assert isinstance(bridge, FakeBridge)
        dry = record.config.mode == "dry-run"
        assert (bridge.sent != []) is (publishes and not dry)
        if publishes:
            assert status["publishing"]["dry_run"] is dry
            assert status["farm_mode"] == record.config.mode


async def test_a_failover_server_can_be_configured_and_is_not_chosen_before_it_can_do_that(tmp_path: Path) -> None:
    async with farm_of_one(tmp_path, 'mode = "failover"\n', SERVICE) as farm:
        node = await farm.leader()
        record = await posted(node)
        assert record.meta is not None
        assert record.meta.publish_config == "off"
        assert node.farm_tasks.view.choice.publisher is None


async def test_mode_failover_makes_who_serves(tmp_path: Path) -> None:
    hosting, (port,) = SimulatedHosting(), free_ports(1)
    bridge = FakeBridge(leaf=7)
    made = NodeFarm(tmp_path, 1, bridges={1: bridge}, services={1: (hosting, port)}, keys=KEYS)
    path = made.path(1) / CONFIG_FILE
    text = 'http = true\nmax_streams = 40\n[publish.service.session]\n"inbound.length" = "2"\n'
    path.write_text(path.read_text() + text)
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port), made:
        node = await made.leader()
        assert isinstance(node.farm_tasks.publisher, FailoverPublisher)
        await becomes("it serves", lambda: hosting.services != [])
        offer = hosting.services[0].offer
        assert (offer.target, offer.http, offer.options["inbound.length"]) == (("127.0.0.1", port), True, "2")
        assert offer.limits == StreamLimits(40, MAX_STREAMS_PER_DESTINATION)
        status = publishing_status(node.farm_tasks)
        assert status["publishing"]["max_streams"] == 40
        assert (status["mode"], status["farm_mode"], status["publisher"]) == ("failover", "failover", 1)
        assert status["publishing"]["master"] == KEYS.destination.b32
        found = whole(explanation(node))
        assert found["lines"][0].startswith("server 1 serves (failover): it is the only server that can")
        assert bridge.sent == [], "a master is never used in both modes"


async def test_a_running_server_learns_that_it_may_publish(tmp_path: Path) -> None:
    hosting, (port,) = SimulatedHosting(), free_ports(1)
    made = NodeFarm(tmp_path, 1, bridges={1: FakeBridge(leaf=7)}, services={1: (hosting, port)}, keys=KEYS)
    path = made.path(1) / CONFIG_FILE

    def say(node: Node, old: str, new: str) -> list[str]:
        path.write_text(path.read_text().replace(f'publish = "{old}"', f'publish = "{new}"'))
        return node.reload(Config.load(path.parent), Secrets.load(path.parent))

    path.write_text(path.read_text().replace('mode = "failover"\n', 'mode = "failover"\npublish = "off"\n'))
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port), made:
        node = await made.leader()
        record = await posted(node)
        assert record.meta is not None
        assert record.meta.publish_config == "off"
        assert node.farm_tasks.publisher is None
        assert say(node, "off", "auto") == []
        await becomes("it serves", lambda: hosting.services != [])
        assert publishing_status(node.farm_tasks)["publish"] == "auto"
        assert say(node, "auto", "off") == []
        await becomes("it is not chosen", lambda: node.farm_tasks.view.choice.publisher is None)
        await becomes("it serves no more", lambda: publishing_status(node.farm_tasks)["publishing"] is None)
        assert say(node, "off", "on") == []
        await becomes("it is chosen again", lambda: node.farm_tasks.view.choice.publisher == 1)
        assert len(hosting.services) <= 2


async def test_a_permission_for_another_mode_waits_for_the_restart(tmp_path: Path) -> None:
    """The master is one destination, which is never used in two modes: the old mode must not begin to publish."""
    made = NodeFarm(tmp_path, 1, bridges={1: FakeBridge(leaf=7)}, keys=KEYS)
    path = made.path(1) / CONFIG_FILE
    path.write_text(path.read_text().replace('mode = "meta"\n', 'mode = "meta"\npublish = "off"\n'))
    async with made:
        node = await made.leader()
        text = path.read_text().replace('mode = "meta"', 'mode = "dry-run"')
        path.write_text(text.replace('publish = "off"', 'publish = "on"'))
        assert node.reload(Config.load(path.parent), Secrets.load(path.parent)) == ["publish"]
        assert (publishing_status(node.farm_tasks)["publish"], node.farm_tasks.publisher) == ("off", None)


async def test_a_running_server_without_keys_needs_a_restart_before_it_may_publish(tmp_path: Path) -> None:
    made = NodeFarm(tmp_path, 1, bridges={1: FakeBridge(leaf=7)})
    path = made.path(1) / CONFIG_FILE
    path.write_text(path.read_text().replace('mode = "meta"\n', 'mode = "meta"\npublish = "off"\n'))
    async with made:
        node = await made.leader()
        path.write_text(path.read_text().replace('publish = "off"', 'publish = "on"'))
        assert node.reload(Config.load(path.parent), Secrets.load(path.parent)) == ["publish"]
        assert publishing_status(node.farm_tasks)["publish"] == "off"


async def test_the_load_of_the_leafs_forwarder_is_in_the_status(tmp_path: Path) -> None:
    service, forward = free_ports(2)
    leaf = f'leaf = "{KEYS.destination.b32}"\nleaf_service = "127.0.0.1:{service}"\n'
    forwarding = f'leaf_forward = "127.0.0.1:{forward}"\nleaf_connections = 9\n'
    for lines, load in (
        ("", None),
        (leaf, None),
        (leaf + forwarding, {"connections": 0, "max_connections": 9, "bytes_per_second": 0}),
    ):
        async with farm_of_one(tmp_path / str(len(lines)), f'mode = "off"\n{lines}') as farm:
            tasks = (await farm.leader()).farm_tasks
            leaf_name = KEYS.destination.b32
            expected = {} if load is None else {leaf_name: {**load, "max_bytes_per_second": None}}
            assert publishing_status(tasks)["leaf_loads"] == expected


async def test_a_forwarder_that_cannot_listen_counts_nothing(tmp_path: Path) -> None:
    service, forward = free_ports(2)
    leaf = f'leaf = "{KEYS.destination.b32}"\nleaf_service = "127.0.0.1:{service}"\n'
    with socket.create_server(("127.0.0.1", forward)):
        async with farm_of_one(tmp_path, f'mode = "off"\n{leaf}leaf_forward = "127.0.0.1:{forward}"\n') as farm:
            tasks = (await farm.leader()).farm_tasks
            await becomes("no load", lambda: publishing_status(tasks)["leaf_loads"] == {})


async def test_who_senses_is_configured(tmp_path: Path) -> None:
    async with farm_of_one(tmp_path, 'mode = "meta"\nsense_minutes = 60\n') as farm:
        assert (await farm.leader()).farm_tasks.sensing is not None
    async with farm_of_one(tmp_path / "another", 'mode = "meta"\n') as farm:
        assert (await farm.leader()).farm_tasks.sensing is None


async def test_the_explanation_is_the_farms_and_ours(tmp_path: Path) -> None:
    async with farm_of_one(tmp_path, 'mode = "dry-run"\n') as farm:
        node = await farm.leader()
        await posted(node)
        await becomes("chosen", lambda: node.farm_tasks.view.choice.publisher == 1)
        found = whole(explanation(node))
        assert (found["id"], found["farm"]["publisher"], found["this"]["mode"]) == (1, 1, "dry-run")
        assert found["lines"][0].startswith("server 1 would publish (dry-run): it is the only server that can")
        assert found["applied"] == node.farm_tasks.view.applied
