"""Facts that a new server and a farm learn of each other."""

import stat
from pathlib import Path

import pytest

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import HISTORY_DIRECTORY
from gf_i2p.node.files.stopped_log import voters_of_stopped
from gf_i2p.node.membership.invitation import accept, invite
from gf_i2p.node.node import Node
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.local_farm import becomes
from tests.node.farm import NodeFarm
from tests.node.membership.test_server_changes import removes, sees


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    servers = {1: Endpoint("127.0.0.1", 4001), 2: Endpoint("127.0.0.1", 4002)}
    make_farm(tmp_path, servers, cluster="farm", profile="lan", clients=["web"])
    return tmp_path


def test_the_new_server_knows_the_farm_and_waits(farm: Path) -> None:
    written = invite(farm / "server-1", farm / "new", 7, Endpoint("127.0.0.1", 4007))
    old, new = Config.load(farm / "server-1"), Config.load(written.server)
    assert new.node.id == 7
    assert new.node.cluster == "farm"
    assert new.timing.profile == "lan"
    assert new.bootstrap.servers == ()
    listed = [(each.id, each.endpoint, each.fingerprint) for each in new.servers]
    assert listed[:2] == [(each.id, each.endpoint, each.fingerprint) for each in old.servers]
    assert listed[2][:2] == (7, "tcp://127.0.0.1:4007")
    users = Secrets.load(written.server).verifiers
    assert users["server-1"] == Secrets.load(farm / "server-2").verifiers["server-1"], "the inviting one's, too"
    assert users["server-2"] == Secrets.load(farm / "server-1").verifiers["server-2"]
    assert users["client-web"] == Secrets.load(farm / "server-1").verifiers["client-web"]


def test_the_others_know_the_new_server_and_it_founded_nothing(farm: Path) -> None:
    written = invite(farm / "server-1", farm / "new", 7, Endpoint("127.0.0.1", 4007))
    for each in (written.accept, written.server / "secrets.toml"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    for number in (1, 2):
        directory = farm / f"server-{number}"
        before = Config.load(directory).bootstrap
        assert accept(directory, written.accept).changed
        config, secrets = Config.load(directory), Secrets.load(directory)
        assert config.bootstrap == before
        assert (config.servers[2].id, config.servers[2].founder) == (7, False)
        assert config.servers[2].fingerprint == Config.load(written.server).servers[2].fingerprint
        assert "server-7" in secrets.verifiers
        assert stat.S_IMODE((directory / "secrets.toml").stat().st_mode) == 0o600
        assert not accept(directory, written.accept).changed, "once is enough"
        assert Config.load(directory) == config


def test_a_server_inside_i2p(farm: Path, tmp_path: Path) -> None:
    make_farm(tmp_path / "inside", {1: None, 2: None}, cluster="farm", profile="auto", clients=[])
    written = invite(tmp_path / "inside" / "server-1", tmp_path / "new", 3, None)
    new = Config.load(written.server)
    assert new.own_endpoint.is_i2p
    assert new.router is not None
    assert accept(tmp_path / "inside" / "server-2", written.accept).changed
    assert Config.load(tmp_path / "inside" / "server-2").servers[2].endpoint == str(new.own_endpoint)


def test_nobody_is_invited_twice(farm: Path) -> None:
    with pytest.raises(ConfigError, match="server 2 is known already"):
        invite(farm / "server-1", farm / "new", 2, Endpoint("127.0.0.1", 4007))
    invite(farm / "server-1", farm / "new", 7, Endpoint("127.0.0.1", 4007))
    with pytest.raises(ConfigError, match="exists already"):
        invite(farm / "server-1", farm / "new", 7, Endpoint("127.0.0.1", 4008))


def test_an_id_is_never_taken_for_two_servers(farm: Path) -> None:
    first = invite(farm / "server-1", farm / "new", 7, Endpoint("127.0.0.1", 4007))
    second = invite(farm / "server-1", farm / "newer", 7, Endpoint("127.0.0.1", 4008))
    accept(farm / "server-2", first.accept)
    before = (farm / "server-2" / "gf-i2p.toml").read_text(), (farm / "server-2" / "secrets.toml").read_text()
    with pytest.raises(ConfigError, match="another server 7"):
        accept(farm / "server-2", second.accept)
    assert before == ((farm / "server-2" / "gf-i2p.toml").read_text(), (farm / "server-2" / "secrets.toml").read_text())


def test_another_farms_invitation_is_refused(farm: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_farm(other, {1: Endpoint("127.0.0.1", 5001)}, cluster="other", profile="lan", clients=[])
    written = invite(other / "server-1", other / "new", 7, Endpoint("127.0.0.1", 4007))
    with pytest.raises(ConfigError, match="for the farm 'other'"):
        accept(farm / "server-1", written.accept)


def test_a_file_that_others_can_read_is_not_accepted(farm: Path) -> None:
    """Anybody who has read the file can act as the new server."""
    written = invite(farm / "server-1", farm / "new", 7, Endpoint("127.0.0.1", 4007))
    written.accept.chmod(0o640)
    before = files(farm / "server-2")
    with pytest.raises(ConfigError, match=r"can be read by others .* right file\?\)\. Run: chmod 600"):
        accept(farm / "server-2", written.accept)
    assert files(farm / "server-2") == before


@pytest.mark.parametrize("text", ["", "cluster = 1", "[server]\nid = 7", "\xff"])
def test_what_is_no_invitation_is_refused(farm: Path, text: str) -> None:
    file = farm / "file.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"file\.toml"):
        accept(farm / "server-1", file)


def test_an_administrators_file_is_no_invitation(farm: Path) -> None:
    file = farm / "client-web.toml"
    with pytest.raises(ConfigError) as caught:
        accept(farm / "server-1", file)
    assert str(caught.value).startswith(f"{file} is no invitation: give the file accept-server-ID.toml")
    assert "\n" not in str(caught.value)


def files(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir() if path.suffix == ".toml"}


def test_a_members_endpoint_is_not_given_twice(farm: Path) -> None:
    """No server gives the endpoint twice, not even a server that knows fewer servers."""
    taken = Endpoint("127.0.0.1", 4002)
    with pytest.raises(ConfigError, match=r"server 2 has the endpoint .* no Configuration yet: start it"):
        invite(farm / "server-1", farm / "new", 7, taken)
    with pytest.raises(ConfigError, match="is the server of this directory"):
        invite(farm / "server-2", farm / "new", 7, taken)
    with pytest.raises(ConfigError, match="belongs to the farm"):
        invite(farm / "server-1", farm / "new", 7, taken, voters_of=lambda _: frozenset({1, 2}))
    assert not (farm / "new").exists()
    written = invite(farm / "server-1", farm / "new", 7, taken, voters_of=lambda _: frozenset({1}))
    before = files(farm / "server-1")
    with pytest.raises(ConfigError, match="server 2 has the endpoint"):
        accept(farm / "server-1", written.accept)
    with pytest.raises(ConfigError, match="belongs to the farm"):
        accept(farm / "server-1", written.accept, voters_of=lambda _: frozenset({1, 2}))
    assert files(farm / "server-1") == before


def test_who_is_out_of_the_farm_makes_room(farm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = invite(
        farm / "server-1", farm / "new", 7, Endpoint("127.0.0.1", 4002), voters_of=lambda _: frozenset({1})
    )
    assert written.left_out == 2
    assert [server.id for server in Config.load(written.server).servers] == [1, 7]
    assert set(Secrets.load(written.server).users) == {"server-1", "client-web"}
    real, calls = Path.replace, 0

    def ends_after_the_first(path: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", ends_after_the_first)
        with pytest.raises(KeyboardInterrupt):
            accept(farm / "server-1", written.accept, voters_of=lambda _: frozenset({1}))
    Config.load(farm / "server-1")
    Secrets.load(farm / "server-1")
    done = accept(farm / "server-1", written.accept, voters_of=lambda _: frozenset({1}))
    assert (done.changed, done.dropped) == (True, 2)
    for directory in (farm / "server-1", written.server):
        assert [server.id for server in Config.load(directory).servers] == [1, 7]
        assert set(Secrets.load(directory).users) >= {"client-web"}
        assert "server-2" not in Secrets.load(directory).users
        with pytest.raises(ConfigError, match="server 2 has left the farm, and ids are never used twice"):
            invite(directory, farm / "newer", 2, Endpoint("127.0.0.1", 4009))


def test_what_would_not_load_is_never_written(farm: Path, tmp_path: Path) -> None:
    """A farm without a router has no way into I2P."""
    make_farm(tmp_path / "inside", {1: None}, cluster="farm", profile="auto", clients=[])
    written = invite(tmp_path / "inside" / "server-1", tmp_path / "new", 3, None)
    before = files(farm / "server-1")
    with pytest.raises(ConfigError, match=r"nothing was changed: with .*router: is missing"):
        accept(farm / "server-1", written.accept)
    assert files(farm / "server-1") == before


async def exports(node: Node, index: int) -> None:
    exporter = node.farm_tasks.exporter
    assert exporter is not None
    await becomes("exported", lambda: exporter.durable_index >= index)


async def test_a_stopped_nodes_log_tells_who_is_out_when_that_is_known_to_be_committed(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as nodes:
        leader = await nodes.calm()
        own = leader.driver.core.id
        gone, other = (server for server in nodes.nodes if server != own)
        late = nodes.path(gone)
        await exports(nodes.nodes[gone], await leader.driver.post([b"before it"], seconds=10))
        await nodes.stop(gone)
        assert await removes(leader, gone)
        await sees(leader, own, other)
        await exports(leader, await leader.driver.post([b"behind it"], seconds=10))
        with pytest.raises(StorageError, match="in use"):
            voters_of_stopped(nodes.path(own))
        await nodes.stop(own)
        assert voters_of_stopped(nodes.path(own)) == {own, other}
        assert gone in voters_of_stopped(late), "it has missed its removal"
        (nodes.path(own) / HISTORY_DIRECTORY).rename(tmp_path / "away")
        with pytest.raises(ConfigError, match="does not show whether its newest Configuration is committed"):
            voters_of_stopped(nodes.path(own))
