"""A server's key in its own secrets.toml: a new one beside it, then in its place."""

import stat
from pathlib import Path

import pytest

from gf_i2p.farm.admin_entries import ServerKey
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files import committed_keys
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import MAX_FORMER_KEYS, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import SECRETS_FILE, SERVER_KEYS_FILE
from gf_i2p.node.files.key_rotation import begin, finish
from gf_i2p.node.files.user_keys import UserKeys
from gf_i2p.node.membership.invitation import invite
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.key_proof import PublicKey


@pytest.fixture
def node(tmp_path: Path) -> Path:
    servers = {number: Endpoint("127.0.0.1", 4000 + number) for number in (1, 2)}
    make_farm(tmp_path, servers, cluster="farm", profile="lan", clients=["web"], digest=["server-2"])
    return tmp_path / "server-1"


def test_the_new_key_stands_beside_the_key_and_then_in_its_place(node: Path) -> None:
    before = (node / SECRETS_FILE).read_text()
    (old,) = Secrets.load(node).login_keys()
    new = begin(node)
    assert begin(node) == new
    assert Secrets.load(node).login_keys() == (old, new)
    assert Secrets.load(node).login_keys(new.public) == (new, old), "the one that the log has is tried first"
    assert Secrets.load(node).own_verifier(1, "farm") == old.public
    finish(node, new)
    finish(node, new)
    secrets = Secrets.load(node)
    assert secrets.login_keys() == (new, old)
    assert secrets.new_key is None
    assert secrets.own_verifier(1, "farm") == new.public
    assert stat.S_IMODE((node / SECRETS_FILE).stat().st_mode) == 0o600
    after = (node / SECRETS_FILE).read_text()
    lines = [line for line in before.splitlines() if not line.startswith("key = ")]
    assert [line for line in after.splitlines() if not line.startswith(("key = ", "former_keys = "))][: len(lines)] == (
        lines
    ), "the rest stays as the operator wrote it"


def test_many_former_keys_are_not_kept(node: Path) -> None:
    keys = []
    for _ in range(MAX_FORMER_KEYS + 3):
        keys.append(begin(node))
        finish(node, keys[-1])
    assert Secrets.load(node).login_keys() == tuple(reversed(keys))[: MAX_FORMER_KEYS + 1]


def test_a_password_stays_for_servers_that_do_not_know_the_key_yet(node: Path) -> None:
    node = node.parent / "server-2"
    password = Secrets.load(node).password
    finish(node, begin(node))
    secrets = Secrets.load(node)
    assert (secrets.password, len(secrets.login_keys()), secrets.former_keys) == (password, 1, ())


def test_another_new_key_is_not_taken_for_ours(node: Path) -> None:
    begin(node)
    with pytest.raises(ConfigError, match="no longer the new key: run the command again"):
        finish(node, LoginKey.generate())


def test_a_file_that_cannot_be_changed_stays_as_it_is(node: Path) -> None:
    path = node / SECRETS_FILE
    finish(node, begin(node))
    text = path.read_text().replace("former_keys = [", "former_keys = [\n")
    path.write_text(text)
    new = begin(node)
    text = path.read_text()
    with pytest.raises(ConfigError, match="write each of key, new_key, former_keys on one line"):
        finish(node, new)
    assert path.read_text() == text


# The keys of the other servers ----------------------------------------------------------------------------------------


def test_keys_of_the_log_replace_those_of_the_file_and_outlive_a_restart(node: Path) -> None:
    secrets = Secrets.load(node)
    keys = UserKeys(node, 1, secrets)
    assert keys.in_force == secrets.verifiers
    assert keys.take({}) is None
    taken = {2: ServerKey(bytes(32), 7), 9: ServerKey(bytes(32), 8)}
    assert keys.take(taken) == ["server-2"]
    assert keys.take(taken) is None
    assert keys.take({2: ServerKey(bytes(range(32)), 6)}) is None, "an older entry"
    for each in (keys, UserKeys(node, 1, secrets)):
        assert each.in_force == {**secrets.verifiers, "server-2": PublicKey(bytes(32))}
        assert "server-9" not in each.in_force, "a user that is not in secrets.toml stays out"
    assert stat.S_IMODE((node / SERVER_KEYS_FILE).stat().st_mode) == 0o600
    assert keys.reload(secrets) == []
    committed_keys.forget(node)
    committed_keys.forget(node)
    assert UserKeys(node, 1, secrets).in_force == secrets.verifiers


def test_a_newcomer_gets_the_keys_of_the_log(node: Path, tmp_path: Path) -> None:
    UserKeys(node, 1, Secrets.load(node)).take({2: ServerKey(bytes(32), 7)})
    new = invite(node, tmp_path / "new", 3, Endpoint("127.0.0.1", 4003))
    users = Secrets.load(new.server).verifiers
    assert users["server-2"] == PublicKey(bytes(32))
    assert users["server-1"] == Secrets.load(node).login_keys()[0].public
    assert "ed25519-private" not in new.accept.read_text()


def test_a_disk_that_takes_no_keys_stops_nothing(node: Path) -> None:
    keys = UserKeys(node, 1, Secrets.load(node))
    (node / SERVER_KEYS_FILE).mkdir()
    assert keys.take({2: ServerKey(bytes(32), 7)}) == ["server-2"]


@pytest.mark.parametrize("text", ["[]", "{", '{"x": {}}', '{"2": {"key": "short", "index": 1}}', '{"2": 5}'])
def test_a_damaged_file_is_named_with_the_way_on(node: Path, text: str) -> None:
    (node / SERVER_KEYS_FILE).write_text(text)
    with pytest.raises(ConfigError, match=r"server-keys\.json cannot be read .*: copy the file of another server, or"):
        UserKeys(node, 1, Secrets.load(node))
