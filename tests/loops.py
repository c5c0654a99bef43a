"""The event loops and the strictness that asynchronous tests share; `conftest.py` files import from here."""

import asyncio
import contextlib
import gc
import importlib.util
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import pytest
import pytest_asyncio

from gf_i2p.transport.event_loop import loop_factory
from tests.tier import is_everything_wanted

# A test that leaves connections open hears the complaints of these connections.
_END_SECONDS = 10.0


def _new_uvloop() -> asyncio.AbstractEventLoop:
    factory = loop_factory()
    if factory is None:
        pytest.skip("the optional extra uvloop is not installed")
    return factory()


LOOPS: Final[Mapping[str, Callable[[], asyncio.AbstractEventLoop]]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": _new_uvloop,
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give a test both loops in `make test-all`, or when the command line names a test (`FILE::TEST`).

    Elsewhere a test has one of them, always the same, and each loop has half of the tests.
    """
    if is_everything_wanted(config):
        return LOOPS
    if importlib.util.find_spec("uvloop") is None:
        return {"asyncio": LOOPS["asyncio"]}
    name = sorted(LOOPS)[zlib.crc32(item.nodeid.encode()) % len(LOOPS)]
    return {name: LOOPS[name]}


@pytest_asyncio.fixture
async def unhandled() -> AsyncIterator[list[dict[str, Any]]]:
    """The calls of the loop's exception handler; a test that provokes a call clears the list."""
    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    yield seen
    await _closed(asyncio.get_running_loop())
    gc.collect(1)  # futures and tasks complain at their collection
    await asyncio.sleep(0)
    assert seen == [], [str(each) for each in seen]


async def _closed(loop: asyncio.AbstractEventLoop) -> None:
    """Wait until asyncio's connections have ended.

    The far ends of those that a test has closed may notice late on a busy machine. A transport that is still open when
    the loop closes complains at its collection: in another test, which then fails. uvloop closes the transports of its
    loop.
    """
    transports = getattr(loop, "_transports", {})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            while any(transport._sock is not None for transport in list(transports.values())):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
