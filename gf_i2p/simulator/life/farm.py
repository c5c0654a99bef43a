"""A simulated farm that lives for hours in a fraction of a second. Farm state, publishing and records are real.

The package `cluster` checks how servers agree on a log. Here the log is one list, on which all servers agree. Servers
stop, pause, are cut off, and read the log late. Times are true seconds since the run began. Each server also has a wall
clock, which may be wrong.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from gf_i2p.farm.publishing.lease import record_seconds
from gf_i2p.farm.state import FarmState
from gf_i2p.simulator.events import Events
from gf_i2p.simulator.facts import Violation, Voters
from gf_i2p.simulator.life.checker import LifeChecker
from gf_i2p.simulator.life.faults import LifeFaults
from gf_i2p.simulator.life.ledger import PAUSE
from gf_i2p.simulator.life.plan import CALM, LifePlan
from gf_i2p.simulator.life.publisher import GivenSet, SimulatedPublisher
from gf_i2p.simulator.life.reporters import INTERVAL, MASTER_HASH, LeafTruth, SimulatedReporter
from gf_i2p.simulator.registers import CLUSTER

BEGAN_MS: Final = 1_700_000_000_000
TICK: Final = 5.0
"""Seconds between two steps of a server's publisher."""
MOST_EVENTS: Final = 300_000
_PAGE: Final = 16
_LOOKS: Final = 4
"""Number of entries after which a server's whole choice is compared; in between, only the publisher is compared."""
_PATIENCE: Final = 30.0
"""Seconds for which a poster waits for an answer."""
_NOTICED: Final = 0.8
"""Chance, 0 to 1, that the leader notices a server's absence; otherwise a dead connection hides the absence."""
_CHANGE: Final = 2.0
"""Least seconds between two records of one poster."""


class SimulatedNode:
    """One server or leaf member, with its process, its machine's clock and its router."""

    def __init__(self, life: "FarmLife", poster: SimulatedReporter) -> None:
        self.id = poster.id
        self.poster = poster
        self.error_ms = 0
        """Error of the wall clock, in milliseconds; above 0: the clock is ahead."""
        self.up = True
        self.paused = False
        self.cut = False
        """Whether the network between this node and all others is cut."""
        self.away_since: float | None = None
        """Time since which the node is down, paused or cut off; None: the node works."""
        self.absence_noticed = True
        """Whether the leader notices that the node is down, paused or cut off."""
        self.life = 1
        self.applied = 0
        self.state = FarmState(CLUSTER)
        self._life = life
        self._snapshot: tuple[int, bytes] | None = None
        self._posted_at = -_CHANGE
        self._waiting = False
        self._inbox: list[Callable[[], None]] = []
        self.publisher = SimulatedPublisher(self, life.rng)

    @property
    def mode(self) -> str:
        """The server's mode as publisher."""
        return self.poster.mode

    @property
    def monotonic(self) -> float:
        """True seconds since the run began."""
        return self._life.events.now

    @property
    def wall_ms(self) -> int:
        """Milliseconds since 1970 by the machine's wall clock, which may be wrong."""
        return BEGAN_MS + int(self._life.events.now * 1000) + self.error_ms

    @property
    def works(self) -> bool:
        """Whether the process runs and hears the others."""
        return self.up and not self.paused and not self.cut

    # The process ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the node's process; the router beside the node goes on."""
        self.up, self.paused = False, False
        self.life += 1
        self._inbox.clear()

    def start(self) -> None:
        """Start a process from the latest snapshot; the log's later entries follow."""
        self.up = True
        index, data = self._snapshot or (0, None)
        self.applied = index
        self.state = FarmState(CLUSTER) if data is None else FarmState.decode(CLUSTER, data)
        if data is not None:
            self._life.checker.kept(self.id, index, self.state.encode())
        self._waiting = False
        self.publisher = SimulatedPublisher(self, self._life.rng)
        self.pull()

    def resume(self) -> None:
        """Go on after a pause: run the waiting actions in random order, as an event loop may."""
        self.paused = False
        life = self._life
        if self.away_since is not None and life.events.now - self.away_since > PAUSE:
            life.checker.resumed[self.id] = life.events.now
        waiting, self._inbox = [*self._inbox, self.pull, self.publisher.look], []
        life.rng.shuffle(waiting)
        for action in waiting:
            action()

    def enter(self, action: Callable[[], None]) -> None:
        """Run an action in the process: at once, or at the end of a pause."""
        if self.paused:
            self._inbox.append(action)
        else:
            action()

    def pull(self) -> None:
        """Apply the next entries of the log, up to `_PAGE` at once; the entries after those follow later."""
        life = self._life
        if not self.works or not self.poster.is_server or self.applied >= len(life.log):
            return
        for value in life.log[self.applied : self.applied + _PAGE]:
            self.applied += 1
            take_in(self.state, self.applied, value)
        if self.applied % _LOOKS == self.id % _LOOKS or self.state.publisher != life.checker.publisher_at(self.applied):
            life.checker.chose(self.id, self.applied, self.state.choice)
        snapshot_index = 0 if self._snapshot is None else self._snapshot[0]
        if self.applied - snapshot_index >= life.plan.snapshot_entries:
            self._snapshot = (self.applied, self.state.encode())
            life.checker.kept(self.id, *self._snapshot)
        self.publisher.look()
        if self.applied < len(life.log):
            life.later(life.rng.random() * life.plan.latency, self, self.pull)

    def tick(self) -> None:
        """Step the publisher now, and again every `TICK` seconds."""
        self._life.events.after(TICK, self.tick)
        if self.up and not self.paused:
            self.publisher.look()

    # Records --------------------------------------------------------------------------------------------------------

    def report_at_intervals(self) -> None:
        """Post a record about every `record_seconds`, to the end of the run."""
        interval = record_seconds(INTERVAL, self.state.parameters)
        self._life.events.after(interval * self._life.rng.uniform(0.97, 1.03), self.report_at_intervals)
        self.report()

    def changed(self) -> None:
        """Post a record soon after a change, but at the earliest `_CHANGE` seconds after the last record."""
        if not self._waiting:
            self._waiting = True
            wait = max(self._posted_at + _CHANGE - self.monotonic, 0.0)
            self._life.later(wait, self, self.report)

    def report(self) -> None:
        """Post a record now, unless the node is down or paused."""
        self._waiting = False
        if self.up and not self.paused:
            self._post(self.publisher.version_ms, lambda _: None, publishing=self.publisher.publishes)

    def announce(self, version_ms: int, done: Callable[[int | None], None]) -> None:
        """Post a record that names a set of this version, see `Host.announce`."""
        self._post(version_ms, done, publishing=True)
        self._life.faults.announced(self)

    def _post(self, version_ms: int, done: Callable[[int | None], None], *, publishing: bool) -> None:
        posted = self._posted_at = self.monotonic
        self.poster.accused = self._life.accusations(self)
        value = self.poster.record(self.wall_ms, version_ms=version_ms, publishing=publishing)
        lease = self.publisher.lease

        def committed(index: int | None) -> None:
            if index is not None:
                lease.committed(index, posted)
            done(index)

        self._life.post(self, value, committed)

    def give(self, lease_set: GivenSet) -> None:
        """Note that the server gives this set to its router, see `Host.give`."""
        self._life.checker.gives(self.id, self.applied, lease_set)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action in this process after `seconds`, see `Host.after`."""
        self._life.later(seconds, self, lambda: self.enter(action))


class FarmLife:
    """One simulated farm, for one run. Equal plans make equal runs."""

    def __init__(self, plan: LifePlan, *, write: Callable[[str], None] | None = None) -> None:
        """`write` takes the lines of a trace."""
        self.plan = plan
        self.rng = Random(f"brain run {plan.seed}")  # noqa: S311 -- it must be repeatable, and keeps no secret
        self.events = Events()
        self.counts: Counter[str] = Counter()
        self.log: list[bytes | Voters] = []
        """The committed entries: the bytes of an Application entry, or the ids of a Configuration's servers."""
        self.calm = False
        self._write = write
        self._leaderless_until = 0.0
        self._leader: int | None = None
        self.nodes = {
            each: SimulatedNode(
                self,
                SimulatedReporter(each, [LeafTruth(_leaf_hash(each, i)) for i in range(plan.leaves)], mode=plan.mode),
            )
            for each in (*range(1, plan.servers + 1), *plan.members)
        }
        self.nodes[self.rng.randint(1, plan.servers)].poster.leaves += _odd_leaves(plan.odd)
        self.servers = [node for node in self.nodes.values() if node.poster.is_server]
        self.checker = LifeChecker(self)
        self.commit(tuple(server.id for server in self.servers))
        for node in self.nodes.values():
            self.events.after(self.rng.random() * INTERVAL / 3, node.report_at_intervals)
            if node.poster.is_server:
                self.events.after(self.rng.random() * TICK, node.tick)
        self.events.after(TICK, self._tick)
        self.faults = LifeFaults(self)

    def run(self) -> None:
        """Run `plan.chaos` seconds with faults, and then `CALM` without. Raises `Violation` for a broken rule."""
        self._run_until(self.plan.chaos)
        self.faults.stop()
        self.calm = True
        self._run_until(self.plan.chaos + CALM)
        self.checker.ends()

    def _run_until(self, until: float) -> None:
        if not self.events.run(until, MOST_EVENTS):
            raise Violation("Bounded", f"{MOST_EVENTS} events in {self.events.now:.0f} s of a farm's life")

    def note(self, server: int, text: str) -> None:
        """Write a line of the trace, if the run has a trace."""
        if self._write is not None:
            self._write(f"{self.events.now:12.3f}  s{server:<11}  {text}")

    def later(self, seconds: float, node: SimulatedNode, action: Callable[[], None]) -> None:
        """Run an action in the node's process after `seconds`, if the same process still runs then."""
        life = node.life
        self.events.after(seconds, lambda: action() if node.life == life else None)

    def _tick(self) -> None:
        self.events.after(TICK, self._tick)
        self.checker.passes()

    # The log --------------------------------------------------------------------------------------------------------

    def post(self, node: SimulatedNode, value: bytes, done: Callable[[int | None], None]) -> None:
        """Carry an entry to the leader, if there is a leader, and carry the answer back.

        `done` gets the index of the committed entry; None: the outcome is unknown.
        """
        rng, life = self.rng, node.life

        def back(index: int | None) -> None:
            if node.life == life:
                answer = None if node.cut else index
                node.enter(lambda: done(answer))

        def arrives(until: float) -> None:
            if self.events.now < self._leaderless_until:
                if self._leaderless_until < until:
                    self.events.after(self._leaderless_until - self.events.now, arrives, until)
                else:
                    self.events.after(max(until - self.events.now, 0.0), back, None)
            elif node.cut:
                self.events.after(max(until - self.events.now, 0.0), back, None)
            elif not node.poster.is_server or node.id in self.checker.ledger.servers:
                index = self.commit(value)
                answer = None if rng.random() < self.plan.lost else index
                self.events.after(rng.random() * self.plan.latency, back, answer)

        self.events.after(rng.random() * self.plan.latency, arrives, self.events.now + _PATIENCE)

    def commit(self, value: bytes | Voters) -> int:
        """Append a committed entry to the log; return its index."""
        self.log.append(value)
        self.checker.committed(value)
        for server in self.servers:
            self.later(self.rng.random() * self.plan.latency, server, server.pull)
        return len(self.log)

    # Leaders --------------------------------------------------------------------------------------------------------

    @property
    def leaderless(self) -> bool:
        """Whether no entry can be committed now."""
        return self.events.now < self._leaderless_until

    def without_leader(self, seconds: float) -> None:
        """Commit nothing for `seconds`."""
        self._leaderless_until = max(self._leaderless_until, self.events.now + seconds)

    def away(self, node: SimulatedNode) -> None:
        """Note that a node has just gone down, or was paused or cut off.

        The leader usually reports a missing server soon. If the server led, the others elect another leader first.
        """
        self.checker.ever_away.add(node.id)
        if node.away_since is None:
            node.away_since = self.events.now
            node.absence_noticed = self.rng.random() < _NOTICED
        if self._leader in {None, node.id}:
            self.without_leader(self.rng.uniform(1.0, 8.0))
            working = [
                server.id for server in self.servers if server.works and server.id in self.checker.ledger.servers
            ]
            self._leader = self.rng.choice(working) if working else None
        leader = self.nodes.get(self._leader or 0)
        if leader is not None:
            self.later(self.rng.uniform(2.0, 6.0), leader, leader.changed)

    def back(self, node: SimulatedNode) -> None:
        """Note that a node that was down, paused or cut off works again."""
        if node.works:
            node.away_since = None
            node.pull()
            node.report()

    def accusations(self, node: SimulatedNode) -> dict[int, bool]:
        """Return whether other servers are reachable, by id, for a record of this server; empty unless it leads."""
        if node.id != self._leader:
            return {}
        now = self.events.now
        away = {each.id: each.away_since for each in self.servers if each is not node and each.absence_noticed}
        unreachable = {server: False for server, since in away.items() if since is not None and now - since > 2.0}
        reachable = {
            server: True for server in node.poster.accused if server not in unreachable and away.get(server) is None
        }
        return reachable | unreachable


def take_in(state: FarmState, index: int, value: bytes | Voters) -> None:
    """Apply the entry at `index` of the log to a state."""
    if isinstance(value, bytes):
        state.apply(value, index)
    else:
        state.configure(value)


def _leaf_hash(poster: int, number: int) -> bytes:
    return poster.to_bytes(4, "big") + bytes([number]) * 28


def _odd_leaves(odd: str) -> list[LeafTruth]:
    """Return a list of the odd leaf for a word of `LifePlan.odd`; an empty list for an empty word."""
    match odd:
        case "master":
            return [LeafTruth(MASTER_HASH)]
        case "loop":
            return [LeafTruth(bytes([7]) * 32, type=7, below=(bytes([8]) * 32, MASTER_HASH))]
        case "farm":
            return [LeafTruth(bytes([9]) * 32, type=7, below=(bytes([8]) * 32,))]
    return []
