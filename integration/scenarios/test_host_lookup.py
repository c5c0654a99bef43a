"""Whether a lease set is current, by real i2pd routers: bridges/i2cp/host_lookup.py."""

import time
from collections.abc import Callable

import pytest

from bridges.i2cp.host_lookup import has_lease_set
from bridges.i2cp.ping_session import OPTIONS, PingSession
from bridges.i2cp.settings import I2cpSettings
from bridges.sam.client import Sam
from gf_i2p.netdb.private_keys import DestinationKeys
from integration.harness.local_farm import until
from integration.testnet.router import I2CP_PORT, SAM_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

pytestmark = pytest.mark.timeout(1500)

TUNNELS = {"inbound.length": "1", "outbound.length": "1"}
PATIENCE = 240.0
FORGETS_SECONDS = 780.0
"""Ten minutes for the leases, and three for a busy machine."""

Tell = Callable[[str], None]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Print a line of the report."""

    def printed(line: str) -> None:
        with capsys.disabled():
            print(f"\n  {line}", flush=True)

    return printed


async def looked(router: RouterPlace, keys: DestinationKeys) -> tuple[bool, float]:
    """Return whether the lease set is current, and the seconds for the answer."""
    began = time.monotonic()
    found = await has_lease_set(I2cpSettings(router.address, I2CP_PORT, allow_plain=True), keys.destination.hash)
    return found, time.monotonic() - began


async def test_a_lease_set_is_found_by_its_own_router_and_by_another(network: RouterNetwork, tell: Tell) -> None:
    here, there = network.routers[5:7]
    session = await Sam(here.address, SAM_PORT).session(keys := DestinationKeys.generate(), TUNNELS)
    try:
        for name, router in (("its own router", here), ("another router", there)):

            async def is_found(router: RouterPlace = router) -> bool:
                return (await looked(router, keys))[0]

            await until(f"{name} finds the lease set", PATIENCE, is_found)
            found, seconds = await looked(router, keys)
            assert found
            tell(f"{name}: found after {seconds:.3f} s")
        found, seconds = await looked(there, DestinationKeys.generate())
        assert not found
        tell(f"a destination that never was: not found after {seconds:.3f} s")
    finally:
        session.close()


@pytest.mark.slow  # a lease set stays current for ten minutes
async def test_a_destination_that_has_ended_is_not_found_when_its_leases_have_ended(
    network: RouterNetwork, tell: Tell
) -> None:
    here, there = network.routers[5:7]
    session = await Sam(here.address, SAM_PORT).session(keys := DestinationKeys.generate(), TUNNELS)
    try:

        async def is_found() -> bool:
            return (await looked(there, keys))[0]

        await until("another router finds the lease set", PATIENCE, is_found)
    finally:
        session.close()
    ended = time.monotonic()
    for name, router in (("its own router", here), ("another router", there)):

        async def is_gone(router: RouterPlace = router) -> bool:
            return not (await looked(router, keys))[0]

        await until(f"{name} finds nothing", FORGETS_SECONDS, is_gone)
        _, seconds = await looked(router, keys)
        tell(f"{name}: gone {time.monotonic() - ended:.0f} s after the end; the answer took {seconds:.3f} s")


@pytest.mark.parametrize("place", [pytest.param("its own router", marks=pytest.mark.slow), "another router"])
async def test_a_destination_answers_pings_until_its_end(network: RouterNetwork, tell: Tell, place: str) -> None:
    here, there = network.routers[5:7]
    router = here if place == "its own router" else there
    pings = PingSession(I2cpSettings(router.address, I2CP_PORT, allow_plain=True), options=OPTIONS | TUNNELS)
    session = await Sam(here.address, SAM_PORT).session(keys := DestinationKeys.generate(), TUNNELS)

    async def answers() -> bool:
        return await pings.ping(keys.destination.data, seconds=3.0) is not None

    async def is_gone() -> bool:
        return not (await answers() or await answers())  # a busy machine loses one ping

    try:
        began = time.monotonic()
        await until(f"it answers {place}", PATIENCE, answers)
        tell(f"{place}: first answer after {time.monotonic() - began:.1f} s")
        answered = [await pings.ping(keys.destination.data, seconds=3.0) for _ in range(20)]
        times = sorted(each for each in answered if each is not None)
        tell(f"{place}: {len(times)} of 20 pings answered, after {times[0]:.4f} to {times[-1]:.4f} s")
        assert len(times) >= 15
        session.close()
        await until(f"it answers {place} no more", 60, is_gone)
        assert await pings.ping(keys.destination.data) is None
        found, _ = await looked(router, keys)
        assert found, "its lease set is still there"
    finally:
        session.close()
        await pings.close()
