"""The small state machine beside the farm's: numbered registers, set by Application entries."""

import json
from typing import Final, NamedTuple

CLUSTER: Final = "simulated"
"""The farm's name in status records."""

_PREFIX = b"register "


class Command(NamedTuple):
    """One entry: set register `key` to `value`, if it holds `expected` (None: in any case)."""

    number: int
    """Of the operation; no two entries have the same."""
    key: int
    value: int
    expected: int | None = None

    def encode(self) -> bytes:
        """Give the value of the log entry: text, to be read in a trace, and no JSON, which status records are."""
        condition = "" if self.expected is None else f" if {self.expected}"
        return _PREFIX + f"{self.number}: {self.key} = {self.value}{condition}".encode()

    @classmethod
    def decode(cls, data: bytes) -> "Command | None":
        """Return what an entry's value says; None: it is no such command."""
        if not data.startswith(_PREFIX):
            return None
        number, rest = data[len(_PREFIX) :].split(b": ")
        assignment, _, condition = rest.partition(b" if ")
        key, value = assignment.split(b" = ")
        return cls(int(number), int(key), int(value), int(condition) if condition else None)


class Registers:
    """What one server has applied. A register that was never set holds 0."""

    def __init__(self) -> None:
        self._values: dict[int, int] = {}

    def encode(self) -> bytes:
        """Give all of it, for a snapshot."""
        return json.dumps(self._values, sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Registers":
        """Read what `encode` gave."""
        registers = cls()
        registers._values = {int(key): value for key, value in json.loads(data).items()}
        return registers

    def read(self, key: int) -> int:
        """Return what the register holds."""
        return self._values.get(key, 0)

    def apply(self, command: Command) -> bool:
        """Do it; return whether the condition held."""
        holds = command.expected is None or command.expected == self.read(command.key)
        if holds:
            self._values[command.key] = command.value
        return holds
