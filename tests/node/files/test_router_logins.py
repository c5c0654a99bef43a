"""Users in the router's table and passwords in private files: both or neither, and no password is shown."""

from pathlib import Path

import pytest

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.node.files.leaf_file import LEAF_FILE, LeafFile
from gf_i2p.node.files.router_logins import RouterLogin, RouterLogins, RouterPasswords, proxy_settings
from gf_i2p.node.files.router_settings import RouterTable
from gf_i2p.transport.i2p.i2p_transport import ProxyMethod, ProxySettings
from tests.node.farm import NodeFarm

USERS = {"i2cp_user": "one", "sam_user": "two", "proxy_user": "three"}
PASSWORDS = {"i2cp_password": "secret-1", "sam_password": "secret-2", "proxy_password": "secret-3"}
INSIDE = "tcp://ukeu3k5oycgaauneqgtnvselmt4yemvoilkln7jpvamvfx7dnkdq.b32.i2p:80"
SERVERS = f'[[servers]]\nid = 1\nendpoint = "{INSIDE}"\n'


def test_users_and_passwords_come_together() -> None:
    logins = RouterLogins.of(RouterTable(**USERS), RouterPasswords(**PASSWORDS))  # type: ignore[arg-type]
    expected = [RouterLogin(user, f"secret-{number}") for number, user in enumerate(("one", "two", "three"), 1)]
    assert logins == RouterLogins(*expected)
    assert "secret" not in repr(logins)
    assert RouterLogins.of(RouterTable(), RouterPasswords()) == RouterLogins()


@pytest.mark.parametrize("name", ["i2cp", "sam", "proxy"])
def test_one_without_the_other_is_named(name: str) -> None:
    user, password = f"{name}_user", f"{name}_password"
    with pytest.raises(ConfigError, match=f"^secrets.toml: {password}: is missing, and router.{user} needs it$"):
        RouterLogins.of(RouterTable(**{user: "u"}), RouterPasswords())  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as caught:
        RouterLogins.of(RouterTable(), RouterPasswords(**{password: "secret"}))  # type: ignore[arg-type]
    assert str(caught.value).startswith(
        f"router.{user}: is missing, and secrets.toml: {password} needs it: set the user"
    )


def test_the_proxy_gets_its_login() -> None:
    router = RouterTable(proxy="127.0.0.1:4447", way="connect", proxy_user="three")
    logins = RouterLogins.of(router, RouterPasswords(proxy_password="secret-3"))  # type: ignore[arg-type]
    assert proxy_settings(router, logins) == ProxySettings("127.0.0.1", 4447, ProxyMethod.CONNECT, "three", "secret-3")


def test_a_login_of_socks_stays_on_this_machine() -> None:
    router = RouterTable(proxy="192.0.2.1:4447", way="socks5", proxy_user="three", beyond_loopback=True)
    logins = RouterLogins.of(router, RouterPasswords(proxy_password="secret-3"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^router: The proxy's password would go to 192\.0\.2\.1 in the clear"):
        proxy_settings(router, logins)


# The files of clients and leaf members ------------------------------------------------------------------------------


def private(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def client(directory: Path, i2p: str) -> ClientFile:
    head = 'cluster = "farm"\nuser = "client-web"\npassword = "x"\n'
    return ClientFile.load(private(directory / "client-web.toml", f"{head}[i2p]\n{i2p}\n{SERVERS}"))


def test_a_clients_file_has_both(tmp_path: Path) -> None:
    file = client(tmp_path, 'proxy_user = "u"\nproxy_password = "secret"')
    assert file.proxy == ProxySettings(user="u", password="secret")
    assert "secret" not in repr(file) + repr(file.proxy)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('proxy_user = "u"', "i2p: proxy_password: is missing, and proxy_user needs it"),
        ('proxy_password = "secret"', "i2p: proxy_user: is missing, and proxy_password needs it"),
        ('proxy_user = "a:b"\nproxy_password = "secret"', "i2p: the proxy's user name must have"),
        ('proxy_user = "u"\nproxy_password = "sécret"', "i2p: the proxy's password must have"),
        (
            (
                'way = "socks5"\nproxy = "192.0.2.1:1"\nbeyond_loopback = true\n'
                'proxy_user = "u"\nproxy_password = "secret"'
            ),
            "i2p: The proxy's password would go to 192.0.2.1 in the clear",
        ),
    ],
)
def test_mistakes_in_a_clients_file_are_named(tmp_path: Path, lines: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        client(tmp_path, lines)
    assert expected in str(caught.value)
    assert "secret" not in str(caught.value)


def leaf(directory: Path, router: str, passwords: str) -> LeafFile:
    head = f'cluster = "farm"\nuser = "leaf-2147483648"\npassword = "x"\n{passwords}\n'
    return LeafFile.load(private(directory / LEAF_FILE, f"{head}[router]\n{router}\n{SERVERS}"))


def test_a_leaf_members_file_has_all(tmp_path: Path) -> None:
    lines = ["\n".join(f'{key} = "{text}"' for key, text in table.items()) for table in (USERS, PASSWORDS)]
    file = leaf(tmp_path, *lines)
    assert file.proxy == ProxySettings(user="three", password="secret-3")
    logins = RouterLogins.of(file.router, file)
    assert (logins.i2cp, logins.sam) == (RouterLogin("one", "secret-1"), RouterLogin("two", "secret-2"))
    assert "secret" not in repr(file)


@pytest.mark.parametrize("name", ["i2cp", "sam", "proxy"])
def test_mistakes_in_a_leaf_members_file_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"leaf\.toml: {name}_password: is missing, and router\.{name}_user needs it"
    ):
        leaf(tmp_path, f'{name}_user = "u"', "")
    with pytest.raises(ConfigError, match=rf"leaf\.toml: router\.{name}_user: is missing, and .*{name}_password needs"):
        leaf(tmp_path, "", f'{name}_password = "secret"')


# A running node -----------------------------------------------------------------------------------------------------


async def test_a_reload_names_the_passwords_that_need_a_restart(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        path, node = farm.path(1), await farm.leader()
        secrets = path / SECRETS_FILE
        secrets.write_text(f'sam_password = "secret"\ni2pcontrol_password = "x"\n{secrets.read_text()}')
        with (path / CONFIG_FILE).open("a") as file:
            file.write('[router]\nsam_user = "u"\n')
        for _ in range(2):
            pending = node.reload(Config.load(path), Secrets.load(path))
            assert pending == ["router", "i2pcontrol_password", "sam_password"]
