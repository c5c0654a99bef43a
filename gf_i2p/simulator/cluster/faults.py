"""The faults of a farm's servers: when a fault strikes, what the fault does, and how the fault is undone."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from gf_i2p.raft import inputs
from gf_i2p.simulator.cluster.disk import Loss
from gf_i2p.simulator.cluster.operator import ORDERS
from gf_i2p.simulator.cluster.plan import TROUBLE

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.farm import SimulatedFarm
    from gf_i2p.simulator.cluster.server import SimulatedServer
    from gf_i2p.simulator.facts import ServerFacts

MESSAGE_FAULTS: Final = (
    "messages dropped",
    "messages duplicated",
    "messages reordered",
    "messages delayed",
    "requests of a dead connection",
    "connections given up",
    "answers to clients lost",
)
"""Names of the counts of message faults. `plan.FAULTS` has the names of the servers' faults."""
OTHER_COUNTS: Final = (
    *(loss.value for loss in Loss),
    "writes lost",
    "skewed clocks",
    "restarts",
    *ORDERS,
    "snapshots kept",
    "snapshots installed",
    "time-outs changed",
    "messages forged",
    "requests over a limit",
    "foreign answers",
    "answers of slow newcomers",
)

_TROUBLES: Final = 3
"""Number of troubles that one fault plans: joins are few."""
_TROUBLE_SHARE: Final = 0.5
"""Share of the requests to newcomers that meet trouble, while trouble is planned."""
_MOMENT: Final = 1e-5
"""A moment, in seconds: shorter than any duration in a run."""


class Faults:
    """Makes faults at random times, at random servers, until `stop`, which undoes all faults."""

    def __init__(self, farm: "SimulatedFarm") -> None:
        self._farm = farm
        self._undo: dict[int, Callable[[], None]] = {}
        self._number = 0
        self._stopped = False
        self._kinds: dict[str, Callable[[SimulatedServer], None]] = {
            "one-way cuts": self._cut_one_way,
            "partitions": self._partition,
            "resets": self._reset,
            "stalls": self._stall,
            "pauses": self._pause,
            "crashes": lambda server: self._crash(server, silently=False),
            "power cuts": lambda server: self._crash(server, silently=True),
            "farm-wide power cuts": self._cut_all_power,
            "crashes in a write": self._set_trap,
            "strikes at a new leader": self._strike_next_leader,
            "disks full": self._fill_disk,
            "slow disks": self._slow_disk,
            "clock jumps": self._jump,
            "routers down": self._router_down,
            "late answers": self._hold_answers,
            "snapshots damaged": self._damage_snapshot,
            "returns": self._return,
            "routers restart": self._restart_router,
            TROUBLE: self._plan_trouble,
        }
        self._trapped: dict[int, None] = {}
        self._held_answers: dict[int, int] = {}  # leader: number of the fault that holds up answers to the leader
        self._strikes_at_next_leader = 0
        self._troubles = 0
        self._plan_next()

    # Times ---------------------------------------------------------------------------------------------------------

    def _plan_next(self) -> None:
        self._farm.events.after(self._farm.rng.expovariate(1 / self._farm.plan.gap), self._strike)

    def _strike(self) -> None:
        if self._stopped:
            return
        rng, faults = self._farm.rng, self._farm.plan.faults
        name = rng.choices(list(faults), list(faults.values()))[0]
        self._apply_fault(name, self._pick_server())
        self._plan_next()

    def _apply_fault(self, name: str, server: "SimulatedServer") -> None:
        before = self._number
        self._kinds[name](server)
        if self._number > before:
            self._farm.counts[name] += 1
            self._farm.note(server.id, "fault", name)

    def _pick_server(self) -> "SimulatedServer":
        """Return a server at random: in half of all cases a leader, otherwise any server."""
        rng, servers = self._farm.rng, [server for server in self._farm.servers.values() if server.life]
        leaders = [server for server in servers if server.up and server.core.is_leader]
        return rng.choice(leaders) if leaders and rng.random() < 0.5 else rng.choice(servers)

    def _plan_end(
        self, undo: Callable[[], None] | None = None, units: float = 1.0, exactly: float | None = None
    ) -> None:
        """Count a fault, and plan its end if `undo` is given: at the end, `undo` is called.

        The fault lasts for `exactly`, or for a random time with the mean `units`; both in maximum election time-outs.
        """
        self._number += 1
        if undo is not None:
            number = self._number
            self._undo[number] = undo
            drawn = self._farm.rng.expovariate(1 / units) if exactly is None else exactly
            self._farm.events.after(drawn * self._farm.plan.timing.election_max, self._end, number)

    def _end(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    def stop(self) -> None:
        """Undo all faults, and make no more faults."""
        self._stopped = True
        self._trapped.clear()
        self._strikes_at_next_leader = self._troubles = 0
        while self._undo:
            self._end(next(iter(self._undo)))

    # The network ---------------------------------------------------------------------------------------------------

    def _cut(self, ways: Sequence[tuple[int, int]], exactly: float | None = None) -> None:
        net = self._farm.net
        for sender, receiver in ways:
            net.cut(sender, receiver)

        def heal() -> None:
            for sender, receiver in ways:
                net.heal(sender, receiver)

        self._plan_end(heal, 1.5, exactly)

    def _cut_one_way(self, server: "SimulatedServer") -> None:
        others = [i for i in self._farm.plan.ids if i != server.id]
        if others:
            rng = self._farm.rng
            chosen = rng.sample(others, rng.randint(1, len(others)))
            towards = rng.random() < 0.5
            self._cut([(other, server.id) if towards else (server.id, other) for other in chosen])

    def _partition(self, server: "SimulatedServer") -> None:
        ids, rng = self._farm.plan.ids, self._farm.rng
        if len(ids) == 1:
            return
        if server.up and server.core.is_leader and rng.random() < 0.5:
            self._number += 1
            self._after_heartbeats(server, self._cut_leader_off)
            return
        size = 1 if rng.random() < 0.5 else rng.randint(1, len(ids) - 1)
        inside = {server.id, *rng.sample([i for i in ids if i != server.id], size - 1)}
        self._cut([(one, other) for one in ids for other in ids if (one in inside) != (other in inside)])

    def _cut_leader_off(self, server: "SimulatedServer") -> None:
        """Cut a leader off for about as long as the others need for an election, and the leader needs to notice."""
        if not self._stopped:
            others = [i for i in self._farm.plan.ids if i != server.id]
            pairs = [(server.id, other) for other in others] + [(other, server.id) for other in others]
            self._cut(pairs, self._farm.rng.uniform(0.6, 1.2))

    def _hold_answers(self, server: "SimulatedServer") -> None:
        """Hold up the answers to a leader, so that another server leads, until a client reads from the old leader."""
        if server.up and server.core.is_leader and server.links and not self._farm.plan.strict:
            self._number += 1
            self._after_heartbeats(server, self._hold)

    def _hold(self, server: "SimulatedServer") -> None:
        if self._stopped:
            return
        net, rng = self._farm.net, self._farm.rng
        others = [i for i in self._farm.plan.ids if i != server.id]
        self._cut([(other, server.id) for other in others], 1.2)
        self._held_answers[server.id] = self._number
        # Messages that have left the leader still arrive; the leader's later messages do not.
        trip = max(net.seconds(server.id, other) for other in others)
        pairs = [(server.id, other) for other in others]
        self._farm.events.after(trip, self._cut_unless_stopped, pairs, rng.uniform(1.0, 2.0))

    def _cut_unless_stopped(self, pairs: Sequence[tuple[int, int]], units: float) -> None:
        if not self._stopped:
            self._cut(pairs, units)

    def reading(self, server: "SimulatedServer") -> None:
        """Let the held-up answers to a leader come, because a client reads from the leader."""
        number = self._held_answers.pop(server.id, None)
        if number is not None:
            units = 0.1 * self._farm.rng.random()
            self._farm.events.after(units * self._farm.plan.timing.election_max, self._end, number)

    def _reset(self, server: "SimulatedServer") -> None:
        links = list(server.links.values())
        if links:
            self._farm.rng.choice(links).reset(lose=self._farm.rng.random() < 0.5)
            self._plan_end()

    def _stall(self, server: "SimulatedServer") -> None:
        links = list(server.links.values())
        if links and not self._farm.plan.strict:
            self._farm.rng.choice(links).stall(self._farm.rng.expovariate(1 / self._farm.plan.timing.election_max))
            self._plan_end()

    # Processes and machines ----------------------------------------------------------------------------------------

    def _pause(self, server: "SimulatedServer") -> None:
        if not server.up or server.paused:
            return
        if server.core.is_leader and self._farm.rng.random() < 0.5:
            self._number += 1
            self._after_heartbeats(server, self._stop_for_a_while, 3.0)
        else:
            self._stop_for_a_while(server, self._farm.rng.choice((0.5, 2.0)))

    def _after_heartbeats(self, leader: "SimulatedServer", action: Callable[..., None], *args: object) -> None:
        """Call `action` just after the leader's next heartbeats have left, before the leader reads the answers."""
        seconds = leader.clock.wait(leader.core.deadline) + _MOMENT
        self._farm.events.after(seconds, leader.enter, leader.life, action, leader, *args)

    def _stop_for_a_while(self, server: "SimulatedServer", units: float) -> None:
        if self._stopped:
            return
        life = server.life
        server.pause()

        def resume() -> None:
            if server.life == life:
                self._farm.note(server.id, "resumes", "")
                server.resume()

        self._plan_end(resume, units)

    def _crash(self, server: "SimulatedServer", *, silently: bool, units: float = 1.0) -> None:
        if not server.up:
            return
        loss = server.end(silently=silently)
        self._farm.counts[loss.value] += 1
        self._farm.note(server.id, "ends", loss.value)
        self._restart_later(server, units)

    def _return(self, server: "SimulatedServer") -> None:
        """End a server's process, and start the process again soon.

        The server then dials the others at once, but the others find the server only after some time.
        """
        if not server.up:
            return
        loss = server.end(silently=False)
        self._farm.counts[loss.value] += 1
        self._farm.note(server.id, "ends", loss.value)
        self._restart_later(server, 0.2, slowly_found=True)

    def _hide(self, server: "SimulatedServer") -> None:
        """Let each other server find this server only after some time, which is random for each."""
        farm, unit = self._farm, self._farm.plan.timing.election_max
        if self._stopped:
            return
        for other in farm.plan.ids:
            if other != server.id:
                farm.net.hide(other, server.id, farm.events.now + unit * farm.rng.uniform(0.3, 4.0))

    def _restart_router(self, server: "SimulatedServer") -> None:
        """Break all links from and to a server. Each direction of each way works again after a random time."""
        if not server.up:
            return
        farm = self._farm
        for other in farm.servers.values():
            if other is server:
                continue
            for one, peer in ((server, other), (other, server)):
                self._cut([(one.id, peer.id)])
                if one.up and peer.id in one.links:
                    one.links[peer.id].reset(lose=True)

    def _restart_later(self, server: "SimulatedServer", units: float = 1.0, *, slowly_found: bool = False) -> None:
        life = server.life

        def restart() -> None:
            if server.life == life:
                self._farm.counts["restarts"] += 1
                if slowly_found:
                    self._hide(server)
                server.boot()
                self._farm.note(server.id, "starts", f"with {server.core.log.last_index} entries")

        self._plan_end(restart, units)

    def _cut_all_power(self, server: "SimulatedServer") -> None:
        if server.up:
            for each in self._farm.servers.values():
                self._crash(each, silently=True, units=0.3)

    def _set_trap(self, server: "SimulatedServer") -> None:
        if server.id not in self._trapped:
            self._trapped[server.id] = None
            self._plan_end()

    def writing(self, server: "SimulatedServer") -> None:
        """Plan a crash in a write that a server has just given its disk, if the server was marked for such a crash."""
        if server.id in self._trapped:
            del self._trapped[server.id]
            seconds = 1.3 * self._farm.rng.random() * (server.disk.synced_at - self._farm.events.now)
            self._farm.events.after(max(seconds, 0.0), server.enter, server.life, self._spring_trap, server)

    def _spring_trap(self, server: "SimulatedServer") -> None:
        if not self._stopped:
            self._crash(server, silently=self._farm.rng.random() < 0.5, units=0.5)

    def _strike_next_leader(self, _: "SimulatedServer") -> None:
        self._strikes_at_next_leader += 1
        self._plan_end()

    def elected(self, server: "SimulatedServer") -> None:
        """Make a fault at a new leader soon, if that was planned. Called when a server has become leader."""
        if self._strikes_at_next_leader and not self._stopped:
            self._strikes_at_next_leader -= 1
            seconds = self._farm.rng.random() ** 3 * self._farm.plan.timing.election_min
            self._farm.events.after(seconds, self._strike_leader, server, server.life)

    def _strike_leader(self, server: "SimulatedServer", life: int) -> None:
        if server.life == life and not self._stopped:
            self._apply_fault(
                self._farm.rng.choice(("partitions", "one-way cuts", "crashes", "power cuts", "pauses")), server
            )

    def _plan_trouble(self, _: "SimulatedServer") -> None:
        self._troubles += _TROUBLES
        self._plan_end()

    def inviting(self, leader: "SimulatedServer", newcomer: "SimulatedServer") -> None:
        """Make trouble, if that was planned, while a leader's request to a newcomer, or to a leaver, is on the way."""
        if self._troubles and self._farm.rng.random() < _TROUBLE_SHARE:
            self._troubles -= 1
            trip = self._farm.net.seconds(leader.id, newcomer.id)
            seconds = 2 * trip * self._farm.rng.random()
            self._farm.events.after(seconds, leader.enter, leader.life, self._trouble, leader, newcomer)

    def _trouble(self, leader: "SimulatedServer", newcomer: "SimulatedServer") -> None:
        link, rng = leader.links.get(newcomer.id), self._farm.rng
        if self._stopped or link is None:
            return
        kind = rng.choice(("reset", "reset", "stall", "newcomer", "newcomer", "leader", "pause"))
        self._farm.note(newcomer.id, "fault", f"{TROUBLE}: {kind}")
        match kind:
            case "reset":
                link.reset(lose=rng.random() < 0.5)
            case "stall":
                link.stall(rng.expovariate(1 / self._farm.plan.timing.election_max))
            case "newcomer":
                self._crash(newcomer, silently=rng.random() < 0.5, units=0.3)
            case "leader":
                self._crash(leader, silently=rng.random() < 0.5, units=0.5)
            case _:
                self._pause(newcomer)

    # Disks, clocks, routers ----------------------------------------------------------------------------------------

    def _fill_disk(self, server: "SimulatedServer") -> None:
        disk = server.disk
        if server.up and not disk.full:
            disk.full = True
            self._plan_end()

    def halted(self, server: "SimulatedServer") -> None:
        """Plan a restart of a server that has ended because its disk is full. The restarted server's disk has room."""
        self._restart_later(server)

    def _damage_snapshot(self, picked: "SimulatedServer") -> None:
        """Damage the snapshot of a stopped server, unless another server's snapshot is damaged already.

        When no server is stopped that has a snapshot, the picked server crashes for it.
        """
        facts = self._farm.checker.facts.servers
        if any(each.durable.base and each.durable.snapshot is None for each in facts.values()):
            return
        stopped = [facts[each.id] for each in self._farm.servers.values() if not each.up]
        if picked.up and not any(each.durable.snapshot for each in stopped) and facts[picked.id].durable.snapshot:
            self._crash(picked, silently=True)
        servers = [
            each for each in self._farm.servers.values() if not each.up and self._has_copies_elsewhere(facts[each.id])
        ]
        if servers:
            server = self._farm.rng.choice(servers)
            server.store.damage_snapshot()
            self._farm.checker.damaged(server.id)
            self._plan_end()

    def _has_copies_elsewhere(self, server: "ServerFacts") -> bool:
        """Whether, in each Configuration that may count, another server has the entries of this server's snapshot.

        Without such a copy, damage could end the farm, as the loss of a majority does. False without a snapshot, and
        for a farm of fewer than 3 servers.
        """
        snapshot, facts = server.durable.snapshot, self._farm.checker.facts
        if snapshot is None:
            return False
        others = {
            each.id
            for each in facts.servers.values()
            if each is not server and each.durable.last_index >= snapshot.index
        }
        committed = self._farm.committed_voters
        later = (item for each in facts.servers.values() for item in each.configurations)
        counting = [committed, *(voters for index, voters in later if index > len(facts.committed))]
        return len(committed) >= 3 and not any(others.isdisjoint(voters) for voters in counting)

    def _slow_disk(self, server: "SimulatedServer") -> None:
        disk, rng = server.disk, self._farm.rng
        alone = len(server.core.configuration.servers) == 1
        disk.slow = rng.choice((30.0, 300.0, 3000.0) if alone else (5.0, 30.0, 300.0))
        if alone:  # the only server stands for election again, while a write of entries is still under way
            seconds = rng.random() * self._farm.plan.timing.election_max
            self._farm.events.after(seconds, server.enter, server.life, server.step, inputs.StepDown())
        elif server.core.is_leader and rng.random() < 0.3:  # its operator sees the slow disk
            server.enter(server.life, server.step, inputs.StepDown())

        def recover() -> None:
            disk.slow = 1.0

        self._plan_end(recover)

    def _jump(self, server: "SimulatedServer") -> None:
        clock, rng = server.clock, self._farm.rng
        before = clock.error_ms
        clock.error_ms += int(rng.choice((-1, 1)) * 10 ** rng.uniform(2, 7))

        def correct() -> None:
            clock.error_ms = before

        self._plan_end(correct, 2.0)

    def _router_down(self, server: "SimulatedServer") -> None:
        router = self._farm.routers[server.id]
        router.up = False

        def mend() -> None:
            router.up = True

        self._plan_end(mend, 3.0)
