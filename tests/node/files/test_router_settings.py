"""The configuration of the router and of publishing: mistakes are named, and the text from `init` is right."""

import re
import stat
from pathlib import Path

import pytest

from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.node.files.router_settings import PublishTable, RouterTable, host_and_port
from gf_i2p.wire.endpoint import Endpoint
from tests.node.farm import NodeFarm

ADDRESS = to_b32_address(bytes(32))
OTHER = to_b32_address(bytes([1] * 32))
GOOD = f"""
[node]
id = 1
listen = "tcp://127.0.0.1:4150"

[router]

[publish]

[[servers]]
id = 1
endpoint = "tcp://{ADDRESS}:80"

[[servers]]
id = 2
endpoint = "tcp://{OTHER}:80"
"""


HERE = "127.0.0.1:8080"


def address(number: int) -> str:
    return to_b32_address(bytes([100 + number] * 32))


def further(**settings: str) -> str:
    """A further leaf with these settings."""
    return "\n".join(["[[publish.leaves]]", *(f'{name} = "{value}"' for name, value in settings.items()), ""])


def forwarded(leaf: str, service: str, forward: str) -> str:
    return further(leaf=leaf, leaf_service=service, leaf_forward=forward)


def load(directory: Path, text: str) -> Config:
    (directory / CONFIG_FILE).write_text(text)
    return Config.load(directory)


def test_a_router_of_which_nothing_is_said_is_on_this_machine_and_nothing_is_published(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)
    assert config.router == RouterTable()
    assert config.publish == PublishTable()
    assert config.publish.mode == "off"
    assert (RouterTable().proxy, RouterTable().sam, RouterTable().i2cp) == (
        "127.0.0.1:4444", "127.0.0.1:7656", "127.0.0.1:7654",
    )  # fmt: skip


def test_everything_said(tmp_path: Path) -> None:
    router = """[router]
proxy = "[::1]:4447"
way = "socks5"
inbound = "tunnel"
sam = "127.0.0.2:7656"
i2cp = "192.168.1.2:7654"
kind = "java"
i2pcontrol = "https://192.168.1.2:7650/"
i2pcontrol_fingerprint = "AA:{}"
i2pcontrol_few_tunnels = true
beyond_loopback = true
[router.session]
"inbound.length" = "2"
""".format("bb" * 31)
    publish = '[publish]\nmode = "meta"\nleaf = "web"\nstatus_seconds = 20\n'
    publish += 'sense_minutes = 60\npublish = "on"\n[publish.service]\ntarget = "10.0.0.1:80"\nbeyond_loopback = true\n'
    publish += "http = true\nmax_streams = 40\nmax_streams_per_destination = 8\n"
    publish += '[publish.service.session]\n"inbound.length" = "1"\n'
    config = load(tmp_path, GOOD.replace("[router]\n", router).replace("[publish]\n", publish))
    assert config.router is not None
    assert host_and_port(config.router.proxy) == ("::1", 4447)
    assert config.router.i2pcontrol_fingerprint == "sha256:aa" + "bb" * 31
    assert config.router.session == {"inbound.length": "2"}
    assert (config.publish.mode, config.publish.leaf, config.publish.status_seconds) == ("meta", "web", 20)
    assert (config.publish.publish, config.publish.sense_minutes) == ("on", 60)
    service = config.publish.service
    assert service is not None
    assert (host_and_port(service.target), service.http, service.session) == (
        ("10.0.0.1", 80),
        True,
        {"inbound.length": "1"},
    )
    assert (service.max_streams, service.max_streams_per_destination) == (40, 8)


@pytest.mark.parametrize("lines", ['i2cp_tls = "system"', f'i2cp_fingerprint = "{"ab" * 32}"'])
def test_i2cp_by_tls_may_be_on_another_machine(tmp_path: Path, lines: str) -> None:
    config = load(tmp_path, GOOD.replace("[router]", f'[router]\ni2cp = "192.0.2.1:7654"\n{lines}'))
    assert config.router is not None
    assert config.router.has_i2cp_tls
    assert not RouterTable().has_i2cp_tls


def test_failover_with_its_service(tmp_path: Path) -> None:
    service = '[publish]\nmode = "failover"\n[publish.service]\ntarget = "127.0.0.1:8080"\n'
    config = load(tmp_path, GOOD.replace("[publish]\n", service))
    assert config.publish.mode == "failover"
    assert config.publish.service is not None
    assert not config.publish.service.http
    assert (config.publish.service.max_streams, config.publish.service.max_streams_per_destination) == (512, 256)
    assert load(tmp_path, GOOD).publish.status_seconds == 30


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("[router]", ""), f"router: is missing, and tcp://{ADDRESS}:80 can be reached through an I2P router only"),
        (("[router]", "[ruoter]"), "ruoter: no such key; check the spelling"),
        (("[router]", "[router]\nprxy = 1"), "router.prxy: no such key"),
        (("[router]", '[router]\nproxy = "localhost:4444"'), "router.proxy: 'localhost:4444': expected an IP address"),
        (("[router]", '[router]\nproxy = "127.0.0.1"'), "router.proxy: '127.0.0.1': expected an IP address and a port"),
        (("[router]", '[router]\nproxy = "127.0.0.1:0"'), "expected an IP address and a port"),
        (("[router]", '[router]\nsam = "127.0.0.1:65536"'), "router.sam: '127.0.0.1:65536': expected"),
        (("[router]", f'[router]\nsam = "127.0.0.1:{"9" * 5000}"'), "router.sam: "),
        (("[router]", f'[router]\nsam = "{ADDRESS}:7656"'), "expected an IP address and a port"),
        (("[router]", "[router]\ni2cp = 7654"), "router.i2cp: input should be a valid string"),
        (("[router]", '[router]\ni2cp = "10.0.0.1:7654"'), "router: i2cp: 10.0.0.1 is another machine"),
        (("[router]", '[router]\nproxy = "0.0.0.0:4444"'), "router: proxy: 0.0.0.0 is another machine"),
        (("[router]", '[router]\nway = "http"'), "router.way: input should be 'get', 'connect' or 'socks5'"),
        (("[router]", '[router]\ninbound = "i2cp"'), "router.inbound: input should be 'sam' or 'tunnel'"),
        (("[router]", '[router]\nkind = "i2p"'), "router.kind: input should be 'auto', 'i2pd' or 'java'"),
        (("[router]", '[router]\ni2pcontrol_fingerprint = "abc"'), "router.i2pcontrol_fingerprint: "),
        (("[router]", '[router]\ni2cp_fingerprint = "abc"'), "router.i2cp_fingerprint: "),
        (
            ("[router]", '[router]\ni2cp_tls = "on"'),
            "router.i2cp_tls: input should be 'off', 'fingerprint' or 'system'",
        ),
        (("[router]", '[router]\ni2cp_tls = "fingerprint"'), "router: i2cp_fingerprint: is missing, and i2cp_tls"),
        (
            ("[router]", f'[router]\ni2cp_tls = "system"\ni2cp_fingerprint = "{"ab" * 32}"'),
            'router: i2cp_fingerprint: cannot stand beside i2cp_tls = "system"',
        ),
        (
            ("[router]", f'[router]\ni2cp_tls = "off"\ni2cp_fingerprint = "{"ab" * 32}"'),
            'router: i2cp_fingerprint: cannot stand beside i2cp_tls = "off"',
        ),
        (
            ("[router]", '[router]\ni2cp_tls_name = "a.example"'),
            'router: i2cp_tls_name: counts only with i2cp_tls = "sys',
        ),
        (("[router]", "[router]\nsam_user = 1"), "router.sam_user: input should be a valid string"),
        (("[router]", '[router]\nsam_password = "secret"'), "router.sam_password: no such key"),
        (
            ("[router]", f'[router]\ni2cp_fingerprint = "{"ab" * 32}"\nsam = "10.0.0.1:7656"'),
            "router: sam: 10.0.0.1 is another machine",
        ),
        (("[router]", '[router]\ni2pcontrol = "https://127.0.0.1:99999/"'), "router.i2pcontrol: "),
        (("[router]", '[router]\ni2pcontrol = "https://[::1/"'), "router.i2pcontrol: "),
        (("[router]", '[router]\ni2pcontrol = "http://192.168.1.2/"'), "router.i2pcontrol: "),
        (
            ("[router]", "[router.session]\ninbound.length = '3'"),
            "router.session.inbound: input should",
        ),
        (("[router]", "[router.session]\n'inbound.length' = 3"), "router.session.inbound.length: input should be"),
        (("[router]", "[router.session]\n'inbound.length' = '3 x=y'"), "cannot be sent to the router"),
        (("[router]", "[router.session]\n'inbound.length' = \"3\\nQUIT\""), "cannot be sent to the router"),
        (("[router]", "[router.session]\n'inbound.length' = ''"), "cannot be sent to the router"),
        (("[router]", "[router.session]\n'a b.c' = '3'"), "router.session: 'a b.c' is no option of I2CP"),
        (("[router]", "[router.session]\nSIGNATURE_TYPE = '0'"), "'SIGNATURE_TYPE' is no option of I2CP"),
        (("[publish]", '[publish]\nmode = "on"'), "publish.mode: input should be 'off', 'dry-run', 'meta' or "),
        (("[publish]", '[publish]\nmode = "failover"'), "publish: service: is missing, and with mode = "),
        (("[publish]", '[publish]\npublish = "no"'), "publish.publish: input should be 'auto', 'on' or 'off'"),
        (("[publish]", "[publish]\nsense_minutes = -1"), "publish.sense_minutes: input should be greater"),
        (("[publish]", "[publish]\nsense_minutes = 1441"), "publish.sense_minutes: input should be less"),
        (("[publish]", "[publish.service]"), "publish.service.target: is missing"),
        (
            ("[publish]", '[publish.service]\ntarget = "web:80"'),
            "publish.service.target: 'web:80': expected an IP address and a port, as in 127.0.0.1:8080",
        ),
        (("[publish]", '[publish.service]\ntarget = "10.0.0.1:80"'), "target: 10.0.0.1 is another machine"),
        (("[publish]", "[publish]\nstatus_seconds = 0.5"), "publish.status_seconds: input should be greater than"),
        (("[publish]", "[publish]\nstatus_seconds = 31"), "publish.status_seconds: input should be less than"),
        (("[publish]", "[publish]\nstatus_seconds = nan"), "publish.status_seconds: "),
        (("[publish]", '[publish]\nleaf = "web"'), "publish.leaf: 'web' is no b32 address. Only i2pd"),
        (("[publish]", '[publish]\nleaf_service = "127.0.0.1:80"'), "publish.leaf_service: is the service behind"),
        (
            ("[publish]", f'[publish]\nleaf = "{"a" * 52}.b32.i2p"\nleaf_service = "192.0.2.1:80"'),
            "publish.leaf_service: 192.0.2.1:80 is on another machine",
        ),
        (
            ("[publish]", '[publish]\nleaf_forward = "127.0.0.1:80"'),
            "publish.leaf_forward: leads to publish.leaf_service",
        ),
        (
            (
                "[publish]",
                f'[publish]\nleaf = "{"a" * 52}.b32.i2p"\nleaf_service = "127.0.0.1:80"\nleaf_forward = "127.0.0.1:80"',
            ),
            "publish.leaf_service: is the address of publish.leaf_forward",
        ),
        (("[publish]", '[publish]\nleaf_service = "here"'), "publish.leaf_service: 'here': expected an IP address"),
        (
            ("[publish]", f"[publish]\n{further(leaf_service='127.0.0.1:80')}"),
            "publish.leaves[1].leaf: is missing: give",
        ),
        (
            ("[publish]", f"[publish]\n{further(leaf=OTHER)}\n{further(leaf=OTHER.upper())}"),
            "publish.leaves[2].leaf: publish.leaves[1].leaf is the same leaf: remove one of the two",
        ),
        (
            ("[publish]", f'[publish]\nleaf = "{OTHER}"\n{further(leaf=OTHER)}'),
            "publish.leaves[1].leaf: publish.leaf is the same leaf",
        ),
        (
            ("[publish]", f'[publish]\nleaf_farm = "../b"\n{further(leaf=OTHER)}'),
            "publish.leaf_farm: cannot stand beside publish.leaves: remove one of the two",
        ),
        (
            ("[publish]", f'[publish]\nleaf_farm = "../b"\nleaf = "{OTHER}"'),
            "publish.leaf_farm: cannot stand beside publish.leaf: remove one of the two",
        ),
        (
            (
                "[publish]",
                f"[publish]\n{forwarded(OTHER, '127.0.0.1:80', '[::1]:80')}{forwarded(ADDRESS, HERE, '[0::1]:080')}",
            ),
            "publish.leaves[2].leaf_forward: is the address of publish.leaves[1].leaf_forward: name another port",
        ),
        (("[publish]", f"[publish]\n{further(leaf=OTHER, leave='1')}"), "publish.leaves[1].leave: no such key"),
        (
            ("[publish]", f'[publish]\n[publish.leaves]\nleaf = "{OTHER}"'),
            "publish.leaves: write double brackets, [[publish.leaves]]",
        ),
        (("[publish]", "[publish]\n[removed]\nid = 3"), "removed: write double brackets, [[removed]]"),
        (
            ("[publish]", f'[publish]\n[publish.leaves]\nleaf = "{OTHER}"\n[publish.leaves]\nleaf = "{ADDRESS}"'),
            "A table that may stand several times has double brackets, as [[servers]] or [[publish.leaves]].",
        ),
        (
            ("[publish]", f'[publish]\n[publish.leaves]\nleaf = "{OTHER}"\n{further(leaf=ADDRESS)}'),
            "A table that may stand several times has double brackets",
        ),
        (
            (
                "[router]\n\n[publish]",
                f"[router]\nbeyond_loopback = true\n[publish]\n{forwarded(OTHER, HERE, '0.0.0.0:81')}"
                + forwarded(ADDRESS, HERE, "127.0.0.1:81"),
            ),
            "publish.leaves[2].leaf_forward: is the address of publish.leaves[1].leaf_forward: name another port",
        ),
        *(
            (
                ("[publish]", f"[publish]\n{forwarded(OTHER, HERE, forward)}\n[bridge]\nlisten = '127.0.0.1:7651'"),
                f"publish.leaves[1].leaf_forward: is the address of {name}: name another port",
            )
            for forward, name in (
                ("127.0.0.1:7656", "router.sam"),
                ("127.0.0.1:7654", "router.i2cp"),
                ("127.0.0.1:4444", "router.proxy"),
                ("127.0.0.1:4150", "node.listen"),
                ("127.0.0.1:7651", "bridge.listen"),
            )
        ),
        (
            ("[router]\n\n[publish]", '[router]\ninfo_file = "a\\u0000b"\n[publish]'),
            "router.info_file: 'a\\x00b' is no path of a file",
        ),
        (
            ("[publish]", "[publish]\n" + "\n".join(further(leaf=address(number)) for number in range(17))),
            "publish.leaves: there are 17 leaves, and the most are 16",
        ),
        (
            ("[router]\n\n[publish]", '[router]\ni2pcontrol = "https://127.0.0.1:7650/"\n[publish]\nleaf = "web"'),
            "set router.i2pcontrol_few_tunnels = true",
        ),
        (("tcp://127.0.0.1:4150", "tcp://10.0.0.1:4150"), "node.listen: the router would bring streams to 10.0.0.1"),
        (("tcp://127.0.0.1:4150", "tcp://localhost:4150"), "node.listen: the router would bring streams to localhost"),
        (("tcp://127.0.0.1:4150", f"tcp://{ADDRESS}:80"), f"node.listen: {ADDRESS} lies inside I2P"),
        (
            (f'{OTHER}:80"', f'{OTHER}:80"\nfingerprint = "{"aa" * 32}"'),
            "servers[2].fingerprint: inside I2P",
        ),
    ],
)
def test_bad_ones(tmp_path: Path, change: tuple[str, str], expected: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, GOOD.replace(*change, 1))
    assert expected in str(raised.value)
    assert str(tmp_path / CONFIG_FILE) in str(raised.value)


def test_publishing_needs_a_router(tmp_path: Path) -> None:
    text = GOOD.replace("[router]", "").replace(ADDRESS, "a.example").replace(OTHER, "b.example")
    assert load(tmp_path, text).router is None
    needs = r'router: is missing, and publish.mode = "meta" needs .* add the table \[router\]'
    with pytest.raises(ConfigError, match=needs):
        load(tmp_path, text.replace("[publish]", '[publish]\nmode = "meta"'))


@pytest.mark.parametrize(
    ("setting", "needs"),
    [
        (f'leaf = "{OTHER}"', "publish.leaf"),
        (further(leaf=OTHER), "publish.leaves"),
        ('leaf_farm = "../b"', "publish.leaf_farm"),
        (f'leaf_service = "{HERE}"', "publish.leaf_service"),
        (f'leaf_forward = "{HERE}"', "publish.leaf_forward"),
    ],
)
def test_a_leaf_needs_a_router(tmp_path: Path, setting: str, needs: str) -> None:
    """Without a router the node reports no leaf, so the settings would do nothing."""
    text = GOOD.replace("[router]", "").replace(ADDRESS, "a.example").replace("[publish]", f"[publish]\n{setting}")
    with pytest.raises(ConfigError, match=rf"router: is missing, and {needs} needs it: add the table \[router\]"):
        load(tmp_path, text.replace(f"tcp://{OTHER}", "tcp://b.example"))


def test_names_of_tunnels_that_differ_in_case_are_two_leaves(tmp_path: Path) -> None:
    """The b32 address of a destination has no case; the name of a tunnel has."""
    tells = '[router]\ni2pcontrol = "https://127.0.0.1:7650/"\ni2pcontrol_few_tunnels = true'
    leaves = further(leaf="Shop") + further(leaf="shop")
    publish = load(tmp_path, GOOD.replace("[router]", tells).replace("[publish]", f"[publish]\n{leaves}")).publish
    assert [each.leaf for each in publish.all_leaves] == ["Shop", "shop"]


TAKEN = [
    ("127.0.0.1:4150", "node.listen"),
    ("[::ffff:127.0.0.1]:4150", "node.listen"),
    ("0.0.0.0:4150", "node.listen"),
    ("127.0.0.1:7651", "bridge.listen"),
    ("127.0.0.1:4444", "router.proxy"),
    ("127.0.0.1:7656", "router.sam"),
    ("127.0.0.1:7654", "router.i2cp"),
    ("127.0.0.1:7650", "router.i2pcontrol"),
    ("[::]:7650", "router.i2pcontrol"),
]


@pytest.mark.parametrize(("forward", "taken"), TAKEN)
def test_a_forwarder_needs_a_port_of_its_own(tmp_path: Path, forward: str, taken: str) -> None:
    router = '[router]\nbeyond_loopback = true\ni2pcontrol = "https://localhost:7650/"'
    text = GOOD.replace("[router]", router).replace("[publish]", f"[publish]\n{forwarded(OTHER, HERE, forward)}")
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    assert f"publish.leaves[1].leaf_forward: is the address of {taken}: name another port" in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "taken"),
    [
        ("tcp://127.0.0.1:4150", "tcp://0.0.0.0:8081", "node.listen"),
        ("tcp://127.0.0.1:4150", "tcp://[::]:8081", "node.listen"),
        ("tcp://127.0.0.1:4150", "tcp://localhost:8081", "node.listen"),
        ("tcp://127.0.0.1:4150", "tcp://this.example:8081", "node.listen"),
        ("beyond_loopback", 'i2pcontrol = "http://127.0.0.1:8081/jsonrpc/"\nbeyond_loopback', "router.i2pcontrol"),
        ("[router]", '[bridge]\nlisten = "0.0.0.0:8081"\n[router]', "bridge.listen"),
    ],
)
def test_a_forwarder_and_other_listeners_of_this_machine(tmp_path: Path, old: str, new: str, taken: str) -> None:
    text = GOOD.replace("[router]", "[router]\nbeyond_loopback = true")
    text = text.replace("[publish]", f"[publish]\n{forwarded(OTHER, HERE, '127.0.0.1:8081')}")
    assert load(tmp_path, text).publish.leaves[0].leaf_forward == "127.0.0.1:8081"
    with pytest.raises(ConfigError, match=f"leaf_forward: is the address of {taken}: name another port"):
        load(tmp_path, text.replace(old, new, 1))


def test_a_forwarder_may_have_the_port_of_a_router_elsewhere(tmp_path: Path) -> None:
    router = '[router]\nbeyond_loopback = true\nsam = "192.0.2.1:8081"\ni2pcontrol = "https://router.example:8081/"'
    for forward in ("127.0.0.1:8081", "0.0.0.0:8081"):
        text = GOOD.replace("[router]", router).replace("[publish]", f"[publish]\n{forwarded(OTHER, HERE, forward)}")
        assert load(tmp_path, text).publish.leaves[0].leaf_forward == forward


@pytest.mark.parametrize(
    ("service", "forward"),
    [
        ("127.0.0.1:8080", "0.0.0.0:8080"),
        ("127.0.0.2:8080", "0.0.0.0:8080"),
        ("[::1]:8080", "[::]:8080"),
        ("127.0.0.1:8080", "[::]:8080"),
        ("0.0.0.0:8080", "127.0.0.1:8080"),
        ("[::ffff:127.0.0.1]:8080", "127.0.0.1:8080"),
        ("localhost:8080", "0.0.0.0:8080"),
    ],
)
def test_a_forwarder_that_would_connect_to_itself(tmp_path: Path, service: str, forward: str) -> None:
    text = GOOD.replace("[router]", "[router]\nbeyond_loopback = true")
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text.replace("[publish]", f"[publish]\n{forwarded(OTHER, service, forward)}"))
    why = "expected an IP address" if "localhost" in service else "is the address of publish.leaves[1].leaf_forward"
    assert f"publish.leaves[1].leaf_service: {why}" in str(raised.value).replace("'localhost:8080': ", "")


def test_a_forwarder_beside_other_addresses_of_the_same_port(tmp_path: Path) -> None:
    text = GOOD.replace("[router]", "[router]\nbeyond_loopback = true")
    for service, forward in (("192.0.2.7:8080", "0.0.0.0:8080"), ("127.0.0.1:8080", "127.0.0.2:8080")):
        leaves = load(tmp_path, text.replace("[publish]", f"[publish]\n{forwarded(OTHER, service, forward)}"))
        assert leaves.publish.leaves[0].leaf_service == service


@pytest.mark.parametrize(
    ("table", "setting"),
    [
        ("[router]", "router.info_file"),
        ("[router]", "router.destination"),
        ("[publish]", "publish.keys"),
        ("[publish]", "publish.leaf_farm"),
        ("[bridge]", "bridge.certificate"),
        ("[bridge]", "bridge.key"),
        ("[tls]", "tls.certificate"),
        ("[tls]", "tls.key"),
        ("[tls]", "tls.ca"),
    ],
)
def test_a_path_with_a_nul_byte(tmp_path: Path, table: str, setting: str) -> None:
    """The operating system would raise `ValueError` when the node uses the path."""
    line = f'{table}\n{setting.partition(".")[2]} = "/a\\u0000b"\n'
    with pytest.raises(ConfigError, match=rf"{setting}: .* is no path of a file"):
        load(tmp_path, GOOD.replace(table, line) if table in GOOD else f"{GOOD}\n{line}")


def test_a_server_may_have_several_leaves_each_with_its_own_settings(tmp_path: Path) -> None:
    leaves = further(leaf=OTHER) + forwarded(address(1), HERE, "127.0.0.1:8081") + "leaf_connections = 7\n"
    publish = load(tmp_path, GOOD.replace("[publish]", f'[publish]\nleaf = "{ADDRESS}"\n{leaves}')).publish
    assert [each.leaf for each in publish.all_leaves] == [ADDRESS, OTHER, address(1)]
    assert [each.leaf_service for each in publish.all_leaves] == [None, None, HERE]
    assert [each.leaf_connections for each in publish.all_leaves] == [256, 256, 7]
    alone = load(tmp_path, GOOD.replace("[publish]", f"[publish]\n{further(leaf=OTHER)}")).publish
    assert [each.leaf for each in alone.all_leaves] == [OTHER]
    assert load(tmp_path, GOOD).publish.all_leaves == ()
    sixteen = "".join(further(leaf=address(number)) for number in range(16))
    assert len(load(tmp_path, GOOD.replace("[publish]", f"[publish]\n{sixteen}")).publish.all_leaves) == 16


def test_two_leaves_may_lead_to_one_service_and_none_to_a_forwarder(tmp_path: Path) -> None:
    same = forwarded(OTHER, HERE, "127.0.0.1:1") + forwarded(ADDRESS, HERE, "127.0.0.1:2")
    assert len(load(tmp_path, GOOD.replace("[publish]", f"[publish]\n{same}")).publish.all_leaves) == 2
    circle = forwarded(OTHER, "127.0.0.1:2", "127.0.0.1:1") + forwarded(ADDRESS, "127.0.0.1:1", "127.0.0.1:2")
    with pytest.raises(
        ConfigError, match=r"leaves\[1\].leaf_service: is the address of publish.leaves\[2\].leaf_forward"
    ):
        load(tmp_path, GOOD.replace("[publish]", f"[publish]\n{circle}"))


def test_an_address_as_leaf_needs_nothing_else(tmp_path: Path) -> None:
    for leaf in (ADDRESS, ADDRESS.upper()):
        assert load(tmp_path, GOOD.replace("[publish]", f'[publish]\nleaf = "{leaf}"')).publish.leaf == leaf


# Configuration from init --------------------------------------------------------------------------------------------


def made(directory: Path, other: Endpoint | None = None) -> Path:
    make_farm(directory, {1: None, 2: other}, cluster="blue", profile="i2p", clients=["web"])
    return directory / "server-1"


def test_a_server_inside_i2p_has_an_address_and_its_keys_for_nobody_else_to_read(tmp_path: Path) -> None:
    node = made(tmp_path)
    config = Config.load(node)
    keys = DestinationKeys.parse((node / "destination.dat").read_bytes())
    assert config.own_endpoint == Endpoint(keys.destination.b32, 80)
    assert config.node.listen == "tcp://127.0.0.1:4150"
    assert config.router == RouterTable()
    assert config.publish == PublishTable()
    assert all(server.fingerprint is None for server in config.servers)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in node.iterdir()}
    assert modes["destination.dat"] == modes["secrets.toml"] == modes["log.sqlite"] == 0o600
    assert not {"certificate.pem", "key.pem"} & set(modes), "the address says who it is"
    assert stat.S_IMODE(node.stat().st_mode) == 0o700
    other = DestinationKeys.parse((tmp_path / "server-2" / "destination.dat").read_bytes())
    assert other.destination != keys.destination
    assert {Endpoint.parse(server.endpoint).host for server in config.servers} == {
        keys.destination.b32, other.destination.b32,
    }  # fmt: skip
    assert other.encode() not in b"".join(path.read_bytes() for path in node.iterdir())


def test_a_farm_half_inside_i2p_knows_each_by_what_it_has(tmp_path: Path) -> None:
    made(tmp_path, Endpoint("192.0.2.1", 9001))
    outside = Config.load(tmp_path / "server-2")
    assert outside.router == RouterTable(), "it reaches the other one by a router"
    assert [server.fingerprint is None for server in outside.servers] == [True, False]
    assert outside.node.listen == "tcp://192.0.2.1:9001"
    assert (tmp_path / "server-2" / "key.pem").exists()
    assert not (tmp_path / "server-2" / "destination.dat").exists()


def test_each_comment_that_shows_a_setting_is_one(tmp_path: Path) -> None:
    """An operator who removes the # gets the setting that the comment promises."""
    node = made(tmp_path, Endpoint("192.0.2.1", 9001))
    for path in (node, tmp_path / "server-2"):
        text = (path / CONFIG_FILE).read_text()
        shown = re.sub(r'(?m)^# (?=\[{1,2}[a-z.]+\]|"?[a-z_0-9.]+"? = )', "", text)
        assert shown != text
        shown = shown.replace("sha256:...", "sha256:" + "ab" * 32)
        shown = shown.replace("other....b32.i2p", OTHER).replace("....b32.i2p", ADDRESS)
        (path / CONFIG_FILE).write_text(shown)
        config = Config.load(path)
        assert config.router is not None
        assert config.router.session == {"inbound.length": "3", "inbound.quantity": "5"}
        assert config.router.i2pcontrol == "https://127.0.0.1:7650/"
        assert config.publish.leaf == ADDRESS
        assert [each.leaf for each in config.publish.all_leaves] == [ADDRESS, OTHER]
        assert config.router.has_i2cp_tls
        assert (config.router.sam_user, config.router.i2cp_user) == ("...", "...")
        secrets = path / SECRETS_FILE
        secrets.write_text(re.sub(r"(?m)^# (?=(i2pcontrol|proxy|sam|i2cp)_password)", "", secrets.read_text()))
        assert all(Secrets.load(path).router_passwords.values())
        found = Secrets.load(path).i2pcontrol_password
        assert found is not None
        assert found.get_secret_value() == "itoopie"
        assert set(Secrets.load(path).verifiers) == {"server-1", "server-2", "client-web"}


def test_the_comment_about_sign_entries_names_the_modes_that_allow_it(tmp_path: Path) -> None:
    allowed = set()
    for mode in ("off", "dry-run", "meta", "failover"):
        publish = f'[publish]\nmode = "{mode}"\n[publish.service]\ntarget = "{HERE}"\n[bridge]\nsign_entries = true\n'
        try:
            load(tmp_path, GOOD.replace("[publish]", publish))
        except ConfigError as error:
            assert 'set publish.mode to "off" or "dry-run" on all servers' in str(error)  # noqa: PT017
        else:
            allowed.add(mode)
    assert allowed == {"off", "dry-run"}
    comment = (made(tmp_path / "farm") / CONFIG_FILE).read_text().partition("sign_entries = true")[2]
    words = " ".join(comment.partition("\n\n")[0].replace("#", " ").split())
    assert words == (
        'signs plain entries of such programs with the keys above, and publishes them; with mode "off" or "dry-run" '
        "only, which keep the node itself from publishing"
    )


async def test_a_reload_says_that_router_and_publishing_need_a_restart(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        path, node = farm.path(1), await farm.leader()
        with (path / CONFIG_FILE).open("a") as file:
            file.write("[router]\n")
        assert node.reload(Config.load(path), Secrets.load(path)) == ["router"]
        with (path / CONFIG_FILE).open("a") as file:
            file.write("[publish]\nstatus_seconds = 5.0\n")
        assert node.reload(Config.load(path), Secrets.load(path)) == ["router", "publish"]
