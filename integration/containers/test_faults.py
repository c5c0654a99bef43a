"""Containers are killed, cut off or removed: the farm recovers by itself.

The durations are printed, not asserted: they depend on the machine, too.
"""

import time
from typing import Final

import pytest

from integration.containers.container_farm import BESIDE, NODES, ROUTERS, WEB, ContainerFarm

CUT_SECONDS: Final = 120.0


@pytest.mark.slow  # half a minute to four minutes for each container
@pytest.mark.parametrize("service", [*NODES, *ROUTERS, WEB])
def test_a_container_that_is_killed_comes_back(farm: ContainerFarm, service: str) -> None:
    before = farm.heals("before the kill")  # on a busy machine the farm may still be busy with the fault before
    began = time.monotonic()
    farm.kill(service)
    farm.start(service)
    farm.gets_healthy(service)
    print(f"\n{service} killed: healthy again after {time.monotonic() - began:.1f} s, ", end="", flush=True)
    # A set that the publisher sent before it was killed does not count.
    after = farm.heals(
        f"after {service} was killed", newer_than=before.newest_end if service == before.publisher else 0
    )
    print(
        f"the farm whole after {time.monotonic() - began:.1f} s; {before.publisher} published, {after.publisher} does",
        flush=True,
    )


@pytest.mark.slow  # two minutes without the router, and two more until all is well again
def test_a_router_that_was_cut_off_comes_back(farm: ContainerFarm) -> None:
    before = farm.heals("before the cut")
    router = BESIDE[before.publisher]
    with farm.cut_off(router):
        time.sleep(CUT_SECONDS)
    back = time.monotonic()
    after = farm.heals(f"after {router} was cut off", newer_than=before.newest_end)
    print(
        f"\n{router} cut off for {CUT_SECONDS:.0f} s: the farm whole {time.monotonic() - back:.1f} s later; "
        f"{before.publisher} published, {after.publisher} does",
        flush=True,
    )


@pytest.mark.slow  # test_make_farm.py of the scenarios kills a publisher
def test_the_others_publish_when_the_publisher_is_gone_for_good(farm: ContainerFarm) -> None:
    before = farm.heals("before the removal")
    began = time.monotonic()
    farm.remove(before.publisher)
    after = farm.heals(f"without {before.publisher}", newer_than=before.newest_end)
    print(
        f"\n{before.publisher} removed: a newer set after {time.monotonic() - began:.1f} s, of {after.publisher}",
        flush=True,
    )
    assert after.publisher != before.publisher
