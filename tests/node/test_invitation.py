"""What a new server and a farm are told of each other."""

import stat
from pathlib import Path

import pytest

from gf_i2p.node.config import Config, Secrets
from gf_i2p.node.errors import ConfigError
from gf_i2p.node.invitation import accept, invite
from gf_i2p.node.setup import make_farm
from gf_i2p.wire.endpoint import Endpoint


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
        assert accept(directory, written.accept)
        config, secrets = Config.load(directory), Secrets.load(directory)
        assert config.bootstrap == before
        assert (config.servers[2].id, config.servers[2].founder) == (7, False)
        assert config.servers[2].fingerprint == Config.load(written.server).servers[2].fingerprint
        assert "server-7" in secrets.verifiers
        assert stat.S_IMODE((directory / "secrets.toml").stat().st_mode) == 0o600
        assert not accept(directory, written.accept), "once is enough"
        assert Config.load(directory) == config


def test_a_server_inside_i2p(farm: Path, tmp_path: Path) -> None:
    make_farm(tmp_path / "inside", {1: None, 2: None}, cluster="farm", profile="auto", clients=[])
    written = invite(tmp_path / "inside" / "server-1", tmp_path / "new", 3, None)
    new = Config.load(written.server)
    assert new.own_endpoint.is_i2p
    assert new.router is not None
    assert accept(tmp_path / "inside" / "server-2", written.accept)
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


@pytest.mark.parametrize("text", ["", "cluster = 1", "[server]\nid = 7", "\xff"])
def test_what_is_no_invitation_is_refused(farm: Path, text: str) -> None:
    file = farm / "file.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"file\.toml"):
        accept(farm / "server-1", file)
