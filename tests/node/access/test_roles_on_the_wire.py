"""Every kind of request with every role, sent to a real node: a forbidden request is not even answered."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Secrets
from gf_i2p.node.files.file_names import SECRETS_FILE
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import NotCommittedError
from gf_i2p.wire.log_values import (
    ClusterServer,
    Configuration,
    LogPack,
    SnapshotSyncRequest,
    encode_server_id,
)
from gf_i2p.wire.messages import RESPONSE_TYPE, MessageType, Request
from tests.farm.strategies import leaf, record
from tests.node.farm import NodeFarm
from tests.node.test_node import ask

SERVERS = (ClusterServer(1, "tcp://127.0.0.1:1"),)
CONFIGURATION = Configuration(1, 0, SERVERS)
ENTRIES: Mapping[MessageType, tuple[Entry, ...]] = {
    MessageType.REQUEST_VOTE_REQUEST: (),
    MessageType.APPEND_ENTRIES_REQUEST: (Entry(1, ValueType.APPLICATION, b"evil"),),
    MessageType.CLIENT_REQUEST: (Entry(0, ValueType.APPLICATION, b'{"mine":1}'),),
    MessageType.ADD_SERVER_REQUEST: (
        Entry(0, ValueType.CLUSTER_SERVER, ClusterServer(9, "tcp://127.0.0.1:9").encode()),
    ),
    MessageType.REMOVE_SERVER_REQUEST: (Entry(0, ValueType.CLUSTER_SERVER, encode_server_id(9)),),
    MessageType.SYNC_LOG_REQUEST: (
        Entry(0, ValueType.LOG_PACK, LogPack((Entry(1, ValueType.APPLICATION, b"evil"),)).encode()),
    ),
    MessageType.JOIN_CLUSTER_REQUEST: (Entry(0, ValueType.CONFIGURATION, CONFIGURATION.encode()),),
    MessageType.LEAVE_CLUSTER_REQUEST: (),
    MessageType.INSTALL_SNAPSHOT_REQUEST: (
        Entry(0, ValueType.SNAPSHOT_SYNC_REQUEST, SnapshotSyncRequest(99, 9, CONFIGURATION, 0, b"evil", True).encode()),
    ),
}
ALLOWED = {
    "client": {MessageType.CLIENT_REQUEST},
    "admin": {MessageType.CLIENT_REQUEST, MessageType.ADD_SERVER_REQUEST, MessageType.REMOVE_SERVER_REQUEST},
}


def test_no_kind_is_left_out() -> None:
    assert ENTRIES.keys() == RESPONSE_TYPE.keys()


@pytest.mark.parametrize("role", ["client", "admin"])
async def test_a_role_may_send_what_it_is_for_and_nothing_else(tmp_path: Path, role: str) -> None:
    """A term far ahead, in the name of each server: such a message would move the leader."""
    async with NodeFarm(tmp_path) as farm:
        leader = (await farm.calm()).driver.core
        other = next(server for server in farm.endpoints if server != leader.id)
        file = ClientFile.load(tmp_path / f"{role}-test.toml")
        before = (leader.term, leader.leader, leader.configuration.servers)
        answered = set()
        for kind, entries in ENTRIES.items():
            allowed = kind in ALLOWED[role]
            for source in (0,) if allowed else (0, other):
                request = Request(kind, source, leader.id, 0 if allowed else leader.term + 5, 0, 0, 0, entries)
                response = await ask(farm, leader.id, file.login, request)
                assert (response is not None) == allowed, (kind, source)
                if response is not None:
                    answered.add(kind)
                    assert response.type is RESPONSE_TYPE[kind]
        assert answered == ALLOWED[role]
        assert (leader.term, leader.leader, leader.configuration.servers) == before
        await farm.equal()
        assert all(b"evil" not in farm.values(server) for server in farm.nodes)


async def test_a_client_is_told_before_it_sends_what_its_role_does_not_allow(tmp_path: Path) -> None:
    """Without this check, the server would end the connection, and the client could not know the request's fate."""
    async with NodeFarm(tmp_path, servers=1) as farm:
        await farm.leader()
        async with farm.client() as client:
            for kind in (MessageType.ADD_SERVER_REQUEST, MessageType.REMOVE_SERVER_REQUEST):
                with pytest.raises(NotCommittedError, match=r"client-test is a client.*an admin-NAME\.toml"):
                    await client.change_servers(Request(kind, 0, 0, 0, 0, 0, 0, ENTRIES[kind]), timeout=10)
            assert await client.post([b"all the same"], timeout=10)
        path = tmp_path / "client-test.toml"
        nobody = ClientFile.load(path).model_copy(update={"user": "test"})
        async with nobody.open() as client:
            with pytest.raises(NotCommittedError, match="names are server-ID"):
                await client.change_servers(Request(kind, 0, 0, 0, 0, 0, 0, ENTRIES[kind]), timeout=10)


@pytest.mark.parametrize("role", ["client", "admin"])
async def test_nobody_posts_the_record_of_a_server(tmp_path: Path, role: str) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = (await farm.calm()).driver.core
        file = ClientFile.load(tmp_path / f"{role}-test.toml")
        forged = Entry(0, ValueType.APPLICATION, record(leader.id, leaf(1)).encode())
        request = Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, (forged,))
        assert await ask(farm, leader.id, file.login, request) is None


async def test_a_server_moves_no_other_server(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = (await farm.calm()).driver.core
        other, third = (server for server in farm.endpoints if server != leader.id)
        login = Secrets.load(farm.path(other)).login(other)
        for kind, value in (
            (MessageType.REMOVE_SERVER_REQUEST, encode_server_id(third)),
            (MessageType.ADD_SERVER_REQUEST, ClusterServer(9, "tcp://127.0.0.1:9").encode()),
        ):
            request = Request(kind, other, leader.id, 0, 0, 0, 0, (Entry(0, ValueType.CLUSTER_SERVER, value),))
            assert await ask(farm, leader.id, login, request) is None
        assert len(leader.configuration.servers) == 3


async def test_an_administrator_whose_user_is_removed_is_out(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        path = farm.path(1) / SECRETS_FILE
        path.write_text(path.read_text().split('[users."admin-test"]')[0])
        assert node.reload(node._config, Secrets.load(farm.path(1))) == []
        file = ClientFile.load(tmp_path / "admin-test.toml")
        async with file.open() as client:
            survey = await client.survey(timeout=10)
        assert survey.configurations == {}
        assert "refuses user admin-test" in survey.troubles[1]
