"""The error about bad configuration names the file, the key and the expected value."""

from pathlib import Path

import pytest

from gf_i2p.node.consensus.timing import RANGE_INSIDE_I2P, RANGE_OUTSIDE_I2P
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.raft.settings import I2P, LAN
from gf_i2p.wire.digest import Secret
from gf_i2p.wire.log_values import ClusterServer

GOOD = """
[node]
id = 1
listen = "tcp://127.0.0.1:9001"

[[servers]]
id = 1
endpoint = "tcp://127.0.0.1:9001"

[[servers]]
id = 2
endpoint = "tcp://example.org:9002"
fingerprint = "AA:{}"
""".format("bb" * 31)

SECRETS = """
password = "correct horse"
[users.server-2]
md5 = "{}"
sha256 = "{}"
""".format("0" * 32, "1" * 64)


def load(directory: Path, text: str) -> Config:
    (directory / CONFIG_FILE).write_text(text)
    return Config.load(directory)


def test_a_good_one(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)
    assert config.node.cluster == "farm"
    assert (config.plan.profile, config.plan.first, config.plan.limits) == ("auto", LAN, RANGE_OUTSIDE_I2P)
    assert config.bootstrap.servers == (
        ClusterServer(1, "tcp://127.0.0.1:9001"),
        ClusterServer(2, "tcp://example.org:9002"),
    )
    assert config.servers[1].fingerprint == "sha256:aa" + "bb" * 31


def test_a_profile_with_one_value_replaced(tmp_path: Path) -> None:
    timing = load(tmp_path, GOOD + '[timing]\nprofile = "i2p"\nheartbeat = 3.0\n').plan.first
    assert (timing.heartbeat, timing.election_min) == (3.0, I2P.election_min)


def test_a_farm_with_an_endpoint_inside_i2p_takes_its_time(tmp_path: Path) -> None:
    unpinned = GOOD[: GOOD.index("fingerprint")]
    config = load(tmp_path, unpinned.replace("example.org:9002", "a" * 52 + ".b32.i2p:80") + "[router]\n")
    assert (config.plan.profile, config.plan.fixed, config.plan.limits) == ("auto", None, RANGE_INSIDE_I2P)
    text = unpinned.replace("example.org:9002", "x.i2p:80") + '[router]\n[timing]\nprofile = "lan"\n'
    fixed = load(tmp_path, text)
    assert fixed.plan.first == LAN, "what the operator fixes is fixed"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("id = 1\nlisten", "listen"), "node.id: is missing"),
        (("id = 1\nlisten", 'id = "1"\nlisten'), "node.id: input should be a valid integer"),
        (("id = 1\nlisten", "id = 4294967295\nlisten"), "node.id: 4294967295 means nobody"),
        (("id = 1\nlisten", "id = 3\nlisten"), "this node's id, 3, is not among them"),
        (("listen =", "lissten ="), "node.lissten: no such key; check the spelling"),
        (('listen = "tcp://127.0.0.1:9001"', 'listen = "http://x"'), "node.listen: 'http://x' is not an endpoint"),
        (("[node]", '[node]\ncluster = "a/b"'), "node.cluster: 'a/b' cannot be a cluster name"),
        (("id = 2", "id = 1"), "two of them have the same id"),
        (("example.org:9002", "127.0.0.1:9001"), "two servers have the same endpoint"),
        (('fingerprint = "AA:', 'fingerprint = "'), "servers[2].fingerprint: "),
        (
            ("[node]", "[timing]\nheartbeat = 3.0\nelection_max = 7.0\n[node]"),
            "at least 2.5 times the heartbeat",
        ),
        (("[node]", '[timing]\nprofile = "lan"\nelection_min = 0.15\n[node]'), "timing: election_min must be at least"),
        (("[node]", '[timing]\nprofile = "wan"\n[node]'), "timing.profile: input should be 'auto', 'lan' or 'i2p'"),
        (("[node]", "[node"), "is not TOML"),
    ],
)
def test_bad_ones(tmp_path: Path, change: tuple[str, str], expected: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, GOOD.replace(*change, 1))
    assert str(tmp_path / CONFIG_FILE) in str(raised.value)
    assert expected in str(raised.value)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, "[node]\nid = true\n")
    assert len(str(raised.value).splitlines()) == 3


def test_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gf-i2p init"):
        Config.load(tmp_path)


def write_secrets(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / SECRETS_FILE
    path.write_text(text)
    path.chmod(mode)
    return path


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    write_secrets(tmp_path, SECRETS)
    secrets = Secrets.load(tmp_path)
    assert secrets.verifiers["server-2"] == Secret(md5="0" * 32, sha256="1" * 64)
    for text in (repr(secrets), str(secrets), repr(secrets.verifiers)):
        assert "horse" not in text
        assert "0000" not in text


def test_secrets_that_others_can_read_are_refused(tmp_path: Path) -> None:
    path = write_secrets(tmp_path, SECRETS, 0o640)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        Secrets.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("password", "passwort"), "passwort: no such key"),
        (('password = "correct horse"', ""), "key: is missing, or for peers that know Digest only, password"),
        (('"correct horse"', '""'), "password: is empty"),
        (('password = "correct horse"', 'key = "correct horse"'), "key: is no private key: expected ed25519-private:"),
        (("md5", 'key = "ed25519:abc"\nmd5'), "key: is no public key: expected ed25519: and 64"),
        (("md5", f'key = "ed25519:{"a" * 64}"\nmd5'), "give either key, or md5 and sha256"),
        (("\nmd5", "\n#"), "give either key, or md5 and sha256"),
        (("0" * 32, "0" * 31), "users"),
        (("users.server-2", 'users."a:b"'), "'a:b' cannot be a user name"),
        (("correct horse", "correct\x00horse"), "is not TOML"),
    ],
)
def test_bad_secrets(tmp_path: Path, change: tuple[str, str], expected: str) -> None:
    write_secrets(tmp_path, SECRETS.replace(*change, 1))
    with pytest.raises(ConfigError) as raised:
        Secrets.load(tmp_path)
    assert expected in str(raised.value)
    assert "horse" not in str(raised.value)


def test_missing_secrets(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"secrets\.toml cannot be read"):
        Secrets.load(tmp_path)
