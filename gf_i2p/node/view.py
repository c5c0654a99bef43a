"""The farm as its log describes it: follows the log and keeps the state that follows from it."""

import asyncio
from typing import Final

import structlog

from gf_i2p.farm.publisher import Choice, choose
from gf_i2p.farm.state import FarmState
from gf_i2p.node.driver import Driver
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.values import Configuration

logger = structlog.get_logger()

_PAGE_ENTRIES: Final = 256
_PAGE_BYTES: Final = 1 << 20


class FarmView:
    """What one node knows of its farm. `run` keeps it up to date."""

    def __init__(self, cluster: str, driver: Driver) -> None:
        self.state = FarmState(cluster)
        self.applied = 0
        """Index of the last entry that the state has taken in."""
        self._driver = driver
        self._more = asyncio.Event()
        self._more.set()
        self._moved = asyncio.Condition()
        driver.on_applicable.append(self._more.set)

    @property
    def choice(self) -> Choice:
        """Who publishes what, by the log as far as it is applied."""
        return choose(self.state.records, self.state.servers)

    async def run(self) -> None:
        """Follow the log, for ever."""
        core = self._driver.core
        self._more.set()
        while True:
            await self._more.wait()
            self._more.clear()
            while self.applied < core.applicable:
                page = core.log.slice(
                    self.applied + 1, core.applicable, max_entries=_PAGE_ENTRIES, max_bytes=_PAGE_BYTES
                )
                for entry in page:
                    self._apply(entry)
                await asyncio.sleep(0)  # a long log must not keep heartbeats waiting
            async with self._moved:
                self._moved.notify_all()

    def _apply(self, entry: Entry) -> None:
        self.applied += 1
        try:
            match entry.value_type:
                case ValueType.CONFIGURATION:
                    self.state.configure(server.id for server in Configuration.decode(entry.value).servers)
                case ValueType.APPLICATION:
                    self.state.apply(entry.value)
        except Exception:  # no entry may stop the farm: it would do so on every server, and after every restart
            logger.exception("a defect: an entry cannot be taken in, and is left out", index=self.applied)

    async def reaches(self, index: int) -> None:
        """Return when the entry at this index has been taken in."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.applied >= index)
