"""Routers of a network for a scenario; without Java routers, a scenario beside Java is skipped."""

import pytest

from integration.testnet.java_build import NO_JAVA
from integration.testnet.router_network import RouterNetwork, RouterPlace


def spare_routers(network: RouterNetwork, kind: str, least: int = 1) -> list[RouterPlace]:
    """Return the routers of this kind that are no floodfills, at least so many.

    Skips the scenario when the network has too few Java routers, and fails it when the network has too few others.
    """
    found = [router for router in network.of(kind) if not router.floodfill]
    if kind == "java" and len(found) < least:
        pytest.skip(NO_JAVA)
    assert len(found) >= least, f"{len(found)} of {least} routers of kind {kind}: start the network with more --routers"
    return found
