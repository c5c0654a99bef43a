"""A dead destination beside Java I2P: SAM finds the name for ever, and a stream is tried for minutes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Final, TypeVar

import pytest
import pytest_asyncio

from bridges.errors import RouterRefusedError
from bridges.i2cp.settings import I2cpSettings
from bridges.sam import destination_sensing
from bridges.sam.client import LOOKUP_SECONDS, SESSION_SECONDS
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.bridges.sam.java_sam import RECORDED, JavaSam, java_sam
from tests.bridges.sam.scripted_sam import KEYS
from tests.transport.harness import soon

T = TypeVar("T")
LEAF: Final = DestinationKeys.generate().destination
YEAR: Final = 365 * 86_400.0


@pytest_asyncio.fixture
async def java() -> AsyncIterator[JavaSam]:
    """A SAM that has found a destination, which has died since."""
    async with java_sam() as sam:
        sam.living[LEAF.b32] = LEAF
        assert await _in_time(sam, sam.sam.lookup(LEAF.b32)) == LEAF
        del sam.living[LEAF.b32]
        yield sam


async def _in_time(java: JavaSam, call: Awaitable[T]) -> T:
    """Let Java's time pass until the call has its answer."""
    task = asyncio.ensure_future(call)
    while not task.done():
        java.clock.advance(1.0)
        await asyncio.sleep(0.001)
    return await soon(task)


async def test_a_name_that_was_found_once_is_found_for_ever(java: JavaSam) -> None:
    java.clock.advance(YEAR)
    assert await _in_time(java, java.sam.lookup(LEAF.b32)) == LEAF
    other = DestinationKeys.generate().destination
    assert await _in_time(java, java.sam.lookup(other.b32)) is None
    assert RECORDED["lookup of the dead"].seconds < 1 < RECORDED["lookup of nobody"].seconds < LOOKUP_SECONDS


async def test_a_stream_to_the_dead_is_refused_after_minutes(java: JavaSam) -> None:
    session = await java.sam.session(KEYS)
    began = java.clock.now
    with pytest.raises(RouterRefusedError, match="said CANT_REACH_PEER"):
        await _in_time(java, session.connect(LEAF.b32))
    assert java.clock.now - began >= RECORDED["connect to the dead"].seconds > SESSION_SECONDS
    session.close()


async def test_sensing_of_the_dead_ends_at_its_own_limit_and_blames_no_router(
    java: JavaSam, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert destination_sensing.ANSWER_SECONDS < SESSION_SECONDS, "later the own router would be blamed"

    async def is_current(_settings: I2cpSettings, _hash: bytes) -> bool:
        return True

    monkeypatch.setattr(destination_sensing, "has_lease_set", is_current)
    measured = await soon(destination_sensing.measure(java.sam, I2cpSettings(), LEAF.hash, seconds=0.05))
    assert (measured.connect_seconds, measured.error) == (None, "no stream opened within 0.05 s")
    assert java.connection("STREAM CONNECT").heard[-1].split()[3] == f"DESTINATION={LEAF.b32}"
