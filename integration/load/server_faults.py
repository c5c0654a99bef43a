"""The faults of a farm's servers: chosen by a seed beforehand, carried out as far as the moment allows."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Final

from integration.harness.local_farm import LocalFarm
from integration.harness.network_farm import CLIENTS, FarmNet

_LOOK_SECONDS: Final = 0.5


class Kind(Enum):
    """A fault. The leader is the present leader, by the servers' own words."""

    KILL = "kill -9"
    KILL_LEADER = "kill -9 of the leader"
    KILL_HISTORY = "kill -9 of a history process"
    KILL_LEADERS_HISTORY = "kill -9 of the leader's history process"
    HANG = "SIGSTOP"
    HANG_LEADER = "SIGSTOP of the leader"
    ONE_WAY = "one way between two servers cut"
    PARTITION = "a minority cut off"
    ISOLATE_LEADER = "the leader cut off from the others"
    DEAF_LEADER = "the leader hears no other"
    MUTE_LEADER = "no other hears the leader"
    CLIENTS = "the leader cut off from the clients"


_LEADERS: Final = {kind for kind in Kind if "leader" in kind.value}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Times are seconds."""

    kind: Kind
    pause: float
    """Pause before the fault, since the end of the last one."""
    lasts: float
    order: tuple[int, ...]
    """All servers. The first server of this order that can have the fault gets the fault."""

    def __str__(self) -> str:
        return f"{self.pause:.2f} s, then {self.kind.value} for {self.lasts:.2f} s, {self.order}"


def plan_faults(rng: random.Random, seconds: float, servers: Sequence[int]) -> list[Fault]:
    """Choose faults one after another, for a run of `seconds`."""
    faults: list[Fault] = []
    total = 0.0
    while total < seconds:
        kind = rng.choice(list(Kind))
        lasts = rng.uniform(0.1, 1.5) if rng.random() < 0.4 else rng.uniform(1.0, 6.0)
        fault = Fault(kind, rng.uniform(0.2, 2.5), lasts, tuple(rng.sample(list(servers), len(servers))))
        faults.append(fault)
        total += fault.pause + fault.lasts
    return faults


class Tormentor:
    """Carries out one or more plans of faults on a farm, side by side."""

    def __init__(self, farm: LocalFarm, net: FarmNet, tell: Callable[[str], None]) -> None:
        self.done: Counter[str] = Counter()
        """Counts by the name of the fault."""
        self._farm = farm
        self._net = net
        self._say = tell
        self.busy: set[int] = set()
        """Servers that are killed or hang: no two faults may wake the same server."""

    async def run(self, faults: Sequence[Fault]) -> None:
        """Carry out the faults one after another, and undo each."""
        for fault in faults:
            await asyncio.sleep(fault.pause)
            await self._carry_out(fault)

    async def _carry_out(self, fault: Fault) -> None:
        leader = await self.leader() if fault.kind in _LEADERS else None
        order = fault.order if leader is None else (leader, *(each for each in fault.order if each != leader))
        first, others = order[0], order[1:]
        match fault.kind:
            case Kind.KILL | Kind.KILL_LEADER | Kind.HANG | Kind.HANG_LEADER:
                free = [server for server in order if server not in self.busy]
                await self._stop(fault, free[0])
            case Kind.KILL_HISTORY | Kind.KILL_LEADERS_HISTORY:
                self._kill_history(fault, next(server for server in order if server not in self.busy))
                await asyncio.sleep(fault.lasts)
            case Kind.ONE_WAY:
                await self._cut(fault, f"from {first} to {order[1]}", [(first, order[1])])
            case Kind.PARTITION:
                few, many = order[:2], order[2:]
                ways = [*product(few, many), *product(many, few)]
                await self._cut(fault, f"{few[0]} and {few[1]}", ways)
            case Kind.ISOLATE_LEADER:
                await self._cut(fault, f"{first}", [*product([first], others), *product(others, [first])])
            case Kind.DEAF_LEADER:
                await self._cut(fault, f"{first}", list(product(others, [first])))
            case Kind.MUTE_LEADER:
                await self._cut(fault, f"{first}", list(product([first], others)))
            case Kind.CLIENTS:
                await self._cut(fault, f"{first}", [(first, CLIENTS), (CLIENTS, first)])

    async def _stop(self, fault: Fault, server: int) -> None:
        self._tell(fault, f"{server}")
        self.busy.add(server)
        if fault.kind in {Kind.KILL, Kind.KILL_LEADER}:
            await asyncio.to_thread(self._farm.kill, server)
            await asyncio.sleep(fault.lasts)
            self._farm.start(server)
        else:
            self._farm.send_signal(server, signal.SIGSTOP)
            await asyncio.sleep(fault.lasts)
            self._farm.send_signal(server, signal.SIGCONT)
        self.busy.discard(server)

    def _kill_history(self, fault: Fault, server: int) -> None:
        self._tell(fault, f"{server}")
        self._farm.kill_history(server)

    async def _cut(self, fault: Fault, what: str, ways: Sequence[tuple[int, int]]) -> None:
        self._tell(fault, what)
        await asyncio.to_thread(self._net.cut, ways)
        await asyncio.sleep(fault.lasts)
        await asyncio.to_thread(self._net.mend, ways)

    def _tell(self, fault: Fault, what: str) -> None:
        self.done[fault.kind.value] += 1
        self._say(f"{fault.kind.value}: {what}, for {fault.lasts:.1f} s")

    async def leader(self) -> int | None:
        """Return the leader of the latest term. A cut-off server is asked, too, but no killed or paused server."""
        awake = [server for server in self._farm.running if server not in self.busy]
        answers = await asyncio.gather(*(self._farm.status(server, seconds=_LOOK_SECONDS) for server in awake))
        leading = [answer for answer in answers if answer is not None and answer["role"] == "leader"]
        return max(leading, key=lambda answer: int(answer["term"]))["id"] if leading else None
