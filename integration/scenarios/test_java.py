"""Answers of real routers of both kinds about living and dead destinations, beside Java I2P and i2pd."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import pytest

from bridges.errors import RouterError
from bridges.i2cp.host_lookup import has_lease_set
from bridges.i2cp.router_kind import router_kind
from bridges.i2cp.settings import I2cpSettings
from bridges.sam.client import Sam, SamSession
from bridges.sam.destination_sensing import measure
from gf_i2p.netdb.private_keys import DestinationKeys
from integration.harness.local_farm import until
from integration.scenarios.router_choice import spare_routers
from integration.testnet.close_keys import keys_close_to_java
from integration.testnet.router import I2CP_PORT, SAM_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

pytestmark = pytest.mark.timeout(2400)

KINDS: Final = ("i2pd", "java")
TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}
PATIENCE: Final = 300.0
FORGETS_SECONDS: Final = 900.0
"""Ten minutes for the leases, and some for the routers' sweeps and a busy machine."""
CONNECT_SECONDS: Final = 15.0

Tell = Callable[[str], None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Print a line of the report."""

    def printed(line: str) -> None:
        with capsys.disabled():
            print(f"\n  {line}", end="", flush=True)

    return printed


@dataclass(frozen=True, slots=True)
class Leaf:
    """A destination at a router."""

    kind: str
    keys: DestinationKeys
    session: SamSession


def i2cp(router: RouterPlace) -> I2cpSettings:
    return I2cpSettings(router.address, I2CP_PORT, allow_plain=True)


def askers(network: RouterNetwork) -> dict[str, RouterPlace]:
    """Return a router of each kind that is no floodfill, and has no leaf here."""
    return {kind: spare_routers(network, kind)[-1] for kind in KINDS}


@asynccontextmanager
async def leaves(network: RouterNetwork) -> AsyncIterator[list[Leaf]]:
    """Run a leaf beside a router of each kind. Other routers of both kinds have found each leaf."""
    async with AsyncExitStack() as stack:
        made = []
        for kind in KINDS:
            router = spare_routers(network, kind)[0]
            keys = DestinationKeys.generate()
            session = await opened(Sam(router.address, SAM_PORT), keys)
            stack.callback(session.close)
            made.append(Leaf(kind, keys, session))
        for leaf in made:
            for asker in askers(network).values():
                await until(f"{asker.kind} finds a leaf", PATIENCE, partial(found, asker, leaf), poll=2.0)
        yield made


async def opened(sam: Sam, keys: DestinationKeys) -> SamSession:
    """Open a session; the router may have to build tunnels first."""
    sessions: list[SamSession] = []

    async def is_open() -> bool:
        try:
            sessions.append(await sam.session(keys, TUNNELS))
        except RouterError as error:
            print(error)
        return bool(sessions)

    await until("a session", PATIENCE, is_open, poll=2.0)
    return sessions[0]


async def found(asker: RouterPlace, leaf: Leaf) -> bool:
    return await has_lease_set(i2cp(asker), leaf.keys.destination.hash)


async def is_gone(asker: RouterPlace, leaf: Leaf) -> bool:
    return not await found(asker, leaf)


async def test_the_probe_tells_the_kinds_apart(java_network: RouterNetwork) -> None:
    for router in java_network.routers:
        assert str(await router_kind(i2cp(router))) == router.kind


async def test_a_java_floodfill_holds_the_set_of_a_destination_that_is_close(
    java_network: RouterNetwork, tell: Tell
) -> None:
    floodfills = [router for router in java_network.routers if router.floodfill]
    keys, java = keys_close_to_java(floodfills)
    assert java is not None, "start the network with --java-floodfills 1"
    router = spare_routers(java_network, "i2pd")[0]
    assert not await java_network.holds(java, keys.destination.hash)
    session = await opened(Sam(router.address, SAM_PORT), keys)
    try:
        began = time.monotonic()
        held = partial(java_network.holds, java, keys.destination.hash)
        await until("the Java floodfill holds the set", PATIENCE, held, poll=2.0)
        tell(f"a set from an i2pd is on the Java floodfill {time.monotonic() - began:.1f} s after its session")
        others = [each for each in floodfills if await java_network.holds(each, keys.destination.hash)]
        tell(f"{len(others)} of {len(floodfills)} floodfills hold the set\n")
    finally:
        session.close()


async def test_host_lookup_finds_a_living_leaf_and_nobody_else(java_network: RouterNetwork, tell: Tell) -> None:
    async with leaves(java_network) as both:
        for asker in askers(java_network).values():
            for leaf in both:
                began = time.monotonic()
                assert await found(asker, leaf)
                tell(f"{asker.kind} finds a leaf beside {leaf.kind} after {time.monotonic() - began:.3f} s")
            began = time.monotonic()
            assert not await has_lease_set(i2cp(asker), DestinationKeys.generate().destination.hash)
            tell(f"{asker.kind} does not find a destination that never was after {time.monotonic() - began:.1f} s")
        tell("")


async def test_a_dead_leaf_is_not_reached_and_the_own_router_gets_no_blame(
    java_network: RouterNetwork, tell: Tell
) -> None:
    async with leaves(java_network) as both:
        for leaf in both:
            leaf.session.close()
        for asker in askers(java_network).values():
            for leaf in both:
                began = time.monotonic()
                target = leaf.keys.destination.hash
                measured = await measure(Sam(asker.address, SAM_PORT), i2cp(asker), target, seconds=CONNECT_SECONDS)
                tell(
                    f"{asker.kind} to a dead leaf beside {leaf.kind}: {measured.error}, after "
                    f"{time.monotonic() - began:.1f} s with the tunnels"
                )
                assert measured.lease_set_seconds is not None, "the lease set lives for ten minutes"
                assert measured.connect_seconds is None
                assert measured.error is not None
        tell("")


@pytest.mark.slow  # a lease set stays current for ten minutes
async def test_host_lookup_forgets_a_dead_leaf_and_the_names_of_java_do_not(
    java_network: RouterNetwork, tell: Tell
) -> None:
    async with leaves(java_network) as both:
        for asker in askers(java_network).values():
            for leaf in both:
                assert await Sam(asker.address, SAM_PORT).lookup(leaf.keys.destination.b32) is not None
        for leaf in both:
            leaf.session.close()
        ended = time.monotonic()
        for asker in askers(java_network).values():
            for leaf in both:
                forgotten = partial(is_gone, asker, leaf)
                await until(f"{asker.kind} finds no leaf beside {leaf.kind}", FORGETS_SECONDS, forgotten, poll=5.0)
                gone, began = time.monotonic() - ended, time.monotonic()
                assert not await found(asker, leaf)
                tell(
                    f"{asker.kind}: a leaf beside {leaf.kind} is not found {gone:.0f} s after its end; the answer took "
                    f"{time.monotonic() - began:.1f} s"
                )
                began = time.monotonic()
                known = await Sam(asker.address, SAM_PORT).lookup(leaf.keys.destination.b32) is not None
                tell(f"    its name is {'' if known else 'not '}found after {time.monotonic() - began:.3f} s")
                assert known or asker.kind == "i2pd", "Java's cache of names never ends; that of i2pd 2.58 does"
        tell("")
