"""The secrets of a farm: those that leave a directory, those that never do, and the farm that is made from them."""

import json
import re
import stat
from pathlib import Path

import pytest

from gf_i2p.farm.choice.tree import BRANCHES
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, DESTINATION_FILE, MASTER_FILE, SECRETS_FILE
from gf_i2p.node.publish.branch_keys import branch_file, derive
from gf_i2p.node.recovery.farm_secrets import FarmSecrets, gather
from gf_i2p.wire.digest import Secret
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.key_proof import PublicKey
from tests.netdb.strategies import DELEGATED, KEYS

LEAF_KEY = LoginKey(bytes(range(32)))
SERVERS = {1: Endpoint("127.0.0.1", 9001), 2: None}


def private(path: Path, data: bytes | str) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """A farm with users of each kind; server 2 is inside I2P, and has the master's own key and passwords."""
    directory = tmp_path / "farm"
    make_farm(
        directory,
        SERVERS,
        cluster="farm",
        profile="lan",
        clients=["web"],
        admins=["ops"],
        viewers=["wall"],
        digest={"viewer-wall", "server-1"},
    )
    path = directory / "server-2" / SECRETS_FILE
    others = "".join(f'{name}_password = "router-{name}-0123456789"\n' for name in ("i2pcontrol", "bridge"))
    former = f'former_keys = ["{LoginKey.generate().text}"]\nnew_key = "{LoginKey.generate().text}"\n'
    path.write_text(others + former + path.read_text() + f'\n[users."leaf-2147483649"]\nkey = "{LEAF_KEY.public}"\n')
    private(directory / "server-2" / MASTER_FILE, KEYS.encode())
    return directory


def read(secrets: FarmSecrets) -> FarmSecrets:
    return FarmSecrets.parse(secrets.encode(), Path("sealed"))


def test_users_and_publishing_keys_leave_the_directory_and_are_read_as_they_were(farm: Path) -> None:
    for number in range(BRANCHES):
        private(branch_file(farm / "server-2" / MASTER_FILE, number), derive(KEYS, number).encode())
    gathered = gather(farm / "server-2")
    assert gathered.left_out == ()
    assert {user.name: user.has_login for user in gathered.secrets.users} == {
        "client-web": True,
        "admin-ops": True,
        "viewer-wall": True,
        "leaf-2147483649": False,
    }
    assert str(gathered.secrets.kinds) == (
        "users: 4, with their own key or password: 3; publishing keys: the master's own; keys of branches: 16"
    )
    assert read(gathered.secrets) == gathered.secrets
    assert gather(farm / "server-1").secrets.kinds.publishing is None


def test_a_servers_own_identity_and_its_routers_passwords_never_leave(farm: Path) -> None:
    """A server that came back with the old identity and an empty log could vote twice in a term."""
    server = farm / "server-2"
    text = gather(server).secrets.encode()
    own = Secrets.load(server)
    assert own.key is not None
    assert own.new_key is not None
    inside = (server / DESTINATION_FILE).read_bytes()
    keys = [each.get_secret_value() for each in (own.key, own.new_key, *own.former_keys)]
    ha1 = own.users["server-1"].verifier
    assert isinstance(ha1, Secret)
    one = Secrets.load(farm / "server-1").password
    assert one is not None
    for secret in (
        *(key.removeprefix("ed25519-private:") for key in keys),
        *(str(LoginKey.parse(key).public) for key in keys),
        inside[-32:].hex(),
        ha1.md5,
        ha1.sha256,
        one.get_secret_value(),
        "router-i2pcontrol",
        "router-bridge",
        "server-",
    ):
        assert secret.encode() not in text
    assert set(json.loads(text)) == {"server", "users", "publishing_keys", "branches"}
    kept = gather(server).secrets.publishing_keys
    assert kept is not None
    assert kept.get_secret_value() == KEYS.base64


def test_a_new_farm_knows_the_users_and_has_other_servers(farm: Path, tmp_path: Path) -> None:
    secrets, new = read(gather(farm / "server-2").secrets), tmp_path / "new"
    make_farm(new, SERVERS, cluster="farm", profile="auto", clients=[], known=secrets.known("farm"))
    secrets.place_keys(new / "server-2")
    for name in ("client-web", "admin-ops", "viewer-wall"):
        old_file, file = (ClientFile.load(each / f"{name}.toml") for each in (farm, new))
        assert (file.key, file.password, file.user) == (old_file.key, old_file.password, name)
        assert file.servers != old_file.servers
    assert not list(new.glob("leaf-*"))
    for server in (1, 2):
        old, made = (Secrets.load(each / f"server-{server}") for each in (farm, new))
        for name in ("client-web", "admin-ops", "viewer-wall"):
            assert made.verifiers[name] == old.verifiers[name]
        assert made.verifiers["leaf-2147483649"] == LEAF_KEY.public
        assert made.key is not None
        assert made.key != old.key
        assert (made.former_keys, made.i2pcontrol_password) == ((), None)
        assert isinstance(made.verifiers["server-1"], PublicKey)
        assert made.verifiers["server-1"] != old.verifiers["server-1"]
    fingerprints = [Config.load(each / "server-1").servers[0].fingerprint for each in (farm, new)]
    assert fingerprints[0] != fingerprints[1]
    assert Config.load(new / "server-2").own_endpoint != Config.load(farm / "server-2").own_endpoint
    master = new / "server-2" / MASTER_FILE
    assert master.read_bytes() == KEYS.encode()
    for path in (master, new / "admin-ops.toml", new / "server-2" / SECRETS_FILE):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (new / "server-1" / MASTER_FILE).exists()


def test_a_user_who_lost_the_right_does_not_come_back(farm: Path) -> None:
    path = farm / "server-2" / SECRETS_FILE
    lines = path.read_text()
    head, _, rest = lines.partition('[users."admin-ops"]')
    path.write_text(head + rest.partition("\n\n")[2])
    wall = farm / "viewer-wall.toml"
    wall.write_text(re.sub(r'password = "[^"]+"', 'password = "another"', wall.read_text()))
    gathered = gather(farm / "server-2")
    users = {user.name: user.has_login for user in gathered.secrets.users}
    assert users == {"client-web": True, "viewer-wall": False, "leaf-2147483649": False}
    assert [left.partition(": ")[2] for left in gathered.left_out] == [
        "the server does not know admin-ops by the key or password in this file",
        "the server does not know viewer-wall by the key or password in this file",
    ]


def test_files_in_and_beside_the_directory_count_unless_they_are_of_another_farm(farm: Path, tmp_path: Path) -> None:
    make_farm(tmp_path / "other", {1: Endpoint("127.0.0.1", 9002)}, cluster="other", profile="lan", clients=["x"])
    (tmp_path / "other" / "client-x.toml").rename(farm / "client-x.toml")
    (farm / "client-web.toml").rename(farm / "server-2" / "client-web.toml")
    (farm / "viewer-wall.toml").chmod(0o644)
    gathered = gather(farm / "server-2")
    users = {user.name: user.has_login for user in gathered.secrets.users}
    assert (users["client-web"], users["viewer-wall"], users["admin-ops"]) == (True, False, True)
    (left,) = gathered.left_out
    assert "viewer-wall.toml: it cannot be used: " in left
    assert "chmod 600" in left


def test_a_key_that_others_can_read_or_that_is_none_stops_the_export(farm: Path) -> None:
    master = farm / "server-2" / MASTER_FILE
    master.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        gather(farm / "server-2")
    master.chmod(0o600)
    master.write_bytes(KEYS.encode()[:-1])
    with pytest.raises(ConfigError, match=r"master\.dat is no file of keys that a server uses"):
        gather(farm / "server-2")


def test_delegated_keys_are_kept_and_stand_where_the_settings_say(farm: Path) -> None:
    server = farm / "server-1"
    path = server / CONFIG_FILE
    path.write_text(path.read_text().replace('keys = "master.dat"', 'keys = "keys/publish.dat"', 1))
    (server / "keys").mkdir()
    private(server / "keys" / "publish.dat", DELEGATED.encode())
    private(server / "keys" / "branch-3.dat", derive(KEYS, 3).encode())
    kinds = gather(server).secrets.kinds
    assert (kinds.publishing, kinds.branches) == ("delegated", 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is a JSON object"),
        ("[" * 100_000, "sealed: "),
        ('{"server": ' + "[" * 2000 + "]" * 2000 + "}", "recursion"),
        ("{}", "server: is missing"),
        ('{"server": 1, "more": 1}', "more: no such key"),
        ('{"server": 1, "users": [{"name": "server-1", "key": "KEY"}]}', "server-1 is no client"),
        ('{"server": 1, "users": [{"name": "../admin-a", "key": "KEY"}]}', "cannot be a user name"),
        ('{"server": 1, "users": [{"name": "admin-a"}]}', "give either key, or md5 and sha256"),
        ('{"server": 1, "users": [{"name": "admin-a", "md5": "1", "sha256": "2"}]}', "secret is damaged"),
        ('{"server": 1, "users": [{"name": "admin-a", "key": "KEY", "private_key": "x"}]}', "is no private key"),
        ('{"server": 1, "users": [{"name": "leaf-2147483649", "key": "KEY", "password": "p"}]}', "a leaf member's own"),
        ('{"server": 1, "users": [{"name": "admin-a", "key": "KEY"}, {"name": "admin-a", "key": "KEY"}]}', "twice"),
        ('{"server": 1, "branches": [{"number": 16, "keys": "A"}]}', "branches"),
        ('{"server": 1, "publishing_keys": "AAAA"}', "publishing_keys"),
    ],
)
def test_wrong_secrets_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        FarmSecrets.parse(text.replace("KEY", str(LEAF_KEY.public)).encode(), Path("sealed"))


def test_a_login_that_the_servers_would_refuse_is_refused(farm: Path) -> None:
    secrets = gather(farm / "server-2").secrets
    wrong = secrets.users[0].model_copy(update={"private_key": None, "password": None, "key": str(LEAF_KEY.public)})
    assert wrong.known("farm").login is None
    for change in ({"private_key": secrets.users[1].private_key}, {"password": secrets.users[2].password}):
        with pytest.raises(ConfigError, match="do not know the user's key or password"):
            wrong.model_copy(update=change).known("farm")
    wall = next(user for user in secrets.users if user.name == "viewer-wall")
    assert wall.known("farm").login is not None
    with pytest.raises(ConfigError, match="viewer-wall"):
        wall.known("another")  # HA1 holds for one farm only


def test_no_secret_is_shown(farm: Path) -> None:
    gathered = gather(farm / "server-2")
    shown = repr(gathered) + str(gathered.secrets) + repr(gathered.secrets.known("farm"))
    for name in ("client-web", "admin-ops", "viewer-wall"):
        file = ClientFile.load(farm / f"{name}.toml")
        secret = file.key or file.password
        assert secret is not None
        assert secret.get_secret_value().removeprefix("ed25519-private:") not in shown
    assert KEYS.base64 not in shown
    ha1 = Secrets.load(farm / "server-2").verifiers["viewer-wall"]
    assert isinstance(ha1, Secret)
    assert ha1.sha256 not in shown
