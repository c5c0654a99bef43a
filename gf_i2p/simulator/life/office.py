"""What a server does when the log has chosen it: `node.publishing`, without waiting, with a router that takes all.

A set is announced in the log first, and given to the router when that entry is applied here, if the log still names
this server and its lease lives. That runs from when a record was posted, not from when it was seen to be committed.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from gf_i2p.farm.choice.publisher import Choice, Entry
from gf_i2p.farm.state import FarmState
from gf_i2p.farm.versions import next_version

LEASE: Final = 60.0
"""A publisher whose newest record in the log was posted so many seconds ago stops by itself."""
PAUSE: Final = 12.0
"""Who has not looked for so long, in seconds, was stopped: the lease from before does not count."""
GIVES: Final = frozenset({"meta", "failover"})
"""Modes in which a router is given something."""
TAKEN_AHEAD_MS: Final = 60_000
"""A router takes no set that is from later than so much after now."""
_KEPT: Final = 32


@dataclass(frozen=True, slots=True)
class Announced:
    """A set that is to be given to a router, or was."""

    server: int
    version_ms: int
    """Its `published`."""
    entries: tuple[Entry, ...]
    """Of all its sets."""
    posted: float
    """When its announcement left, by its server's monotonic clock."""
    index: int | None = None
    """Of the announcement in the log; None: not known yet."""


class Host(Protocol):
    """The server whose office it is."""

    id: int
    state: FarmState
    applied: int

    @property
    def mode(self) -> str:
        """What it does as publisher."""

    @property
    def monotonic(self) -> float:
        """Seconds."""

    @property
    def wall_ms(self) -> int:
        """Milliseconds since 1970, as this machine believes."""

    def announce(self, version_ms: int, done: Callable[[int | None], None]) -> None:
        """Post a record that names this set; `done(index)`, None when nobody knows."""

    def give(self, announced: Announced) -> None:
        """Give a set to the router."""


class Office:
    """One process's. `second`: of the farm's time, in the host's seconds."""

    def __init__(self, host: Host, *, second: float = 1.0) -> None:
        self.serving: Announced | None = None
        """What the router has of this process."""
        self.version_ms = 0
        """Of the newest set that this process has announced."""
        self._host = host
        self._second = second
        self._pending: Announced | None = None
        self._given_at = 0.0
        self._looked_at = self._awake_since = host.monotonic
        self._posts: deque[tuple[int, float]] = deque(maxlen=_KEPT)

    def committed(self, index: int, posted: float) -> None:
        """A record of this process, posted then (monotonic seconds), is in the log."""
        self._posts.append((index, posted))

    def lives(self, posted: float) -> bool:
        """Whether what was posted then still lets this server publish."""
        return posted >= self._awake_since and self._host.monotonic - posted <= LEASE * self._second

    def look(self) -> None:
        """Do what is to be done now."""
        host, now = self._host, self._host.monotonic
        if now - self._looked_at > PAUSE * self._second:
            self._awake_since = now
        self._looked_at = now
        if host.state.publisher != host.id or not self._due(choice := host.state.choice):
            self.serving = self._pending = None
        elif self._pending is not None:
            self._go_on(self._pending)
        elif self._is_time(choice):
            self._announce(choice)

    def _due(self, choice: Choice) -> bool:
        applied = self._host.applied
        return (
            choice.publisher == self._host.id
            and bool(choice.listed)
            and any(self.lives(posted) for index, posted in self._posts if index <= applied)
        )

    def _is_time(self, choice: Choice) -> bool:
        if self.serving is None:
            return True
        age = (self._host.monotonic - self._given_at) / self._second * 1000
        parameters = self._host.state.parameters
        if age >= parameters.republish_max_ms:
            return True
        return age >= parameters.republish_min_ms and self.serving.entries != choice.listed

    def _announce(self, choice: Choice) -> None:
        host = self._host
        version = 1000 * next_version(host.state, host.wall_ms)
        if version > host.wall_ms + TAKEN_AHEAD_MS:
            return
        self.version_ms = version
        self._pending = pending = Announced(host.id, version, choice.listed, host.monotonic)

        def done(index: int | None) -> None:
            if self._pending is pending:
                found = Announced(host.id, version, pending.entries, pending.posted, index)
                self._pending = None if index is None else found
                self.look()

        host.announce(version, done)

    def _go_on(self, pending: Announced) -> None:
        host = self._host
        if not self.lives(pending.posted):
            self._pending = None
        elif pending.index is not None and host.applied >= pending.index:
            if host.state.last_published_ms < pending.version_ms:
                return  # it is too far ahead of farm time: who comes next would not make a greater one
            self._pending = None
            excluded = host.state.administration.excluded
            newer = host.state.last_published_ms > pending.version_ms
            if not newer and not any(entry.hash in excluded for entry in pending.entries):
                self.serving, self._given_at = pending, host.monotonic
                if host.mode in GIVES:
                    host.give(pending)
