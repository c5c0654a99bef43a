"""How a command fails, and the exit codes."""

from enum import IntEnum


class Exit(IntEnum):
    """What a command returns to the shell."""

    OK = 0
    FAILED = 1
    USAGE = 2
    DEGRADED = 3
    """The answer is there, and what it says is not well: no leader, no quorum."""


class CommandError(Exception):
    """A command failed; the text says why and what to do next.

    `outcome` is "unknown" when what was asked for may nevertheless have happened, otherwise "no".
    """

    def __init__(self, text: str, *, code: Exit = Exit.FAILED, outcome: str = "no") -> None:
        super().__init__(text)
        self.code = code
        self.outcome = outcome
