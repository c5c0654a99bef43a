"""A thief with one server's whole directory, or in the place of one server, gets in nowhere as anybody else."""

import asyncio
import contextlib
import os
import re
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.trust import dialled
from gf_i2p.transport.client.server_queries import fetch_configuration
from gf_i2p.transport.errors import DialError
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.configuration_get import ConfigurationGet
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.key_credentials import Login
from tests.node.farm import NodeFarm
from tests.node.test_node import told
from tests.transport.harness import foreign_client_context, soon

USERS = ("server-1", "server-2", "client-test", "admin-test")


async def test_a_seized_directory_logs_in_as_its_own_server_only(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()
        async with farm.client() as client:
            await client.post([b"x"])
        await farm.equal()
        await farm.stop(3)
        loot = b"".join(path.read_bytes() for path in sorted(farm.path(3).iterdir()) if path.is_file())
        for name in USERS[2:]:
            file = ClientFile.load(tmp_path / f"{name}.toml")
            assert file.key is not None
            assert file.key.get_secret_value().encode() not in loot
        seeds = {bytes.fromhex(text.decode()) for text in re.findall(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", loot)}
        verifiers = Secrets.load(farm.path(3)).verifiers
        own = verifiers["server-3"]
        assert {LoginKey(seed).public for seed in seeds} & set(verifiers.values()) == {own}, "the only private key"
        assert b"md5" not in re.sub(rb"(?m)^#.*", b"", (farm.path(3) / "secrets.toml").read_bytes())
        keys = tuple(LoginKey(seed) for seed in sorted(seeds))
        for user in USERS:
            with pytest.raises(DialError, match=f"refuses user {user} or its key"):
                await told(farm, 1, Login(user, None, keys))
        for text in re.findall(r'"([^"]{16,})"', (farm.path(3) / "secrets.toml").read_text()):
            with pytest.raises(DialError, match="refuses user admin-test or its password"):
                await told(farm, 1, Login("admin-test", text))
        assert await told(farm, 1, Secrets.load(farm.path(3)).login(3)) is not None


@contextlib.asynccontextmanager
async def relay(farm: NodeFarm, thief: int, victim: int) -> AsyncIterator[tuple[Endpoint, list[bytes]]]:
    """Listen with the thief's certificate, and pass each request on to the victim; yield the place and the requests."""
    config = Config.load(farm.path(thief))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(farm.path(thief) / config.tls.certificate, farm.path(thief) / config.tls.key)
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = farm.endpoints[victim]
        there, back = await asyncio.open_connection(place.host, place.port, ssl=foreign_client_context())
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        back.write(requests[-1])
        with contextlib.suppress(ConnectionError):
            writer.write(await there.read())
            await writer.drain()
        back.transport.abort()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield Endpoint("127.0.0.1", server.sockets[0].getsockname()[1]), requests
    finally:
        server.close()


async def test_a_dialled_server_cannot_pass_a_login_on(tmp_path: Path) -> None:
    """The client believes the thief to be server 3, as it is, or server 1, as the thief's Configuration may say."""
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()
        admin = ClientFile.load(tmp_path / "admin-test.toml").login
        pin = next(server.fingerprint for server in Config.load(farm.path(1)).servers if server.id == 3)
        assert pin is not None
        async with relay(farm, 3, 1) as (place, requests):
            transport = TlsTransport(TlsSettings(fingerprints={place: [pin]}))
            for server in (3, 1):
                with pytest.raises(DialError, match="refuses user admin-test or its key"):
                    await soon(fetch_configuration(transport, place, "farm", admin.at(server)))
        assert sum(b"GarlicFarm-Key" in request for request in requests) == 2, "the proofs have reached the victim"
        assert await told(farm, 1, admin) is not None


async def test_a_recorded_login_is_good_once(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        await farm.leader()
        credentials = ClientFile.load(tmp_path / "client-test.toml").login.at(1)
        own = dialled(farm.path(1), Config.load(farm.path(1)))

        async def exchange(data: bytes) -> bytes:
            place = farm.endpoints[1]
            reader, writer = await asyncio.open_connection(place.host, place.port, ssl=foreign_client_context())
            writer.write(data)
            try:
                return await soon(reader.read())
            finally:
                writer.transport.abort()

        def get() -> ConfigurationGet:
            now = asyncio.get_running_loop().time()
            return ConfigurationGet(host="x", cluster="farm", credentials=credentials, now=now, entropy=os.urandom)

        first = get()
        first.receive(await exchange(first.request(own.channel)), asyncio.get_running_loop().time())
        request = get().request(own.channel)
        answers = [(await exchange(request))[:12] for _ in range(3)]
        assert answers == [b"HTTP/1.1 200", b"HTTP/1.1 401", b"HTTP/1.1 401"]


async def test_a_farm_of_old_and_new_directories(tmp_path: Path) -> None:
    """Server 1, the client and the administrator have passwords, as before; servers 2 and 3 have keys."""
    async with NodeFarm(tmp_path, digest=["server-1", "client-test", "admin-test"]) as farm:
        leader = await farm.calm()
        async with farm.client() as client:
            await client.post([b"x"])
        await farm.equal()
        assert all(link.connected for link in leader.links.values())
        assert Secrets.load(farm.path(1)).key is None
        assert await told(farm, 1, Secrets.load(farm.path(2)).login(2)) is not None
        assert await told(farm, 2, Secrets.load(farm.path(1)).login(1)) is not None
