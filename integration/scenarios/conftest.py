"""The network that every scenario runs in."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from integration.scenarios.router_choice import spare_routers
from integration.testnet.router_network import RouterNetwork

pytest_plugins = ["tests.conftest"]


@pytest_asyncio.fixture
async def network() -> AsyncIterator[RouterNetwork]:
    """The private I2P network around this process."""
    found = RouterNetwork.here()
    if found is None:
        pytest.skip("no private I2P network around this process: start these with `make scenarios`")
    async with found:
        yield found


@pytest_asyncio.fixture
async def java_network(network: RouterNetwork) -> RouterNetwork:
    """The network, which has Java routers besides i2pd."""
    spare_routers(network, "java")
    return network
