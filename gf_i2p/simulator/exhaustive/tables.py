"""The tables of a search: each step of a core and of the checker is made once, and looked up after that.

The step of a server depends on the server's state and the input alone, and the verdict on the step depends on the
checker's state and the step alone. A small farm has millions of states, but only thousands of states of one server. So
most steps of the farm need neither a core nor a checker.

A state is known by its pickle. Equal pickles are equal states. Equal states may have different pickles, which costs
time and hides nothing.
"""

import pickle
from dataclasses import dataclass
from typing import NamedTuple, cast

from gf_i2p.simulator.exhaustive.checking import ScopeChecker
from gf_i2p.simulator.exhaustive.machine import Event, Machine, Message
from gf_i2p.simulator.facts import Violation
from gf_i2p.wire.messages import Request


class Step(NamedTuple):
    """The result of a step of one machine."""

    machine: int
    """The machine's new state."""
    term: int
    outbox: tuple[int, ...]
    """The messages that the machine sends."""
    ended: tuple[tuple[int, int], ...]
    """Asker and slot of each request that gets no answer."""
    events: int
    """Number of the step's events, for the checker."""


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """The facts about a machine's state that the search reads."""

    data: bytes
    leads: bool
    pending: int
    """Number of writes that are not durable."""
    flights: frozenset[int]
    """Slots of the requests that wait for an answer."""
    held: tuple[tuple[int, int], ...]
    """Asker and slot of each request that waits for this machine's answer."""


class StepTables:
    """All known states of single servers and of the checker, by number, and the steps between them."""

    def __init__(self) -> None:
        self.machines: list[KnownMachine] = []
        self.messages: list[Message] = []
        self.events: list[tuple[Event, ...]] = []
        self.core_steps = 0
        """Number of steps that real cores have taken."""
        self._machine_numbers: dict[bytes, int] = {}
        self._message_numbers: dict[Message, int] = {}
        self._steps: dict[tuple[int, str, int, int], Step | Violation] = {}
        self._checkers: list[bytes] = []
        self._checker_numbers: dict[bytes, int] = {}
        self._checks: dict[tuple[int, int], int | Violation] = {}

    def begin(self, servers: int) -> tuple[tuple[int, ...], int]:
        """Return the states of the machines of a new farm, and of its checker."""
        checker = ScopeChecker(servers)
        numbers = []
        for server in range(1, servers + 1):
            machine = Machine(server, servers)
            checker.tell(tuple(machine.events))
            numbers.append(self._machine_number(machine))
        return tuple(numbers), self._checker_number(checker)

    # Machines ---------------------------------------------------------------------------------------------------------

    def step(self, machine: int, kind: str, number: int, taken: int) -> Step:
        """Return the step that a machine takes. Raises `Violation` if the core fails.

        `kind` and `number`: see `Choice`. `taken`: slots that the machine must not use for new requests, as bits.
        """
        key = machine, kind, number, taken
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._make_step(*key)
        if isinstance(step, Violation):
            raise step
        return step

    def _make_step(self, machine_number: int, kind: str, number: int, taken: int) -> Step | Violation:
        self.core_steps += 1
        machine = cast("Machine", pickle.loads(self.machines[machine_number].data))  # noqa: S301 -- our own data
        try:
            self._carry_out(machine, kind, number, taken)
        except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            return Violation("StepsSucceed", f"server {machine.id}: {type(error).__name__}: {error}")
        outbox = tuple(map(self._message_number, machine.outbox))
        ended = tuple(machine.ended)
        self.events.append(tuple(machine.events))
        return Step(self._machine_number(machine), machine.core.term, outbox, ended, len(self.events) - 1)

    def _carry_out(self, machine: Machine, kind: str, number: int, taken: int) -> None:
        match kind:
            case "time-out":
                machine.time_out(taken)
            case "store":
                machine.store(taken)
            case "crash":
                machine.crash(number)
            case "propose":
                machine.propose(number, taken)
            case "read":
                machine.read(number, taken)
            case "give up":
                machine.give_up(number, taken)
            case _:
                message = self.messages[number]
                (machine.request if isinstance(message.content, Request) else machine.answer)(message, taken)

    def _machine_number(self, machine: Machine) -> int:
        machine.events, machine.outbox, machine.ended = [], [], []
        data = pickle.dumps(machine, -1)
        number = self._machine_numbers.setdefault(data, len(self.machines))
        if number == len(self.machines):
            held = tuple((peer.asker, peer.slot) for peer in machine.held)
            flights = frozenset(machine.flights)
            self.machines.append(KnownMachine(data, machine.core.is_leader, len(machine.pending), flights, held))
        return number

    def _message_number(self, message: Message) -> int:
        number = self._message_numbers.setdefault(message, len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
        return number

    # Checkers ---------------------------------------------------------------------------------------------------------

    def check(self, checker: int, events: int) -> int:
        """Return the checker's state after these events. Raises `Violation`."""
        after = self._checks.get((checker, events))
        if after is None:
            after = self._checks[checker, events] = self._make_check(checker, events)
        if isinstance(after, Violation):
            raise after
        return after

    def _make_check(self, number: int, events: int) -> int | Violation:
        checker = cast("ScopeChecker", pickle.loads(self._checkers[number]))  # noqa: S301 -- our own data
        try:
            checker.tell(self.events[events])
        except Violation as violation:
            return violation
        return self._checker_number(checker)

    def _checker_number(self, checker: ScopeChecker) -> int:
        data = pickle.dumps(checker, -1)
        number = self._checker_numbers.setdefault(data, len(self._checkers))
        if number == len(self._checkers):
            self._checkers.append(data)
        return number
