"""The parts of a site of fail-overs that need no router: integration/scenarios/failover_site.py."""

from pathlib import Path

from gf_i2p.node.files.config import Config
from gf_i2p.node.files.farm_setup import make_farm
from integration.scenarios.failover_site import never_serves


def test_a_bystander_is_never_chosen(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: None}, cluster="farm", profile="auto", clients=[])
    node = tmp_path / "server-1"
    assert Config.load(node).publish.publish == "auto"
    never_serves(node)
    assert Config.load(node).publish.publish == "off"
