"""Two farms side by side do not disturb each other."""

import time
from collections.abc import Iterator

import pytest

from integration.containers.container_farm import ROUTERS, ContainerFarm
from integration.containers.engine import Engine
from integration.containers.images import COMPOSE, NET_VARIABLE, SECOND_NET

pytestmark = pytest.mark.slow  # a second farm takes minutes


@pytest.fixture
def second(engine: Engine, farm: ContainerFarm) -> Iterator[ContainerFarm]:
    """A second farm beside the first, which is whole already."""
    farm.heals("before the second begins")
    with ContainerFarm(engine, "gf-i2p-second", COMPOSE, {NET_VARIABLE: SECOND_NET}) as made:
        began = time.monotonic()
        made.up()
        made.heals("beside another one")
        print(f"\na second farm: a Meta lease set after {time.monotonic() - began:.1f} s", flush=True)
        yield made


def test_two_farms_do_not_know_of_each_other(farm: ContainerFarm, second: ContainerFarm) -> None:
    masters = []
    for one in (farm, second):
        masters.append(one.heals("beside the other").sent["master"])
        for router in ROUTERS:
            summary = one.summary(router)
            assert summary is not None
            assert summary.routers <= len(ROUTERS)
    assert masters[0] != masters[1]
    assert not farm.held(masters[1])
    assert not second.held(masters[0])
    before = farm.left()
    second.down()
    assert second.left() == []
    assert farm.left() == before
    farm.heals("when the second is gone")
