"""Meta lease sets over I2CP, through real i2pd routers to floodfills: bridges/i2cp/."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import pytest

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2cp.publication_status import I2cpPhase, PublicationStatus
from bridges.i2cp.publisher import I2cpPublisher
from bridges.i2cp.router_kind import router_kind
from bridges.i2cp.settings import I2cpSettings, RouterKind
from bridges.router_protocol import Publication
from gf_i2p.netdb.meta_lease_set import STORE_TYPE, MetaLease, MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import session_config
from integration.harness.local_farm import NotSeenError, becomes, until
from integration.testnet.router import I2CP_PORT, SAM_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

pytestmark = pytest.mark.timeout(1500)

FLOODFILLS: Final = 3
"""Floodfills that must hold a set. i2pd gives a set to one floodfill, which passes the set on to at most three."""
RESEND_SECONDS: Final = 20.0
"""Seconds between two sets. i2pd does not repeat a failed try, so the node sends a fresher set."""
TRIES: Final = 18
"""Sets to send, for six minutes in all. A router builds tunnels first, and a neighbour's tunnel may lead nowhere."""
START_SECONDS: Final = 240.0
"""Time for a started router to listen, on a busy machine."""
DAY: Final = 86_400

Figure = Callable[[str, float], None]


@pytest.fixture
def figure(record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]) -> Figure:
    """Keeps and prints a number for the report."""

    def keep(what: str, value: float) -> None:
        record_property(what, round(value, 2))
        with capsys.disabled():
            print(f"\n  {what}: {value:.4g}", flush=True)

    return keep


def settings(router: RouterPlace) -> I2cpSettings:
    return I2cpSettings(router.address, I2CP_PORT, allow_plain=True)


async def lost(publisher: I2cpPublisher, master: DestinationKeys, seconds: float) -> PublicationStatus:
    """Wait until the publisher has noticed that the router does not keep the set any more."""
    hash_ = master.destination.hash
    await becomes("the session is lost", lambda: not publisher.published(hash_).is_active, seconds)
    return publisher.published(hash_)


@asynccontextmanager
async def publishing(router: RouterPlace) -> AsyncIterator[I2cpPublisher]:
    publisher = I2cpPublisher(settings(router))
    try:
        yield publisher
    finally:
        await publisher.close()


class I2cpMaster:
    """A master that publishes ever later sets until floodfills hold one."""

    def __init__(
        self, network: RouterNetwork, publisher: I2cpPublisher, keys: DestinationKeys, session: bytes = b""
    ) -> None:
        self._network = network
        self._publisher = publisher
        self._keys = keys
        self._session = session
        self._published = 0
        self.tries = 0
        """Number of sets until the last set was seen."""
        self.refused = 0
        """Number of sessions that ended before the router took a set."""

    def publication(self, seconds: int) -> Publication:
        """Make a set that ends after `seconds`. The session config is fresh, too, unless one was given."""
        now = time.time()
        self._published = max(int(now), self._published + 1)
        entries = [MetaLease(bytes([leaf]) * 32, self._published + seconds, cost=leaf) for leaf in (1, 2, 3)]
        lease_set = MetaLeaseSet.build(self._keys, published=self._published, entries=entries)
        return Publication(lease_set, self._session or session_config(self._keys, int(now * 1000)))

    async def is_taken(self) -> bool:
        """Publish one set; return whether the router took the set. Sessions without a taken set are counted."""
        publication = self.publication(7200)
        master = self._keys.destination.hash
        before = self._publisher.published(master).sessions
        try:
            await self._publisher.publish_meta_lease_set(publication)
        except RouterError as error:  # the router has just started
            print(error)
            self.refused += self._publisher.published(master).sessions - before
            return False
        return True

    async def publish(self, seconds: int) -> float:
        """Publish sets that end after `seconds` until one is seen; return the seconds until then."""
        began = time.monotonic()
        ends: set[int] = set()
        for tries in range(1, TRIES + 1):
            self.tries = tries
            publication = self.publication(seconds)
            ends.add(publication.lease_set.expires_at)
            await self._publisher.publish_meta_lease_set(publication)
            try:
                await until("the set is on floodfills", RESEND_SECONDS, lambda: self._seen(ends))
            except NotSeenError:
                continue
            return time.monotonic() - began
        raise NotSeenError(f"not on {FLOODFILLS} floodfills after {TRIES} tries")

    async def _seen(self, ends: set[int]) -> bool:
        holders = await self._network.holders(self._keys.destination.b32, STORE_TYPE)
        return sum(int(held.expires.timestamp()) in ends for held in holders.values()) >= FLOODFILLS


async def held(network: RouterNetwork, master: DestinationKeys) -> bool:
    """Whether enough floodfills hold a set. A floodfill without an answer does not count."""
    return len(await network.holders(master.destination.b32, STORE_TYPE)) >= FLOODFILLS


async def test_the_probe_says_i2pd(network: RouterNetwork, figure: Figure) -> None:
    began = time.monotonic()
    assert await router_kind(settings(network.routers[-1])) is RouterKind.I2PD
    figure("probe, seconds", time.monotonic() - began)


async def test_a_set_reaches_the_floodfills_and_a_newer_one_replaces_it(network: RouterNetwork, figure: Figure) -> None:
    master = DestinationKeys.generate()
    async with publishing(network.routers[-1]) as publisher:
        service = I2cpMaster(network, publisher, master)
        assert await network.holders(master.destination.b32, STORE_TYPE) == {}
        figure(f"from nothing to {FLOODFILLS} floodfills, seconds", await service.publish(3600))
        figure("sets that it took", service.tries)
        figure(f"its replacement on {FLOODFILLS} floodfills, seconds", await service.publish(7200))
        figure("sets that the replacement took", service.tries)
        status = publisher.published(master.destination.hash)
        assert (status.phase, status.sessions, status.kind) == (I2cpPhase.SENT, 1, RouterKind.I2PD)
    await until("floodfills have it even so: stopping unpublishes nothing", 60, lambda: held(network, master), poll=1.0)


async def test_two_masters_publish_through_one_router(network: RouterNetwork) -> None:
    async with publishing(network.routers[-1]) as publisher:
        services = [I2cpMaster(network, publisher, DestinationKeys.generate()) for _ in range(2)]
        await asyncio.gather(*(service.publish(3600) for service in services))


async def test_a_stopped_destination_can_be_published_again_at_once(network: RouterNetwork) -> None:
    master = DestinationKeys.generate()
    async with publishing(network.routers[-1]) as publisher:
        service = I2cpMaster(network, publisher, master)
        await publisher.publish_meta_lease_set(service.publication(3600))
        await publisher.stop_publishing_meta_lease_set(master.destination.hash)
        await publisher.publish_meta_lease_set(service.publication(3600))
        assert publisher.published(master.destination.hash).phase is I2cpPhase.SENT


@pytest.mark.slow  # restarts a router
async def test_a_router_that_restarts_is_noticed_and_used_again(network: RouterNetwork, figure: Figure) -> None:
    router = network.routers[-2]
    master = DestinationKeys.generate()
    async with publishing(router) as publisher:
        service = I2cpMaster(network, publisher, master)
        await service.publish(3600)
        began = time.monotonic()
        await network.stop(router)
        status = await lost(publisher, master, 120)
        figure("a router that stops is noticed after, seconds", time.monotonic() - began)
        assert status.phase is I2cpPhase.LOST
        with pytest.raises(RouterUnreachableError, match="check that the router runs"):
            await publisher.publish_meta_lease_set(service.publication(7200))
        await network.start(router)
        began = time.monotonic()
        await until("I2CP is up again", START_SECONDS, lambda: _listens(router, I2CP_PORT))
        await until("it takes a set again", START_SECONDS, service.is_taken, poll=1.0)
        await service.publish(7200)
        figure(f"from the restart to {FLOODFILLS} floodfills, seconds", time.monotonic() - began)
        status = publisher.published(master.destination.hash)
        assert (status.phase, status.sessions - service.refused) == (I2cpPhase.SENT, 2)


@pytest.mark.slow  # i2pd is patient for up to three minutes
async def test_i2pd_hangs_up_when_it_is_taken_for_java(network: RouterNetwork, figure: Figure) -> None:
    """i2pd drops the set without an answer. The publisher notices when i2pd closes the connection."""
    router = network.routers[-1]
    publisher = I2cpPublisher(replace(settings(router), kind=RouterKind.JAVA))
    master = DestinationKeys.generate()
    await publisher.publish_meta_lease_set(I2cpMaster(network, publisher, master).publication(3600))
    began = time.monotonic()
    status = await lost(publisher, master, 480)
    figure("i2pd's patience, seconds", time.monotonic() - began)
    assert status.phase is I2cpPhase.LOST
    assert "hung up" in status.reason
    await publisher.close()


@pytest.mark.slow  # restarts a router
async def test_i2cp_that_is_off_says_what_to_set(network: RouterNetwork) -> None:
    router = network.routers[-3]
    await network.stop(router)
    await network.start(router, i2cp=False)
    try:
        await until("the router runs", START_SECONDS, lambda: _listens(router, SAM_PORT))
        async with publishing(router) as publisher:
            service = I2cpMaster(network, publisher, DestinationKeys.generate())
            with pytest.raises(RouterUnreachableError) as caught:
                await publisher.publish_meta_lease_set(service.publication(3600))
        assert f"I2CP at {router.address}:{I2CP_PORT} does not answer" in str(caught.value)
        assert "i2pd: [i2cp] enabled = true; Java: i2cp.disableInterface=false" in str(caught.value)
    finally:
        await network.stop(router)
        await network.start(router, i2cp=True)
        await until("I2CP is up again", START_SECONDS, lambda: _listens(router, I2CP_PORT))  # for the next tests


async def test_a_transient_key_publishes_with_a_config_that_the_master_signed_long_ago(
    network: RouterNetwork, figure: Figure
) -> None:
    master = DestinationKeys.generate()
    now = int(time.time())
    async with publishing(network.routers[-1]) as publisher:
        delegated = master.delegate(now + DAY)
        service = I2cpMaster(network, publisher, delegated, session_config(master, (now - 30 * DAY) * 1000))
        figure(f"with a transient key, to {FLOODFILLS} floodfills, seconds", await service.publish(3600))


async def test_i2pd_refuses_a_config_that_a_transient_key_has_signed(network: RouterNetwork) -> None:
    delegated = DestinationKeys.generate().delegate(int(time.time()) + DAY)
    async with publishing(network.routers[-1]) as publisher:
        service = I2cpMaster(network, publisher, delegated)
        with pytest.raises(RouterRefusedError, match="signed by a transient key, and i2pd takes only a config"):
            await publisher.publish_meta_lease_set(service.publication(3600))


async def test_a_destination_has_one_holder_at_a_router(network: RouterNetwork) -> None:
    master = DestinationKeys.generate()
    async with publishing(network.routers[-1]) as first, publishing(network.routers[-1]) as second:
        await first.publish_meta_lease_set(I2cpMaster(network, first, master).publication(3600))
        with pytest.raises(RouterRefusedError, match="another client of this router holds the destination"):
            await second.publish_meta_lease_set(I2cpMaster(network, second, master).publication(3600))
        assert first.published(master.destination.hash).phase is I2cpPhase.SENT


async def _listens(router: RouterPlace, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(router.address, port)
    except OSError:
        return False
    writer.close()
    return True
