"""Containers are killed, cut off or removed: the farm heals without a hand.

The durations are printed, not asserted: they depend on the machine, too.
"""

import time
from typing import Final

import pytest

from integration.containers.farm import BESIDE, NODES, ROUTERS, WEB, Farm
from integration.containers.images import LONG

PUBLISHER: Final = "the publisher"
KILLED: Final = [*NODES, *ROUTERS, WEB] if LONG else [PUBLISHER, "router-0", WEB]
"""With little time, one container of each kind."""
CUT_SECONDS: Final = 120.0 if LONG else 20.0


def publisher(farm: Farm) -> str:
    found = farm.publisher()
    assert found is not None
    return found[0]


@pytest.mark.parametrize("service", KILLED)
def test_a_container_that_is_killed_comes_back(farm: Farm, service: str) -> None:
    chosen, last = publisher(farm), farm.last()
    killed = chosen if service == PUBLISHER else service
    began = time.monotonic()
    farm.kill(killed)
    farm.start(killed)
    farm.gets_healthy(killed)
    print(f"\n{killed} killed: healthy again after {time.monotonic() - began:.1f} s, ", end="", flush=True)
    # A set that the publisher sent before it was killed does not count.
    farm.heals(f"after {killed} was killed", newer_than=last if killed == chosen else 0)
    print(
        f"the farm whole after {time.monotonic() - began:.1f} s; {chosen} published, {publisher(farm)} does", flush=True
    )


def test_a_router_that_was_cut_off_comes_back(farm: Farm) -> None:
    chosen, last = publisher(farm), farm.last()
    with farm.cut_off(BESIDE[chosen]):
        time.sleep(CUT_SECONDS)
    back = time.monotonic()
    # After 20 s the node publishes still: its next set may not be due for 7.5 minutes.
    farm.heals(f"after {BESIDE[chosen]} was cut off", newer_than=last if LONG else 0)
    print(
        f"\n{BESIDE[chosen]} cut off for {CUT_SECONDS:.0f} s: the farm whole {time.monotonic() - back:.1f} s later; "
        f"{chosen} published, {publisher(farm)} does",
        flush=True,
    )


def test_the_others_publish_when_the_publisher_is_gone_for_good(farm: Farm) -> None:
    chosen, last = publisher(farm), farm.last()
    began = time.monotonic()
    farm.remove(chosen)
    farm.heals(f"without {chosen}", newer_than=last)
    print(f"\n{chosen} removed: a newer set after {time.monotonic() - began:.1f} s, of {publisher(farm)}", flush=True)
    assert publisher(farm) != chosen
