"""Every asynchronous test runs on both event loops, and none may leave an exception to the loop's handler."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.transport.harness import Identity


@pytest.fixture(scope="session")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """Certificates by name, made once: "node", "other", "expired" (for localhost), "named" (localhost, 127.0.0.1)."""
    directory: Path = tmp_path_factory.mktemp("identities")
    return {
        "node": Identity.make(directory, "node"),
        "other": Identity.make(directory, "other"),
        "named": Identity.make(directory, "named", hosts=("localhost", "127.0.0.1")),
        "expired": Identity.make(directory, "expired", hosts=("localhost",), days=-1),
    }


@pytest.fixture
def node(identities: dict[str, Identity]) -> Identity:
    return identities["node"]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": _new_uvloop}


def _new_uvloop() -> asyncio.AbstractEventLoop:
    uvloop = pytest.importorskip("uvloop", reason="the optional extra uvloop is not installed")
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@pytest_asyncio.fixture
async def unhandled() -> AsyncIterator[list[dict[str, Any]]]:
    """What the loop's exception handler got; a test that provokes something clears it."""
    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    yield seen
    gc.collect(1)  # futures and tasks complain when they are collected
    await asyncio.sleep(0)
    assert seen == []
