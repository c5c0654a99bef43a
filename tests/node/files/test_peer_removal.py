"""Removing the other servers from a server's files changes nothing else in the files."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.peer_removal import (
    forget_servers,
    forget_users,
    without_others,
)
from gf_i2p.wire.endpoint import Endpoint


@pytest.mark.parametrize("own", [1, 2, 3])
@pytest.mark.parametrize("inside", [False, True])
def test_what_init_writes_forgets_all_others(tmp_path: Path, own: int, inside: bool) -> None:
    endpoints = {i: None if inside else Endpoint("192.0.2.1", 9000 + i) for i in (1, 2, 3)}
    make_farm(tmp_path, endpoints, cluster="farm", profile="lan", clients=["web", "server-x"])
    directory = tmp_path / f"server-{own}"
    before, keys = Config.load(directory), Secrets.load(directory)
    for name in ("gf-i2p.toml", "secrets.toml"):
        text = (directory / name).read_text()
        new = without_others(directory, own)[name]
        assert new in text or len(new) < len(text)
        assert {line for line in new.splitlines() if line.startswith("#")} == {
            line for line in text.splitlines() if line.startswith("#")
        }
        (directory / name).write_text(new)
        assert without_others(directory, own)[name] == new, "once is enough"
    after, left = Config.load(directory), Secrets.load(directory)
    assert after.servers == tuple(server for server in before.servers if server.id == own)
    assert after.model_copy(update={"servers": before.servers}) == before
    assert set(left.users) == {f"server-{own}", "client-web", "client-server-x"}
    assert left.password == keys.password


def others(own: int) -> Callable[[str], bool]:
    return lambda user: user.startswith("server-") and user != f"server-{own}"


SECRETS = """\
password = "x"  # ours
[users."server-1"]
md5 = "[users.server-9]"
sha256 = '''
[users."server-8"]
'''
[users.server-2]   # the other
md5 = "a"
sha256 = "b"
  [users."admin-a"]
md5 = "a"
sha256 = "b"
"""


def test_what_only_looks_like_a_table_stays() -> None:
    assert forget_users(SECRETS, others(1)) == SECRETS.replace(
        '[users.server-2]   # the other\nmd5 = "a"\nsha256 = "b"\n', ""
    )


def test_what_is_said_of_the_next_table_stays() -> None:
    text = "[[servers]]\nid = 2  # gone\n# gone?\nx = 1\n\n# The router,\n# ours.\n[router]\n[[servers]]\nid = 1\n"
    assert forget_servers(text, (2).__eq__) == "\n# The router,\n# ours.\n[router]\n[[servers]]\nid = 1\n"
    assert forget_servers(text, (1).__eq__) == text.removesuffix("[[servers]]\nid = 1\n")


def test_the_last_user_leaves_an_empty_table() -> None:
    assert tomllib.loads(forget_users('password = "x"\n[users.server-2]\nmd5 = "a"\n', others(1))) == {
        "password": "x",
        "users": {},
    }
    assert forget_users("[users]\n", others(1)) == "[users]\n"


@pytest.mark.parametrize(
    "text",
    [
        'users.server-2.md5 = "a"\n',
        '[users]\nserver-2 = {md5 = "a"}\nadmin-x = {md5 = "b"}\n',
        '[users.server-2.more]\nmd5 = "a"\n[users.server-2]\nmd5 = "a"\n[users.server-3]\n"""\n',
    ],
)
def test_what_cannot_be_taken_out_is_left_to_the_operator(text: str) -> None:
    with pytest.raises((ConfigError, tomllib.TOMLDecodeError)) as caught:
        forget_users(text, others(1))
    assert isinstance(caught.value, tomllib.TOMLDecodeError) or "by hand" in str(caught.value)


def test_servers_in_one_line_are_left_to_the_operator() -> None:
    with pytest.raises(ConfigError, match="by hand"):
        forget_servers("servers = [{id = 1}, {id = 2}]\n", (2).__eq__)
