"""Refused requests of authenticated users: counted, and logged within a limit that no user can flood."""

import asyncio
from collections import Counter
from enum import StrEnum
from typing import Final

import structlog
from structlog.contextvars import get_contextvars

LINES: Final = 5
"""Most lines about one kind of refusal and one user in `LOG_SECONDS`; then one line with the number of the others."""
LOG_SECONDS: Final = 60.0


class Refusal(StrEnum):
    """The kind of a refusal, as `status` names the kind."""

    ROLE = "role"
    """The user has no role, or the role may not send such a request."""
    RIGHTS = "rights"
    """The user may not post such a value."""
    RECORDS = "records"
    """A leaf member posts too often."""
    BUDGET = "budget"
    """The user posts too many bytes."""
    PROTOCOL = "protocol"
    """A server breaks the protocol."""
    DISK = "disk"
    """Log and history have used up the disk budget."""


class Refusals:
    """Counts the refusals of one farm at this node, and logs them."""

    def __init__(self, server_id: int) -> None:
        self.counts: Counter[Refusal] = Counter()
        """Refused requests since the start, by kind."""
        self._log = structlog.get_logger(__name__).bind(**get_contextvars(), server=server_id)
        self._lines: Counter[tuple[Refusal, str]] = Counter()
        """By kind and user, refusals since the first line of the present period."""

    def note(self, kind: Refusal, user: str, reason: str) -> None:
        """Count one refusal. `reason`: a sentence for the operator that names the user."""
        self.counts[kind] += 1
        key = kind, user
        if key not in self._lines:
            asyncio.get_running_loop().call_later(LOG_SECONDS, self._end, key)
        self._lines[key] += 1
        if self._lines[key] <= LINES:
            self._log.warning("refused", reason=reason)

    def _end(self, key: tuple[Refusal, str]) -> None:
        """End the period of this kind and user. The refusals that were not logged get one line."""
        not_shown = self._lines.pop(key) - LINES
        if not_shown > 0:
            kind, user = key
            self._log.warning("refused more", user=user, kind=str(kind), not_shown=not_shown, seconds=LOG_SECONDS)
