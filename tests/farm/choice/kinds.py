"""The kinds of routers of a mixed farm: each kind's record of the same healthy router."""

from typing import Any

from gf_i2p.farm.record.router_facts import Reachability, RouterStatus
from gf_i2p.farm.record.status_record import router_numbers

HEALTHY = {
    "uptime": 86_400_000,
    "version": "2.45.1",
    "reachability": "ok",
    "participatingTunnels": 40,
    "exploratoryTunnels": 6,
    "jobLag": 20,
    "configuredInboundBandwidth": 100_000,
    "configuredOutboundBandwidth": 100_000,
    "currentInboundBandwidth": 9_000,
    "currentOutboundBandwidth": 12_000,
    "knownPeers": 2_000,
    "activePeers": 90,
}
"""All facts of a healthy router, by their names in the record."""
_I2PD = RouterStatus(
    uptime_ms=1,
    version="2.45.1",
    reachability=Reachability.OK,
    participating_tunnels=1,
    configured_inbound=1,
    configured_outbound=1,
    current_inbound=1,
    current_outbound=1,
    known_peers=1,
    active_peers=1,
)
TOLD_BY_I2PD = frozenset(router_numbers(_I2PD))
"""Names that an i2pd router tells by i2pcontrol: no job lag, and no exploratory tunnels."""
TOLD = {
    "every fact": frozenset(HEALTHY),
    "Java I2P": TOLD_BY_I2PD | {"jobLag"},
    "i2pd": TOLD_BY_I2PD,
    "no i2pcontrol": frozenset[str](),
}
"""By kind of router, the names that a record tells."""


def told(kind: str, **changes: Any) -> dict[str, Any]:
    """Give the facts that a router of this kind tells, of a healthy router with these changes."""
    return {name: value for name, value in (HEALTHY | changes).items() if name in TOLD[kind]}
