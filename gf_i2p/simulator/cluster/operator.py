"""The operator, who adds servers to the farm and removes servers while clients work and faults strike."""

from typing import TYPE_CHECKING

from gf_i2p.raft import inputs
from gf_i2p.simulator.cluster.caller_connections import Order
from gf_i2p.simulator.cluster.plan import cluster_server
from gf_i2p.wire.log_values import encode_server_id
from gf_i2p.wire.messages import MessageType

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.farm import SimulatedFarm
    from gf_i2p.simulator.cluster.server import SimulatedServer

ORDERS = ("servers added", "servers removed", "leaders told to step down")
"""Names of the operator's orders, as a run counts the orders."""


class Operator:
    """Gives an order now and then to a server that seems to lead, without waiting for the outcome of the last order."""

    def __init__(self, farm: "SimulatedFarm") -> None:
        self._farm = farm
        if farm.plan.orders:
            self._plan_next()

    def _plan_next(self) -> None:
        self._farm.events.after(self._farm.rng.expovariate(1 / self._farm.plan.orders), self._order)

    def _order(self) -> None:
        farm, rng = self._farm, self._farm.rng
        if farm.calm:
            return
        self._plan_next()
        leaders = [server for server in farm.servers.values() if server.up and server.core.is_leader]
        if not leaders:
            return
        leader = rng.choice(leaders)
        voters = [server.id for server in leader.core.configuration.servers]
        others = [server_id for server_id in farm.plan.ids if server_id not in voters]
        dice = rng.random()
        if dice < 0.1:
            farm.counts["leaders told to step down"] += 1
            leader.enter(leader.life, leader.step, inputs.StepDown())
        elif len(voters) == 1 and dice < 0.2:
            self._remove(leader, voters[0])  # which the leader must refuse
        elif others and (dice < 0.55 or len(voters) == 1):
            self._add(leader, rng.choice(others))
        else:
            self._remove(leader, rng.choice(voters))

    def _add(self, leader: "SimulatedServer", server_id: int) -> None:
        server = self._farm.servers[server_id]
        if server.life == 0:
            server.boot()

        def count(accepted: bool) -> None:
            self._farm.counts["servers added"] += accepted

        Order(self._farm, leader, MessageType.ADD_SERVER_REQUEST, cluster_server(server_id).encode(), count)

    def _remove(self, leader: "SimulatedServer", server_id: int) -> None:
        def count(accepted: bool) -> None:
            self._farm.counts["servers removed"] += accepted

        Order(self._farm, leader, MessageType.REMOVE_SERVER_REQUEST, encode_server_id(server_id), count)
