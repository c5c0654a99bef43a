"""The search: breadth-first through all states of a small farm, so that the first violation has a shortest run.

A run is delay-bounded (Emmi, Qadeer and Rakamaric, "Delay-bounded scheduling", 2011): a message arrives at once, in the
order of sending, and a write is durable at once, unless the run spends one of its few exceptions. The search tries each
exception at each place where it makes a difference. Clocks are free: any server's time-out may end whenever no message
is about to arrive.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from gf_i2p.simulator.cluster.trace import Trace, describe_message
from gf_i2p.simulator.events import Events
from gf_i2p.simulator.exhaustive.scope import MachineChoice, Scope
from gf_i2p.simulator.exhaustive.tables import KnownMachine, Step, StepTables
from gf_i2p.simulator.facts import Violation
from gf_i2p.wire.messages import Request

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.server import SimulatedServer

State = tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Machines, checker, messages that arrive next, late messages, and number of choices of each limited kind so far."""

_SLOW: Final = list(Scope().limits).index("slow")


class _Shown(NamedTuple):
    """A server as the trace reads it."""

    id: int
    core: object


class _OutOfScopeError(Exception):
    """A step leaves the scope."""


@dataclass(slots=True)
class _Farm:
    """A state of the farm in the middle of a choice."""

    machines: list[int]
    checker: int
    queue: list[int]
    """Messages that arrive next, in this order."""
    late: list[int]

    @classmethod
    def of(cls, state: State) -> "_Farm":
        machines, checker, queue, late, _ = state
        return cls(list(machines), checker, list(queue), list(late))


class Search:
    """A search through all states of a scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.violation: Violation | None = None
        self.exhausted = False
        """Whether all states of the scope are known, and none violates an invariant."""
        self.depth = 0
        """Number of choices to the state that is farthest from the beginning."""
        self.choices = 0
        """Number of choices tried."""
        self.way: list[MachineChoice] = []
        """The choices to the violation."""
        self.tables = StepTables()
        self._limits = scope.limits
        self._reached: dict[State, int] = {}
        self._origins: list[tuple[int, MachineChoice]] = []  # of each state in `_reached`: the state before, the choice
        self._notice: Callable[[MachineChoice, int], None] | None = None  # gets each step of a machine, with its events

    @property
    def states(self) -> int:
        """Number of states so far."""
        return len(self._reached)

    def run(self, enough: Callable[[], bool] = bool) -> None:
        """Search until all states are known, until a violation, or until `enough`, which is asked now and then."""
        level = [self._first()]
        begin, end = 0, 1
        while begin < end:
            for number in range(begin, end):
                if number % 64 == 0 and enough():
                    return
                for choice in self._choices(level[number - begin]):
                    self.choices += 1
                    try:
                        after = self._after(level[number - begin], choice)
                    except Violation as violation:
                        self.violation = violation
                        self.way = [*self._way_to(number), choice]
                        return
                    if after is not None and after not in self._reached:
                        self._reached[after] = len(self._origins)
                        self._origins.append((number, choice))
                        level.append(after)
            del level[: end - begin]
            begin, end = end, len(self._origins)
            self.depth += begin < end
        self.exhausted = True

    def _first(self) -> State:
        state = *self.tables.begin(self.scope.servers), (), (), (0,) * len(self._limits)
        self._reached[state] = 0
        self._origins.append((0, MachineChoice("", 0)))
        return state

    def _way_to(self, number: int) -> list[MachineChoice]:
        way: list[MachineChoice] = []
        while number:
            number, choice = self._origins[number]
            way.append(choice)
        return way[::-1]

    # Choices --------------------------------------------------------------------------------------------------------

    def _choices(self, state: State) -> Iterator[MachineChoice]:
        """Yield the choices in a state. While messages arrive, no time passes, and clients wait."""
        machines, _, queue, late, used = state
        left = {kind: most - so_far for (kind, most), so_far in zip(self._limits.items(), used, strict=True)}
        next_one = self.tables.messages[queue[0]] if queue else None
        # Server 1 begins: at first the servers differ only in their ids, and so in the order of their questions.
        for server, each in enumerate(machines if len(self._reached) > 1 else machines[:1], 1):
            known = self.tables.machines[each]
            # Until a server takes a message, its crash has no effect that a later crash would not have.
            if next_one is None or next_one.receiver == server or known.held:
                if known.pending:
                    yield MachineChoice("store", server)
                if left["crash"] > 0:
                    for kept in range(known.pending + 1):
                        yield MachineChoice("crash", server, kept)
            if left["cut"] > 0 and len(self._ways_of(server, queue)) > 1:
                yield MachineChoice("cut", server)
            if next_one is None:
                yield from self._choices_of(state, server, known, left)
        if next_one is not None:
            yield from self._in_time_or_slow(state, MachineChoice("deliver", next_one.receiver, queue[0]))
            if left["lose"] > 0 and next_one.slot in self._known(state, next_one.asker).flights:
                yield MachineChoice("lose", next_one.asker, queue[0])
            if left["late"] > 0:
                yield MachineChoice("late", next_one.receiver, queue[0])
            if left["duplicate"] > 0 and isinstance(next_one.content, Request):
                yield from self._in_time_or_slow(state, MachineChoice("duplicate", next_one.receiver, queue[0]))
            return
        for number in dict.fromkeys(late):
            message = self.tables.messages[number]
            yield from self._in_time_or_slow(state, MachineChoice("arrive", message.receiver, number))
            if left["lose"] > 0 and message.slot in self._known(state, message.asker).flights:
                yield MachineChoice("give up", message.asker, message.slot)

    def _choices_of(
        self, state: State, server: int, known: KnownMachine, left: dict[str, int]
    ) -> Iterator[MachineChoice]:
        """Yield the choices of one server while no message arrives."""
        if left["time-out"] > 0:
            everybody = (2 << self.scope.servers) - 2 - (1 << server)
            yield from self._in_time_or_slow(state, MachineChoice("time-out", server, everybody))
            outbox = self._step(_Farm.of(state), MachineChoice("time-out", server)).outbox
            if any(self.tables.messages[each].is_question for each in outbox):
                yield from self._in_time_or_slow(state, MachineChoice("time-out", server, 0))
        if known.leads and left["propose"] > 0:
            number = self.scope.proposals - left["propose"] + 1
            yield from self._in_time_or_slow(state, MachineChoice("propose", server, number))
        if known.leads and left["read"] > 0:
            yield MachineChoice("read", server, self.scope.reads - left["read"] + 1)

    def _in_time_or_slow(self, state: State, choice: MachineChoice) -> Iterator[MachineChoice]:
        yield choice
        if state[-1][_SLOW] < self._limits["slow"] and not self._known(state, choice.server).pending:
            yield choice._replace(slow=True)

    def _known(self, state: State, server: int) -> KnownMachine:
        return self.tables.machines[state[0][server - 1]]

    def _after(self, state: State, choice: MachineChoice) -> State | None:
        """Return the state after a choice; None: the choice leaves the scope, or has no effect. Raises `Violation`."""
        kind, server, number, slow = choice
        farm = _Farm.of(state)
        if kind in {"deliver", "duplicate", "late", "lose"}:
            farm.queue.pop(0)
        if kind == "arrive":
            farm.late.remove(number)
        if kind in {"late", "duplicate"}:
            farm.late.append(number)
        try:
            if kind == "cut":
                self._cut(farm, server)
            elif kind == "lose":
                self._apply(farm, MachineChoice("give up", server, self.tables.messages[number].slot))
            elif kind == "time-out":
                self._time_out(farm, server, number)
            elif kind != "late":
                self._apply(farm, choice)
            pending = self.tables.machines[farm.machines[server - 1]].pending
            if slow and not pending:
                return None
            if not slow and (kind == "store" or not self._known(state, server).pending):
                for _ in range(pending):
                    self._apply(farm, MachineChoice("store", server))
        except _OutOfScopeError:
            return None
        spent = {"lose" if kind == "give up" else kind, *(["slow"] if slow else [])}
        used = tuple(so_far + (name in spent) for name, so_far in zip(self._limits, state[-1], strict=True))
        queue = tuple(each for each in farm.queue if self._has_effect(farm, each))
        late = tuple(sorted(each for each in farm.late if self._has_effect(farm, each)))
        return tuple(farm.machines), farm.checker, queue, late, used

    def _ways_of(self, server: int, queue: Sequence[int]) -> list[int]:
        """Return the messages in the queue that go to a server, or come from that server."""
        return [each for each in queue if server in self.tables.messages[each][:2]]

    def _cut(self, farm: _Farm, server: int) -> None:
        lost = self._ways_of(server, farm.queue)
        farm.queue = [each for each in farm.queue if each not in lost]
        for message in map(self.tables.messages.__getitem__, lost):
            if message.slot in self.tables.machines[farm.machines[message.asker - 1]].flights:
                self._apply(farm, MachineChoice("give up", message.asker, message.slot))

    def _time_out(self, farm: _Farm, server: int, answering: int) -> None:
        """Let a time-out end. The questions to other servers are answered, or fail, before anything else happens.

        A question and its answer promise nothing, so a late one could not break a promise.
        """
        for number in self._apply(farm, MachineChoice("time-out", server)):
            message = self.tables.messages[number]
            if not message.is_question:
                continue
            farm.queue.remove(number)
            if answering >> message.answerer & 1:
                (answer,) = self._apply(farm, MachineChoice("deliver", message.answerer, number))
                farm.queue.remove(answer)
                self._apply(farm, MachineChoice("deliver", server, answer))
            else:
                self._apply(farm, MachineChoice("give up", server, message.slot))

    def _apply(self, farm: _Farm, choice: MachineChoice) -> tuple[int, ...]:
        """Let one machine take a step, and return the new messages. Raises `Violation` or `_OutOfScopeError`."""
        step = self._step(farm, choice)
        if step.term > self.scope.terms:
            raise _OutOfScopeError
        if self._notice is not None:
            self._notice(choice, step.events)
        farm.machines[choice.server - 1] = step.machine
        farm.checker = self.tables.check(farm.checker, step.events)
        farm.queue += step.outbox
        for asker, slot in step.ended:
            ways = [self.tables.messages[each] for each in (*farm.queue, *farm.late)]
            waits = slot in self.tables.machines[farm.machines[asker - 1]].flights
            if waits and all((each.asker, each.slot) != (asker, slot) for each in ways):
                self._apply(farm, MachineChoice("give up", asker, slot))
        return step.outbox

    def _step(self, farm: _Farm, choice: MachineChoice) -> Step:
        taken = 0
        for each in (*farm.queue, *farm.late):
            message = self.tables.messages[each]
            if message.asker == choice.server:
                taken |= 1 << message.slot
        for machine in farm.machines:
            for asker, slot in self.tables.machines[machine].held:
                if asker == choice.server:
                    taken |= 1 << slot
        return self.tables.step(farm.machines[choice.server - 1], choice.kind, choice.number, taken)

    def _has_effect(self, farm: _Farm, number: int) -> bool:
        """Return whether a message may have an effect: an answer that nobody waits for has none."""
        message = self.tables.messages[number]
        flights = self.tables.machines[farm.machines[message.asker - 1]].flights
        return isinstance(message.content, Request) or message.slot in flights

    # The trace ------------------------------------------------------------------------------------------------------

    def describe(self, write: Callable[[str], None]) -> None:
        """Write the run to the violation as the simulator writes runs. The first column counts choices, not seconds."""
        events = Events()
        trace = Trace(events, write)
        state: State | None = self._first()

        def notice(choice: MachineChoice, number: int) -> None:
            core: object = None
            for name, arguments in self.tables.events[number]:
                if name == "stepped":
                    core = arguments[1]
                elif name == "took":
                    trace.step(cast("SimulatedServer", _Shown(choice.server, core)), arguments[1])
                elif name == "booted":
                    trace.line(choice.server, "starts", f"{choice.number} of its last writes are durable")

        self._notice = notice
        for choice in self.way:
            assert state is not None
            events.now += 1
            if choice.kind == "cut":
                trace.line(choice.server, "cut", "all messages to or from the server that are about to arrive are lost")
            if choice.kind in {"late", "lose", "duplicate"}:
                message = self.tables.messages[choice.number]
                trace.line(choice.server, choice.kind, describe_message(message.content))
            try:
                state = self._after(state, choice)
            except Violation as violation:
                trace.line(choice.server, "violates", str(violation))
            if choice.slow:
                trace.line(choice.server, "slow", "the write is not durable yet")
        self._notice = None
