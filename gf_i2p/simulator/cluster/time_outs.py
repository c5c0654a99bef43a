"""Time-outs that change while servers run, as a node's time-outs follow the measured round trip.

Two servers may have different time-outs at one moment. `node/consensus/timing.py` measures, and this module only draws.
"""

from random import Random
from typing import TYPE_CHECKING

from gf_i2p.simulator.cluster.plan import SLOWER, slower

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.farm import SimulatedFarm


class AdaptiveTimeouts:
    """Gives some server other time-outs now and then, if the plan says so. Each server starts with the plan's."""

    def __init__(self, farm: "SimulatedFarm") -> None:
        self._farm = farm
        self._rng = Random(f"adapts {farm.plan.seed}")  # noqa: S311 -- it must be repeatable, and keeps no secret
        if farm.plan.retime:
            self._plan_next()

    def _plan_next(self) -> None:
        self._farm.events.after(self._rng.expovariate(1 / self._farm.plan.retime), self._change)

    def _change(self) -> None:
        farm = self._farm
        if farm.calm:
            return
        self._plan_next()
        server = self._rng.choice(list(farm.servers.values()))
        farm.counts["time-outs changed"] += server.up
        server.enter(server.life, server.retime, slower(farm.plan.timing, self._rng.choice(SLOWER)))

    def calm(self) -> None:
        """Give all servers the plan's time-outs again, for the calm."""
        if self._farm.plan.retime:
            for server in self._farm.servers.values():
                server.enter(server.life, server.retime, self._farm.plan.timing)
