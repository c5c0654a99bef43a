"""A server that was removed while it was away: nobody tells it, so it asks (DESIGN, "Unknown leader")."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from gf_i2p.node.driver import Driver
from gf_i2p.transport.base import Transport
from gf_i2p.transport.inquiry import ask_around
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
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
        self._driver = driver
        self._transport = transport
        self._cluster = cluster
        self._others = others
        self._log = logger.bind(server=driver.core.id)

    async def run(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            core = self._driver.core
            if core.leader != NOBODY or not core.is_member:
                self.told = None
            elif self.told is None:
                await self._ask()

    async def _ask(self) -> None:
        core = self._driver.core
        known = core.configuration.log_index
        answers = await ask_around(
            self._transport, self._others(), self._cluster, newer_than=known, seconds=ASK_SECONDS
        )
        newest = answers.newest
        if newest is None or newest.log_index <= known or core.leader != NOBODY:
            return
        if core.id not in {server.id for server in newest.servers}:
            self.told = (
                f"the farm's Configuration of entry {newest.log_index} does without this server: it was removed while "
                "it was away, and can come back under a new id only"
            )
            self._log.warning("this server is out of the farm", reason=self.told)
