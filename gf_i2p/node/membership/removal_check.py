"""Checks whether this server was removed from the farm without knowing.

A removed server gets no more messages from the leader, so the server asks the other servers. A server that was down
during its removal does not know of the removal. A server that has restarted since is not sure: the commit index is not
stored, so the Configuration without this server may or may not be committed.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from gf_i2p.node.consensus.driver import Driver
from gf_i2p.transport.client.server_queries import ask_for_newer
from gf_i2p.transport.interface import Transport
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.messages import NOBODY

logger = structlog.get_logger()

CHECK_SECONDS: Final = 10.0
ASK_SECONDS: Final = 60.0


class RemovalCheck:
    """Asks the other servers for the Configuration while this server has no leader."""

    def __init__(
        self,
        driver: Driver,
        transport: Transport,
        cluster: str,
        others: Callable[[], Mapping[Endpoint, Credentials]],
    ) -> None:
        """`others` returns the endpoints to ask, with this server's credentials there."""
        self.removal: str | None = None
        """Why this server is out of the farm, as a clause; None unless another server has answered so."""
        self._newest: Configuration | None = None
        self._driver = driver
        self._transport = transport
        self._cluster = cluster
        self._others = others
        self._log = logger.bind(server=driver.core.id)

    @property
    def farm(self) -> tuple[ClusterServer, ...] | None:
        """The members of the farm that has removed this server; None while this server is a member, or does not know.

        `removal` stays set for a while after this server was added again. So `removal` does not count while this server
        has a leader.
        """
        core = self._driver.core
        if self.removal is not None and self._newest is not None and core.leader == NOBODY:
            return self._newest.servers
        knows = not core.is_voter and core.configuration.log_index <= core.commit
        return core.configuration.servers if core.was_voter and knows else None

    async def run(self) -> None:
        """Check at intervals until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            core = self._driver.core
            knows = not core.is_voter and core.configuration.log_index <= core.commit
            if core.leader != NOBODY or knows or not core.was_voter:
                self.removal = None
            elif self.removal is None:
                await self._ask()

    async def _ask(self) -> None:
        core = self._driver.core
        # If this server's own Configuration names this server, only a newer Configuration can show a removal. Otherwise
        # the same Configuration from another server is enough: the farm still uses that Configuration.
        news = core.configuration.log_index + core.is_voter
        newest = await ask_for_newer(
            self._transport, self._others(), self._cluster, newer_than=news - 1, seconds=ASK_SECONDS
        )
        if newest is None or core.leader != NOBODY:
            return
        if core.id not in {server.id for server in newest.servers}:
            self._newest = newest
            self.removal = (
                f"the farm's Configuration at index {newest.log_index} does not name this server: the server was "
                "removed. `gf-i2p members add` takes the server back with this directory; without the directory, the "
                "server needs a new id"
            )
            self._log.warning("this server is out of the farm", reason=self.removal)
