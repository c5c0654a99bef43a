"""Every asynchronous test of bridges runs on both event loops, and none leaves an exception to the loop's handler."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.loops import pytest_asyncio_loop_factories, unhandled

__all__ = ["pytest_asyncio_loop_factories", "unhandled"]


@pytest_asyncio.fixture(autouse=True)
async def _nothing_unhandled(unhandled: list[dict[str, Any]]) -> AsyncIterator[None]:
    yield
