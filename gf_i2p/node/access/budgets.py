"""Limits the posts of each user: bytes per second on average, bytes at once, and bytes that wait for their commitment.

Each user has a token bucket. A post may leave the bucket below zero. So one post of any legal size gets through while
the bucket is not empty, and the user waits longer afterwards. Only the leader counts posts.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from gf_i2p.node.access.roles import Role, User
from gf_i2p.raft.token_bucket import TokenBucket


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for the posts of one user, in bytes. A rate of 0 means no limit for users of that kind."""

    client_rate: int
    """Bytes per second of a client, an administrator or a leaf member."""
    server_rate: int
    """Bytes per second of another server: its own records, and the posts of its operator."""
    burst: int
    """Most bytes that a user may save up, and post at once."""
    in_flight: int
    """Most bytes of a user's posts that are not answered yet. A single post may be larger."""

    def rate(self, user: User) -> int:
        """Return the bytes per second of this user; 0: no limit."""
        return self.server_rate if user.role is Role.SERVER else self.client_rate


@dataclass(slots=True)
class _Budget:
    """The present budget of one user, in bytes."""

    saved: TokenBucket
    in_flight: int = 0


class Budgets:
    """The budgets of the users of one farm at this server."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: monotonic seconds."""
        self.limits = limits
        """A change counts from the next post on."""
        self._clock = clock
        self._users: dict[str, _Budget] = {}

    def objection(self, user: User, size: int) -> str | None:
        """Return why this user may not post `size` bytes now. None: the user may, and the bytes are counted.

        After None, call `answered` when the post is answered.
        """
        limits, now = self.limits, self._clock()
        rate = limits.rate(user)
        budget = self._users.get(user.name)
        if budget is None:
            budget = self._users[user.name] = _Budget(TokenBucket(limits.burst, rate, now))
        saved = budget.saved
        if rate:
            saved.most, saved.rate = limits.burst, rate
            if saved.content(now) <= 0:
                setting = "server_kib_per_second" if user.role is Role.SERVER else "client_kib_per_second"
                return (
                    f"{user.name} posts more than {rate >> 10} KiB per second: post less, or raise {setting} under "
                    "[limits] in gf-i2p.toml on every server"
                )
            if budget.in_flight and budget.in_flight + size > limits.in_flight:
                return (
                    f"{user.name} has {budget.in_flight >> 20} MiB of posts without an answer: wait for the answers, "
                    "or raise in_flight_mib under [limits] in gf-i2p.toml on every server"
                )
            saved.spend(size)
        budget.in_flight += size
        return None

    def answered(self, user: User, size: int) -> None:
        """Note that a post of `size` bytes was answered."""
        budget = self._users.get(user.name)
        if budget is not None:
            budget.in_flight -= size

    def forget(self, users: Collection[str]) -> None:
        """Drop the budgets of users that are gone or have another password, unless posts of the user are under way."""
        for name in users:
            budget = self._users.get(name)
            if budget is not None and not budget.in_flight:
                del self._users[name]

    def shown(self) -> dict[str, Any]:
        """Return the limits and, by user, the bytes in flight, for the status."""
        limits = self.limits
        return {
            "client_bytes_per_second": limits.client_rate,
            "server_bytes_per_second": limits.server_rate,
            "burst_bytes": limits.burst,
            "in_flight_bytes": limits.in_flight,
            "in_flight": {name: budget.in_flight for name, budget in self._users.items() if budget.in_flight},
        }
