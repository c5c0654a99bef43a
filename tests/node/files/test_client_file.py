"""A client's file: the text from `init`, the refusals, and the servers that the client trusts."""

from pathlib import Path

import pytest

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile, _Ways
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.transport.client.known_servers import ServerEndpoint
from gf_i2p.transport.endpoint_transport import MixedTransport
from gf_i2p.transport.errors import DialError, TransportError
from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxyMethod, ProxySettings
from gf_i2p.transport.tls.certificates import fingerprint_of_file
from gf_i2p.transport.tls.tls_transport import TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from tests.transport.harness import Identity

INSIDE = Endpoint("ukeu3k5oycgaauneqgtnvselmt4yemvoilkln7jpvamvfx7dnkdq.b32.i2p", 80)
THERE, ELSEWHERE = Endpoint("192.0.2.1", 9001), Endpoint("192.0.2.9", 9001)
PIN, OTHER_PIN = "sha256:" + "ab" * 32, "sha256:" + "cd" * 32

HEAD = 'cluster = "farm"\nuser = "client-web"\npassword = "secret"\n'
I2P = '[i2p]\nproxy = "127.0.0.1:4445"\nway = "connect"\n'
BY_TLS = f'[[servers]]\nid = 1\nendpoint = "{THERE}"\nfingerprint = "{PIN}"\n'
BY_I2P = f'[[servers]]\nid = 2\nendpoint = "{INSIDE}"\n'


def load(directory: Path, text: str) -> ClientFile:
    path = directory / "client-web.toml"
    path.touch(mode=0o600)
    path.write_text(text)
    return ClientFile.load(path)


# --- Files from init --------------------------------------------------------------------------------------


def test_a_farm_inside_i2p_gets_a_file_with_the_way_there(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: None, 2: None, 3: None}, cluster="blue", profile="auto", clients=["web"])
    file = ClientFile.load(tmp_path / "client-web.toml")
    assert file.i2p is not None
    assert file.proxy == ProxySettings("127.0.0.1", 4444, ProxyMethod.GET)
    assert (file.cluster, file.user, file.ca) == ("blue", "client-web", None)
    assert [Endpoint.parse(server.endpoint).is_i2p for server in file.servers] == [True, True, True]
    assert isinstance(file.open(), FarmClient)
    assert "# ca" not in (tmp_path / "client-web.toml").read_text()


def test_a_farm_outside_gets_one_without(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: THERE, 2: ELSEWHERE}, cluster="blue", profile="auto", clients=["web"])
    file = ClientFile.load(tmp_path / "client-web.toml")
    assert file.i2p is None
    assert file.servers[0].fingerprint == fingerprint_of_file(tmp_path / "server-1" / "certificate.pem")
    assert isinstance(file.open(), FarmClient)


def test_a_farm_on_both_sides_gets_both(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: THERE, 2: None}, cluster="blue", profile="auto", clients=["web"])
    file = ClientFile.load(tmp_path / "client-web.toml")
    assert file.i2p is not None
    assert [server.fingerprint is None for server in file.servers] == [False, True]


# --- Refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD, "servers: is missing"),
        (HEAD + "servers = []\n", "servers: "),
        (HEAD + BY_I2P, "i2p: is missing, and tcp://ukeu3k5oycg"),
        (HEAD + I2P + BY_I2P + f'fingerprint = "{PIN}"\n', r"servers\[1\].fingerprint: inside I2P the address"),
        (HEAD + BY_TLS + BY_TLS, "servers: two of them have the same id"),
        (HEAD + '[i2p]\nproxy = "router.example:4444"\n' + BY_I2P, "i2p.proxy: .*expected an IP address and a port"),
        (HEAD + '[i2p]\nproxy = "192.0.2.7:4444"\n' + BY_I2P, "i2p: proxy: 192.0.2.7 is another machine"),
        (HEAD + '[i2p]\nway = "telnet"\n' + BY_I2P, "i2p.way: input should be 'get', 'connect' or 'socks5'"),
        (HEAD + "[i2p]\nsam = 1\n" + BY_I2P, "i2p.sam: no such key"),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(tmp_path, text)


def test_a_router_on_another_machine_is_taken_when_it_is_said_so(tmp_path: Path) -> None:
    file = load(tmp_path, HEAD + '[i2p]\nproxy = "192.0.2.7:4444"\nbeyond_loopback = true\n' + BY_I2P)
    assert file.i2p is not None
    assert file.proxy == ProxySettings("192.0.2.7", 4444)


def test_a_ca_file_is_beside_the_clients(tmp_path: Path) -> None:
    file = load(tmp_path, 'ca = "ca.pem"\n' + HEAD + BY_TLS)
    assert file.ca == str(tmp_path / "ca.pem")
    with pytest.raises(TransportError, match=r"ca\.pem cannot be read"):
        file.open()


# --- Trusted servers --------------------------------------------------------------------------------------


def test_the_transport_is_the_one_that_the_file_needs(tmp_path: Path) -> None:
    assert isinstance(_Ways(load(tmp_path, HEAD + BY_TLS)).transport, TlsTransport)
    mixed = _Ways(load(tmp_path, HEAD + I2P + BY_I2P)).transport
    assert isinstance(mixed, MixedTransport)
    assert isinstance(mixed._i2p, I2pTransport)
    assert mixed._i2p._proxy == ProxySettings("127.0.0.1", 4445, ProxyMethod.CONNECT)


def test_a_server_that_has_moved_is_known_by_the_fingerprint_of_its_id_and_by_no_other(tmp_path: Path) -> None:
    second = f'[[servers]]\nid = 2\nendpoint = "tcp://192.0.2.2:9001"\nfingerprint = "{OTHER_PIN}"\n'
    ways = _Ways(load(tmp_path, HEAD + BY_TLS + second))
    moved, new, known = (
        ServerEndpoint(1, ELSEWHERE),
        ServerEndpoint(7, Endpoint("192.0.2.7", 9001)),
        ServerEndpoint(7, THERE),
    )
    refused = ways.prepare([moved, new, known])
    assert list(refused) == [new]
    assert refused[new] == (
        "The client's file does not say which certificate tcp://192.0.2.7:9001 has. Add the [[servers]] table of "
        "server 7 with its fingerprint, as in any server's gf-i2p.toml, or set ca to the file of a CA that vouches for "
        "the server."
    )
    # An endpoint in the file keeps the fingerprint from the file.
    assert ways._tls._pins[ELSEWHERE] == {PIN}
    assert ways._tls._pins[THERE] == {PIN}
    # The client forgets a pin that no server tells any more.
    assert ways.prepare([]) == {}
    assert ELSEWHERE not in ways._tls._pins


def test_a_ca_vouches_for_those_without_fingerprint(tmp_path: Path, identity: Identity) -> None:
    (tmp_path / "ca.pem").write_bytes(identity.certificate.read_bytes())
    ways = _Ways(load(tmp_path, 'ca = "ca.pem"\n' + HEAD + BY_TLS))
    place = ServerEndpoint(7, ELSEWHERE)
    assert ways.prepare([place]) == {}
    (tmp_path / "ca.pem").unlink()
    assert "ca.pem cannot be read" in ways.prepare([place])[place]


async def test_inside_i2p_the_address_is_enough_and_outside_nothing_is_dialled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_dns(*_: object) -> None:
        raise AssertionError("nothing is looked up here")

    monkeypatch.setattr("gf_i2p.transport.tls.tls_transport.resolve", no_dns)
    ways = _Ways(load(tmp_path, HEAD + I2P + BY_I2P))
    inside, outside = ServerEndpoint(3, Endpoint("abc.i2p", 80)), ServerEndpoint(2, Endpoint("farm.example.org", 9001))
    assert list(ways.prepare([inside, outside])) == [outside]
    with pytest.raises(DialError, match="Nothing says which certificate"):
        await ways.transport.dial(outside.endpoint, lambda: pytest.fail("dialled"), deadline=1.0)


def test_a_file_without_a_router_says_what_to_add_for_a_server_inside(tmp_path: Path) -> None:
    ways = _Ways(load(tmp_path, HEAD + BY_TLS))
    place = ServerEndpoint(3, INSIDE)
    assert "names no I2P router, and tcp://ukeu3" in ways.prepare([place])[place]


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return Identity.make(tmp_path, "node")
