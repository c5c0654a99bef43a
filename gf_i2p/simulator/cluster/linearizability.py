"""Check of whether the history of one register is linearizable: Wing and Gong's search, with Lowe's memory of states.

Source: "Testing for Linearizability" (Lowe, 2017), "Wing & Gong linearizability" and "just-in-time" sections. At each
step the search picks an operation that can come next: no other remaining operation ended before that operation began.
Where an operation's answer does not fit, the search goes back. The search remembers each state, the set of picked
operations and the register's value, and so tries no state twice. Several registers can be checked one by one (Herlihy,
Wing: locality).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

MOST_STATES: Final = 200_000
"""Number of states after which the search gives up. Each operation of unknown outcome may double the number."""


class Undecided(Exception):  # noqa: N818 -- the result is no error
    """The search was given up: the history may be linearizable or not."""


class OperationKind(Enum):
    """The kind of an operation."""

    READ = "read"
    WRITE = "write"
    SWAP = "swap"
    """Compare and set."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one register.

    `called` and `returned` are numbers from one count of the calls and returns of all operations; no two are equal.
    `returned` None: the outcome is unknown. A read of unknown outcome changes nothing, and should be left out.
    """

    kind: OperationKind
    called: int
    returned: int | None
    value: int = 0
    """The value that a read found, or that a write or swap would set."""
    expected: int = 0
    """The value that a swap requires."""
    swapped: bool | None = None
    """Whether the swap found the required value; None: unknown."""


def outcome(operation: Operation, value: int) -> int | None:
    """Return the register's value after an operation that finds `value`; None: the operation's answer does not fit."""
    if operation.kind is OperationKind.WRITE:
        return operation.value
    if operation.kind is OperationKind.READ:
        return value if operation.value == value else None
    fits = operation.expected == value
    if operation.swapped is not None and operation.swapped != fits:
        return None
    return operation.value if fits else value


def linearizable(history: Sequence[Operation], initial: int = 0) -> bool:
    """Return whether some order of the operations explains all answers.

    In that order, each operation takes effect between its call and its return. `initial`: the register's first value.
    Raises `Undecided` after `MOST_STATES` states.
    """
    # First leave out each operation of unknown outcome whose value no read or swap mentions: no client saw the value.
    # Such an operation matters only where it made a swap fail. So after a failed swap the whole history is searched.
    seen = {op.value for op in history if op.kind is OperationKind.READ}
    seen |= {op.expected for op in history if op.kind is OperationKind.SWAP}
    likely = [op for op in history if op.returned is not None or op.value in seen]
    if _search(likely, initial):
        return True
    failed = any(op.kind is OperationKind.SWAP and op.returned is not None and op.swapped is not True for op in history)
    return failed and len(likely) < len(history) and _search(history, initial)


def _search(history: Sequence[Operation], initial: int) -> bool:
    operations = sorted(history, key=lambda operation: operation.called)
    never = max((operation.called for operation in operations), default=0) + 1
    returns = [never if op.returned is None else op.returned for op in operations]
    due = sum(1 << i for i, op in enumerate(operations) if op.returned is not None)
    seen: set[tuple[int, int]] = set()
    stack = [(0, initial)]
    while stack:
        done, value = stack.pop()
        if done & due == due:
            return True
        if (done, value) in seen:
            continue
        if len(seen) >= MOST_STATES:
            raise Undecided
        seen.add((done, value))
        # An operation that began after the first return among the rest cannot come next.
        first_return = never
        possible: list[int] = []
        for i, operation in enumerate(operations):
            if done >> i & 1:
                continue
            if operation.called > first_return:
                break
            possible.append(i)
            first_return = min(first_return, returns[i])
        for i in reversed(possible):
            if operations[i].called < first_return:
                new_value = outcome(operations[i], value)
                if new_value is not None:
                    stack.append((done | 1 << i, new_value))
    return False
