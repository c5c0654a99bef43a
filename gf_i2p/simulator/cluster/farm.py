"""A whole simulated farm: servers, network, routers, clients and checker."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from gf_i2p.raft.allowance import TERMS_A_SECOND
from gf_i2p.simulator.cluster.checker import Checker
from gf_i2p.simulator.cluster.clients import DeposedReader, OperationHistory, SimulatedClient
from gf_i2p.simulator.cluster.datagrams import DatagramLink
from gf_i2p.simulator.cluster.disk_contents import Store
from gf_i2p.simulator.cluster.faults import Faults
from gf_i2p.simulator.cluster.foreign_answers import ForeignAnswers
from gf_i2p.simulator.cluster.forgeries import Forger
from gf_i2p.simulator.cluster.invariants.harm import SLOWEST_CLOCK
from gf_i2p.simulator.cluster.links import ConnectedLink, SimulatedLink
from gf_i2p.simulator.cluster.network import SimulatedNetwork
from gf_i2p.simulator.cluster.operator import Operator
from gf_i2p.simulator.cluster.plan import RunPlan
from gf_i2p.simulator.cluster.routers import SimulatedRouter
from gf_i2p.simulator.cluster.server import SimulatedServer
from gf_i2p.simulator.cluster.time_outs import AdaptiveTimeouts
from gf_i2p.simulator.cluster.trace import Trace
from gf_i2p.simulator.events import Events, MachineClock
from gf_i2p.simulator.facts import Voters, voters_of
from gf_i2p.wire.entries import ValueType

_BEGAN_MS: Final = 1_700_000_000_000
_WALL_RATE: Final = 10.0
"""Seconds that pass on a wall clock between two records of a server. At this rate, farm time works with the usual
parameters."""


class SimulatedFarm:
    """One simulated farm, for one run. The run depends on `plan` only. Nothing happens before `begin`."""

    def __init__(self, plan: RunPlan, *, trace: bool = False, write: Callable[[str], None] | None = None) -> None:
        """`trace`: whether to make a trace; `write` takes the lines of the trace."""
        self.plan = plan
        self.rng = Random(f"run {plan.seed}")  # noqa: S311 -- it must be repeatable, and keeps no secret
        self.events = Events()
        self.counts: Counter[str] = Counter()
        self.trace = Trace(self.events, write) if trace else None
        self.checker = Checker(
            plan.ids,
            plan.first_ids,
            ordered=not plan.strict,
            alike=not plan.foreign,
            honest=not (plan.forge and plan.far_terms),
            now=lambda: self.events.now,
            timing=plan.timing,
            slowest=plan.slowest,
            flow=plan.flow,
            cache_bytes=plan.cache_bytes,
        )
        self.calm = False
        """Whether faults and clients have stopped."""
        self.answers_lost = plan.answers_lost
        timing = plan.timing
        self.net = SimulatedNetwork(
            self.events,
            self.rng,
            plan.ways,
            self.counts,
            retry=timing.election_min / 8,
            patience=max(timing.election_max, 2 * timing.election_min),
        )
        if plan.strict:
            self.net.drop_chance, self.net.duplicate_chance, self.net.straggle_chance = plan.message_faults
        self.forger = Forger(self)
        self.foreign = ForeignAnswers(self)
        self._commands = 0
        self._faults: Faults | None = None
        self._watcher: DeposedReader | None = None
        self.servers: dict[int, SimulatedServer] = {}
        self.routers: dict[int, SimulatedRouter] = {}
        self.history = OperationHistory(plan.keys)
        for server_id in plan.ids:
            clock = MachineClock(
                self.events,
                rate=plan.rates[server_id - 1],
                origin=self.rng.uniform(0, 1_000_000),
                wall_ms=_BEGAN_MS,
                wall_rate=_WALL_RATE / plan.report,
            )
            clock.error_ms = plan.errors_ms[server_id - 1]
            self.counts["skewed clocks"] += clock.rate != 1.0
            self.servers[server_id] = SimulatedServer(self, server_id, Store(server_id), clock)

    def begin(self) -> None:
        """Boot the first servers, and start everything else: routers, clients, the operator, faults and forgeries."""
        for server_id in self.plan.first_ids:
            self.servers[server_id].boot()
        self.routers = {server.id: SimulatedRouter(self, server) for server in self.servers.values()}
        for _ in range(self.plan.clients):
            SimulatedClient(self, self.history)
        self._watcher = DeposedReader(self, self.history)
        Operator(self)
        self._time_outs = AdaptiveTimeouts(self)
        self.forger.begin()
        self._faults = Faults(self)

    def close(self) -> None:
        """Close the disks. The facts and the counts of the run can still be read."""
        for server in self.servers.values():
            server.store.close()

    def link(self, server: SimulatedServer, peer_id: int) -> SimulatedLink:
        """Return a new link from `server` to the server `peer_id`."""
        timing, peer = self.plan.timing, self.servers[peer_id]
        if self.plan.strict:
            return DatagramLink(self.net, server, peer, patience=self.plan.patience)
        return ConnectedLink(self.net, server, peer, redial=(timing.heartbeat / 4, timing.election_max / 2))

    def next_command(self) -> int:
        """Return the number of the next register command: 1, 2, 3, ..."""
        self._commands += 1
        return self._commands

    def note(self, server_id: int, state: str, text: str) -> None:
        """Write a line to the trace, if there is a trace, about an event that is no step of a core."""
        if self.trace is not None:
            self.trace.line(server_id, state, text)

    # Triggers of faults --------------------------------------------------------------------------------------------

    def writing(self, server: SimulatedServer) -> None:
        """Tell the faults that a server has given its disk a write."""
        if self._faults is not None:
            self._faults.writing(server)

    def elected(self, server: SimulatedServer) -> None:
        """Tell the faults and the reader of old leaders that a server has become leader."""
        if self._faults is not None:
            self._faults.elected(server)
        if self._watcher is not None:
            self._watcher.elected(server)

    def inviting(self, leader: SimulatedServer, newcomer_id: int) -> None:
        """Tell the faults that a leader has sent a request of a join to a newcomer."""
        if self._faults is not None:
            self._faults.inviting(leader, self.servers[newcomer_id])

    def reading(self, server: SimulatedServer) -> None:
        """Tell the faults that a client reads from an old leader, which may not know of its successor."""
        if self._faults is not None:
            self._faults.reading(server)

    def halted(self, server: SimulatedServer) -> None:
        """Tell the faults that a server has ended by itself, after an error of its disk."""
        assert self._faults is not None
        self._faults.halted(server)

    # The calm ------------------------------------------------------------------------------------------------------

    def stop_faults(self) -> None:
        """Stop all faults: from now on everything works."""
        self.calm = True
        assert self._faults is not None
        self._faults.stop()
        self._time_outs.calm()
        self.net.calm()
        for server in self.servers.values():
            if server.up:
                server.disk.finish_within(self.plan.timing.election_max)
        self.answers_lost = 0.0

    def terms_apart(self) -> float:
        """Return the seconds in which the voter of the lowest term may reach the highest term (`raft/allowance.py`).

        After an attack by claims of high terms, and a restart of one server, the terms are up to 2^20 and more apart.
        A server that was a voter, or becomes one, may bring its term along.
        """
        if not (self.plan.forge and self.plan.far_terms):
            return 0.0
        facts = self.checker.facts.servers
        highest = max(server.term for server in facts.values())
        lowest = min(facts[voter].term for voter in self.committed_voters)
        return (highest - lowest) / (TERMS_A_SECOND * SLOWEST_CLOCK)

    def unsettled(self) -> str | None:
        """Return why the voters do not all follow one leader, as a clause; None: all voters follow one leader."""
        leaders = [server for server in self.servers.values() if server.up and server.core.is_leader]
        if len(leaders) != 1:
            return f"the leaders are {[server.id for server in leaders]}"
        leader = leaders[0]
        voters = [each.id for each in leader.core.configuration.servers]
        if leader.id not in voters:
            return f"server {leader.id} leads, and the voters are {voters}"
        for server_id in voters:
            server = self.servers[server_id]
            if not server.up:
                return f"server {server_id} is not up"
            if server.core.leader != leader.id:
                return f"server {server_id} follows {server.core.leader}, and {leader.id} leads"
        return None

    def unequal(self) -> str | None:
        """Return which voter's log, applied entries or publisher differs from the farm's, as a clause; None: none."""
        facts = self.checker.facts
        committed = facts.committed
        voters = self.committed_voters
        for server_id in voters:
            server, log = self.servers[server_id], facts.servers[server_id]
            if log.durable.last_index != len(committed) or log.durable.slice(1, len(committed)) != committed:
                return f"server {server.id} has {log.durable.last_index} entries, and {len(committed)} are committed"
            if server.applied != len(committed):
                return f"server {server.id} has applied {server.applied} of {len(committed)}"
        publishers = {self.servers[server_id].publisher for server_id in voters}
        if len(publishers) != 1 or None in publishers:
            return f"the publishers are {sorted(map(str, publishers))}"
        return None

    @property
    def committed_voters(self) -> Voters:
        """Ids of the servers in the newest committed Configuration."""
        entries = reversed(self.checker.facts.committed)
        values = (voters_of(entry) for entry in entries if entry.value_type is ValueType.CONFIGURATION)
        return next(values, tuple(self.plan.first_ids))
