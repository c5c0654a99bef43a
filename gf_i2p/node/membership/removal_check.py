"""A server that was removed and does not know it: nobody sends to it any more, so it asks (DESIGN, "Unknown leader").

It was away meanwhile; or it was there, and was restarted: what was committed is on no disk.
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


class Outsider:
    """Asks the other servers who belongs to the farm, while this one has no leader."""

    def __init__(
        self,
        driver: Driver,
        transport: Transport,
        cluster: str,
        others: Callable[[], Mapping[Endpoint, Credentials]],
    ) -> None:
        """`others`: returns where to ask, with our credentials there."""
        self.told: str | None = None
        """Why this server is out, as another one has told; None when none has. A sentence."""
        self._newest: Configuration | None = None
        self._driver = driver
        self._transport = transport
        self._cluster = cluster
        self._others = others
        self._log = logger.bind(server=driver.core.id)

    @property
    def farm(self) -> tuple[ClusterServer, ...] | None:
        """Who belongs to the farm, as far as this server knows, when it is out of it; None when it is in, or not sure.

        One that is taken in again has a leader before `told` is forgotten.
        """
        core = self._driver.core
        if self.told is not None and self._newest is not None and core.leader == NOBODY:
            return self._newest.servers
        knows = not core.is_member and core.configuration.log_index <= core.commit
        return core.configuration.servers if core.was_member and knows else None

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            core = self._driver.core
            knows = not core.is_member and core.configuration.log_index <= core.commit
            if core.leader != NOBODY or knows or not core.was_member:
                self.told = None
            elif self.told is None:
                await self._ask()

    async def _ask(self) -> None:
        core = self._driver.core
        # Ours is no news while we are in it; when we are not, a farm that goes on with it says enough.
        news = core.configuration.log_index + core.is_member
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
                "this directory `gf-i2p members add` takes it back; without it, it needs a new id"
            )
            self._log.warning("this server is out of the farm", reason=self.told)
