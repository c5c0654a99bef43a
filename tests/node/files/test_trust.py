"""Facts about another server that a server's files must hold before a join."""

from pathlib import Path

import pytest

from gf_i2p.node.files.config import Config, Secrets, TlsTable
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.trust import lacking
from gf_i2p.node.membership.invitation import accept, invite
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.log_values import ClusterServer


@pytest.fixture
def one(tmp_path: Path) -> Path:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=[])
    return tmp_path / "server-1"


def test_who_was_accepted_is_known_at_its_endpoint(one: Path) -> None:
    server = ClusterServer(7, "tcp://127.0.0.1:4007")
    users = Secrets.load(one).verifiers
    why = lacking(Config.load(one), users, server)
    assert why is not None
    assert "lack the fingerprint and the login key of server 7" in why
    assert "gf-i2p members invite DIR 7=tcp://127.0.0.1:4007" in why
    assert "gf-i2p members accept DIR FILE" in why
    accept(one, invite(one, one.parent / "new", 7, Endpoint("127.0.0.1", 4007)).accept)
    config = Config.load(one)
    assert lacking(config, Secrets.load(one).verifiers, server) is None
    why = lacking(config, Secrets.load(one).verifiers, ClusterServer(7, "tcp://127.0.0.1:4008"))
    assert why is not None
    assert "has server 7 at tcp://127.0.0.1:4007: give that endpoint" in why
    why = lacking(config, users, server)
    assert why is not None
    assert "fingerprint" not in why


def test_a_ca_vouches_for_certificates_and_for_no_login(one: Path) -> None:
    config = Config.load(one).model_copy(update={"tls": TlsTable(ca="ca.pem")})
    users = Secrets.load(one).verifiers
    server = ClusterServer(7, "tcp://127.0.0.1:4007")
    why = lacking(config, users, server)
    assert why is not None
    assert "fingerprint" not in why
    assert lacking(config, {*users, "server-7"}, server) is None


def test_inside_i2p_the_address_is_enough_where_there_is_a_router(one: Path, tmp_path: Path) -> None:
    server = ClusterServer(7, "tcp://" + "a" * 52 + ".b32.i2p:80")
    why = lacking(Config.load(one), {"server-7"}, server)
    assert why is not None
    assert "names no router" in why
    make_farm(tmp_path / "inside", {1: None}, cluster="farm", profile="auto", clients=[])
    config = Config.load(tmp_path / "inside" / "server-1")
    assert lacking(config, {"server-7"}, server) is None
    why = lacking(config, (), server)
    assert why is not None
    assert "lack the login key" in why
