"""The simulated routers beside the servers, and the status records that the servers post about their routers."""

from random import Random
from typing import TYPE_CHECKING, Final

from gf_i2p.farm.record.status_record import Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.simulator.cluster.caller_connections import Post
from gf_i2p.simulator.registers import CLUSTER
from gf_i2p.wire.messages import Response

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.farm import SimulatedFarm
    from gf_i2p.simulator.cluster.server import SimulatedServer

_CONFIG: Final = ReportedConfig("meta", 10_000, "simulated")
_MASTER: Final = to_base64(b"the master's destination")
_SETTINGS: Final = (_MASTER, to_base64(b"another master's destination"), None)
"""Masters for which an operator configures a server; None: the server publishes nothing."""


class SimulatedRouter:
    """One router, and the records that the server posts about this router, as `node.report` does.

    A post does not wait for the answer to the last post.
    """

    def __init__(self, farm: "SimulatedFarm", server: "SimulatedServer") -> None:
        self.up = True
        self._farm = farm
        self._server = server
        self._records = 0
        self._rng = Random(f"settings {farm.plan.seed} {server.id}")  # noqa: S311 -- it must be repeatable
        self._master: str | None = _MASTER
        farm.events.after(farm.rng.random() * farm.plan.report, self._report)
        self._plan_reset()

    def _report(self) -> None:
        if self._farm.calm or self._server.id not in self._farm.plan.silent:
            self.post()
        if not self._farm.calm:
            self._farm.events.after(self._farm.plan.report, self._report)

    def _plan_reset(self) -> None:
        if self._farm.plan.reset:
            self._farm.events.after(self._rng.expovariate(1 / self._farm.plan.reset), self._reset)

    def _reset(self) -> None:
        if not self._farm.calm:
            self._master = self._rng.choice(_SETTINGS)
            self._plan_reset()

    def post(self) -> None:
        """Post a record at once, to the server that this server takes for the leader."""
        server = self._server
        if not server.up or server.paused:
            return
        leader = self._farm.servers.get(server.core.leader)
        if leader is not None:
            self._records += 1
            publishing = server.publisher == server.id
            record = StatusRecord(
                cluster=CLUSTER,
                date_ms=server.clock.wall_ms,
                id=server.id,
                router_up=self.up,
                router={"participatingTunnels": self._records},
                meta=self._meta(publishing=publishing),
                leaves=(Leaf(bytes([server.id]) * 32, self.up),),
                config=_CONFIG,
            )
            Post(self._farm, leader, [record.encode()], self._posted)

    def _meta(self, *, publishing: bool) -> Meta | None:
        master = _MASTER if self._farm.calm else self._master  # in the calm the farm comes to rest
        if master is None:
            return None
        server = self._server
        published_ms = max(server.clock.wall_ms, server.state.last_published_ms + 1000) if publishing else 0
        return Meta(master, "auto", publishing, published_ms)

    def _posted(self, response: Response | None, swapped: bool) -> None:
        """Ignore the answer: the server posts the next record in any case."""
