"""Exit codes, and the error by which a command fails."""

from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    """The command has done the work."""
    FAILED = 1
    """The command failed. The error says the reason and the next step."""
    USAGE = 2
    """The arguments, or files that they name, are wrong or do not fit this farm: nothing was done."""
    DEGRADED = 3
    """The farm has a fault, such as no leader, no majority, or keys that end soon; or a search was not exhausted."""


class CommandError(Exception):
    """A command failed; the text tells the reason and the next step.

    `outcome` is "unknown" when the change may have happened nevertheless, otherwise "no".
    """

    def __init__(self, text: str, *, code: Exit = Exit.FAILED, outcome: str = "no") -> None:
        super().__init__(text)
        self.code = code
        self.outcome = outcome


def result_fields(error: str | None, outcome: str = "no") -> dict[str, Any]:
    """Return the fields with which each object of `--json` begins. `error`: one sentence; None without a failure."""
    return {"ok": True} if error is None else {"ok": False, "error": error, "outcome": outcome}
