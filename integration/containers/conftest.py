"""The engine and the farms that the tests share."""

import os
import time
from collections.abc import Iterator

import pytest

from integration.containers.container_farm import ContainerFarm
from integration.containers.engine import ENGINE_VARIABLE, Engine, EngineError, named
from integration.containers.images import COMPOSE, NET, NET_VARIABLE
from integration.harness.local_farm import NotSeenError

pytest_plugins = ["tests.conftest"]


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine that `integration.containers` has found and prepared."""
    name = os.environ.get(ENGINE_VARIABLE)
    if name is None:
        pytest.skip("no container engine is prepared: start these with `make test-docker`")
    return named(name)


@pytest.fixture(scope="session")
def farm(engine: Engine) -> Iterator[ContainerFarm]:
    """The farm of the compose file, brought up from images to a Meta lease set that floodfills hold."""
    with ContainerFarm(engine, "gf-i2p-first", COMPOSE, {NET_VARIABLE: NET}) as made:
        began = time.monotonic()
        try:
            made.up()
            print(f"\nup after {time.monotonic() - began:.1f} s", flush=True)
            made.heals("for the first time")
        except (EngineError, NotSeenError) as error:  # without a farm there is nothing to test
            print(error, flush=True)
            pytest.exit("the farm did not come up", returncode=1)
        made.forget_flaps_soon()
        print(f"from images to a Meta lease set on the floodfills: {time.monotonic() - began:.1f} s", flush=True)
        yield made
        made.down()
        assert made.left() == []
