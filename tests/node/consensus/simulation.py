"""Farms of real cores with real `Timeouts`s over networks that delay, jitter and stall; the clock is only a number."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from gf_i2p.node.consensus.timing import Timeouts, TimingPlan
from gf_i2p.raft import inputs
from gf_i2p.raft.effects import Effects, Send
from gf_i2p.wire.messages import MessageType, Request
from tests.raft.lab import Disk, Lab, Message, Server


@dataclass(frozen=True)
class Network:
    """Seconds: one way takes `delay` plus up to `jitter`; every `every` or so, traffic to one server stops for up to
    `stall`.
    """

    delay: float
    jitter: float = 0.0
    stall: float = 0.0
    every: float = 0.0

    def one_way(self, rng: random.Random) -> float:
        return self.delay + self.jitter * rng.random() ** 3


HANDSHAKE_TRIPS = 3
"""Round trips of a handshake: one for TCP, one for TLS and one for HTTP."""

LAN_NET = Network(0.0005, 0.002)
PRIVATE_NET = Network(0.002, 0.04)
FAR_NET = Network(0.14, 0.05)
SLOW_NET = Network(0.9, 0.4, stall=6.0, every=300.0)


class Farm(Lab):
    """Servers 1 to n in a network, dialling each other from the start on.

    `watchful`: connections of a dead server break, and a new dial fails, both after a way there and back. `handshakes`:
    whether the round trip of a handshake is known. `apart`: servers with separate networks.
    """

    def __init__(
        self,
        network: Network,
        plan: TimingPlan | dict[int, TimingPlan],
        *,
        seed: int,
        servers: int = 3,
        watchful: bool = False,
        handshakes: bool = True,
        apart: dict[int, Network] | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.net = network
        self.watchful = watchful
        self.handshakes = handshakes
        self.apart = apart or {}
        ids = range(1, servers + 1)
        self.plans = plan if isinstance(plan, dict) else dict.fromkeys(ids, plan)
        self.tempos = {i: Timeouts(self.plans[i], servers=servers) for i in ids}
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.number = 0
        self.arrival: dict[tuple[int, int, bool], float] = {}
        self.stalled_until = dict.fromkeys(ids, 0.0)
        self.up_since: dict[tuple[int, int], float] = {}
        self.leaders: list[tuple[float, int, int]] = []  # each start of a leadership: time, server, term
        self.campaigns: list[tuple[float, int]] = []
        super().__init__(servers, uniform=self.rng.uniform)
        for one in ids:
            for other in ids:
                if one != other:
                    self.dial(one, other)
            if network.every:
                self.at(self.rng.expovariate(1 / network.every), lambda one=one: self.stall(one))  # type: ignore[misc]

    def _boot(self, server_id: int, disk: Disk) -> Server:
        server = super()._boot(server_id, disk)
        server.core.timing = self.tempos[server_id].timing
        server.core._await_election()
        return server

    # The network ------------------------------------------------------------------------------------------------

    def at(self, when: float, what: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.events, (when, self.number, what))

    def stall(self, server: int) -> None:
        """Deliver nothing to this server for a random time up to `stall`, as while the server's tunnels are rebuilt."""
        self.stalled_until[server] = self.now + self.net.stall * self.rng.uniform(0.5, 1.0)
        self.at(self.now + self.rng.expovariate(1 / self.net.every), lambda: self.stall(server))

    def way(self, sender: int, receiver: int) -> float:
        """Give the arrival time of a message that leaves now, without other messages."""
        network = self.apart.get(sender, self.apart.get(receiver, self.net))
        return max(self.now + network.one_way(self.rng), self.stalled_until[receiver])

    def _post(self, message: Message) -> None:
        request = isinstance(message.payload, Request)
        sender, receiver = message.sender, message.receiver
        link = (sender, receiver) if request else (receiver, sender)
        if link not in self.up_since:
            if request:
                failed = inputs.Failed(receiver, message.tag)
                self.at(self.now, lambda: self.tell(sender, failed))
            return
        way = (sender, receiver, request)
        when = self.arrival[way] = max(self.way(sender, receiver), self.arrival.get(way, 0.0))
        since = self.up_since[link]
        self.at(when, lambda: self.arrive(message, link, since))

    def arrive(self, message: Message, link: tuple[int, int], since: float) -> None:
        if self.up_since.get(link) == since:
            self.deliver(message)

    def tell(self, server: int, event: inputs.Input) -> None:
        if self.servers[server].up:
            self.step(server, event)

    def dial(self, one: int, other: int, trips: int = HANDSHAKE_TRIPS) -> None:
        """Make a connection after `trips` round trips; the last round trip is the measured one."""
        began = self.now

        def back() -> None:
            if trips > 1:
                self.dial(one, other, trips - 1)
            else:
                self.connect(one, other, began)

        self.at(self.way(one, other), lambda: self.at(self.way(other, one), back))

    def connect(self, one: int, other: int, began: float) -> None:
        if not (self.servers[one].up and self.servers[other].up):
            return
        self.up_since[one, other] = self.now
        self.arrival.pop((one, other, True), None)
        self.arrival.pop((other, one, False), None)
        self.tempos[one].reachable(other, self.now - began if self.handshakes else None, self.now)
        self.tempos[other].dialled(one, self.now)
        self.adopt_timing(other)
        self.tell(one, inputs.Reachable(other))

    # The driver's part ------------------------------------------------------------------------------------------

    def step(self, server_id: int, event: inputs.Input) -> Effects:
        core, timeouts = self.core(server_id), self.tempos[server_id]
        match event:
            case inputs.Incoming(_, request):
                timeouts.incoming(request, self.now)
            case inputs.Answered(_, tag):
                timeouts.answered(tag, self.now)
            case inputs.Failed(_, tag):
                timeouts.failed(tag)
        self.adopt_timing(server_id)
        term, led = core.term, core.is_leader
        effects = super().step(server_id, event)
        self.adopt_timing(server_id)
        if core.is_leader and not (led and core.term == term):
            self.leaders.append((self.now, server_id, core.term))
        return effects

    def adopt_timing(self, server_id: int) -> None:
        core, timeouts = self.core(server_id), self.tempos[server_id]
        if core.timing != timeouts.timing:
            core.timing = timeouts.timing
            core.redraw(self.now)

    def _send(self, server: Server, send: Send) -> None:
        self.tempos[server.id].sent(send, self.now)
        if send.request.type is MessageType.REQUEST_VOTE_REQUEST:
            campaign = (server.core.term, server.id)
            if campaign not in self.campaigns:
                self.campaigns.append(campaign)
        super()._send(server, send)

    # Running ----------------------------------------------------------------------------------------------------

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Run for `seconds`, or until the condition is true; return whether the condition became true."""
        end = self.now + seconds
        while not until():
            running = [server for server in self.servers.values() if server.up]
            due = min(running, key=lambda server: server.core.deadline)
            when = self.events[0][0] if self.events else float("inf")
            if min(due.core.deadline, when) > end:
                self.now = end
                return False
            if when <= due.core.deadline:
                self.now = max(self.now, when)
                heapq.heappop(self.events)[2]()
            else:
                self.now = max(self.now, due.core.deadline)
                self.step(due.id, inputs.Tick())
        return True

    @property
    def leader(self) -> int | None:
        """The leader, when all running servers agree."""
        running = [server.core for server in self.servers.values() if server.up]
        leaders = {core.leader for core in running}
        return next((core.id for core in running if core.is_leader and leaders == {core.id}), None)

    def kill(self, server_id: int) -> None:
        """Kill the process: the connections break; the network decides when the others hear of the death."""
        self.crash(server_id)
        self.tempos[server_id] = Timeouts(self.plans[server_id], servers=len(self.servers))
        for link in [link for link in self.up_since if server_id in link]:
            del self.up_since[link]
        for other in self.servers:
            if other != server_id:
                # The way back of the end of the connection, and there and back for the attempt.
                when = self.now + 3 * self.net.one_way(self.rng)
                self.at(when, lambda other=other: self.broken(other, server_id))  # type: ignore[misc]

    def broken(self, server: int, peer: int) -> None:
        if self.servers[server].up and not self.servers[peer].up:
            for tag in [tag for tag, f in self.tempos[server]._flights.items() if f.peer == peer]:
                self.tell(server, inputs.Failed(peer, tag))
            if self.watchful:
                self.tell(server, inputs.Unreachable(peer, refused=True))

    def revive(self, server_id: int) -> None:
        self.restart(server_id)
        for other in self.servers:
            if other != server_id and self.servers[other].up:
                self.dial(server_id, other)
                self.dial(other, server_id)

    def load(self, each: float, *, until: float) -> None:
        """Post an entry at the leader every `each` seconds, until the time `until`."""
        leader = self.leader
        if leader is not None:
            self.propose(leader, f"load {self.number}", "x")
        if self.now < until:
            self.at(self.now + each, lambda: self.load(each, until=until))
