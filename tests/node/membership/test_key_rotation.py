"""A server's key is replaced through the log; the server stops at each step, and is never locked out."""

from pathlib import Path

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files import committed_keys, key_rotation
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.node import Node
from gf_i2p.transport.errors import DialError
from gf_i2p.wire.key_credentials import Login
from integration.harness.local_farm import until
from tests.node.farm import NodeFarm
from tests.node.test_node import told


async def restart(farm: NodeFarm, server: int) -> None:
    """Kill the server, and start it from its files."""
    await farm.stop(server)
    await farm.start(server)


async def in_touch(farm: NodeFarm, server: int) -> None:
    """Wait until the server reaches the others, and the others reach the server, by connections of now."""

    async def connected() -> bool:
        nodes = farm.nodes.items()
        return all(
            link.connected
            for number, node in nodes
            for peer, link in node.links.items()
            if server in {number, peer} and peer in farm.nodes
        )

    await until("all links of the server", 60, connected)


async def committed(farm: NodeFarm, server: int, key: LoginKey) -> None:
    async def known() -> bool:
        return all(node._user_keys.in_force[f"server-{server}"] == key.public for node in farm.nodes.values())

    await until("the new key on all servers", 60, known)


async def tell(node: Node, server: int, key: LoginKey) -> None:
    own = node.driver.core.id
    entry = AdminEntry("farm", now_ms(), f"server-{own}", "serverKey", server=server, key=key.public.raw).encode()
    assert await node.objection_to(None, [entry]) is None
    await node.driver.post([entry], seconds=30)


def take_over(farm: NodeFarm, server: int) -> None:
    path = farm.path(server)
    assert farm.nodes[server].reload(Config.load(path), Secrets.load(path)) == []


def login(farm: NodeFarm, server: int, *, former: bool = False) -> Login:
    """Make the login by the server's present key alone, or by its latest former key alone."""
    secrets = Secrets.load(farm.path(server))
    text = secrets.former_keys[0] if former else secrets.key
    assert text is not None
    return Login(f"server-{server}", None, (LoginKey.parse(text.get_secret_value()),))


async def rotate(farm: NodeFarm, server: int, kill_after: str) -> LoginKey:
    """Rotate as the command does; the server is killed after one step."""
    new = key_rotation.begin(farm.path(server))
    assert key_rotation.begin(farm.path(server)) == new, "the command goes on with the same key"
    if kill_after == "begin":
        await restart(farm, server)
    else:
        take_over(farm, server)
    await in_touch(farm, server)
    await tell(farm.nodes[server], server, new)
    if kill_after == "post":
        await restart(farm, server)
    await committed(farm, server, new)
    await in_touch(farm, server)
    if kill_after == "commit":
        await restart(farm, server)
        await in_touch(farm, server)
    key_rotation.finish(farm.path(server), new)
    key_rotation.finish(farm.path(server), new)
    if kill_after == "finish":
        await restart(farm, server)
    else:
        take_over(farm, server)
    await in_touch(farm, server)
    return new


async def test_a_kill_at_each_step_locks_nobody_out_and_the_old_key_is_refused(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        server = next(number for number, node in farm.nodes.items() if node is not leader)
        other = next(number for number in farm.nodes if number != server and farm.nodes[number] is not leader)
        for step in ("begin", "post", "commit", "finish"):
            new = await rotate(farm, server, step)
            assert login(farm, server).keys == (new,)
            assert await told(farm, other, login(farm, server)) is not None
            with pytest.raises(DialError, match="refuses user"):
                await told(farm, other, login(farm, server, former=True))
        assert len(Secrets.load(farm.path(server)).former_keys) == 4
        assert (farm.path(server) / "secrets.toml").stat().st_mode & 0o777 == 0o600
        for number in tuple(farm.nodes):
            await farm.stop(number)
        # One server alone knows no committed entry of its log, and refuses the old key nevertheless.
        await farm.start(other)
        assert await told(farm, other, login(farm, server)) is not None
        with pytest.raises(DialError, match="refuses user"):
            await told(farm, other, login(farm, server, former=True))


async def test_a_leader_that_was_rotated_reaches_a_server_that_was_away(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        number = leader.driver.core.id
        away = next(each for each in farm.nodes if each != number)
        await farm.stop(away)
        new = await rotate(farm, number, "nothing")
        await farm.start(away)
        await committed(farm, number, new)
        await farm.equal()
        with pytest.raises(DialError, match="refuses user"):
            await told(farm, away, login(farm, number, former=True))


async def test_an_old_directory_gets_a_key_and_its_password_no_longer_counts(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, digest=["server-1", "server-2", "server-3"]) as farm:
        await farm.calm()
        follower = (await farm.follower()).driver.core.id
        password = Secrets.load(farm.path(follower)).password
        assert password is not None
        old = Login(f"server-{follower}", password.get_secret_value())
        other = next(number for number in farm.nodes if number != follower)
        assert await told(farm, other, old) is not None
        new = await rotate(farm, follower, "nothing")
        assert await told(farm, other, Login(f"server-{follower}", None, (new,))) is not None
        with pytest.raises(DialError, match="or its password"):
            await told(farm, other, old)
        secrets = Secrets.load(farm.path(follower))
        assert (secrets.former_keys, secrets.password) == ((), password)


async def test_a_replaced_key_ends_the_connections_that_it_has_opened(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()
        follower = await farm.follower()
        number = follower.driver.core.id
        await in_touch(farm, number)
        old = {peer: link._connection for peer, link in follower.links.items()}
        await rotate(farm, number, "nothing")

        async def dialled_anew() -> bool:
            return all(link.connected and link._connection is not old[peer] for peer, link in follower.links.items())

        await until("new connections", 60, dialled_anew)


async def test_an_administrator_may_set_any_key_and_a_server_only_its_own(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()
        key = LoginKey.generate()
        entry = AdminEntry("farm", now_ms(), "server-1", "serverKey", server=2, key=key.public.raw)
        why = await farm.nodes[1].objection_to(None, [entry.encode()])
        assert why == "server-1 posted a key of server 2, which only an administrator may post"
        path = farm.path(2)
        new = key_rotation.begin(path)
        take_over(farm, 2)
        entry = AdminEntry("farm", now_ms(), "admin-test", "serverKey", server=2, key=new.public.raw)
        async with ClientFile.load(tmp_path / "admin-test.toml").open() as admin:
            await admin.post([entry.encode()])
        await committed(farm, 2, new)
        key_rotation.finish(path, new)
        take_over(farm, 2)
        await in_touch(farm, 2)
        for number in farm.nodes:
            assert committed_keys.load(farm.path(number))[2].key == new.public.raw
