"""A SAM session as the source of a listener's streams."""

import asyncio
import contextlib

import pytest
from structlog.testing import capture_logs

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2cp.settings import RouterKind
from bridges.sam.inbound_session import SamInbound
from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.i2p.i2p_listener import I2pListener, Inbound, SessionPauses
from gf_i2p.transport.stream_protocol import StreamProtocol
from tests.bridges.i2cp.fake_router import FakeRouter
from tests.bridges.sam.scripted_sam import HANG_UP, KEYS, REPLIES, SILENCE, scripted
from tests.transport.harness import hang_up, soon, until
from tests.transport.i2p.i2p_harness import PEER

FAST = SessionPauses(retry_floor=0.001, retry_ceiling=0.002, check=0.001, check_again=0.001)


async def test_it_is_what_a_listener_asks_for() -> None:
    async with scripted() as there:
        inbound: Inbound = SamInbound(there.sam, KEYS, settle=0.0)
        assert inbound.names_peers
        assert issubclass(RouterError, inbound.failure)


async def test_it_has_streams_brought_to_the_port() -> None:
    async with scripted() as there:
        inbound = SamInbound(there.sam, KEYS, {"inbound.length": "1"}, settle=0.0)
        assert await inbound.open("127.0.0.3", 4150) == KEYS.destination.b32
        create, forward = there.heard
        assert f" DESTINATION={KEYS.base64} " in create
        assert create.endswith(" inbound.length=1")
        assert forward.endswith(" PORT=4150 HOST=127.0.0.3 SILENT=false")
        assert there.connection("STREAM FORWARD").address == "127.0.0.3"
        assert forward.split()[2] == create.split()[3], "of the same session"
        inbound.close()


async def test_the_first_session_waits_for_the_end_of_one_before() -> None:
    async with scripted(NAMING_LOOKUP=REPLIES["lookup"]) as there:
        inbound = SamInbound(there.sam, KEYS, settle=3600.0)
        opening = asyncio.ensure_future(inbound.open("127.0.0.1", 4150))
        await until(lambda: there.heard == [f"NAMING LOOKUP NAME={KEYS.destination.b32}"])
        await until(lambda: there.connections[0].gone)
        assert not opening.done()
        opening.cancel()
        inbound.close()


async def test_it_does_not_wait_for_long() -> None:
    async with scripted(NAMING_LOOKUP=SILENCE) as there:
        inbound = SamInbound(there.sam, KEYS, settle=0.01)
        for _ in range(2):
            await inbound.open("127.0.0.1", 4150)
        looks = [line for line in there.heard if line.startswith("NAMING LOOKUP")]
        assert len(looks) <= 1, "only before the first session"
        inbound.close()


async def test_it_does_not_wait_when_there_was_none() -> None:
    async with scripted(NAMING_LOOKUP=REPLIES["lookup of nobody"]) as there:
        inbound = SamInbound(there.sam, KEYS, settle=3600.0)
        await soon(inbound.open("127.0.0.1", 4150))
        inbound.close()


@pytest.mark.parametrize(("reply", "expected"), [("lookup", True), ("lookup of nobody", False)])
async def test_it_is_published_when_its_address_is_found(reply: str, expected: bool) -> None:
    async with scripted(NAMING_LOOKUP=REPLIES[reply]) as there:
        assert await SamInbound(there.sam, KEYS).published() is expected
        assert there.heard == [f"NAMING LOOKUP NAME={KEYS.destination.b32}"]


async def test_i2cp_tells_whether_the_lease_set_is_current_whatever_the_cache_of_names_says() -> None:
    async with scripted(NAMING_LOOKUP=REPLIES["lookup"]) as there, FakeRouter(RouterKind.I2PD) as router:
        inbound = SamInbound(there.sam, KEYS, i2cp=router.settings())
        assert not await soon(inbound.published())
        router.netdb[KEYS.destination.hash] = KEYS.destination
        assert await soon(inbound.published())
        assert not there.heard


async def test_without_i2cp_the_names_must_do() -> None:
    async with scripted(NAMING_LOOKUP=REPLIES["lookup"]) as there, FakeRouter(RouterKind.I2PD) as router:
        settings = router.settings()
        await router.stop()
        assert await soon(SamInbound(there.sam, KEYS, i2cp=settings).published())


async def test_a_router_that_cannot_look_says_so() -> None:
    async with scripted(NAMING_LOOKUP=HANG_UP) as there:
        with pytest.raises(RouterUnreachableError):
            await SamInbound(there.sam, KEYS).published()


@pytest.mark.parametrize("verb", ["SESSION CREATE", "STREAM FORWARD"])
async def test_it_ends_with_each_of_its_connections(verb: str) -> None:
    async with scripted() as there:
        inbound = SamInbound(there.sam, KEYS, settle=0.0)
        await inbound.open("127.0.0.1", 4150)
        ended = asyncio.ensure_future(inbound.ended())
        await asyncio.sleep(0)
        assert not ended.done()
        there.connection(verb).writer.close()
        await soon(ended)
        inbound.close()


async def test_closing_ends_it_and_it_may_be_opened_again() -> None:
    async with scripted() as there:
        inbound = SamInbound(there.sam, KEYS, settle=0.0)
        inbound.close()  # nothing is open: nothing happens
        for number in range(1, 4):
            await inbound.open("127.0.0.1", 4150)
            inbound.close()
            await until(lambda: all(connection.gone for connection in there.connections))
            assert len(there.connections) == 2 * number
        inbound.close()


async def test_opening_again_ends_the_session_before() -> None:
    async with scripted() as there:
        inbound = SamInbound(there.sam, KEYS, settle=0.0)
        await inbound.open("127.0.0.1", 4150)
        before = list(there.connections)
        await inbound.open("127.0.0.1", 4150)
        await until(lambda: all(connection.gone for connection in before))
        assert not any(connection.gone for connection in there.connections[2:])
        inbound.close()


@pytest.mark.parametrize("verb", ["SESSION CREATE", "STREAM FORWARD"])
async def test_a_session_that_cannot_be_opened_leaves_nothing_when_closed(verb: str) -> None:
    async with scripted(**{verb: REPLIES["id with a mark"]}) as there:
        inbound = SamInbound(there.sam, KEYS, settle=0.0)
        with pytest.raises(RouterRefusedError):
            await inbound.open("127.0.0.1", 4150)
        inbound.close()
        await until(lambda: all(connection.gone for connection in there.connections))


@pytest.mark.parametrize("verb", ["HELLO VERSION", "SESSION CREATE", "STREAM FORWARD"])
async def test_a_session_that_is_given_up_while_it_is_opened_leaves_nothing(verb: str) -> None:
    async with scripted(**{verb: SILENCE}) as there:
        inbound = SamInbound(there.sam, KEYS, settle=0.0)
        opening = asyncio.ensure_future(inbound.open("127.0.0.1", 4150))
        await until(lambda: any(connection.verb == verb for connection in there.connections))
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
        inbound.close()
        await until(lambda: all(connection.gone for connection in there.connections))


# --- Under a listener -------------------------------------------------------------------------------------


class Visitor(StreamProtocol):
    def __init__(self, admission: Admission) -> None:
        self.admission = admission

    def connection_lost(self, exc: Exception | None) -> None:
        self.admission.closed()


async def test_a_listener_outlives_the_router() -> None:
    visitors: list[Visitor] = []

    def visited(admission: Admission) -> Visitor:
        visitors.append(Visitor(admission))
        return visitors[-1]

    async with scripted() as there:
        gate = Gate()
        with capture_logs() as lines:

            def said(count: int) -> list[str]:
                return [line.get("reason", line["event"]) for line in lines if line["event"] != "connection refused"][
                    -count:
                ]

            listener = await I2pListener.open(
                SamInbound(there.sam, KEYS, settle=0.0), "127.0.0.1", 0, visited, gate, pauses=FAST
            )
            await until(lambda: said(1) == ["reachable through I2P"])
            port = int(there.connection("STREAM FORWARD").heard[-1].split(" PORT=")[1].split()[0])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{PEER.base64}\n".encode())
            await until(lambda: visitors)
            assert visitors[0].admission.remote == PEER.b32
            await hang_up(writer)

            await there.stop()
            await until(lambda: "does not answer (Connection refused)" in said(1)[0])
            await there.start(there.sam.port)
            await until(lambda: said(1) == ["reachable through I2P"])
            assert " ".join(said(3)).startswith("the router has ended the node's session")
            assert there.connection("STREAM FORWARD").heard[-1].split(" PORT=")[1].split()[0] == str(port)

            listener.close()
            with contextlib.suppress(asyncio.CancelledError):
                await listener._keeper
            gate.close()
