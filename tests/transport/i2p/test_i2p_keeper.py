"""The session that brings streams: made, watched, and made again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.i2p.i2p_listener import I2pListener, SessionPauses
from gf_i2p.transport.stream_protocol import StreamProtocol
from tests.transport.harness import hang_up, soon, until
from tests.transport.i2p.i2p_harness import PEER, PLACE, Inbound, OutOfOrderError

pytestmark = pytest.mark.usefixtures("unhandled")

FAST = {"retry_floor": 0.001, "retry_ceiling": 0.002, "check": 0.001, "check_again": 0.001, "patience": 1000.0}


class Stranger(StreamProtocol):
    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def connection_lost(self, exc: Exception | None) -> None:
        self._admission.closed()


class KeptListener:
    """A listener with a keeper, and the keeper's log lines."""

    def __init__(self, listener: I2pListener, lines: list[Any]) -> None:
        self.listener = listener
        self._lines = lines

    @property
    def reports(self) -> list[str]:
        """Give the reasons of complaints, and "reachable"."""
        return [
            line.get("reason", "reachable" if line["event"] == "reachable through I2P" else line["event"])
            for line in self._lines
            if line["event"] != "connection refused"
        ]

    async def stream(self) -> None:
        """Open a stream to the listener, and close the stream."""
        _, writer = await soon(asyncio.open_connection("127.0.0.1", self.port))
        writer.write(PEER.base64.encode() + b"\n")
        await soon(writer.drain())
        await until(self.listener._arrived.is_set)
        await hang_up(writer)

    @property
    def port(self) -> int:
        return int(self.listener.addresses[0].rpartition(":")[2])


@contextlib.asynccontextmanager
async def kept_listener(inbound: Inbound, **pauses: float) -> AsyncIterator[KeptListener]:
    gate = Gate()
    with capture_logs() as lines:
        listener = await I2pListener.open(
            inbound, "127.0.0.1", 0, Stranger, gate, pauses=SessionPauses(**{**FAST, **pauses})
        )
        try:
            yield KeptListener(listener, lines)
        finally:
            listener.close()
            await soon(asyncio.wait([listener._keeper]))
            assert not inbound.is_open
            assert not inbound.doing
            gate.close()
            await until(lambda: not gate.counters.unauthenticated)


def watched(inbound: Inbound, count: int) -> bool:
    """Whether `count` sessions were opened, and the keeper waits for the end of the last one."""
    return len(inbound.opened) == count and "ended" in inbound.doing


async def test_the_session_brings_streams_to_the_listeners_port() -> None:
    inbound = Inbound()
    async with kept_listener(inbound) as keeper:
        await until(lambda: keeper.reports)
        assert inbound.opened == [("127.0.0.1", keeper.port)]
        assert keeper.reports == ["reachable"]
        assert keeper._lines[0]["address"] == PLACE.host


async def test_listening_does_not_wait_for_the_router() -> None:
    inbound = Inbound()
    inbound.may_open.clear()
    async with kept_listener(inbound) as keeper:
        await keeper.stream()
        await until(lambda: inbound.doing == {"open"})
        assert keeper.reports == []


async def test_a_session_that_has_ended_is_made_again() -> None:
    inbound = Inbound()
    async with kept_listener(inbound) as keeper:
        for number in range(1, 4):
            await until(lambda: watched(inbound, number))  # noqa: B023
            await until(lambda: keeper.reports[-1:] == ["reachable"])
            inbound.end()
        await until(lambda: watched(inbound, 4))
        await until(lambda: keeper.reports[-1:] == ["reachable"])
    ended = "the router has ended the node's session: a new one is made"
    assert keeper.reports == ["reachable", *[ended, "reachable"] * 3]


@pytest.mark.parametrize("attribute", ["open_error", "look_error", "end_error"])
async def test_a_failure_is_complained_of_once_and_tried_again(attribute: str) -> None:
    inbound = Inbound()
    inbound.is_published = False
    setattr(inbound, attribute, OutOfOrderError("the router is out of order: check it"))
    async with kept_listener(inbound) as keeper:
        await until(lambda: len(inbound.opened) > 5)
        assert keeper.reports == ["the router is out of order: check it"]
        setattr(inbound, attribute, OutOfOrderError("it is stopping"))
        await until(lambda: len(keeper.reports) == 2)
        tried = len(inbound.opened)
        await until(lambda: len(inbound.opened) > tried + 5)
        inbound.is_published = True
        setattr(inbound, attribute, None)
        await until(lambda: keeper.reports[-1] == "reachable")
        assert keeper.reports == ["the router is out of order: check it", "it is stopping", "reachable"]


async def test_the_same_failure_later_is_another_complaint() -> None:
    inbound = Inbound()
    inbound.open_error = OutOfOrderError("out of order")
    async with kept_listener(inbound) as keeper:
        await until(lambda: keeper.reports)
        inbound.open_error = None
        await until(lambda: keeper.reports[-1] == "reachable")
        inbound.open_error = OutOfOrderError("out of order")
        inbound.end()
        await until(lambda: keeper.reports[-1] == "out of order")
    assert keeper.reports == [
        "out of order",
        "reachable",
        "the router has ended the node's session: a new one is made",
        "out of order",
    ]


async def test_a_defect_is_shown_and_the_session_made_again() -> None:
    inbound = Inbound()
    inbound.open_error = ZeroDivisionError("a defect of ours")
    async with kept_listener(inbound) as keeper:
        await until(lambda: len(inbound.opened) >= 3)
        inbound.open_error = None
        await until(lambda: keeper.reports[-1] == "reachable")
    assert keeper.reports[0] == "a defect ended the I2P session"
    assert keeper._lines[0]["exc_info"]


# --- Sessions with an address that nobody finds -----------------------------------------------------------


def unpublished(seconds: str) -> str:
    return f"the router has not published the address within {seconds} s: a new session is made"


async def test_a_session_that_is_not_published_is_made_again_with_more_patience_each_time() -> None:
    inbound = Inbound()
    inbound.is_published = False
    async with kept_listener(inbound, patience=0.002, max_patience=0.01) as keeper:
        await until(lambda: len(inbound.opened) >= 6)
        assert keeper.reports == [unpublished(seconds) for seconds in ("0.002", "0.004", "0.008", "0.01")]
        inbound.is_published = True
        await until(lambda: keeper.reports[-1] == "reachable")
        await until(lambda: watched(inbound, len(inbound.opened)))
        inbound.is_published = False
        await until(lambda: unpublished("0.004") in keeper.reports[4:])
    # Patience is short again after the set was seen.
    assert keeper.reports[4:7] == ["reachable", unpublished("0.002"), unpublished("0.004")]


async def test_nobody_is_told_that_we_are_reachable_before_we_are() -> None:
    inbound = Inbound()
    inbound.is_published = False
    async with kept_listener(inbound) as keeper:
        await until(lambda: inbound.looks >= 5)
        assert keeper.reports == []
        inbound.is_published = True
        await until(lambda: keeper.reports)
        assert keeper.reports == ["reachable"]
        assert len(inbound.opened) == 1


async def test_a_stream_that_comes_shows_that_we_are_published() -> None:
    inbound = Inbound()
    inbound.is_published = False
    async with kept_listener(inbound) as keeper:
        await until(lambda: inbound.looks)
        await keeper.stream()
        await until(lambda: inbound.doing == {"ended"})
        assert keeper.reports == ["reachable"]
        looks = inbound.looks
        inbound.end()
        await until(lambda: watched(inbound, 2))
        # No look-up has found the new session yet.
        await until(lambda: inbound.looks > looks + 3)
        assert keeper.reports == ["reachable", "the router has ended the node's session: a new one is made"]


async def test_a_stream_that_comes_while_we_look_shows_that_we_are_published() -> None:
    inbound = Inbound()
    inbound.is_published = False
    inbound.may_look.clear()
    async with kept_listener(inbound, patience=0.001) as keeper:
        await until(lambda: inbound.doing == {"ended", "published"})
        await keeper.stream()
        await until(lambda: inbound.doing == {"ended"})
        assert keeper.reports == ["reachable"]
        assert len(inbound.opened) == 1


async def test_a_session_that_ends_while_we_look_is_made_again_at_once() -> None:
    inbound = Inbound()
    inbound.may_look.clear()
    async with kept_listener(inbound) as keeper:
        await until(lambda: inbound.doing == {"ended", "published"})
        inbound.end()
        await until(lambda: watched(inbound, 2))
        assert keeper.reports == ["the router has ended the node's session: a new one is made"]


class Slow(Inbound):
    """Answers a question about the lease set when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: asyncio.Queue[bool] = asyncio.Queue()

    async def published(self) -> bool:
        self.looks += 1
        return await self.answers.get()


async def test_a_look_that_takes_longer_than_our_patience_is_not_the_last() -> None:
    # Asking the floodfills may take a minute; the next look finds a set that was published meanwhile.
    inbound = Slow()
    loop = asyncio.get_running_loop()
    async with kept_listener(inbound, patience=0.005) as keeper:
        await until(lambda: inbound.looks == 1)
        began = loop.time()
        await until(lambda: loop.time() > began + 0.01)
        inbound.answers.put_nowait(False)
        await until(lambda: inbound.looks == 2)
        assert len(inbound.opened) == 1
        inbound.answers.put_nowait(False)
        await until(lambda: len(inbound.opened) == 2)
        assert keeper.reports == [unpublished("0.005")]


async def test_what_was_found_once_is_looked_for_again_until_a_stream_comes() -> None:
    # The lease set may be a leftover from an earlier session, for as long as the leases live.
    inbound = Inbound()
    async with kept_listener(inbound, patience=0.002) as keeper:
        await until(lambda: inbound.looks >= 3)
        inbound.is_published = False
        await until(lambda: watched(inbound, 2))
        assert keeper.reports[:2] == ["reachable", unpublished("0.002")]


# --- The end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "phase", ["before anything", "opening", "looking", "between two looks", "found", "visited", "waiting to try again"]
)
async def test_the_end_leaves_nothing_behind(phase: str) -> None:
    inbound = Inbound()
    if phase == "opening":
        inbound.may_open.clear()
    elif phase == "looking":
        inbound.may_look.clear()
    elif phase == "between two looks":
        inbound.is_published = False
    elif phase == "waiting to try again":
        inbound.open_error = OutOfOrderError("out of order")
    slow = {"retry_floor": 1000.0, "retry_ceiling": 1000.0, "check": 1000.0, "check_again": 1000.0}
    before = asyncio.all_tasks()
    async with kept_listener(inbound, **slow) as keeper:
        if phase != "before anything":
            await until(lambda: inbound.opened)
        if phase in {"looking", "between two looks", "found", "visited"}:
            await until(lambda: inbound.looks)
        if phase == "visited":
            await keeper.stream()
            await until(lambda: inbound.doing == {"ended"})
        if phase == "waiting to try again":
            await until(lambda: keeper.reports)
        opened = len(inbound.opened)
        keeper.listener.close()
        await soon(asyncio.wait([keeper.listener._keeper]))
        assert asyncio.all_tasks() == before
        assert len(inbound.opened) == opened
        with pytest.raises(OSError, match=r"\[Errno 111\]|refused"):
            await asyncio.open_connection("127.0.0.1", keeper.port)
        keeper.listener.close()  # again does no harm


class Stubborn(Inbound):
    """A session that is slow to cancel."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelling = False
        self.let_go = asyncio.Event()

    async def ended(self) -> None:
        try:
            await super().ended()
        except asyncio.CancelledError:
            self.cancelling = True
            await self.let_go.wait()
            raise


async def test_the_end_counts_also_in_the_moment_when_a_session_is_given_up() -> None:
    inbound = Stubborn()
    inbound.is_published = False
    async with kept_listener(inbound, patience=0.001) as keeper:
        await until(lambda: inbound.cancelling)
        keeper.listener.close()
        inbound.let_go.set()
        await soon(asyncio.wait([keeper.listener._keeper]))
        assert len(inbound.opened) == 1


async def test_streams_live_on_when_the_listener_is_closed() -> None:
    inbound = Inbound()
    async with kept_listener(inbound) as keeper:
        reader, writer = await soon(asyncio.open_connection("127.0.0.1", keeper.port))
        writer.write(PEER.base64.encode() + b"\n")
        await until(keeper.listener._arrived.is_set)
        keeper.listener.close()
        await soon(asyncio.wait([keeper.listener._keeper]))
        assert not reader.at_eof()
        await hang_up(writer)
