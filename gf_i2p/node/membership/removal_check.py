"""Checks whether a server was removed without knowing it: a removed server hears nothing, so it asks (DESIGN, 3).

Such a server was away during the removal, or was restarted after it: the commit index is on no disk.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from gf_i2p.node.consensus.driver import Driver
from gf_i2p.transport.client.server_queries import ask_around
from gf_i2p.transport.interface import Transport
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.messages import NOBODY

logger = structlog.get_logger()

LOOK_SECONDS: Final = 10.0
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
        self.told: str | None = None
        """A sentence: why this server is out of the farm, as another server told; None when no server has."""
        self._newest: Configuration | None = None
        self._driver = driver
        self._transport = transport
        self._cluster = cluster
        self._others = others
        self._log = logger.bind(server=driver.core.id)

    @property
    def farm(self) -> tuple[ClusterServer, ...] | None:
        """The members as far as known, when this server is out of the farm; None when it is in, or not sure.

        A server that is taken in again has a leader before `told` is cleared.
        """
        core = self._driver.core
        if self.told is not None and self._newest is not None and core.leader == NOBODY:
            return self._newest.servers
        knows = not core.is_voter and core.configuration.log_index <= core.commit
        return core.configuration.servers if core.was_voter and knows else None

    async def run(self) -> None:
        """Check at intervals until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            core = self._driver.core
            knows = not core.is_voter and core.configuration.log_index <= core.commit
            if core.leader != NOBODY or knows or not core.was_voter:
                self.told = None
            elif self.told is None:
                await self._ask()

    async def _ask(self) -> None:
        core = self._driver.core
        # While this server is in its own Configuration, only a newer one is news. When it is not, the same one
        # tells enough, if the farm goes on with it.
        news = core.configuration.log_index + core.is_voter
        answers = await ask_around(
            self._transport, self._others(), self._cluster, newer_than=news - 1, seconds=ASK_SECONDS
        )
        newest = answers.newest
        if newest is None or newest.log_index < news or core.leader != NOBODY:
            return
        if core.id not in {server.id for server in newest.servers}:
            self._newest = newest
            self.told = (
                f"the farm's Configuration of entry {newest.log_index} does without this server: it was removed. With "
                "this directory `gf-i2p members add` takes the server back; without it, the server needs a new id"
            )
            self._log.warning("this server is out of the farm", reason=self.told)
