"""The leader's checks of a post before the core gets the post: first the sender, then the size, and then the content.

No value is parsed before sender and size are checked. A post whose check takes long is checked in slices, so that
heartbeats never wait for the check. Posts of one user keep their order; posts of different users take turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from gf_i2p.farm.state import read_entry
from gf_i2p.node.access.budgets import Budgets
from gf_i2p.node.access.refusals import Refusal, Refusals
from gf_i2p.node.access.rights import Rights
from gf_i2p.node.access.roles import Role, User
from gf_i2p.transport.request_slices import SLICE_SECONDS
from gf_i2p.wire.entries import ValueType
from gf_i2p.wire.messages import Request, Response

_ENTRY_BYTES: Final = 64
"""Bytes that each entry counts in addition to its value: a check of an empty value takes time, too."""


Done = Callable[[Response | None], None]
"""Takes the answer to one post. None: the connection ends without an answer."""


class Consensus(Protocol):
    """The part of the consensus core's driver that posts need."""

    def incoming(self, request: Request, done: Done) -> None:
        """Append the entries of a post that was checked."""
        ...

    def refuse(self, request: Request, done: Done) -> None:
        """Refuse a post; the answer names the leader."""
        ...


class _Check:
    """The check of the values of one post. Each call of `go_on` checks some more values."""

    __slots__ = ("_next", "_values", "objection", "user")

    def __init__(self, user: User, values: Sequence[bytes]) -> None:
        self.user = user
        self._values = values
        self._next = 0
        self.objection: str | None = None

    def go_on(self, rights: Rights, clock: Callable[[], float]) -> bool:
        """Check values for one slice of time, one value at least; return whether the check is done."""
        end = clock() + SLICE_SECONDS
        servers = rights.servers()
        values = self._values
        for number in range(self._next, len(values)):
            self.objection = rights.objection_to_value(self.user, values[number], servers)
            if self.objection is not None:
                return True
            if clock() >= end:
                self._next = number + 1
                return self._next == len(values)
        return True


class Posts:
    """Takes the posts of all users of one farm at this server."""

    def __init__(
        self,
        consensus: Consensus,
        rights: Rights,
        budgets: Budgets,
        refusals: Refusals,
        *,
        leads: Callable[[], bool],
        full: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`refusals` counts and logs the refused posts. `leads` says whether this server leads now.

        `full` says why clients' posts find no room on the disk; None while there is room.
        """
        self._consensus = consensus
        self._leads = leads
        self._full = full
        self._rights = rights
        self._budgets = budgets
        self._refusals = refusals
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, deque[tuple[_Check, Request, Done]]] = {}
        """By user, posts that wait for their check, in order."""
        self._task: asyncio.Task[None] | None = None

    def take(self, user: User, request: Request, reply: Done) -> None:
        """Take a ClientRequest with entries, from a user who may send such requests; `reply` is called once."""
        if not self._leads():
            self._consensus.refuse(request, reply)
            return
        objection = self._rights.objection_to_shape(user, request)
        if objection is not None:
            self._refusals.note(Refusal.RIGHTS, user.name, objection)
            reply(None)
            return
        if (too_many := self._rights.too_many(user)) is not None:
            self._refusals.note(Refusal.RECORDS, user.name, too_many)
            self._consensus.refuse(request, reply)
            return
        if user.role is Role.CLIENT and (full := self._full()) is not None:
            self._refusals.note(Refusal.DISK, user.name, f"{user.name}: {full}")
            self._consensus.refuse(request, reply)
            return
        size = sum([len(entry.value) + _ENTRY_BYTES for entry in request.entries])
        if (too_much := self._budgets.objection(user, size)) is not None:
            self._refusals.note(Refusal.BUDGET, user.name, too_much)
            self._consensus.refuse(request, reply)
            return
        reply = partial(self._answered, user, size, reply)
        check = _Check(user, [entry.value for entry in request.entries if entry.value_type is ValueType.APPLICATION])
        if user.name not in self._waiting and check.go_on(self._rights, self._loop.time):
            self._decide(user, check.objection, request, reply)
            return
        self._waiting.setdefault(user.name, deque()).append((check, request, reply))
        if self._task is None:
            self._task = self._loop.create_task(self._run(), name="checks of large posts")

    async def objection_to(self, user: User, values: Sequence[bytes]) -> str | None:
        """Return why this user of the administration API may not post these values; None: the user may.

        Checks in slices. `user`: this server for its operator, or an administrator. When the disk is full, these may
        post entries of the farm only.
        """
        full = self._full()
        if full is not None and any(read_entry(value) is None for value in values):
            return full
        check = _Check(user, values)
        while not check.go_on(self._rights, self._loop.time):  # noqa: ASYNC110 -- the other tasks have a turn
            await asyncio.sleep(0)
        return check.objection

    async def stop(self) -> None:
        """End the checks; posts that still wait get no answer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        waiting, self._waiting = self._waiting, {}
        for posts in waiting.values():
            for _, _, reply in posts:
                reply(None)

    def _answered(self, user: User, size: int, reply: Done, response: Response | None) -> None:
        self._budgets.answered(user, size)
        reply(response)

    async def _run(self) -> None:
        """Check the waiting posts, one slice for each user in turn."""
        try:
            while self._waiting:
                for name in tuple(self._waiting):
                    self._check_some(name, self._waiting[name])
                    await asyncio.sleep(0)
        finally:
            self._task = None

    def _check_some(self, name: str, posts: deque[tuple[_Check, Request, Done]]) -> None:
        check, request, reply = posts[0]
        if not check.go_on(self._rights, self._loop.time):
            return
        posts.popleft()
        if not posts:
            del self._waiting[name]
        self._decide(check.user, check.objection, request, reply)

    def _decide(self, user: User, objection: str | None, request: Request, reply: Done) -> None:
        if objection is None:
            self._consensus.incoming(request, reply)
        else:
            self._refusals.note(Refusal.RIGHTS, user.name, objection)
            reply(None)
