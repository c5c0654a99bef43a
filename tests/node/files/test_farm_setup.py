"""Files that `gf-i2p init` writes."""

import os
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import NewLogin, make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE
from gf_i2p.transport.tls.certificates import fingerprint_of_file
from gf_i2p.wire.digest import Secret
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.key_proof import PublicKey

SERVERS = {1: Endpoint("192.0.2.1", 9001), 7: Endpoint("example.org", 9001)}


def make(directory: Path) -> list[Path]:
    return make_farm(directory, SERVERS, cluster="blue", profile="i2p", clients=["web"], admins=["ops"])


def test_each_server_gets_what_it_needs_and_nobody_elses_key(tmp_path: Path) -> None:
    written = make(tmp_path / "new")
    assert [path.name for path in written] == ["server-1", "server-7", "client-web.toml", "admin-ops.toml"]
    logins: dict[str, LoginKey] = {}
    for server, endpoint in SERVERS.items():
        directory = tmp_path / "new" / f"server-{server}"
        config, secrets = Config.load(directory), Secrets.load(directory)
        assert (config.node.id, config.node.cluster, config.timing.profile) == (server, "blue", "i2p")
        assert secrets.key is not None
        assert secrets.password is None
        logins[f"server-{server}"] = LoginKey.parse(secrets.key.get_secret_value())
        own = next(table for table in config.servers if table.id == server)
        assert own.fingerprint == fingerprint_of_file(directory / "certificate.pem")
        assert own.endpoint == config.node.listen == str(endpoint)
    for user in ("client-web", "admin-ops"):
        key = ClientFile.load(tmp_path / "new" / f"{user}.toml").key
        assert key is not None
        logins[user] = LoginKey.parse(key.get_secret_value())
    for server in SERVERS:
        directory = tmp_path / "new" / f"server-{server}"
        assert Secrets.load(directory).verifiers == {user: key.public for user, key in logins.items()}
        everything = b"".join(path.read_bytes() for path in directory.iterdir())
        for user, login in logins.items():
            assert (login.text.encode() in everything) == (user == f"server-{server}")


def test_each_file_of_a_user_says_what_its_reader_may_do(tmp_path: Path) -> None:
    make_farm(tmp_path, SERVERS, cluster="blue", profile="lan", clients=["web"], admins=["ops"], viewers=["wall"])
    rights = {"client-web": "can post", "admin-ops": "can add and remove", "viewer-wall": "change nothing"}
    for user, right in rights.items():
        head = (tmp_path / f"{user}.toml").read_text().partition("\n\n")[0]
        assert right in head
        assert [each for each in rights.values() if each in head] == [right]


def test_users_of_other_programs_get_a_password(tmp_path: Path) -> None:
    users = ["client-web", "server-7"]
    make_farm(tmp_path, SERVERS, cluster="blue", profile="lan", clients=["web"], digest=users)
    client, server = ClientFile.load(tmp_path / "client-web.toml"), Secrets.load(tmp_path / "server-7")
    verifiers = Secrets.load(tmp_path / "server-1").verifiers
    assert client.key is server.key is None
    for user, password in zip(users, (client.password, server.password), strict=True):
        assert password is not None
        assert verifiers[user] == Secret.derive(user, "blue", password.get_secret_value())
    assert isinstance(verifiers["server-1"], PublicKey)
    with pytest.raises(ConfigError, match="server-2: no such server, client, administrator or viewer is made here"):
        make_farm(tmp_path / "x", SERVERS, cluster="blue", profile="lan", clients=[], digest=["server-2"])


def test_nobody_else_may_write_the_settings(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "server-1" / CONFIG_FILE).stat().st_mode) == 0o644


def test_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    make(tmp_path)
    for name in ("secrets.toml", "key.pem", "log.sqlite"):
        assert stat.S_IMODE((tmp_path / "server-1" / name).stat().st_mode) == 0o600
    for name in ("client-web.toml", "admin-ops.toml"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert "can add and remove servers" in (tmp_path / "admin-ops.toml").read_text()
    assert ClientFile.load(tmp_path / "admin-ops.toml").user == "admin-ops"
    assert stat.S_IMODE((tmp_path / "server-1").stat().st_mode) == 0o700


def test_a_farm_outside_i2p_can_publish_by_what_stands_there_as_comments(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=[])
    path = tmp_path / "server-1" / CONFIG_FILE
    text = path.read_text()
    assert Config.load(path.parent).router is None
    for key in (
        "[router]",
        'i2cp = "',
        "[publish]",
        'mode = "off"',
        'keys = "',
        "publish = ",
        "[publish.service]",
        "target",
    ):
        assert text.count(f"\n# {key}") == 1
        text = text.replace(f"\n# {key}", f"\n{key}")
    path.write_text(text.replace('mode = "off"', 'mode = "failover"'))
    config = Config.load(path.parent)
    assert config.router is not None
    assert (config.publish.mode, config.publish.service is not None) == ("failover", True)


def test_git_passes_over_the_keys(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "farm").mkdir()
    (tmp_path / "farm" / "notes.txt").touch()
    paths = make(tmp_path / "farm")
    assert all(path.exists() for path in paths)
    assert ".gitignore" not in {path.name for path in paths}
    shown = subprocess.run(
        ["git", "-C", tmp_path, "status", "--porcelain", "--untracked-files=all"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == ["??", "farm/.gitignore", "??", "farm/notes.txt"]


def test_the_operators_own_gitignore_stays(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine")
    make(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "mine"


def test_nothing_that_exists_is_touched(tmp_path: Path) -> None:
    (tmp_path / "client-web.toml").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["client-web.toml"]
    assert (tmp_path / "client-web.toml").read_text() == "mine"


def test_a_second_farm_of_the_same_name_is_not_made_in_the_same_directory(tmp_path: Path) -> None:
    """Its server would be a farm of its own, and would elect itself."""
    make_farm(tmp_path, {1: SERVERS[1]}, cluster="blue", profile="i2p", clients=[])
    with pytest.raises(ConfigError, match=r"is a server of a farm blue already.*members invite"):
        make_farm(tmp_path, {2: SERVERS[7]}, cluster="blue", profile="i2p", clients=[])
    assert not (tmp_path / "server-2").exists()
    make_farm(tmp_path, {2: SERVERS[7]}, cluster="green", profile="i2p", clients=[])


def test_beside_a_farm_whose_servers_are_elsewhere(tmp_path: Path) -> None:
    make_farm(tmp_path / "first", SERVERS, cluster="blue", profile="i2p", clients=[])
    (tmp_path / "first" / "server-7").rename(tmp_path / "another-machine")
    with pytest.raises(ConfigError, match=r"server-7 is not here.*ports of their own"):
        make_farm(tmp_path / "new", SERVERS, cluster="green", profile="i2p", clients=[], beside=tmp_path / "first")


def test_a_directory_that_is_half_made_is_named(tmp_path: Path) -> None:
    """SIGKILL has ended an `init` while server 7 was being made."""
    make(tmp_path)
    (tmp_path / "server-7" / DATABASE_FILE).unlink()
    with pytest.raises(ConfigError, match=r"server-7 exists already, and has no log.sqlite.*remove what that `init`"):
        make(tmp_path)


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("gf_i2p.node.files.farm_setup.Storage.create", fail)
    with pytest.raises(OSError, match="no space"):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("cluster", "client"), [("a b", "web"), ("blue", "a:b")])
def test_names_that_cannot_be(tmp_path: Path, cluster: str, client: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a"):
        make_farm(tmp_path, SERVERS, cluster=cluster, profile="lan", clients=[client])


@pytest.mark.parametrize("password", ['a"b\\c', "C:\\temp", 'x"\n[i2p]\nhttp = "evil:1"', "é'"])
def test_a_password_of_a_person_stands_in_the_file_as_it_is(password: str) -> None:
    assert tomllib.loads(NewLogin(None, password).client_lines()) == {"password": password}
