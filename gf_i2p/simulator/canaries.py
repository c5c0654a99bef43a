"""All canaries, by name: the canaries that break the core, and those that break the farm's decisions."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.cluster.canaries.evidence import evidence_canaries
from gf_i2p.simulator.cluster.canaries.harm import harm_canaries
from gf_i2p.simulator.cluster.canaries.memory import memory_canaries
from gf_i2p.simulator.cluster.canaries.office import office_canaries
from gf_i2p.simulator.cluster.canaries.promptness import promptness_canaries
from gf_i2p.simulator.cluster.canaries.thrift import thrift_canaries
from gf_i2p.simulator.life.canaries import farm_canaries


def by_name(canaries: Iterable[Canary]) -> Mapping[str, Canary]:
    """Return the canaries by name. Raises `ValueError` when two canaries have the same name: one would be hidden."""
    registry: dict[str, Canary] = {}
    for canary in canaries:
        if registry.setdefault(canary.name, canary) is not canary:
            raise ValueError(f"two canaries are called {canary.name!r}: rename one")
    return registry


CANARIES: Final = by_name(
    chain(
        harm_canaries(),
        evidence_canaries(),
        office_canaries(),
        promptness_canaries(),
        thrift_canaries(),
        memory_canaries(),
        farm_canaries(),
    )
)
