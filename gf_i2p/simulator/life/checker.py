"""The checker of hours of a farm's life: it gets each event of a run, and asks the rules.

The checker keeps the farm state that follows from the whole log, and the simple `Ledger`.
"""

from typing import TYPE_CHECKING, Final

from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.state import FarmState
from gf_i2p.simulator.facts import Voters
from gf_i2p.simulator.life.invariants import FARM_RULES
from gf_i2p.simulator.life.ledger import Ledger
from gf_i2p.simulator.life.publisher import GivenSet
from gf_i2p.simulator.registers import CLUSTER

if TYPE_CHECKING:
    from gf_i2p.simulator.life.farm import FarmLife, SimulatedNode

RIGHT_MS: Final = 1_000
"""Greatest error of a clock that counts as right, in ms."""


class LifeChecker:
    """Notes each event of the run, and passes it on to the rules. Raises `Violation` at once for a broken rule."""

    def __init__(self, life: "FarmLife") -> None:
        self.life = life
        self.ledger = Ledger()
        self.state = FarmState(CLUSTER)
        """The state that follows from the whole log; never restored from a snapshot."""
        self.choice: Choice = self.state.choice
        self.previous: Choice = self.choice
        """The choice one entry earlier."""
        self._publishers: list[int | None] = []
        self.changed_at = 0.0
        """Time of the latest change of the publisher, in true seconds."""
        self.good_since: dict[int, float] = {}
        """Time since which each server could truly publish, whatever the log says: true seconds, by server id."""
        self.flows_since = 0.0
        """Time since which the farm can commit entries, in true seconds."""
        self.wrong_clocks = frozenset(life.plan.wrong)
        self.resumed: dict[int, float] = {}
        """Time of the end of each server's last pause of more than `PAUSE` seconds: true seconds, by server id."""
        self.ever_away: set[int] = set()
        """Ids of the servers and members that were ever down, paused, cut off, out of the farm or without a router."""
        self._rules = [rule(self) for rule in FARM_RULES]

    @property
    def now(self) -> float:
        """True seconds since the run began."""
        return self.life.events.now

    def committed(self, value: bytes | Voters) -> None:
        """Note that an entry is committed: an Application entry's bytes, or the servers of a Configuration."""
        if isinstance(value, bytes):
            self.ledger.apply(value, self.now)
            self.state.apply(value, self.ledger.index)
        else:
            self.ever_away |= set(self.ledger.servers) - set(value)
            self.ledger.configure(value)
            self.state.configure(value)
        self.previous, self.choice = self.choice, self.state.choice
        self._publishers.append(self.choice.publisher)
        if self.choice.publisher != self.previous.publisher:
            self.changed_at = self.now
            self.life.note(0, f"publisher {self.previous.publisher} -> {self.choice.publisher}, at {self.ledger.index}")
        for rule in self._rules:
            rule.committed()

    def publisher_at(self, index: int) -> int | None:
        """Return the publisher that follows from the log up to this index; None without a publisher."""
        return self._publishers[index - 1]

    def chose(self, server: int, index: int, choice: Choice) -> None:
        """Note the choice that a server has made by the log up to `index`."""
        for rule in self._rules:
            rule.chose(server, index, choice)

    def kept(self, server: int, index: int, data: bytes) -> None:
        """Note that a server keeps its state at this index as a snapshot, or has restored the snapshot.

        `data`: the snapshot's bytes.
        """
        for rule in self._rules:
            rule.kept(server, index, data)

    def gives(self, server: int, applied: int, lease_set: GivenSet) -> None:
        """Note that a server, which has applied the log up to `applied`, gives a set to its router."""
        self.life.note(server, f"gives {lease_set.version_ms}, posted at {lease_set.posted:.3f}")
        self.life.counts["sets given"] += 1
        for rule in self._rules:
            rule.gives(server, applied, lease_set)

    def passes(self) -> None:
        """Note which servers are able to publish now, and ask the rules. Called every few seconds."""
        if self.life.leaderless:
            self.flows_since = self.now
        for server in self.life.servers:
            if self._is_good(server):
                self.good_since.setdefault(server.id, self.now)
            else:
                self.good_since.pop(server.id, None)
        for rule in self._rules:
            rule.passes()

    def ends(self) -> None:
        """Ask the rules for the last time, at the end of the run, after the calm."""
        for rule in self._rules:
            rule.ends()

    def good_for(self, server: int) -> float:
        """Return for how many seconds the server has truly been able to publish, whatever the log says."""
        return self.now - self.good_since.get(server, self.now)

    def _is_good(self, node: "SimulatedNode") -> bool:
        poster, mode = node.poster, self.ledger.mode
        return (
            node.works
            and node.id in self.ledger.servers
            and abs(node.error_ms) <= RIGHT_MS
            and poster.router_up
            and poster.publish != "off"
            and poster.mode == mode != "off"
        )
