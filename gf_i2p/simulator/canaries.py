"""All canaries, by name: those that break the core, and those that break what a farm decides."""

from typing import Final

from gf_i2p.simulator.cluster.canaries import core_canaries
from gf_i2p.simulator.life.canaries import farm_canaries

CANARIES: Final = {canary.name: canary for canary in (*core_canaries(), *farm_canaries())}
