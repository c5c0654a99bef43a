"""Publishing through a fake router: bridges/i2cp/publisher.py and master_publication.py."""

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2cp.publication_status import I2cpPhase, PublicationStatus
from bridges.i2cp.publisher import I2cpPublisher
from bridges.i2cp.settings import I2cpSettings, RouterKind
from bridges.router_protocol import Publication
from gf_i2p.netdb.meta_lease_set import MetaLease, MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import session_config
from tests.bridges.i2cp.fake_router import PATIENT, Clock, FakeRouter, deadlines_after_the_greeting
from tests.netdb.strategies import KEYS, NOW, entropy
from tests.transport.harness import soon, until
from tests.transport.i2p.i2p_harness import taken_port

MASTER = KEYS.destination.hash
BOTH = pytest.mark.parametrize("kind", [RouterKind.I2PD, RouterKind.JAVA])
I2PD = pytest.mark.parametrize("kind", [RouterKind.I2PD])
JAVA = pytest.mark.parametrize("kind", [RouterKind.JAVA])


def lease_set(published: int = NOW, keys: DestinationKeys = KEYS, seconds: int = 3600) -> MetaLeaseSet:
    return MetaLeaseSet.build(keys, published=published, entries=[MetaLease(bytes(32), published + seconds)])


def publication(
    published: int = NOW, keys: DestinationKeys = KEYS, *, session: DestinationKeys | None = None
) -> Publication:
    return Publication(lease_set(published, keys), session_config(session or keys, published * 1000))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture
async def router(kind: RouterKind, clock: Clock) -> AsyncIterator[FakeRouter]:
    async with FakeRouter(kind, clock) as running:
        yield running


@pytest_asyncio.fixture
async def publisher(router: FakeRouter, clock: Clock) -> AsyncIterator[I2cpPublisher]:
    made = I2cpPublisher(router.settings(), clock=clock)
    yield made
    await soon(made.close())


def status(publisher: I2cpPublisher) -> PublicationStatus:
    return publisher.published(MASTER)


async def lost(publisher: I2cpPublisher) -> PublicationStatus:
    await until(lambda: not status(publisher).is_active)
    return status(publisher)


def phase(publisher: I2cpPublisher) -> I2cpPhase:
    return status(publisher).phase


def published(router: FakeRouter) -> list[int]:
    return [stored.published for stored in router.stored]


# Giving sets to the router ------------------------------------------------------------------------------------------


@BOTH
async def test_the_first_call_opens_a_session_and_answers_its_first_request(
    router: FakeRouter, publisher: I2cpPublisher
) -> None:
    assert status(publisher) == PublicationStatus()
    await soon(publisher.publish_meta_lease_set(publication()))
    assert status(publisher) == PublicationStatus(
        I2cpPhase.SENT, since=NOW, published=NOW, sets_given=1, sessions=1, kind=router.kind
    )
    await until(lambda: router.stored)
    assert router.stored == [publication().lease_set]
    assert router.log == ["hello", "destroy", "hello", "create", "store"]


@BOTH
async def test_it_waits_until_tunnels_are_built(router: FakeRouter, publisher: I2cpPublisher) -> None:
    router.ready.clear()
    call = asyncio.create_task(publisher.publish_meta_lease_set(publication()))
    await until(lambda: router.sessions)
    assert phase(publisher) is I2cpPhase.OPENING
    assert not call.done()
    assert router.stored == []
    router.ready.set()
    await soon(call)
    assert phase(publisher) is I2cpPhase.SENT


@BOTH
async def test_later_sets_go_out_unasked_in_the_same_session(
    router: FakeRouter, publisher: I2cpPublisher, clock: Clock
) -> None:
    for later in (0, 20, 450):
        clock.now = NOW + later
        await soon(publisher.publish_meta_lease_set(publication(NOW + later)))
    await until(lambda: len(router.stored) == 3)
    assert published(router) == [NOW, NOW + 20, NOW + 450]
    assert router.log.count("create") == 1
    assert status(publisher).sets_given == 3


@BOTH
async def test_the_router_gets_the_last_set_whenever_it_asks(
    router: FakeRouter, publisher: I2cpPublisher, clock: Clock
) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    await soon(publisher.publish_meta_lease_set(publication(NOW + 1)))
    for _ in range(3):
        clock.now += 100
        given = status(publisher).sets_given
        router.ask()
        await until(lambda: status(publisher).sets_given > given)  # noqa: B023 - it is called in this turn only
    await until(lambda: published(router) == [NOW] + [NOW + 1] * 4)
    assert (status(publisher).sets_given, phase(publisher)) == (5, I2cpPhase.SENT)


@BOTH
@pytest.mark.parametrize("step", [0, -1])
async def test_a_set_that_routers_would_not_keep_is_not_sent(
    router: FakeRouter, publisher: I2cpPublisher, step: int
) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    with pytest.raises(RouterRefusedError, match=f"published at {NOW + step}, and the last set at {NOW}"):
        await soon(publisher.publish_meta_lease_set(publication(NOW + step)))
    assert phase(publisher) is I2cpPhase.SENT
    router.ask()
    await until(lambda: len(router.stored) == 2)
    assert published(router) == [NOW, NOW]


@BOTH
async def test_masters_do_not_disturb_each_other(router: FakeRouter, publisher: I2cpPublisher) -> None:
    masters = [DestinationKeys.generate(entropy(seed)) for seed in (11, 12, 13)]
    await soon(asyncio.gather(*(publisher.publish_meta_lease_set(publication(NOW, keys)) for keys in masters)))
    assert len({id(session.connection) for session in router.sessions.values()}) == 3
    await soon(publisher.stop_publishing_meta_lease_set(masters[1].destination.hash))
    await until(lambda: len(router.sessions) == 2)
    assert [publisher.published(keys.destination.hash).phase for keys in masters] == [
        I2cpPhase.SENT,
        I2cpPhase.IDLE,
        I2cpPhase.SENT,
    ]
    await soon(publisher.publish_meta_lease_set(publication(NOW + 1, masters[2])))
    await until(lambda: len(router.stored) == 4)
    assert router.stored[-1].destination == masters[2].destination


@BOTH
async def test_what_is_not_for_us_is_passed_over(router: FakeRouter, publisher: I2cpPublisher) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    (number,) = router.sessions
    router.say(22, number.to_bytes(2) + bytes(11))  # MessageStatus: somebody tried to reach the master
    router.say(33, bytes(8) + b"\x060.9.65")
    router.say(20, number.to_bytes(2) + b"\x02")
    router.say(37, (number ^ 1).to_bytes(2) + b"\0")
    router.say(200, bytes(60_000))
    router.ask()
    await until(lambda: len(router.stored) == 2)
    assert phase(publisher) is I2cpPhase.SENT


@BOTH
async def test_the_kind_may_be_configured(router: FakeRouter, clock: Clock) -> None:
    publisher = I2cpPublisher(router.settings(kind=router.kind), clock=clock)
    await soon(publisher.publish_meta_lease_set(publication()))
    await until(lambda: router.stored)
    assert router.log == ["hello", "create", "store"]
    await soon(publisher.close())


# Sets that have grown old -------------------------------------------------------------------------------------------


@BOTH
async def test_an_old_set_is_not_even_begun_with(router: FakeRouter, publisher: I2cpPublisher, clock: Clock) -> None:
    clock.now += 600
    with pytest.raises(RouterRefusedError, match=r"not sent: the set.*600 s old.*Sign a fresh lease set"):
        await soon(publisher.publish_meta_lease_set(publication()))
    assert router.log == []
    assert phase(publisher) is I2cpPhase.IDLE


@BOTH
async def test_an_old_set_is_not_sent_in_a_session(router: FakeRouter, publisher: I2cpPublisher, clock: Clock) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    clock.now += 700
    with pytest.raises(RouterRefusedError, match="699 s old"):
        await soon(publisher.publish_meta_lease_set(publication(NOW + 1)))
    await soon(publisher.publish_meta_lease_set(publication(NOW + 700)))
    await until(lambda: len(router.stored) == 2)
    assert published(router) == [NOW, NOW + 700]


@BOTH
async def test_an_old_set_is_not_given_when_the_router_asks(
    router: FakeRouter, publisher: I2cpPublisher, clock: Clock
) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    unkept = asyncio.create_task(lost(publisher))
    clock.now += 600
    router.ask()
    told = await soon(unkept)
    assert (told.phase, told.since) == (I2cpPhase.STALE, NOW + 600)
    assert "600 s old" in told.reason
    assert told == status(publisher)
    await soon(publisher.publish_meta_lease_set(publication(NOW + 600)))
    await until(lambda: len(router.stored) == 2)
    assert published(router) == [NOW, NOW + 600]
    assert (phase(publisher), status(publisher).reason) == (I2cpPhase.SENT, "")
    assert router.log.count("create") == 1


@BOTH
async def test_who_is_not_sure_to_be_the_publisher_gives_nothing_when_the_router_asks(
    router: FakeRouter, publisher: I2cpPublisher
) -> None:
    sure = True
    await soon(publisher.publish_meta_lease_set(replace(publication(), may_give=lambda: sure)))
    unkept = asyncio.create_task(lost(publisher))
    sure = False
    router.ask()
    told = await soon(unkept)
    assert told.phase is I2cpPhase.STALE
    assert "not sure to be the publisher" in told.reason
    await until(lambda: router.stored)
    assert published(router) == [NOW]


@I2PD
async def test_i2pd_hangs_up_when_it_gets_nothing(router: FakeRouter, publisher: I2cpPublisher, clock: Clock) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    await until(lambda: router.stored)
    clock.now += 600
    router.patience = 0.1
    router.ask()
    await until(lambda: phase(publisher) is I2cpPhase.LOST)
    assert "hung up: the router stops, or refuses a message" in status(publisher).reason


# Sessions that end --------------------------------------------------------------------------------------------------


@BOTH
async def test_a_lost_session_is_noticed_and_the_next_call_opens_another(
    router: FakeRouter, publisher: I2cpPublisher, clock: Clock
) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    await until(lambda: router.stored)
    unkept = asyncio.create_task(lost(publisher))
    clock.now += 300
    await router.stop()
    assert (await soon(unkept)).phase is I2cpPhase.LOST
    with pytest.raises(RouterUnreachableError, match="does not answer"):
        await soon(publisher.publish_meta_lease_set(publication(NOW + 300)))
    assert "does not answer (Connection refused)" in status(publisher).reason
    await router.start()
    await soon(publisher.publish_meta_lease_set(publication(NOW + 300)))
    await until(lambda: len(router.stored) == 2)
    assert published(router) == [NOW, NOW + 300]
    (session,) = router.sessions.values()
    assert session.config.date_ms == (NOW + 300) * 1000
    assert status(publisher).sessions == 2


@BOTH
async def test_a_new_session_may_have_the_same_set_again_but_no_older_one(
    router: FakeRouter, publisher: I2cpPublisher
) -> None:
    await soon(publisher.publish_meta_lease_set(publication(NOW)))
    await until(lambda: router.stored)
    router.hang_up()
    await soon(lost(publisher))
    with pytest.raises(RouterRefusedError, match="the last set"):
        await soon(publisher.publish_meta_lease_set(publication(NOW - 1)))
    await soon(publisher.publish_meta_lease_set(publication(NOW)))
    await until(lambda: published(router) == [NOW, NOW])


@BOTH
async def test_a_connection_that_breaks_under_a_call_loses_the_session(
    router: FakeRouter, publisher: I2cpPublisher
) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    session = publisher._masters[MASTER]._session
    assert session is not None
    session.connection.close()  # and nobody has noticed yet
    with pytest.raises(RouterUnreachableError, match="hung up: the router stops"):
        await soon(publisher.publish_meta_lease_set(publication(NOW + 1)))
    assert (phase(publisher), status(publisher).published) == (I2cpPhase.LOST, NOW)
    await soon(publisher.publish_meta_lease_set(publication(NOW + 1)))
    assert phase(publisher) is I2cpPhase.SENT


@JAVA
async def test_a_reason_is_passed_on(router: FakeRouter, publisher: I2cpPublisher) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    reason = b"Invalid leaseset: Signature verification failed"
    router.say(30, bytes([len(reason)]) + reason)
    told = await soon(lost(publisher))
    assert told.phase is I2cpPhase.LOST
    assert reason.decode() in told.reason
    assert "check the clocks" in told.reason


@I2PD
async def test_a_destroyed_session_is_lost(router: FakeRouter, publisher: I2cpPublisher) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    (number,) = router.sessions
    router.say(20, number.to_bytes(2) + b"\0")
    assert "ended the session" in (await soon(lost(publisher))).reason


@BOTH
async def test_a_broken_message_ends_the_session(router: FakeRouter, publisher: I2cpPublisher) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    router.say(20, b"\0")
    assert "type 20 ends after 1 bytes" in (await soon(lost(publisher))).reason
    await until(lambda: not router.sessions)


@I2PD
async def test_i2pd_taken_for_java_drops_the_set_and_hangs_up(router: FakeRouter, clock: Clock) -> None:
    publisher = I2cpPublisher(router.settings(kind=RouterKind.JAVA), clock=clock)
    await soon(publisher.publish_meta_lease_set(publication()))
    await until(lambda: router.log[-1] == "swallow")
    router.lose_patience()
    assert (await soon(lost(publisher))).phase is I2cpPhase.LOST
    assert router.log == ["hello", "create", "swallow"]
    await soon(publisher.close())


@JAVA
async def test_java_taken_for_i2pd_reads_garbage_at_the_next_set(router: FakeRouter, clock: Clock) -> None:
    publisher = I2cpPublisher(router.settings(kind=RouterKind.I2PD), clock=clock)
    await soon(publisher.publish_meta_lease_set(publication()))
    await soon(publisher.publish_meta_lease_set(publication(NOW + 1)))
    told = await soon(lost(publisher))
    assert (told.phase, router.log[-1]) == (I2cpPhase.LOST, "garbage")
    assert published(router) == [NOW]
    await soon(publisher.close())


@BOTH
async def test_a_defect_of_ours_is_no_secret(
    router: FakeRouter, publisher: I2cpPublisher, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    monkeypatch.setattr(MetaLeaseSet, "objection", lambda *_: 1 / 0)
    router.ask()
    told = await soon(lost(publisher))
    assert told.phase is I2cpPhase.LOST
    assert "ZeroDivisionError" in told.reason


# Stopping -----------------------------------------------------------------------------------------------------------


@BOTH
async def test_stopping_ends_the_session_at_the_router(router: FakeRouter, publisher: I2cpPublisher) -> None:
    await soon(publisher.publish_meta_lease_set(publication()))
    await soon(publisher.stop_publishing_meta_lease_set(MASTER))
    assert router.log[-1] == "destroy"
    assert router.sessions == {}
    assert phase(publisher) is I2cpPhase.IDLE
    assert (await soon(lost(publisher))).phase is I2cpPhase.IDLE
    await soon(publisher.publish_meta_lease_set(publication(NOW + 1)))
    await until(lambda: published(router) == [NOW, NOW + 1])


@BOTH
async def test_stopping_what_is_not_published_does_nothing(router: FakeRouter, publisher: I2cpPublisher) -> None:
    await soon(publisher.stop_publishing_meta_lease_set(MASTER))
    await soon(publisher.publish_meta_lease_set(publication()))
    await soon(publisher.stop_publishing_meta_lease_set(MASTER))
    await soon(publisher.stop_publishing_meta_lease_set(MASTER))
    assert router.log.count("destroy") == 2  # the probe's, and the session's


@BOTH
async def test_stopping_does_not_wait_for_tunnels(router: FakeRouter, publisher: I2cpPublisher) -> None:
    router.ready.clear()
    first = asyncio.create_task(publisher.publish_meta_lease_set(publication()))
    second = asyncio.create_task(publisher.publish_meta_lease_set(publication(NOW + 1)))
    await until(lambda: router.sessions)
    await soon(publisher.stop_publishing_meta_lease_set(MASTER))
    for call in (first, second):
        with pytest.raises(RouterError, match="stopped"):
            await soon(call)
    assert phase(publisher) is I2cpPhase.IDLE
    await until(lambda: not router.sessions)
    assert router.log.count("create") == 1


@BOTH
async def test_closing_ends_all_sessions_for_good(router: FakeRouter, publisher: I2cpPublisher) -> None:
    masters = [DestinationKeys.generate(entropy(seed)) for seed in (11, 12)]
    for keys in masters:
        await soon(publisher.publish_meta_lease_set(publication(NOW, keys)))
    await soon(publisher.close())
    assert router.sessions == {}
    assert router.log.count("destroy") == 4
    with pytest.raises(RouterError, match="closed"):
        await soon(publisher.publish_meta_lease_set(publication()))


@BOTH
async def test_a_call_that_is_given_up_leaves_no_session(router: FakeRouter, publisher: I2cpPublisher) -> None:
    router.ready.clear()
    call = asyncio.create_task(publisher.publish_meta_lease_set(publication()))
    await until(lambda: router.sessions)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(call)
    assert (phase(publisher), status(publisher).reason) == (I2cpPhase.LOST, "the attempt was given up")
    await until(lambda: not router.sessions)


@I2PD
async def test_a_router_that_does_not_hang_up_is_hung_up_on(router: FakeRouter, clock: Clock) -> None:
    router.deaf = {3}
    quick = replace(PATIENT, goodbye=0.1)
    publisher = I2cpPublisher(router.settings(kind=RouterKind.I2PD, deadlines=quick), clock=clock)
    await soon(publisher.publish_meta_lease_set(publication()))
    await soon(publisher.close())
    await until(lambda: not router.sessions)


# Too late -----------------------------------------------------------------------------------------------------------


@BOTH
async def test_tunnels_that_are_never_built_end_the_call_and_the_session(router: FakeRouter, clock: Clock) -> None:
    router.ready.clear()
    publisher = I2cpPublisher(router.settings(deadlines=replace(PATIENT, tunnels=0.1)), clock=clock)
    with pytest.raises(RouterUnreachableError, match=r"within 0\.1 s: the tunnels are not built"):
        await soon(publisher.publish_meta_lease_set(publication()))
    assert router.log[-1] == "destroy"
    assert phase(publisher) is I2cpPhase.LOST


@BOTH
async def test_a_router_that_does_not_say_whether_it_opens_a_session(
    router: FakeRouter, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines_after_the_greeting(monkeypatch)
    router.deaf = {1}
    settings = router.settings(kind=router.kind, deadlines=replace(PATIENT, answer=0.2))
    publisher = I2cpPublisher(settings, clock=clock)
    with pytest.raises(RouterUnreachableError, match=r"did not say within 0\.2 s"):
        await soon(publisher.publish_meta_lease_set(publication()))


@BOTH
async def test_a_set_that_expires_while_tunnels_are_built_is_not_sent(
    router: FakeRouter, publisher: I2cpPublisher, clock: Clock
) -> None:
    router.ready.clear()
    short = Publication(lease_set(seconds=60), publication().session)
    call = asyncio.create_task(publisher.publish_meta_lease_set(short))
    await until(lambda: router.sessions)
    clock.now += 60
    router.ready.set()
    with pytest.raises(RouterRefusedError, match="the set has expired"):
        await soon(call)
    assert phase(publisher) is I2cpPhase.LOST
    assert router.stored == []
    assert router.log[-1] == "destroy"


async def test_nothing_is_left_behind_when_there_is_no_router(clock: Clock) -> None:
    with taken_port() as sock:
        publisher = I2cpPublisher(I2cpSettings(port=sock.getsockname()[1]), clock=clock)
        with pytest.raises(RouterUnreachableError, match=r"\[i2cp\] enabled = true"):
            await soon(publisher.publish_meta_lease_set(publication()))
    gc.collect()
    await soon(publisher.close())
    assert publisher.published(MASTER).sessions == 0
