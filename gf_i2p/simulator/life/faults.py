"""The faults in hours of a farm's life: when a fault strikes, what the fault does, and how the fault is undone."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.simulator.life.plan import WRONG_MS
from gf_i2p.simulator.registers import CLUSTER

if TYPE_CHECKING:
    from gf_i2p.simulator.life.farm import FarmLife, SimulatedNode

_PARAMETERS: Final = (
    ("tree", ("best", "tree")),
    ("maxEntries", (3, 8, 16)),
    ("margin", (0, 50, 200)),
    ("holdMs", (0, 120_000, 600_000)),
    ("freshMs", (35_000, 105_000, 150_000)),
    ("unheardMs", (0, 30_000, 90_000)),
    ("republishMinMs", (60_000, 120_000)),
)
"""Parameters that the simulated administrators set, each with the values to choose from."""


class LifeFaults:
    """Makes faults at random times until `stop`. The clocks in `LifePlan.wrong` stay wrong to the end of the run."""

    def __init__(self, life: "FarmLife") -> None:
        self._life = life
        self._undo: dict[int, Callable[[], None]] = {}
        self._number = 0
        self._stopped = False
        self._trapped: set[int] = set()
        self._kinds: dict[str, Callable[[SimulatedNode], None]] = {
            "servers stopped": self._stop_server,
            "servers paused": self._pause,
            "servers cut off": self._cut,
            "farms without a leader": self._without_leader,
            "routers switched off": self._router_off,
            "leaves down": self._leaf_down,
            "leaves that flap": self._flap,
            "wrong clocks that jump": self._jump,
            "publishing switched": self._switch,
            "modes changed": self._change_mode,
            "loads changed": self._load,
            "entries of administrators": self._administer,
            "configurations changed": self._configure,
        }
        for server_id in life.plan.wrong:
            self._set_wrong(life.nodes[server_id])
        self._plan_next()

    def _plan_next(self) -> None:
        self._life.events.after(self._life.rng.expovariate(1 / self._life.plan.gap), self._strike)

    def _strike(self) -> None:
        if self._stopped:
            return
        life = self._life
        faults = life.plan.faults
        name = life.rng.choices(list(faults), list(faults.values()))[0]
        before = self._number
        node = self._pick()
        self._kinds[name](node)
        if self._number > before:
            life.counts[name] += 1
            life.note(node.id, name)
        self._plan_next()

    def _pick(self) -> "SimulatedNode":
        """Return a server at random: in half of all cases the publisher, otherwise any server."""
        life = self._life
        publisher = life.checker.state.choice.publisher
        if publisher in life.nodes and life.rng.random() < 0.5:
            return life.nodes[publisher]
        return life.rng.choice(life.servers)

    def _plan_end(self, undo: Callable[[], None], seconds: float) -> None:
        """Count a fault, and plan its end: `undo` is called after `seconds`, or at `stop` if that is earlier."""
        self._number += 1
        number = self._number
        self._undo[number] = undo
        self._life.events.after(seconds, self._end, number)

    def _end(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    def stop(self) -> None:
        """Make no more faults, and undo all faults that have an end.

        Changes of loads, administrators' entries and a change of all servers' mode stay.
        """
        self._stopped = True
        while self._undo:
            self._end(next(iter(self._undo)))

    # Servers --------------------------------------------------------------------------------------------------------

    def _may_fail(self, node: "SimulatedNode") -> bool:
        """Whether the node works, and a majority with right clocks would still work without the node."""
        life = self._life
        servers = life.checker.ledger.servers
        bad = {each.id for each in life.servers if not each.works or each.error_ms} & set(servers)
        return node.works and len(bad | {node.id}) <= (len(servers) - 1) // 2

    def _stop_server(self, node: "SimulatedNode") -> None:
        if self._may_fail(node):
            node.stop()
            self._life.away(node)

            def start() -> None:
                node.start()
                self._life.back(node)

            self._plan_end(start, self._away_seconds())

    def _pause(self, node: "SimulatedNode") -> None:
        """Pause a server: at once, or just after its next announcement, before the router gets the announced set."""
        if node.publisher.publishes and self._life.rng.random() < 0.5:
            self._trapped.add(node.id)
            self._number += 1
        else:
            self._pause_now(node)

    def announced(self, node: "SimulatedNode") -> None:
        """Pause a server that was marked for a pause at its next announcement. Called at each announcement."""
        if node.id in self._trapped and not self._stopped:
            self._trapped.discard(node.id)
            self._life.later(0.0, node, lambda: self._pause_now(node))

    def _pause_now(self, node: "SimulatedNode") -> None:
        if self._may_fail(node):
            node.paused = True
            self._life.away(node)

            def resume() -> None:
                node.resume()
                self._life.back(node)

            self._plan_end(resume, self._away_seconds())

    def _cut(self, node: "SimulatedNode") -> None:
        if self._may_fail(node):
            node.cut = True
            self._life.away(node)

            def heal() -> None:
                node.cut = False
                self._life.back(node)

            self._plan_end(heal, self._away_seconds())

    def _away_seconds(self) -> float:
        return self._life.rng.choice((5.0, 40.0, 150.0, 400.0)) * self._life.rng.uniform(0.5, 1.5)

    def _without_leader(self, _: "SimulatedNode") -> None:
        self._number += 1
        self._life.without_leader(self._life.rng.uniform(5.0, 40.0))

    def _jump(self, _: "SimulatedNode") -> None:
        if self._life.plan.wrong:
            self._number += 1
            self._set_wrong(self._life.nodes[self._life.rng.choice(self._life.plan.wrong)])

    def _set_wrong(self, node: "SimulatedNode") -> None:
        """Make the server's clock wrong at random: by a little, so that the server may still publish, or by much."""
        rng = self._life.rng
        max_error_ms = rng.choice((50_000, 150_000, WRONG_MS, WRONG_MS))
        node.error_ms = rng.choice((-1, 1)) * rng.choice((max_error_ms, rng.randint(1, max_error_ms)))
        self._life.note(node.id, f"clock wrong by {node.error_ms / 1000:.1f} s")

    # Routers and leaves ---------------------------------------------------------------------------------------------

    def _router_off(self, node: "SimulatedNode") -> None:
        if node.poster.router_up:
            node.poster.router_up = False
            self._life.checker.ever_away.add(node.id)
            node.changed()

            def mend() -> None:
                node.poster.router_up = True
                node.changed()

            self._plan_end(mend, self._life.rng.expovariate(1 / 120))

    def _leaf_down(self, _: "SimulatedNode") -> None:
        life = self._life
        poster = life.rng.choice(list(life.nodes.values()))
        leaf = life.rng.choice(poster.poster.leaves)
        if leaf.up:
            leaf.set(up=False)
            poster.changed()

            def mend() -> None:
                leaf.set(up=True)
                poster.changed()

            self._plan_end(mend, life.rng.choice((15.0, 100.0, 300.0)) * life.rng.uniform(0.5, 1.5))

    def _flap(self, node: "SimulatedNode") -> None:
        """Let one leaf go up and down for a while."""
        life = self._life
        leaf = life.rng.choice(node.poster.leaves)
        half = life.rng.uniform(3.0, 120.0)
        ends = life.events.now + life.rng.uniform(300.0, 1500.0)

        def turn() -> None:
            if not self._stopped and life.events.now < ends:
                leaf.set(up=not leaf.up)
                life.events.after(half, turn)
            else:
                leaf.set(up=True)
            node.changed()

        self._number += 1
        turn()

    def _load(self, node: "SimulatedNode") -> None:
        rng = self._life.rng
        node.poster.lag_ms = rng.choice((0, 0, 500, 3_000, 9_000))
        for leaf in node.poster.leaves:
            leaf.connections = rng.randint(0, 100)
        self._number += 1

    # Settings -------------------------------------------------------------------------------------------------------

    def _switch(self, node: "SimulatedNode") -> None:
        before, node.poster.publish = node.poster.publish, self._life.rng.choice(("on", "off", "auto"))
        node.changed()

        def back() -> None:
            node.poster.publish = before
            node.changed()

        self._plan_end(back, self._life.rng.expovariate(1 / 200))

    def _change_mode(self, node: "SimulatedNode") -> None:
        """Change the mode of one server for a while, or the mode of all servers within a minute."""
        life = self._life
        if life.rng.random() < 0.7:
            node.poster.mode = life.rng.choice(("meta", "failover", "dry-run", "off"))
            node.changed()

            def back() -> None:
                node.poster.mode = life.servers[0].poster.mode if node.id != 1 else life.servers[-1].poster.mode
                node.changed()

            self._plan_end(back, life.rng.expovariate(1 / 200))
        else:
            self._number += 1
            mode = life.rng.choice(("meta", "failover", "meta", "dry-run"))
            for each in life.servers:
                life.events.after(life.rng.random() * 60.0, self._set_mode, each, mode)

    def _set_mode(self, node: "SimulatedNode", mode: str) -> None:
        if not self._stopped:
            node.poster.mode = mode
            node.changed()

    def _administer(self, node: "SimulatedNode") -> None:
        rng = self._life.rng
        posters = [*self._life.nodes.values()]
        leaf = rng.choice(rng.choice(posters).poster.leaves).hash
        action = rng.choice(("exclude", "include", "cost", "move", "release", "drain", "undrain", "publishNow", "set"))
        fields: dict[str, Any] = {}
        match action:
            case "exclude" | "include":
                fields["hash"] = leaf
            case "cost":
                fields |= {"hash": leaf, "cost": rng.choice((None, 0, 1, 100, 255))}
            case "move" | "drain" | "undrain":
                fields["server"] = node.id
            case "set":
                name, values = rng.choice(_PARAMETERS)
                fields["parameters"] = {name: rng.choice((None, *values))}
        entry = AdminEntry(CLUSTER, node.wall_ms, f"server-{node.id}", action, **fields)
        self._life.note(node.id, entry.what)
        if node.works:
            self._number += 1
            self._life.post(node, entry.encode(), lambda _: None)

    def _configure(self, node: "SimulatedNode") -> None:
        """Take a server out of the Configuration for a while, in a farm of four servers or more."""
        life = self._life
        servers = life.checker.ledger.servers
        if node.id not in servers or len(servers) < life.plan.servers or len(servers) < 4 or not self._may_fail(node):
            return

        def again() -> None:
            life.commit(tuple(sorted({*life.checker.ledger.servers, node.id})))

        life.commit(tuple(server for server in servers if server != node.id))
        self._plan_end(again, life.rng.uniform(20.0, 300.0))
