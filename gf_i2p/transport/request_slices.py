"""The share of each user in a turn of the event loop: one user's requests hold up nobody else, and no heartbeat.

The limits of a connection bound the requests of that connection. But a user may have many connections: 32 connections
with 1,024 small requests each took a second in one turn. So the requests of all connections of one user get a slice of
each turn. The rest waits for the next turns, in order of the connections.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

SLICE_SECONDS: Final = 0.001
"""Seconds of one turn for one user. The piece of work that is under way at the end takes up to 1 ms more, as a rule.
So one user has at most 2 ms of a turn. Two pieces take longer, 2 to 3 ms: to append `MAX_ENTRIES` empty entries, and to
read the slowest value of 64 KiB."""

User = tuple[str, str]
"""A user of a farm: the farm's name, and the user's name."""


class RequestSlices:
    """The slices of all users of one server. A slice begins with the user's first request in a turn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._ends: dict[User, float] = {}
        """By user, the end of the slice in this turn."""
        self._waiting: dict[User, deque[Callable[[], None]]] = {}
        self._is_scheduled = False

    @property
    def idle(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def has_time(self, user: User) -> bool:
        """Return whether requests of this user may be handled now."""
        end = self._ends.get(user)
        if end is not None:
            return self._clock() < end
        self._ends[user] = self._clock() + SLICE_SECONDS
        self._schedule()
        return True

    def put_off(self, user: User, go_on: Callable[[], None]) -> None:
        """Call `go_on` in a later turn, after the user's earlier calls. Call this after `has_time` was False."""
        self._waiting.setdefault(user, deque()).append(go_on)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_scheduled = False
        self._ends.clear()
        for user, waiting in tuple(self._waiting.items()):
            for _ in range(len(waiting)):
                if not self.has_time(user):
                    break
                waiting.popleft()()
            if not waiting:
                del self._waiting[user]
        if self._waiting:
            self._schedule()
