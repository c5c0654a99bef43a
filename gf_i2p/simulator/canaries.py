"""All canaries, by name: the canaries that break the core, and those that break the farm's decisions."""

from typing import Final

from gf_i2p.simulator.cluster.canaries import core_canaries
from gf_i2p.simulator.life.canaries import farm_canaries

CANARIES: Final = {canary.name: canary for canary in (*core_canaries(), *farm_canaries())}
