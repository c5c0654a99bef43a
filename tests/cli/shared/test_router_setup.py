"""`init` and `run` of a node beside an I2P router: the parts made from the node's files, and mistakes in the files."""

import asyncio
import json
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bridges.i2cp.settings import RouterKind
from bridges.router_protocol import ANY_MASTER
from bridges.sam.inbound_session import SamInbound
from gf_i2p.cli.main import main
from gf_i2p.cli.shared.router_setup import check_logins, i2cp_settings, i2p_transport, master_keys, router_bridge
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.transport.i2p.session_dialler import TwoWayTransport
from integration.harness.local_farm import until
from integration.harness.processes import free_ports, spawn
from tests.bridges.i2cp.fake_router import Clock, FakeRouter
from tests.cli.program import PATIENCE, gf_json
from tests.netdb.strategies import KEYS

INSIDE = ["--server", "1=i2p", "--server", "2=i2p", "--server", "3=i2p"]


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The directory of a server with all files of `init`, and with the master's keys."""
    assert main(["init", str(tmp_path), *INSIDE]) == 0
    capsys.readouterr()
    path = tmp_path / "server-1"
    write(path / "master.dat", KEYS.encode())
    return path


def write(path: Path, data: bytes, mode: int = 0o600) -> None:
    path.write_bytes(data)
    path.chmod(mode)


def edit(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)


def assemble(node: Path) -> None:
    """Do the steps of `run` before the start."""
    config, secrets = Config.load(node), Secrets.load(node)
    i2p_transport(node, config, secrets)
    router_bridge(config, secrets)
    master_keys(node, config)


def test_init_makes_addresses_inside_i2p(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path), *INSIDE, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["written"]
    assert written == [str(tmp_path / f"server-{server}") for server in (1, 2, 3)]
    hosts = {server.endpoint for server in Config.load(tmp_path / "server-2").servers}
    assert len(hosts) == 3
    assert all(re.fullmatch(r"tcp://[a-z2-7]{52}\.b32\.i2p:80", host) for host in hosts)


def test_what_init_writes_is_put_together(node: Path) -> None:
    config = Config.load(node)
    transport = i2p_transport(node, config, Secrets.load(node))
    assert isinstance(transport, TwoWayTransport)
    assert isinstance(transport._streams, SamInbound)
    assert master_keys(node, config) is None, "it does not publish"
    bridge = router_bridge(config, Secrets.load(node))
    assert bridge is not None
    assert bridge.control is None
    edit(node / CONFIG_FILE, ('mode = "off"', 'mode = "meta"'))
    keys = master_keys(node, Config.load(node))
    assert keys is not None
    assert keys.destination == KEYS.destination


def test_a_node_outside_i2p_has_no_router(tmp_path: Path) -> None:
    main(["init", str(tmp_path), "--server", "1=tcp://127.0.0.1:9001"])
    config, secrets = Config.load(tmp_path / "server-1"), Secrets.load(tmp_path / "server-1")
    assert i2p_transport(tmp_path / "server-1", config, secrets) is None
    assert router_bridge(config, secrets) is None
    assert master_keys(tmp_path / "server-1", config) is None


META = ('mode = "off"', 'mode = "meta"')
CONTROL = ('# i2pcontrol = "https://127.0.0.1:7650/"', 'i2pcontrol = "{}"')


def control(url: str, *lines: str) -> tuple[str, str]:
    return CONTROL[0], "\n".join([CONTROL[1].format(url), *lines, "#"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (control("https://127.0.0.1:7650/"), r"secrets\.toml: i2pcontrol_password: is missing"),
        (META, ""),
        (('"get" ', '"connect" '), ""),
        (('inbound = "sam"', 'inbound = "tunnel"'), ""),
    ],
)
def test_settings_alone(node: Path, change: tuple[str, str], expected: str) -> None:
    edit(node / CONFIG_FILE, change)
    if expected:
        with pytest.raises(ConfigError, match=expected):
            assemble(node)
    else:
        assemble(node)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (control("http://10.0.0.1:7650/"), "router.i2pcontrol: .* would send the password in the clear"),
        (control("127.0.0.1:7650"), "router.i2pcontrol: .* is no URL"),
        (control("https://x.b32.i2p/"), "router.i2pcontrol: .* lies inside I2P"),
        (
            control("https://127.0.0.1/", f'i2pcontrol_fingerprint = "{"ab" * 32}"', "i2pcontrol_accept_any = true"),
            "choose one of the two",
        ),
        (control("http://127.0.0.1:7657/", "i2pcontrol_accept_any = true"), "router: .* is plain HTTP"),
    ],
)
def test_settings_of_i2pcontrol(node: Path, change: tuple[str, str], expected: str) -> None:
    edit(node / SECRETS_FILE, ("# i2pcontrol_password", "i2pcontrol_password"))
    edit(node / CONFIG_FILE, change)
    with pytest.raises(ConfigError, match=expected) as raised:
        assemble(node)
    assert "itoopie" not in str(raised.value)


async def test_i2pcontrol_is_asked_when_it_is_configured(node: Path) -> None:
    edit(node / SECRETS_FILE, ("# i2pcontrol_password", "i2pcontrol_password"))
    edit(node / CONFIG_FILE, control("https://127.0.0.1:7650/", "i2pcontrol_accept_any = true"))
    bridge = router_bridge(Config.load(node), Secrets.load(node))
    assert bridge is not None
    assert bridge.control is not None
    await bridge.close()


async def test_the_bridge_knows_every_leaf_and_pings_each_by_a_session_of_its_own(node: Path) -> None:
    leaves = [to_b32_address(bytes([number] * 32)) for number in (1, 2, 3)]
    further = "".join(f'[[publish.leaves]]\nleaf = "{each}"\n' for each in leaves[1:])
    edit(
        node / CONFIG_FILE,
        ('# leaf = "....b32.i2p"', f'leaf = "{leaves[0]}"'),
        ("[[servers]]", f"{further}[[servers]]"),
    )
    bridge = router_bridge(Config.load(node), Secrets.load(node))
    assert bridge is not None
    assert bridge.leaves == tuple(leaves)
    assert len({id(each._pings) for each in bridge.liveness.values()}) == 3
    assert [await bridge.local_leaf_hash(ANY_MASTER, place) for place in range(4)] == [
        *(bytes([number] * 32) for number in (1, 2, 3)), None,
    ]  # fmt: skip


async def test_the_master_of_a_farm_elsewhere_is_this_routers_leaf(node: Path) -> None:
    master = KEYS.destination
    edit(node / CONFIG_FILE, ('# leaf = "....b32.i2p"', f'leaf_farm = "{master.b32}"'))
    bridge = router_bridge(Config.load(node), Secrets.load(node))
    assert bridge is not None
    async with FakeRouter(RouterKind.JAVA, Clock()) as router:
        router.netdb[master.hash] = master
        bridge = replace(bridge, i2cp=router.settings())
        assert (await bridge.local_leaf_status(master.hash)).up
    assert bridge.liveness == {}, "a master answers no pings"


LOGINS = {"proxy": "# proxy_", "sam": "# sam_", "i2cp": "# i2cp_"}


def test_the_logins_reach_every_interface(node: Path) -> None:
    edit(
        node / CONFIG_FILE,
        *((f'{start}user = "..."', f'{start[2:]}user = "{name}-u"') for name, start in LOGINS.items()),
    )
    edit(
        node / SECRETS_FILE,
        *((f'{start}password = "..."', f'{start[2:]}password = "{name}-p"') for name, start in LOGINS.items()),
    )
    edit(node / CONFIG_FILE, ('# i2cp_fingerprint = "sha256:..."', f'i2cp_fingerprint = "sha256:{"ab" * 32}"'))
    config, secrets = Config.load(node), Secrets.load(node)
    check_logins(config.router, secrets)
    bridge = router_bridge(config, secrets)
    assert bridge is not None
    assert (bridge.sam.user, bridge.sam.password) == ("sam-u", "sam-p")
    assert bridge.i2cp.login == ("i2cp-u", "i2cp-p")
    assert bridge.i2cp.fingerprint == "sha256:" + "ab" * 32
    transport = i2p_transport(node, config, secrets)
    assert isinstance(transport, TwoWayTransport)
    assert isinstance(transport._streams, SamInbound)
    assert transport._streams._router == bridge.sam
    login = transport.proxy_login(config.own_endpoint)
    assert login is not None
    assert login.user == "proxy-u"
    assert transport.proxy_login(config.own_endpoint, 1) is None, "the node's own session is no proxy"


@pytest.mark.parametrize("name", ["proxy", "sam", "i2cp"])
def test_half_a_login_stops_the_start(node: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    edit(node / SECRETS_FILE, (f'# {name}_password = "..."', f'{name}_password = "hidden"'))
    assert main(["run", str(node), "--json"]) == 2
    error = json.loads(capsys.readouterr().out.splitlines()[-1])["error"]
    assert f"router.{name}_user: is missing, and secrets.toml: {name}_password needs it" in error
    assert "hidden" not in error


@pytest.mark.parametrize(
    ("name", "user", "password", "expected"),
    [
        ("sam", "a user", "hidden", "router: SAM's user name must have"),
        ("i2cp", "u", "hidden;", "router: I2CP's password must have"),
        ("proxy", "a:b", "hidden", "router: the proxy's user name must have"),
    ],
)
def test_logins_that_cannot_be_sent(node: Path, name: str, user: str, password: str, expected: str) -> None:
    edit(node / CONFIG_FILE, (f'# {name}_user = "..."', f'{name}_user = "{user}"'))
    edit(node / SECRETS_FILE, (f'# {name}_password = "..."', f'{name}_password = "{password}"'))
    with pytest.raises(ConfigError) as caught:
        check_logins(Config.load(node).router, Secrets.load(node))
    assert expected in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_system_ca_with_a_name_reaches_i2cp(node: Path) -> None:
    edit(
        node / CONFIG_FILE,
        ('# i2cp_fingerprint = "sha256:..."', 'i2cp_tls = "system"\ni2cp_tls_name = "router.example"'),
        ('i2cp = "127.0.0.1:7654"', 'i2cp = "192.0.2.1:7654"'),
    )
    router = Config.load(node).router
    assert router is not None
    settings = i2cp_settings(router, Secrets.load(node))
    assert (settings.system_ca, settings.tls_name, settings.host) == (True, "router.example", "192.0.2.1")


def test_files_that_are_missing_wrong_or_open_to_others(node: Path) -> None:
    destination, master = node / "destination.dat", node / "master.dat"
    edit(node / CONFIG_FILE, META)
    good = destination.read_bytes()
    for path, data in ((destination, good), (master, KEYS.encode())):
        for bad in (b"", data[:-1], data + b"x", bytes(len(data))):
            write(path, bad)
            with pytest.raises(ConfigError, match=f"{path.name} is (not|neither) a private key file of an I2P destin"):
                assemble(node)
        write(path, data, 0o644)
        with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
            assemble(node)
        path.unlink()
        with pytest.raises(ConfigError, match=path.name):
            assemble(node)
        write(path, data)
    master.unlink()
    with pytest.raises(
        ConfigError, match=r"master\.dat does not exist, and publish\.mode is 'meta': put there the file"
    ):
        assemble(node)
    write(master, KEYS.encode())
    write(destination, DestinationKeys.generate().encode())
    with pytest.raises(ConfigError, match="put the right file or the right address there"):
        assemble(node)


def test_the_master_is_no_leaf_of_its_own(node: Path) -> None:
    edit(node / CONFIG_FILE, META, ('# leaf = "....b32.i2p"', f'leaf = "{KEYS.destination.b32.upper()}"'))
    with pytest.raises(ConfigError, match="this is the address of the master"):
        assemble(node)


def test_run_says_what_is_wrong_and_makes_nothing(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (node / "destination.dat").unlink()
    assert main(["run", str(node), "--json"]) == 2
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "destination.dat cannot be read" in answer["error"]


async def test_a_node_whose_router_is_not_there_runs_says_so_and_stops_when_told(node: Path) -> None:
    listen, *closed = free_ports(4)
    edit(
        node / CONFIG_FILE,
        ("127.0.0.1:4150", f"127.0.0.1:{listen}"),
        ("127.0.0.1:4444", f"127.0.0.1:{closed[0]}"),
        ("127.0.0.1:7656", f"127.0.0.1:{closed[1]}"),
        ("127.0.0.1:7654", f"127.0.0.1:{closed[2]}"),
        META,
    )
    output = node / "output"
    process = spawn([sys.executable, "-m", "gf_i2p.cli.main", "run", str(node)], output)
    try:

        async def said() -> bool:
            text = output.read_text()
            return all(words in text for words in ("started", "the router is down for the farm", "does not answer"))

        await until("it runs, and says what is wrong", PATIENCE, said)
        code, status = await gf_json("status", node)
        assert (code, status["leader"]) == (3, None)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE) == 0
        assert "Traceback" not in output.read_text()
    finally:
        process.kill()
        process.wait()
