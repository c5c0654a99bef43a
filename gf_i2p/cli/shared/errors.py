"""Exit codes, and the error by which a command fails."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    FAILED = 1
    USAGE = 2
    DEGRADED = 3
    """The command has answered, and the answer shows a fault: no leader, no quorum."""


class CommandError(Exception):
    """A command failed; the text gives the reason and the next step.

    `outcome` is "unknown" when the change may have happened nevertheless, otherwise "no".
    """

    def __init__(self, text: str, *, code: Exit = Exit.FAILED, outcome: str = "no") -> None:
        super().__init__(text)
        self.code = code
        self.outcome = outcome
