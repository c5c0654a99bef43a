"""The status of a node: what it knows about the versions of others."""

import pytest

from gf_i2p.farm.record.status_record import ReportedConfig
from gf_i2p.farm.state import FarmState
from gf_i2p.node.status.node_status import reported_version
from tests.farm.fed_farm import Farm


@pytest.mark.parametrize(
    ("config", "version"),
    [(ReportedConfig(version="9.9.9"), "9.9.9"), (ReportedConfig(mode="meta"), None), (None, None)],
)
def test_the_version_of_a_server_is_that_of_its_newest_record(
    config: ReportedConfig | None, version: str | None
) -> None:
    farm = Farm()
    farm.says(2)
    farm.state.records[2].config = config
    assert reported_version(farm.state, 2) == version


def test_a_server_without_a_record_has_told_no_version() -> None:
    assert reported_version(FarmState("farm"), 1) is None
