"""A small state machine beside the farm's state: numbered registers, which Application entries set."""

import json
from typing import Final, NamedTuple

CLUSTER: Final = "simulated"
"""The farm's name in status records."""

_PREFIX = b"register "


class RegisterWrite(NamedTuple):
    """One entry: set register `key` to `value` if the register holds `expected`; `expected` None: in any case."""

    number: int
    """Number of the operation; no two entries have the same number."""
    key: int
    value: int
    expected: int | None = None

    def encode(self) -> bytes:
        """Return the value of the log entry: a text that reads well in a trace, and differs from a record's JSON."""
        condition = "" if self.expected is None else f" if {self.expected}"
        return _PREFIX + f"{self.number}: {self.key} = {self.value}{condition}".encode()

    @classmethod
    def decode(cls, data: bytes) -> "RegisterWrite | None":
        """Read an entry's value; None: the entry is no command for a register."""
        if not data.startswith(_PREFIX):
            return None
        number, command = data[len(_PREFIX) :].split(b": ")
        assignment, _, condition = command.partition(b" if ")
        key, value = assignment.split(b" = ")
        return cls(int(number), int(key), int(value), int(condition) if condition else None)


class Registers:
    """The registers of one server. A register that was never set holds 0."""

    def __init__(self) -> None:
        self._values: dict[int, int] = {}

    def encode(self) -> bytes:
        """Return all registers, for a snapshot."""
        return json.dumps(self._values, sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Registers":
        """Read the registers from a text that `encode` has returned."""
        registers = cls()
        registers._values = {int(key): value for key, value in json.loads(data).items()}
        return registers

    def read(self, key: int) -> int:
        """Return the value of register `key`."""
        return self._values.get(key, 0)

    def apply(self, command: RegisterWrite) -> bool:
        """Carry out a command; return whether its condition held."""
        holds = command.expected is None or command.expected == self.read(command.key)
        if holds:
            self._values[command.key] = command.value
        return holds
