"""Which farms may share a listener, and how they come and go there."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, DESTINATION_FILE
from gf_i2p.node.listener import MAX_FARMS, SharedListener, Tenant, tenants_by_listener
from gf_i2p.transport.served import Served
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.processes import free_ports
from tests.netdb.strategies import KEYS
from tests.transport.harness import Identity, authenticator, echo

HERE = Endpoint("127.0.0.1", 20_001)


def tenant(
    directory: Path,
    name: str,
    endpoint: Endpoint | None = HERE,
    *,
    cluster: str | None = None,
    beside: str | None = None,
    master: Destination | None = None,
) -> Tenant:
    """The first server of a new farm."""
    make_farm(
        directory / name,
        {1: endpoint},
        cluster=cluster or name,
        profile="lan",
        clients=[],
        beside=None if beside is None else directory / beside,
    )
    where = directory / name / "server-1"
    return Tenant(where, Config.load(where), master)


def changed(found: Tenant, change: Callable[[str], str]) -> Tenant:
    path = found.directory / CONFIG_FILE
    path.write_text(change(path.read_text()))
    return Tenant(found.directory, Config.load(found.directory), found.master)


def names(listeners: list[list[Tenant]]) -> list[list[str]]:
    return [[each.config.node.cluster for each in listener] for listener in listeners]


def test_those_that_listen_at_one_place_with_one_certificate_share_a_door(tmp_path: Path) -> None:
    one = tenant(tmp_path, "one")
    two = tenant(tmp_path, "two", Endpoint("127.0.0.1", 20_002))
    three = tenant(tmp_path, "three", beside="one")
    assert three.config.servers[0].fingerprint == one.config.servers[0].fingerprint
    assert names(tenants_by_listener([one, two, three])) == [["one", "three"], ["two"]]
    # A farm that was made beside a farm that listens elsewhere has a separate certificate.
    four = tenant(tmp_path, "four", Endpoint("127.0.0.1", 20_003), beside="one")
    assert four.config.servers[0].fingerprint != one.config.servers[0].fingerprint


def test_what_was_made_beside_another_listens_where_that_one_does(tmp_path: Path) -> None:
    one = changed(
        tenant(tmp_path, "one"), lambda text: text.replace('listen = "tcp://127.0.0.1', 'listen = "tcp://0.0.0.0')
    )
    two = tenant(tmp_path, "two", beside="one")
    assert (two.place, str(two.config.own_endpoint)) == (one.place, str(HERE))
    assert names(tenants_by_listener([one, two])) == [["one", "two"]]


def test_inside_i2p_each_farm_has_its_own_place_or_they_are_one_destination(tmp_path: Path) -> None:
    one = tenant(tmp_path, "one", None)
    two = tenant(tmp_path, "two", None, beside="one")
    assert names(tenants_by_listener([one, two])) == [["one"], ["two"]]
    three = tenant(tmp_path, "three", None)
    with pytest.raises(ConfigError, match=r"have different addresses inside I2P: give one of them another node.listen"):
        tenants_by_listener([one, three])
    # The same address at both, with the same keys: one session brings the streams of both.
    shutil.copy(one.directory / DESTINATION_FILE, three.directory / DESTINATION_FILE)
    own, other = one.config.own_endpoint.host, three.config.own_endpoint.host
    three = changed(three, lambda text: text.replace(other, own))
    assert names(tenants_by_listener([one, three])) == [["one", "three"]]
    moved = changed(three, lambda text: text.replace("127.0.0.1:4150", "127.0.0.1:4160"))
    with pytest.raises(ConfigError, match=r"a router keeps one session for a destination"):
        tenants_by_listener([one, moved])
    back = changed(moved, lambda text: text.replace("127.0.0.1:4160", "127.0.0.1:4150").replace("4444", "4447"))
    with pytest.raises(ConfigError, match=r"give both the same \[router\] table"):
        tenants_by_listener([one, back])
    # With server tunnels that the operator has made, the router tells nobody apart: any number lead to one place.
    tunnels = [changed(each, lambda text: text.replace('"sam"  ', '"tunnel"')) for each in (one, back)]
    assert names(tenants_by_listener(tunnels)) == [["one", "three"]]


def test_what_cannot_work_together_is_refused(tmp_path: Path) -> None:
    one = tenant(tmp_path, "one", master=KEYS.destination)
    with pytest.raises(ConfigError, match=r"different certificates, but a peer gets one before the peer names a farm"):
        tenants_by_listener([one, tenant(tmp_path, "two")])
    with pytest.raises(
        ConfigError, match=r"both of a farm 'one' and listen at tcp://127.0.0.1:20001: a request names only the farm"
    ):
        tenants_by_listener([one, tenant(tmp_path, "three", cluster="one", beside="one")])
    same = Tenant(tmp_path / "one" / ".." / "one" / "server-1", one.config)
    with pytest.raises(ConfigError, match=r"are the same directory: name it once"):
        tenants_by_listener([one, same])
    elsewhere = Endpoint("127.0.0.1", 20_009)
    with pytest.raises(ConfigError, match=r"would both publish for .*b32.i2p: the netDb has one"):
        tenants_by_listener([one, tenant(tmp_path, "four", elsewhere, master=KEYS.destination)])
    assert (
        len(
            tenants_by_listener(
                [one, tenant(tmp_path, "five", elsewhere, master=DestinationKeys.generate().destination)]
            )
        )
        == 2
    )
    inside = changed(tenant(tmp_path, "six", None), lambda text: text.replace("127.0.0.1:4150", "127.0.0.1:20001"))
    with pytest.raises(ConfigError, match=r"one for a router's streams and one for TLS"):
        tenants_by_listener([one, inside])
    with pytest.raises(ConfigError, match=f"up to {MAX_FARMS} farms"):
        tenants_by_listener([one] * (MAX_FARMS + 1))
    (tmp_path / "two" / "server-1" / "key.pem").unlink()
    with pytest.raises(ConfigError, match=r"key.pem cannot be read"):
        tenants_by_listener([one, Tenant(tmp_path / "two" / "server-1", Config.load(tmp_path / "two" / "server-1"))])


async def test_a_door_opens_with_the_first_and_closes_after_the_last(tmp_path: Path) -> None:
    identity = Identity.make(tmp_path, "node")
    (port,) = free_ports(1)
    tls = TlsTransport(TlsSettings(identity.certificate, identity.key), port=port)
    listener = SharedListener(tls, {"a", "b", "c"}, tls=tls)
    listener.wait_for("a", 5.0)
    listener.wait_for("b", 50.0)
    listener.wait_for("a", 6.0)
    assert listener.gate.handshake_seconds == 50.0
    first = await listener.enter("a", Served(authenticator(), echo))
    assert await listener.enter("b", Served(authenticator(), echo)) is first
    await listener.leave("b", 0.0)
    assert (sorted(listener.server.farms), listener.gate.handshake_seconds) == (["a"], 6.0)
    await listener.leave("c", 0.0)  # farm "c" has never entered
    await listener.enter("b", Served(authenticator(), echo))
    await listener.leave("b", 0.0)
    other = TlsTransport(TlsSettings(identity.certificate, identity.key), port=port)
    with pytest.raises(Exception, match=r"Cannot listen"):
        await SharedListener(other, {"x"}).open()
    await listener.leave("a", 0.0)
    again = SharedListener(other, {"x"})
    await again.open()
    await again.leave("x", 0.0)
