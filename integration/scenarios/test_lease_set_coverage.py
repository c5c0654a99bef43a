"""How much of the time floodfills hold the lease set of a destination that a node serves, on real routers.

A client that has no lease set yet needs one from a floodfill. The leases are short, so that a dead holder is soon
forgotten, and a set outlasts its leases; see `LEASES`. `GF_I2P_COVERAGE_SECONDS` is the length of the look: minutes
here, 20 minutes by hand.
"""

import asyncio
import itertools
import os
import time
from typing import Final

import pytest

from bridges.hosting_protocol import ServiceOffer
from bridges.i2cp.service_hosting import I2cpHosting
from bridges.i2cp.settings import I2cpSettings
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.netdb.private_keys import DestinationKeys
from integration.harness.local_farm import until
from integration.testnet.router import I2CP_PORT
from integration.testnet.router_network import RouterNetwork

COVERAGE_SECONDS: Final = float(os.environ.get("GF_I2P_COVERAGE_SECONDS", "240"))
BEGIN_SECONDS: Final = 300.0
POLL_SECONDS: Final = 2.0
LEASE_SET2: Final = 3
LEAST: Final = 0.99
"""Least share of the looks in which some floodfill holds the set."""
OPTIONS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * BEGIN_SECONDS + COVERAGE_SECONDS)]


async def _announce(lease_set: LeaseSet2) -> int:
    return lease_set.published


async def test_floodfills_hold_the_set_at_all_times(network: RouterNetwork, capsys: pytest.CaptureFixture[str]) -> None:
    router = next(each for each in network.routers if not each.floodfill)
    keys = DestinationKeys.generate()
    versions = itertools.count(int(time.time()))

    def version() -> int:
        return max(next(versions), int(time.time()))

    hosting = I2cpHosting(I2cpSettings(router.address, I2CP_PORT))
    service = await hosting.open(ServiceOffer(keys, ("127.0.0.1", 1), version, _announce, options=OPTIONS))
    try:

        async def is_held() -> bool:
            return bool(await network.holders(keys.destination.b32, LEASE_SET2))

        await until("a floodfill has the first set", BEGIN_SECONDS, is_held, poll=POLL_SECONDS)
        looks: list[int] = []
        end = time.monotonic() + COVERAGE_SECONDS
        while time.monotonic() < end:
            looks.append(len(await network.holders(keys.destination.b32, LEASE_SET2)))
            await asyncio.sleep(POLL_SECONDS)
    finally:
        await service.close()
    covered = sum(held > 0 for held in looks) / len(looks)
    with capsys.disabled():
        print(
            f"\n  {len(looks)} looks in {COVERAGE_SECONDS:.0f} s: some floodfill held the set in {covered:.1%}, on "
            f"average {sum(looks) / len(looks):.2f} of {len(network.floodfills)}",
            flush=True,
        )
    assert covered >= LEAST
