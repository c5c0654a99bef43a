"""Every asynchronous test runs on both event loops, and none may leave an exception to the loop's handler."""

import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.bridges.simulated_i2pcontrol import I2PD, JAVA, Recording, SimulatedRouter
from tests.loops import pytest_asyncio_loop_factories, unhandled
from tests.transport.harness import Identity

__all__ = ["pytest_asyncio_loop_factories", "unhandled"]


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    """The certificate of every simulated router."""
    return Identity.make(tmp_path_factory.mktemp("identity"), "router")


@pytest.fixture(scope="session")
def tls(identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


@pytest_asyncio.fixture(autouse=True)
async def _nothing_unhandled(unhandled: list[dict[str, Any]]) -> AsyncIterator[None]:
    yield


@pytest_asyncio.fixture
async def i2pd(tls: ssl.SSLContext, unhandled: list[dict[str, Any]]) -> AsyncIterator[SimulatedRouter]:
    async with SimulatedRouter(Recording.load(I2PD), tls) as router:
        yield router
    assert router.complaints == []


@pytest_asyncio.fixture
async def java(tls: ssl.SSLContext, unhandled: list[dict[str, Any]]) -> AsyncIterator[SimulatedRouter]:
    async with SimulatedRouter(Recording.load(JAVA), tls, checks_tokens=True) as router:
        yield router
    assert router.complaints == []
