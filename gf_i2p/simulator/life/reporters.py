"""The posters of records in a farm's life: routers, leaves and settings of servers and members.

The records have the form that a real node posts.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.simulator.registers import CLUSTER

INTERVAL: Final = 30.0
"""Seconds between two records of one poster, when nothing changes."""
CONNECTIONS: Final = 100
"""Configured limit of a leaf's connections, in the records."""
_MASTER: Final = b"the master's destination"
MASTER_TEXT: Final = to_base64(_MASTER)
MASTER_HASH: Final = hashlib.sha256(_MASTER).digest()


@dataclass(slots=True)
class LeafTruth:
    """The true state of a leaf, a destination that serves."""

    hash: bytes
    up: bool = True
    type: int = 3
    below: tuple[bytes, ...] = ()
    connections: int = 10
    ever_down: bool = False

    def set(self, *, up: bool) -> None:
        """Make the leaf up or down."""
        if up != self.up:
            self.up, self.ever_down = up, True


@dataclass(slots=True)
class SimulatedReporter:
    """A server or leaf member that posts records: the state of its router and leaves, and its settings."""

    id: int
    leaves: list[LeafTruth]
    router_up: bool = True
    mode: str = "meta"
    publish: str = "auto"
    lag_ms: int = 0
    """Lag of the router's jobs, in ms, which lowers the score."""
    records: int = 0
    accused: dict[int, bool] = field(default_factory=dict)
    """Whether this server, if it leads, hears each other server that it reports, by that server's id."""

    @property
    def is_server(self) -> bool:
        """Whether this poster is a server; other posters are leaf members."""
        return self.id < FIRST_LEAF_MEMBER_ID

    def record(self, date_ms: int, *, version_ms: int = 0, publishing: bool = False) -> bytes:
        """Return the bytes of this poster's next record.

        `date_ms`: the record's date. `version_ms`: version of the newest set; 0: no set. Both in ms since the epoch.
        """
        self.records += 1
        return StatusRecord(
            cluster=CLUSTER,
            date_ms=date_ms,
            id=self.id,
            router_up=self.router_up,
            router={"uptime": 86_400_000, "reachability": "ok", "jobLag": self.lag_ms},
            meta=Meta(MASTER_TEXT, self.publish, publishing, version_ms) if self.is_server else None,
            leaves=tuple(map(_leaf, self.leaves)),
            config=ReportedConfig(self.mode, int(INTERVAL * 1000), f"0 #{self.records}") if self.is_server else None,
            remote_routers=_accusations(self.accused),
        ).encode()


def _leaf(leaf: LeafTruth) -> Leaf:
    return Leaf(
        leaf.hash,
        leaf.up,
        type=leaf.type,
        below=leaf.below,
        configured_connections=CONNECTIONS,
        current_connections=leaf.connections,
    )


def _accusations(accused: Mapping[int, bool]) -> tuple[RemoteRouter, ...]:
    return tuple(RemoteRouter(server, reachable) for server, reachable in sorted(accused.items()))
