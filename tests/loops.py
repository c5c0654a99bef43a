"""The event loops and the strictness that asynchronous tests share; `conftest.py` files import from here."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import pytest_asyncio


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
