"""The time-outs of real nodes, measured and applied."""

import asyncio
import json
from pathlib import Path

import pytest

from gf_i2p.cli.shared.answer_text import show_status
from gf_i2p.node.consensus.timing import ENOUGH_SILENCES, RANGE_INSIDE_I2P, RANGE_OUTSIDE_I2P
from gf_i2p.node.consensus.waiting_times import (
    MAX_REDIAL_SECONDS,
    handshake_seconds,
    redial_seconds,
    request_seconds,
)
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.node import Node
from gf_i2p.node.status.node_status import status
from gf_i2p.raft.settings import I2P, LAN
from gf_i2p.transport.i2p.i2p_transport import I2P_HANDSHAKE_SECONDS, I2P_REQUEST_SECONDS
from gf_i2p.wire.limits import HANDSHAKE_SECONDS
from integration.harness.local_farm import becomes
from tests.node.farm import NodeFarm


def silences(node: Node) -> int:
    return node.driver.timeouts.silences.count


async def test_a_farm_of_profile_auto_measures_and_adapts(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, profile="auto") as farm:
        await farm.leader()
        await becomes("all have heard enough", lambda: all(silences(n) > ENOUGH_SILENCES for n in farm.nodes.values()))
        await becomes(
            "each has measured the way to each",
            lambda: all(
                server["round_trip"] is not None
                for node in farm.nodes.values()
                for server in status(node, 0.0)["servers"]
                if server["id"] != node.driver.core.id
            ),
        )
        leader = await farm.leader()
        core = leader.driver.core
        for node in farm.nodes.values():
            timing = node.driver.core.timing
            assert timing == node.driver.timeouts.timing
            assert RANGE_OUTSIDE_I2P.floor.election_min <= timing.election_min <= RANGE_OUTSIDE_I2P.ceiling.election_min
            assert {link.request_seconds for link in node.links.values()} == {timing.election_max}
            assert {link.backoff.ceiling for link in node.links.values()} == {min(timing.election_max, 15.0)}
            answer = json.loads(json.dumps(status(node, 0.0)))
            assert answer["timing"]["profile"] == "auto"
            assert answer["timing"]["election_min"] == pytest.approx(timing.election_min)
            assert 0 < answer["timing"]["silence"]["usual"] <= answer["timing"]["silence"]["worst"]
            trips = {server["id"]: server["round_trip"] for server in answer["servers"]}
            assert trips.pop(answer["id"]) is None
            assert all(0 <= trip["p50"] <= trip["p99"] < 20 for trip in trips.values()), "a handshake at least"
            text = show_status(answer)
            assert "timing   auto: heartbeat" in text
            assert "round trip" in text
        if core.is_leader:
            measured = leader.driver.timeouts.round_trip(next(iter(leader.links)))
            assert measured is not None
            assert measured.samples > 1


async def test_a_reload_changes_the_profile_and_all_that_follows_from_it(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, profile="auto") as farm:
        await farm.leader()
        path, node = farm.path(1), farm.nodes[1]
        text = (path / CONFIG_FILE).read_text()
        for profile, timing in (("i2p", I2P), ("lan", LAN)):
            (path / CONFIG_FILE).write_text(text.replace('profile = "auto"', f'profile = "{profile}"'))
            assert node.reload(Config.load(path), Secrets.load(path)) == []
            assert node.driver.core.timing == timing
            assert {link.request_seconds for link in node.links.values()} == {timing.election_max}
            assert {link.backoff.ceiling for link in node.links.values()} == {min(timing.election_max, 15.0)}
        (path / CONFIG_FILE).write_text(text)
        node.reload(Config.load(path), Secrets.load(path))
        assert node.driver.timeouts.plan.profile == "auto"
        await farm.leader()


async def test_followers_that_cannot_dial_a_dead_leader_wait_for_less(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = (await farm.calm()).driver.core.id
        await farm.stop(leader)
        loop, cores = asyncio.get_running_loop(), [node.driver.core for node in farm.nodes.values()]
        waits = [core.timing.election_max for core in cores]
        assert set(waits) == {120}
        await becomes("both found it so", lambda: all(core._timeout._is_refused for core in cores))
        assert all(core.deadline <= loop.time() + 45 for core in cores), "three quarters of the least time"


async def test_who_reaches_nobody_looks_for_the_fault_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = (await farm.calm()).driver.core.id
        last, other = (server for server in farm.nodes if server != leader)
        node = farm.nodes[last]
        await farm.stop(other)
        await becomes("the other is known to be lost", lambda: node.links[other].unreachable)
        monkeypatch.setattr(
            node.driver.core._timeout, "_uniform", lambda _, high: high
        )  # no later wait of the node is shorter
        node.driver.core._await_election()
        deadline = node.driver.core.deadline
        await farm.stop(leader)
        await becomes("the leader is known to be lost", lambda: node.links[leader].unreachable)
        link = node.links[leader]
        link.nudge()
        await becomes("dialled once more", lambda: not link._nudged.is_set())
        assert not node.driver.core._timeout.in_doubt
        assert node.driver.core.deadline >= deadline - 1


def test_what_follows_from_the_time_outs_inside_i2p() -> None:
    for timing in (RANGE_INSIDE_I2P.floor, I2P):
        assert handshake_seconds(timing, inside=True) == I2P_HANDSHAKE_SECONDS == 120
        assert request_seconds(timing, inside=True) == max(timing.election_max, I2P_REQUEST_SECONDS)
        assert redial_seconds(timing) <= MAX_REDIAL_SECONDS == 15
    assert handshake_seconds(LAN, inside=False) == HANDSHAKE_SECONDS
    assert handshake_seconds(I2P, inside=False) == I2P_HANDSHAKE_SECONDS
    assert request_seconds(LAN, inside=False) == LAN.election_max
    assert redial_seconds(LAN) == LAN.election_max
