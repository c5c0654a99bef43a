"""The unchanged compose file: from images to a Meta lease set, unattended, by nodes without further rights."""

import pytest

from integration.containers.base_image import image_size
from integration.containers.container_farm import ENOUGH, NODES, ROUTERS, WEB, ContainerFarm
from integration.containers.engine import Engine
from integration.containers.images import LIMITS

MAX_IMAGE_BYTES = 250_000_000
NOBODY_CAPABILITIES = "0000000000000000"


def test_from_nothing_to_a_meta_lease_set_on_the_floodfills(farm: ContainerFarm) -> None:
    whole = farm.heals("still")
    print(f"{whole.publisher} publishes {whole.sent['leaves']} leaves; {', '.join(whole.held)} hold the set")
    assert len(whole.held) >= ENOUGH


def test_the_image_of_a_node_is_small(engine: Engine) -> None:
    assert image_size(engine, "gf-i2p-node") < MAX_IMAGE_BYTES


def test_the_engine_limits_each_container(farm: ContainerFarm) -> None:
    """The engine has taken over the limits. Podman runs here without control groups, so nothing keeps to them."""
    found = farm.limits()
    assert {*NODES, *ROUTERS, WEB} <= found.keys()
    assert found == dict.fromkeys(found, LIMITS)


@pytest.mark.parametrize("node", NODES)
def test_a_node_has_no_rights_that_it_does_not_need(farm: ContainerFarm, node: str) -> None:
    status = dict(line.split(":", 1) for line in farm.exec(node, "cat", "/proc/1/status").splitlines() if ":" in line)
    assert {status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        NOBODY_CAPABILITIES
    }
    assert set(status["Uid"].split()) == {"10001"}
    assert status["NoNewPrivs"].strip() == "1"
    mounts = [line.split() for line in farm.exec(node, "cat", "/proc/self/mounts").splitlines()]
    root = next(options for _, place, _, options, *_ in mounts if place == "/")
    assert "ro" in root.split(",")
    farm.gets_healthy(node)  # Docker checks now and then, podman when asked
