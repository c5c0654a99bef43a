"""Whole nodes: real disks, real TLS, one process."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.node.status.node_status import status
from gf_i2p.raft.settings import I2P
from gf_i2p.storage.writer import LogWriter
from gf_i2p.transport.client.server_queries import fetch_configuration
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.i2p.i2p_transport import I2P_HANDSHAKE_SECONDS
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.transport.tls.certificates import fingerprint, make_certificate
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.digest import Secret
from gf_i2p.wire.errors import NotCommittedError
from gf_i2p.wire.key_credentials import Login
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import MessageType, Request, Response
from integration.harness.local_farm import becomes
from integration.harness.processes import free_ports
from tests.node.farm import NodeFarm


async def test_entries_posted_anywhere_are_on_every_server_and_survive_a_restart_of_all(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader, follower = await farm.calm(), await farm.follower()
        first = await leader.driver.post([b"one"], seconds=10)
        assert await follower.driver.post([b"two", b"three"], seconds=10) == first + 2
        async with farm.client() as client:
            assert await client.post([b"four"]) == first + 3
        await farm.equal()
        assert {tuple(farm.values(server)) for server in farm.nodes} == {(b"one", b"two", b"three", b"four")}
        term = leader.driver.core.term
        for server in list(farm.nodes):
            await farm.stop(server)
        for server in farm.endpoints:
            await farm.start(server)
        await (await farm.calm()).driver.post([b"five"], seconds=10)
        await farm.equal()
        assert farm.values(2) == [b"one", b"two", b"three", b"four", b"five"]
        assert farm.nodes[1].driver.core.term > term


async def test_two_of_three_go_on_and_the_third_catches_up(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        lost = (await farm.leader()).driver.core.id
        await farm.stop(lost)
        leader = await farm.calm()
        for number in range(20):
            await leader.driver.post([b"%d" % number], seconds=10)
        await farm.start(lost)
        await farm.equal()
        assert farm.values(lost) == [b"%d" % number for number in range(20)]


async def test_without_a_majority_a_post_is_refused_and_says_so(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.leader()
        await farm.stop(1)
        await farm.stop(2)
        await becomes("no leader", lambda: status(farm.nodes[3], 0.0)["leader"] is None)
        with pytest.raises(NotCommittedError, match="no leader could be reached"):
            await farm.nodes[3].driver.post([b"x"], seconds=0.3)
        answer = status(farm.nodes[3], 0.0)
        assert (answer["healthy"], answer["quorum"]) == (False, {"reachable": 1, "needed": 2, "servers": 3})
        await becomes(
            "a reason for each lost server",
            lambda: sum("cannot be reached" in (s["error"] or "") for s in status(farm.nodes[3], 0.0)["servers"]) == 2,
        )


async def test_a_read_barrier_sees_all_that_was_acknowledged_and_only_a_leader_gives_one(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader, follower = await farm.calm(), await farm.follower()
        index = await follower.driver.post([b"x"], seconds=10)
        assert await leader.driver.read_barrier() >= index
        with pytest.raises(NotCommittedError, match="only the leader"):
            await follower.driver.read_barrier()


async def ask(farm: NodeFarm, server: int, login: Login, request: Request) -> Response | None:
    """Send one request over a connection of this user."""
    config = Config.load(farm.path(1))
    fingerprints = {farm.endpoints[s.id]: [s.fingerprint] for s in config.servers if s.fingerprint}
    transport = TlsTransport(TlsSettings(fingerprints=fingerprints))
    up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answer: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()
    link = PeerLink(
        transport,
        farm.endpoints[server],
        "farm",
        login.at(server),
        on_up=lambda: None if up.done() else up.set_result(None),
        request_seconds=30,
    )
    link.start()
    try:
        async with asyncio.timeout(60):
            await up
            link.send(request, answer.set_result)
            return await answer
    finally:
        await link.stop()


async def told(farm: NodeFarm, server: int, login: Login) -> Configuration | None:
    """Ask one server for the Configuration."""
    pins = {farm.endpoints[s.id]: [s.fingerprint] for s in Config.load(farm.path(1)).servers if s.fingerprint}
    transport = TlsTransport(TlsSettings(fingerprints=pins))
    return await fetch_configuration(transport, farm.endpoints[server], "farm", login.at(server))


async def test_every_role_is_told_who_belongs_to_the_farm_and_who_has_none_is_not(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        core = (await farm.calm()).driver.core
        client, server = ClientFile.load(farm.directory / "client-test.toml"), Secrets.load(farm.path(2)).login(2)
        logins = [client.login, server, *(Login(user, "secret") for user in ("admin-a", "root", "server-2x"))]
        verifiers = {user: Secret.derive(user, "farm", "secret") for user in ("admin-a", "root", "server-2x")}
        farm.nodes[1]._authenticator.replace(farm.nodes[1]._user_keys.in_force | verifiers)
        answers = {login.user: await told(farm, 1, login) for login in logins}
        told_users = {client.user, "server-2", "admin-a"}
        assert answers == {user: core.configuration if user in told_users else None for user in answers}
        assert core.configuration.log_index > 0
        assert {server.endpoint for server in core.configuration.servers} == set(map(str, farm.endpoints.values()))
        farm.nodes[1].driver._end("a defect")
        assert farm.nodes[1]._configuration("admin-a") is None


async def test_a_client_that_knows_one_follower_posts_to_the_leader(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()
        follower = (await farm.follower()).driver.core.id
        path = tmp_path / "client-test.toml"
        # The others have moved: nobody listens at the places in the file.
        text = path.read_text()
        for server, port in zip(set(farm.endpoints) - {follower}, free_ports(2), strict=True):
            text = text.replace(str(farm.endpoints[server]), f"tcp://127.0.0.1:{port}")
        path.write_text(text)
        async with farm.client() as client:
            index = await client.post([b"one"])
            found = await client.find()
        assert (await farm.leader()).driver.core.commit >= index
        assert (found.leader, found.trouble) == ((await farm.leader()).driver.core.id, None)
        # All three are known now, the two others also at their real places.
        assert [place.current for place in found.places].count(True) == 3


async def test_users_may_send_only_what_their_role_allows(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = (await farm.calm()).driver.core
        term = leader.term
        other = next(server for server in farm.endpoints if server != leader.id)
        vote = Request(MessageType.REQUEST_VOTE_REQUEST, other, leader.id, term + 5, 99, 99, 0)
        login = Secrets.load(farm.path(other)).login(other)
        third = next(server for server in farm.endpoints if server not in {leader.id, other})
        forged = Request(MessageType.REQUEST_VOTE_REQUEST, third, leader.id, term + 5, 99, 99, 0)
        assert await ask(farm, leader.id, login, forged) is None, "in another's name"
        client = ClientFile.load(farm.directory / "client-test.toml").login
        assert await ask(farm, leader.id, client, vote) is None, "no server"
        honest = await ask(farm, leader.id, login, vote)
        assert honest is not None
        assert not honest.accepted, "refused by the core, for there is a leader"
        assert leader.term == term


async def turned_away(farm: NodeFarm, data: bytes, *, slowly: bool = False) -> bytes:
    """Send bytes over TLS; return all bytes until the server closes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    endpoint = farm.endpoints[1]
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
    try:
        async with asyncio.timeout(60):
            if slowly:
                answer = asyncio.create_task(reader.read())
                for byte in data:
                    writer.write(bytes([byte]))
                    await asyncio.wait([answer], timeout=0.05)
                    if answer.done():
                        break
                return await answer
            writer.write(data)
            return await reader.read()
    except (ConnectionError, ssl.SSLError):
        return b""
    finally:
        writer.transport.abort()


def get(path: str, version: str = "1.1", *lines: str) -> bytes:
    head = [f"GET {path} HTTP/{version}", "Host: x", "Connection: keep-alive, Upgrade", "Upgrade: websocket", *lines]
    return "\r\n".join([*head, "", ""]).encode()


async def test_strangers_are_turned_away_and_the_farm_does_not_notice(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = (await farm.calm()).driver.core
        term = leader.term
        path = "/GarlicFarm/farm/1/websocket"
        wrong = (
            'Authorization: Digest username="server-2", realm="farm", nonce="x", uri="{}", response="{}", qop=auth, '
            'nc=00000001, cnonce="y"'
        )
        quick = await asyncio.gather(
            turned_away(farm, get(path)),
            turned_away(farm, get(path, "1.1", wrong.format(path, "0" * 32))),
            turned_away(farm, get("/GarlicFarm/other/1/websocket")),
            turned_away(farm, get("/GarlicFarm/farm/2/websocket")),
            turned_away(farm, get(path, "1.0")),
            turned_away(farm, b"\x00\xff" * 500),
        )
        farm.nodes[1].gate.handshake_seconds = 1.0  # for connections only that are too slow for any deadline
        slow = await asyncio.gather(turned_away(farm, get(path), slowly=True), turned_away(farm, b""))
        answers = [*quick, *slow]
        assert [answer.split(b"\r\n")[0][9:12] for answer in answers] == [
            b"401", b"401", b"404", b"404", b"404", b"", b"", b"",
        ]  # fmt: skip
        assert answers[2] == answers[3] == answers[4], "nobody learns what was wrong"
        assert await farm.nodes[2].driver.post([b"x"], seconds=10) > 0
        assert (leader.term, leader.is_leader) == (term, True)
        connections = json.loads(json.dumps(status(farm.nodes[1], 0.0)))["connections"]
        assert connections["refused"]["credentials"] == 1
        assert connections["refused"]["not_found"] == 3
        await becomes("no stranger is left", lambda: farm.nodes[1].server.counters.unauthenticated == 0)


def edit(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


async def test_reload_takes_over_secrets_and_time_outs(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()
        path, node = farm.path(1), farm.nodes[1]
        edit(path / CONFIG_FILE, ('profile = "lan"', 'profile = "i2p"'))
        secret = Secret.derive("client-new", "farm", "secret")
        with (path / SECRETS_FILE).open("a") as file:
            file.write(f'[users.client-new]\nmd5 = "{secret.md5}"\nsha256 = "{secret.sha256}"\n')
        assert node.reload(Config.load(path), Secrets.load(path)) == []
        assert node.driver.core.timing == I2P
        assert node.gate.handshake_seconds == I2P_HANDSHAKE_SECONDS
        assert {(link.request_seconds, link.handshake_seconds) for link in node.links.values()} == {
            (I2P.election_max, I2P_HANDSHAKE_SECONDS)
        }
        request = Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0)
        assert await ask(farm, 1, Login("client-new", "secret"), request) is not None


async def test_a_pin_that_was_taken_out_is_trusted_no_more(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.leader()
        path, node = farm.path(1), farm.nodes[1]
        pin = next(server.fingerprint for server in Config.load(path).servers if server.id == 3)
        edit(path / CONFIG_FILE, (f'fingerprint = "{pin}"', ""))
        assert node.reload(Config.load(path), Secrets.load(path)) == []
        node.links[3].reset("to be made anew")
        await becomes("not trusted", lambda: "fingerprint" in (node.links[3].last_error or ""))


async def test_what_a_reload_cannot_change_stays_and_is_named_every_time(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()
        path, node = farm.path(1), farm.nodes[1]
        original = (path / CONFIG_FILE).read_text()
        port = str(farm.endpoints[3].port)
        edit(path / CONFIG_FILE, ('cluster = "farm"', 'cluster = "other"'), (port, str(int(port) + 1000)))
        edit(path / SECRETS_FILE, ('# password = "..."', 'password = "another"'))
        for _ in range(2):
            pending = node.reload(Config.load(path), Secrets.load(path))
            assert pending == ["node.cluster", "servers (id, endpoint)", "password"]
            assert status(node, 0.0)["cluster"] == "farm"
        (path / CONFIG_FILE).write_text(original)
        assert node.reload(Config.load(path), Secrets.load(path)) == ["password"], "taken back"
        node.links[3].nudge()
        async with farm.client() as client:
            await client.post([b"x"])


async def test_a_new_certificate_is_shown_after_a_reload_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        await farm.leader()
        path, node = farm.path(1), farm.nodes[1]
        before = await shown(farm)
        (path / "certificate.pem").write_text("none")
        with pytest.raises(TransportError, match=r"certificate\.pem"):
            node.reload(Config.load(path), Secrets.load(path))
        assert await shown(farm) == before
        certificate, key = make_certificate("server-1", hosts=["127.0.0.1"])
        (path / "certificate.pem").write_bytes(certificate)
        (path / "key.pem").write_bytes(key)
        assert node.reload(Config.load(path), Secrets.load(path)) == []
        assert await shown(farm) == fingerprint(certificate) != before


async def shown(farm: NodeFarm) -> str:
    """Return the fingerprint of the certificate that server 1 shows."""
    endpoint = farm.endpoints[1]
    pem = await asyncio.to_thread(ssl.get_server_certificate, (endpoint.host, endpoint.port))
    return fingerprint(pem.encode())


async def test_a_node_whose_disk_fails_answers_nothing_more_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        await node.driver.post([b"x"], seconds=10)

        def fail(*_: object) -> None:
            raise OSError("the disk is gone")

        monkeypatch.setattr(node.storage, "store", fail)
        async with farm.client() as client:
            with pytest.raises(Exception, match=r"may be committed|Not committed"):
                await client.post([b"y"])
        assert [str(error) for error in farm.halted] == ["the disk is gone"]
        monkeypatch.undo()
        assert isinstance(node.driver._writer, LogWriter)


async def test_a_client_of_a_dead_farm_hears_that_nothing_was_committed(tmp_path: Path) -> None:
    farm = NodeFarm(tmp_path)
    async with farm.client() as client:
        with pytest.raises(NotCommittedError, match="no server was reached"):
            await client.post([b"x"], timeout=0.3)
