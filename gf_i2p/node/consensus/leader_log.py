"""Log lines about the leader: who leads, and while nobody leads, which servers are missing."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

import structlog
from structlog.contextvars import get_contextvars

from gf_i2p.raft.configurations import majority
from gf_i2p.raft.core import Core
from gf_i2p.wire.messages import NOBODY

PATIENCE_SECONDS: Final = 15.0
"""Most seconds without a leader before the first line. Two election time-outs are enough when they are shorter."""
AGAIN_SECONDS: Final = 60.0
"""Seconds between two lines about the same missing leader."""


class LeaderLog:
    """Logs each leader once, and a missing leader when the next election should be over, then once a minute.

    A server without a quorum stands for election again and again. Each of these elections is a line of level debug.
    """

    def __init__(self, connected: Callable[[], Collection[int]]) -> None:
        """`connected`: returns the ids of the servers to which this node has a connection, without itself."""
        self._connected = connected
        self._log = structlog.get_logger(__name__).bind(**get_contextvars())
        self._reminder: asyncio.TimerHandle | None = None

    def note(self, core: Core) -> None:
        """Log the term, role and leader of this server, at the start and after each change."""
        loop = asyncio.get_running_loop()
        if core.leader != NOBODY:
            self.stop()
            self._log.info("role", server=core.id, term=core.term, role=core.role, leader=core.leader)
            return
        self._log.debug("role", server=core.id, term=core.term, role=core.role, leader=None)
        if self._reminder is None:
            patience = min(2 * core.timing.election_max, PATIENCE_SECONDS)
            self._reminder = loop.call_later(patience, self._remind, core)

    def stop(self) -> None:
        """Log no more about a missing leader."""
        if self._reminder is not None:
            self._reminder.cancel()
            self._reminder = None

    def _remind(self, core: Core) -> None:
        self._reminder = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._remind, core)
        voters = {server.id for server in core.configuration.servers}
        if not voters:
            return  # a server that is to join
        reached = (voters & set(self._connected())) | (voters & {core.id})
        missing, needed = sorted(voters - reached), majority(len(voters))
        if len(reached) < needed:
            self._log.warning("no quorum", server=core.id, missing=missing, reached=len(reached), needed=needed)
        else:
            self._log.warning("no leader, and a quorum is reached", server=core.id, missing=missing, term=core.term)
