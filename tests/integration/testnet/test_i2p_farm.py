"""The edits of the private network's farms fit the configuration that `init` writes today."""

from pathlib import Path

import pytest

from gf_i2p.node.files.checked_read import load_table
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.file_names import CONFIG_FILE
from integration.testnet import router_network
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router_files import LEAF_LINE, replace
from integration.testnet.router_network import RouterPlace

FINGERPRINT = "ab" * 32


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> I2pFarm:
    monkeypatch.setattr(router_network, "fingerprint_of_file", lambda _path: FINGERPRINT)
    routers = [RouterPlace(number, f"127.1.0.{number}", tmp_path / f"router-{number}", False) for number in (1, 2, 3)]
    return I2pFarm(tmp_path / "farm", routers, password="long enough for a router")


def test_each_server_of_a_failover_farm_leads_to_its_own_service(farm: I2pFarm) -> None:
    farm.place(targets={1: 8001, 2: 8002, 3: 8003})
    for server in farm.ids:
        service = load_table(Config, farm.node(server) / CONFIG_FILE).publish.service
        assert service is not None
        assert service.target.endswith(f":800{server}")
        assert service.http
        assert dict(service.session) == {"inbound.length": "1", "outbound.length": "1"}


def test_each_server_of_a_meta_farm_has_its_own_leaf(farm: I2pFarm) -> None:
    farm.place()
    leaves = {load_table(Config, farm.node(server) / CONFIG_FILE).publish.leaf for server in farm.ids}
    assert leaves == {keys.destination.b32 for keys in farm.leaves.values()}


def test_an_edit_that_toml_does_not_take_is_named(farm: I2pFarm) -> None:
    with pytest.raises(AssertionError, match="is not TOML"):
        replace(farm.node(1), {LEAF_LINE: "leaf ="})
