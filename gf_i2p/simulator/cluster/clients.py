"""Clients that set and read registers, and the history of their operations. A client does one operation at a time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gf_i2p.simulator.cluster.caller_connections import Post, Query
from gf_i2p.simulator.cluster.linearizability import Operation, OperationKind, Undecided, linearizable
from gf_i2p.simulator.facts import Violation
from gf_i2p.simulator.registers import RegisterWrite
from gf_i2p.wire.messages import Response

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.farm import SimulatedFarm
    from gf_i2p.simulator.cluster.server import SimulatedServer

MOST_OPERATIONS: Final = 150
"""Most operations on one register in one run."""
MOST_UNKNOWN: Final = 30
"""Most operations of unknown outcome on one register: each such operation makes the check longer."""

READ_TIMEOUTS: Final = 0.4
"""How long a client waits for a read's value, in maximum election time-outs. A read that is given up costs nothing."""
WATCH_TIMEOUTS: Final = 0.15
"""Pause of a `DeposedReader` between two looks, in maximum election time-outs."""
WRITE_TIMEOUTS: Final = 2.0
"""How long a client waits for a write's answer, in maximum election time-outs. A write that is given up has an unknown
outcome."""


@dataclass(slots=True)
class _Entry:
    """One operation, done or still under way."""

    kind: OperationKind
    called: int
    value: int = 0
    expected: int = 0
    swapped: bool | None = None
    returned: int | None = None
    left_out: bool = False
    """Whether the check ignores the operation, which had no effect, and whose answer told no value."""


class OperationHistory:
    """The operations of all clients, by register."""

    def __init__(self, keys: int) -> None:
        self.unknown = 0
        self.undecided = 0
        """Number of registers whose linearizability check was given up."""
        self._keys: list[list[_Entry]] = [[] for _ in range(keys)]
        self._open = [0] * keys  # operations of each register whose outcome is unknown
        self._moments = 0

    def has_room(self, key: int) -> bool:
        """Whether register `key` may have one more operation: too many would make the check of its history too long."""
        return len(self._keys[key]) < MOST_OPERATIONS and self._open[key] < MOST_UNKNOWN

    def moment(self) -> int:
        """Return the next number: 1, 2, 3, ... All calls and returns of all operations share this count."""
        self._moments += 1
        return self._moments

    def begin(self, key: int, kind: OperationKind, value: int = 0, expected: int = 0) -> _Entry:
        """Note that a client sends an operation on register `key`, and return the operation's entry in the history."""
        entry = _Entry(kind, self.moment(), value, expected)
        self._keys[key].append(entry)
        self._open[key] += 1
        return entry

    def returned(self, key: int, entry: _Entry) -> None:
        """Note that an operation is surely done, because its answer has come."""
        entry.returned = self.moment()
        self._open[key] -= 1

    def leave_out(self, key: int, entry: _Entry) -> None:
        """Note that the check must ignore an operation, which had no effect, and whose answer told no value."""
        entry.left_out = True
        self._open[key] -= 1

    @property
    def operations(self) -> int:
        """Number of operations that are surely done."""
        return sum(entry.returned is not None for entries in self._keys for entry in entries)

    def check(self) -> None:
        """Check each register's history. Raises `Violation` when no order of the operations explains the answers."""
        for key, entries in enumerate(self._keys):
            evidence = [
                e for e in entries if not e.left_out and (e.kind is not OperationKind.READ or e.returned is not None)
            ]
            self.unknown += sum(entry.returned is None for entry in evidence)
            operations = [Operation(e.kind, e.called, e.returned, e.value, e.expected, e.swapped) for e in evidence]
            try:
                if not linearizable(operations):
                    listing = "; ".join(map(_describe, operations))
                    raise Violation(
                        "Linearizable", f"no order of the operations on register {key} is possible: {listing}"
                    )
            except Undecided:
                self.undecided += 1


def _describe(operation: Operation) -> str:
    until = "?" if operation.returned is None else operation.returned
    action = {
        OperationKind.READ: f"read {operation.value}",
        OperationKind.WRITE: f"write {operation.value}",
        OperationKind.SWAP: f"set {operation.value} if {operation.expected}: {operation.swapped}",
    }[operation.kind]
    return f"{operation.called}-{until} {action}"


class SimulatedClient:
    """A client that sends operations until the farm is calm."""

    def __init__(self, farm: "SimulatedFarm", history: OperationHistory) -> None:
        self._farm = farm
        self._history = history
        self._server = farm.rng.choice(farm.plan.first_ids)
        self._last_values = [0] * farm.plan.keys
        self._turn = 0
        """Number that rises at the beginning and end of every operation. A late answer has an older number, and is
        ignored."""
        self._plan_next()

    def _plan_next(self) -> None:
        self._farm.events.after(self._farm.rng.expovariate(1 / self._farm.plan.think), self._operate)

    def _operate(self) -> None:
        farm, history, rng = self._farm, self._history, self._farm.rng
        unit = farm.plan.timing.election_max
        if farm.calm:
            return
        key = rng.randrange(farm.plan.keys)
        if not history.has_room(key):
            self._plan_next()
            return
        self._turn += 1
        turn = self._turn
        server = farm.servers[self._server]
        dice = rng.random()
        if dice < 0.4:
            entry = history.begin(key, OperationKind.READ)
            Query(farm, server, key, lambda value: self._has_read(turn, key, entry, value))
            farm.events.after(READ_TIMEOUTS * unit, self._gives_up_reading, turn, key, entry)
        else:
            number = farm.next_command()
            value = number
            expected = self._last_values[key] if dice < 0.6 else None
            kind = OperationKind.WRITE if expected is None else OperationKind.SWAP
            entry = history.begin(key, kind, value, expected or 0)
            command = RegisterWrite(number, key, value, expected)
            values = [command.encode()]
            if dice > 0.9:  # several entries in one request, the checked register's last
                others = [RegisterWrite(farm.next_command(), farm.plan.keys, value) for _ in range(rng.choice((1, 12)))]
                values = [*(other.encode() for other in others), *values]
            Post(farm, server, values, lambda answer, swapped: self._has_written(turn, key, entry, answer, swapped))
            farm.events.after(WRITE_TIMEOUTS * unit, self._write_overdue, turn)

    def _gives_up_reading(self, turn: int, key: int, entry: _Entry) -> None:
        if turn == self._turn:
            self._history.leave_out(key, entry)
            self._operation_ended()

    def _write_overdue(self, turn: int) -> None:
        if turn == self._turn:
            self._operation_ended()

    def _operation_ended(self, *, elsewhere: bool = True) -> None:
        self._turn += 1
        if elsewhere:
            leaders = [server.core for server in self._farm.servers.values() if server.up and server.core.is_leader]
            if leaders and self._farm.rng.random() < 0.5:
                self._server = max(leaders, key=lambda core: core.term).id
            else:
                self._server = self._farm.rng.choice([each.id for each in self._farm.servers.values() if each.life])
        self._plan_next()

    def _has_read(self, turn: int, key: int, entry: _Entry, value: int | None) -> None:
        if turn != self._turn:
            return
        if value is None:
            self._history.leave_out(key, entry)
        else:
            entry.value = self._last_values[key] = value
            self._history.returned(key, entry)
        self._operation_ended(elsewhere=value is None or self._farm.rng.random() < 0.2)

    def _has_written(self, turn: int, key: int, entry: _Entry, answer: Response | None, swapped: bool) -> None:
        if turn != self._turn:
            return
        if answer is None:
            self._operation_ended()
        elif not answer.accepted:
            self._history.leave_out(key, entry)
            self._operation_ended()
            if answer.destination in self._farm.servers:
                self._server = answer.destination
        else:
            self._history.returned(key, entry)
            entry.swapped = swapped if entry.kind is OperationKind.SWAP else None
            if entry.kind is OperationKind.WRITE or swapped:
                self._last_values[key] = entry.value
            self._operation_ended(elsewhere=False)


class DeposedReader:
    """A client that reads from old leaders. A leader that knows no successor is most likely to serve a wrong read."""

    def __init__(self, farm: "SimulatedFarm", history: OperationHistory) -> None:
        self._farm = farm
        self._history = history
        self._watch_leaders()

    def _watch_leaders(self) -> None:
        farm = self._farm
        if farm.calm:
            return
        pause = WATCH_TIMEOUTS * farm.plan.timing.election_max
        farm.events.after(pause, self._watch_leaders)
        leaders = [server for server in farm.servers.values() if server.up and server.core.is_leader]
        if len(leaders) > 1 or any(server.paused for server in leaders):
            key = farm.rng.randrange(farm.plan.keys)
            oldest, newest = (choose(leaders, key=lambda server: server.core.term) for choose in (min, max))
            if oldest is newest or farm.rng.random() < 0.5:
                self._read(key, oldest)
            else:
                self._write(key, newest, oldest)

    def elected(self, server: "SimulatedServer") -> None:
        """Read from the oldest leader, if there is an older one than `server`, which has just become leader.

        A write at the new leader comes first, so that the old leader's value is out of date.
        """
        leaders = [other for other in self._farm.servers.values() if other.up and other.core.is_leader]
        oldest = min(leaders, key=lambda other: other.core.term)
        if oldest is not server and not self._farm.calm:
            self._write(self._farm.rng.randrange(self._farm.plan.keys), server, oldest)

    def _write(self, key: int, newest: "SimulatedServer", oldest: "SimulatedServer") -> None:
        """Set the register at the new leader, and then read the register at the old leader."""
        if not self._history.has_room(key):
            return
        number = self._farm.next_command()
        entry = self._history.begin(key, OperationKind.WRITE, number)

        def has_written(answer: Response | None, _: bool) -> None:
            if answer is None:
                return
            if not answer.accepted:
                self._history.leave_out(key, entry)
                return
            self._history.returned(key, entry)
            self._read(key, oldest)
            self._farm.reading(oldest)

        Post(self._farm, newest, [RegisterWrite(number, key, number).encode()], has_written)

    def _read(self, key: int, server: "SimulatedServer") -> None:
        if not self._history.has_room(key):
            return
        entry = self._history.begin(key, OperationKind.READ)
        Query(self._farm, server, key, lambda value: self._has_read(key, entry, value))
        pause = WATCH_TIMEOUTS * self._farm.plan.timing.election_max
        self._farm.events.after(2 * pause, self._gives_up, key, entry)

    def _has_read(self, key: int, entry: _Entry, value: int | None) -> None:
        if entry.left_out:
            return
        if value is None:
            self._history.leave_out(key, entry)
        else:
            entry.value = value
            self._history.returned(key, entry)

    def _gives_up(self, key: int, entry: _Entry) -> None:
        if entry.returned is None and not entry.left_out:
            self._history.leave_out(key, entry)
