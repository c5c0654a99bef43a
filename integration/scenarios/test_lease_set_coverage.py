"""How much of the time floodfills hold the lease set of a destination that a node serves, on real routers.

A client that has no lease set yet needs one from a floodfill. The leases are short, so that a dead holder is soon
forgotten, and a set outlasts its leases; see `LEASES`. `GF_I2P_COVERAGE_SECONDS` is the length of the look: minutes
here, 20 minutes by hand. On a network with a Java floodfill, the set is of a destination close to that floodfill, and
the look covers that floodfill, too.
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
from integration.harness.local_farm import until
from integration.scenarios.router_choice import spare_routers
from integration.testnet.close_keys import keys_close_to_java
from integration.testnet.router import I2CP_PORT
from integration.testnet.router_network import RouterNetwork

COVERAGE_SECONDS: Final = float(os.environ.get("GF_I2P_COVERAGE_SECONDS", "240"))
BEGIN_SECONDS: Final = 300.0
POLL_SECONDS: Final = 2.0
LEASE_SET2: Final = 3
LEAST: Final = 0.99
"""Least share of the looks in which some floodfill of each kind holds the set."""
OPTIONS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * BEGIN_SECONDS + COVERAGE_SECONDS)]


async def _announce(lease_set: LeaseSet2) -> int:
    return lease_set.published


@pytest.mark.parametrize("kind", ["i2pd", "java"])
async def test_floodfills_hold_the_set_at_all_times(
    network: RouterNetwork, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kind`: of the router through which the node serves."""
    router = spare_routers(network, kind)[0]
    keys, java = keys_close_to_java([each for each in network.routers if each.floodfill])
    versions = itertools.count(int(time.time()))

    def version() -> int:
        return max(next(versions), int(time.time()))

    async def held() -> dict[str, int]:
        """Return how many floodfills hold the set, by kind; of Java floodfills only the closest one is asked."""
        found = {"i2pd": len(await network.holders(keys.destination.b32, LEASE_SET2))}
        if java is not None:
            found["java"] = int(await network.holds(java, keys.destination.hash))
        return found

    hosting = I2cpHosting(I2cpSettings(router.address, I2CP_PORT, allow_plain=kind == "java"))
    service = await hosting.open(ServiceOffer(keys, ("127.0.0.1", 1), version, _announce, options=OPTIONS))
    try:

        async def is_held() -> bool:
            return all((await held()).values())

        await until("floodfills of each kind have the first set", BEGIN_SECONDS, is_held, poll=POLL_SECONDS)
        looks: list[dict[str, int]] = []
        end = time.monotonic() + COVERAGE_SECONDS
        while time.monotonic() < end:
            looks.append(await held())
            await asyncio.sleep(POLL_SECONDS)
    finally:
        await service.close()
    covered = {each: sum(look[each] > 0 for look in looks) / len(looks) for each in looks[0]}
    average = sum(look["i2pd"] for look in looks) / len(looks)
    with capsys.disabled():
        print(
            f"\n  served through {kind}: {len(looks)} looks in {COVERAGE_SECONDS:.0f} s; a floodfill of this kind held "
            f"the set: {', '.join(f'{name} {share:.1%}' for name, share in covered.items())}; on average {average:.2f} "
            f"of {len(network.floodfills)} i2pd",
            flush=True,
        )
    assert min(covered.values()) >= LEAST
