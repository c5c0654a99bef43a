"""Counts of incoming connections for the metrics, and a log of refusals that no unauthenticated peer can flood."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import structlog

# One line for each reason in this many seconds: the log shows a flood and its size, and stays readable.
_LOG_SECONDS: Final = 10.0


class ConnectionRefusal(StrEnum):
    """The reason why a connection was not served, or served no longer: the label of the metric."""

    CROWDED = "crowded"
    """Ended to make room: too many unauthenticated connections in all, and no other source had more of them."""
    SOURCE = "source"
    """Ended to make room: too many unauthenticated connections from this source."""
    USER = "user"
    """Authenticated, but the user has too many connections already."""
    DEADLINE = "deadline"
    """Did not authenticate in time."""
    TLS = "tls"
    """Does not speak TLS 1.3, or does not accept this server's certificate."""
    NOT_HTTP = "not_http"
    """Speaks TLS, but sent no HTTP/1.1 request head within the limits."""
    NOT_FOUND = "not_found"
    """Asked for a path, cluster or version that this server does not serve."""
    CREDENTIALS = "credentials"
    """User or password wrong."""
    UPGRADE = "upgrade"
    """Authenticated, but without a request for the upgrade: a proxy on the way removed the request."""
    LEFT = "left"
    """Closed the connection before it had authenticated."""
    MESSAGE = "message"
    """Authenticated, then sent an illegal message."""


@dataclass(slots=True)
class Counters:
    """Totals since the start of the process, and how many connections are open now."""

    accepted: int = 0
    """Number of connections that were accepted from the listening sockets so far."""
    challenged: int = 0
    """Number of requests answered with 401 for missing or stale credentials: the ordinary first request."""
    authenticated: int = 0
    """Number of connections that have authenticated so far, with the answer 101."""
    told: int = 0
    """Number of answered questions for the Configuration. A user that may not read the Configuration gets 404."""
    refused: Counter[ConnectionRefusal] = field(default_factory=Counter)
    unauthenticated: int = 0
    """Number of open connections that have not authenticated yet."""
    current: int = 0
    """Number of connections that have authenticated and are still open."""


class RefusalLog:
    """Counts refusals. Logs one refusal per reason in ten seconds, with the number of refusals not logged before."""

    def __init__(self, counters: Counters, now: Callable[[], float]) -> None:
        """`now`: returns monotonic seconds."""
        self._counters = counters
        self._now = now
        # By reason: time of the last line, and refusals at that time.
        self._last_lines: dict[ConnectionRefusal, tuple[float, int]] = {}
        self._log = structlog.get_logger(__name__)

    def record(self, reason: ConnectionRefusal, remote: str, detail: str) -> None:
        """Count one refusal. `detail`: a clause for the operator; the logger escapes a peer's text."""
        refused = self._counters.refused
        refused[reason] += 1
        now = self._now()
        logged_at, logged_count = self._last_lines.get(reason, (None, 0))
        if logged_at is not None and now - logged_at < _LOG_SECONDS:
            return
        not_shown = refused[reason] - logged_count - 1
        self._last_lines[reason] = (now, refused[reason])
        self._log.info("connection refused", reason=str(reason), remote=remote, detail=detail, not_shown=not_shown)
