"""Findings of doctor about the other servers, and about time-outs."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gf_i2p.cli.doctor import peers
from gf_i2p.cli.doctor.checks import CheckState
from gf_i2p.cli.doctor.peers import timing_result, visit
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import SECRETS_FILE
from gf_i2p.node.files.trust import tls_settings
from gf_i2p.raft.settings import I2P, LAN
from gf_i2p.transport import inbound_connection, peer_link
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.tls.tls_transport import TlsTransport
from gf_i2p.wire.digest import Authenticator, Credentials
from gf_i2p.wire.errors import RemoteProtocolError
from tests.cli.routers import Place, RunningNode, ScriptedRouter, having, remedy
from tests.node.farm import NodeFarm
from tests.transport.harness import CLUSTER, PASSWORD, USER, Farm, Identity, serving, soon, until


async def test_a_peer_that_is_down_is_named_and_the_other_is_not(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        down = place.peers[1]
        del router.peers[down]
        async with RunningNode(place.directory):
            found = await place.look()
    assert set(having(CheckState.FAIL, found)) == {"server 3"}
    assert found["server 3"].text == f"{down}: the answer is 500 Internal Server Error"
    assert "that the peer's router is up and has tunnels" in remedy(found["server 3"])
    assert found["time-outs"].text.endswith("(server 2)")


async def test_the_time_outs_are_those_of_the_running_node(tmp_path: Path, identity: Identity) -> None:
    adapted = {"profile": "auto", "heartbeat": 1.25, "election_min": 37.5, "election_max": 75.0}
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        async with RunningNode(place.directory, timing=adapted):
            running = await place.look()
        stopped = await place.look()
    assert "heartbeat 1.25 s, election 37.5 to 75 s (in force); longest" in running["time-outs"].text
    assert "heartbeat 5 s, election 20 to 50 s; longest" in stopped["time-outs"].text


async def test_no_answer_of_a_peer_to_which_the_node_is_connected(
    tmp_path: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doctor asks from another destination than the node's own, so a failed question does not mean a failed peer."""
    monkeypatch.setattr(peers, "I2P_SECONDS", 0.5)
    servers = [{"id": number, "self": number == 1, "connected": number != 3} for number in (1, 2, 3)]
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        router.mute |= set(place.peers)
        async with RunningNode(place.directory, servers=servers):
            found = await place.look()
    connected, not_connected = place.peers
    assert set(having(CheckState.FAIL, found)) == {"server 3"}
    assert found["server 3"].text == f"{not_connected}: no answer within 0.5 s"
    assert "Check that the node and the router of that server run" in remedy(found["server 3"])
    assert found["server 2"].state is CheckState.WARN
    assert (
        found["server 2"].text
        == f"{connected}: no answer within 0.5 s, but the node itself is connected to that server"
    )
    assert "Nothing for now: the farm uses the node's own connection." in remedy(found["server 2"])


async def test_a_peer_that_refuses_our_key(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        strict = place.peers[0]
        router.peers[strict] = Authenticator(CLUSTER, {}, key=os.urandom(32))
        secrets = place.directory / SECRETS_FILE
        async with RunningNode(place.directory):
            found = await place.look()
            assert set(having(CheckState.FAIL, found)) == {"server 2"}
            assert found["server 2"].text == f"{strict}: the peer refuses user server-1 or its key"
            secrets.chmod(0o644)
            found = await place.look()
    assert set(having(CheckState.FAIL, found)) == {"secrets"}
    assert set(having(CheckState.SKIP, found)) == {"i2pcontrol", "server 2", "server 3", "time-outs"}


async def test_a_visit_by_tls_leaves_nothing_behind(identity: Identity) -> None:
    async with serving(identity) as farm:
        found = await soon(visit(farm.client_transport(), farm.endpoint, CLUSTER, Credentials(USER, PASSWORD), 10))
        assert 0 < found.round_trip <= found.total
        await until(lambda: farm.server.counters.current == 0)
        assert farm.server.counters.authenticated == 1
        assert farm.requests == []


async def refused(farm: Farm, cluster: str = CLUSTER, password: str = PASSWORD) -> str:
    with pytest.raises((TransportError, RemoteProtocolError)) as raised:
        await soon(visit(farm.client_transport(), farm.endpoint, cluster, Credentials(USER, password), 10))
    return str(raised.value)


async def test_a_visit_beside_a_running_node_costs_the_peer_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound_connection, "STAY_SECONDS", 1000.0)
    monkeypatch.setattr(peer_link, "DOUBT_SECONDS", 0.0)
    async with NodeFarm(tmp_path) as farm:
        await farm.leader()
        visitor, peer = 1, 2
        links = [node.links[visitor] for number, node in farm.nodes.items() if number != visitor]
        await until(lambda: all(each.connected for each in links))
        before = [each._connection for each in links]
        let_in = farm.nodes[peer].server.counters.authenticated
        config, secrets = Config.load(farm.path(visitor)), Secrets.load(farm.path(visitor))
        transport = TlsTransport(replace(tls_settings(farm.path(visitor), config), certificate=None, key=None))
        credentials = secrets.login(visitor).at(peer)
        assert (await visit(transport, farm.endpoints[peer], "farm", credentials, 10)).total > 0
        await until(lambda: farm.nodes[peer].server.counters.authenticated > let_in)
        assert [each._connection for each in links] == before


async def test_visits_that_are_refused(identity: Identity) -> None:
    async with serving(identity) as farm:
        assert "refuses user server-1 or its password" in await refused(farm, password="wrong")
        assert "404 Not Found" in await refused(farm, cluster="other")
    with pytest.raises(TransportError, match="cannot be reached"):
        await soon(visit(farm.client_transport(), farm.endpoint, CLUSTER, Credentials(USER, PASSWORD), 10))


def test_settings_and_round_trips() -> None:
    assert timing_result(LAN, {2: 0.001, 3: 0.0021}).state is CheckState.OK
    assert "longest round trip 2 ms (server 3)" in timing_result(LAN, {2: 0.001, 3: 0.0021}).text
    slow = timing_result(LAN, {2: 0.2, 3: 0.01})
    assert slow.state is CheckState.WARN
    assert slow.text == (
        "heartbeat 0.1 s, election 0.5 to 1 s; longest round trip 200 ms (server 2): leaders may lose their leadership "
        "without a fault"
    )
    assert 'profile = "i2p"' in remedy(slow)
    assert "election_min of at least 0.80" in remedy(slow)
    assert timing_result(LAN, {2: 0.5}).state is CheckState.FAIL
    assert timing_result(I2P, {2: 3.0}).state is CheckState.OK
    assert timing_result(I2P, {}).state is CheckState.SKIP
    assert "election 20 to 50 s (adapted)" in timing_result(I2P, {2: 3.0}, source="adapted").text
