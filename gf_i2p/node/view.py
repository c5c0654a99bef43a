"""The farm as its log describes it: follows the log, keeps the state that follows from it, and makes its snapshots."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

import structlog

from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.state import FarmState, SnapshotError
from gf_i2p.node.consensus.driver import Driver
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.raft.effects import Snapshot
from gf_i2p.raft.log import size_of
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration

logger = structlog.get_logger()

_PAGE_ENTRIES: Final = 256
_PAGE_BYTES: Final = 1 << 20

SNAPSHOT_ENTRIES: Final = 10_000
"""After so many entries, or so many bytes of them, the state is kept as a snapshot and the log before it dropped."""
SNAPSHOT_BYTES: Final = 64 << 20
KEPT_ENTRIES: Final = 50_000
"""Of what a snapshot covers: a follower that was away for a while goes on from the log, with no gap in its history."""
KEPT_BYTES: Final = 64 << 20
"""The most of it that is kept; up to twice as much where the snapshots before it are far apart."""


class FarmView:
    """What one node knows of its farm. `run` keeps it up to date.

    `droppable`: returns the index up to which nobody else here needs the log.
    """

    def __init__(self, cluster: str, driver: Driver, *, droppable: Callable[[], int] | None = None) -> None:
        """Raises `ConfigError` when the stored snapshot is of a newer version."""
        self.state = FarmState(cluster)
        self.applied = 0
        """Index of the last entry that the state has taken in."""
        self.on_change: list[Callable[[], None]] = []
        """Each is called when the state has taken in more of the log."""
        self._cluster = cluster
        self._driver = driver
        self._droppable = droppable
        self._more = asyncio.Event()
        self._more.set()
        self._moved = asyncio.Condition()
        self._received = driver.core.snapshot
        self._wanted = False
        self._bytes = 0  # of entries since the last snapshot
        self._total = 0  # of entries since the start
        driver.on_applicable.append(self._more.set)
        driver.on_restore.append(self._restore)
        driver.on_snapshot_wanted = self._want_snapshot
        self._take_received()
        self._kept = deque([(self.applied, 0)])  # indexes of snapshots, and `_total` there
        self._news_from = driver.core.log.last_index

    @property
    def choice(self) -> Choice:
        """Who publishes what, by the log as far as it is applied."""
        return self.state.choice

    async def run(self) -> None:
        """Follow the log, for ever."""
        core = self._driver.core
        self._more.set()
        while True:
            await self._more.wait()
            self._more.clear()
            self._take_received()
            while core.log.base <= self.applied < core.applicable:
                page = core.log.slice(
                    self.applied + 1, core.applicable, max_entries=_PAGE_ENTRIES, max_bytes=_PAGE_BYTES
                )
                for entry in page:
                    self._apply(entry)
                self._keep_snapshot()
                await asyncio.sleep(0)  # a long log must not keep heartbeats waiting
                self._take_received()
            self._keep_snapshot()
            async with self._moved:
                self._moved.notify_all()
            for tell in self.on_change:
                tell()

    # Snapshots ------------------------------------------------------------------------------------------------------

    def _restore(self, snapshot: Snapshot) -> None:
        self._received = snapshot
        self._more.set()

    def _want_snapshot(self) -> None:
        self._wanted = True
        self._more.set()

    def _take_received(self) -> None:
        """Go on from the snapshot that has come, if it is ahead of us."""
        snapshot, self._received = self._received, None
        if snapshot is None or snapshot.index <= self.applied:
            return
        try:
            self.state = FarmState.decode(self._cluster, snapshot.data)
        except SnapshotError as error:
            raise ConfigError(
                f"the farm's snapshot cannot be read: {error}. Was it written by another version of gf-i2p? Then "
                "install that one here, too."
            ) from error
        self.applied = snapshot.index
        self._bytes = 0

    def _keep_snapshot(self) -> None:
        """Have the state kept, when it is time, and the log before it dropped."""
        core = self._driver.core
        last = 0 if core.snapshot is None else core.snapshot.index
        new = self.applied - last
        if new <= 0 or not (self._wanted or new >= SNAPSHOT_ENTRIES or self._bytes >= SNAPSHOT_BYTES):
            return
        needed = self.applied if self._droppable is None else self._droppable()
        drop = min(max(self.applied - KEPT_ENTRIES, self._crowded_out()), needed)
        self._wanted = False
        self._bytes = 0
        self._driver.snapshotted(self.applied, self.state.encode(), max(drop, core.log.base))

    def _crowded_out(self) -> int:
        """Return up to where `KEPT_BYTES` has no room for the log, an earlier snapshot's index; 0 for nowhere."""
        kept = self._kept
        while len(kept) > 1 and (self._total - kept[1][1] >= KEPT_BYTES or self.applied - kept[1][0] >= KEPT_ENTRIES):
            kept.popleft()
        index, total = kept[0]
        kept.append((self.applied, self._total))
        return index if self._total - total >= KEPT_BYTES else 0

    def _apply(self, entry: Entry) -> None:
        self.applied += 1
        self._bytes += size_of(entry)
        self._total += size_of(entry)
        before = self.state.servers
        take_in(self.state, self.applied, entry)
        if self.state.servers != before and self.applied > self._news_from:
            self._tell_servers(before)

    def _tell_servers(self, before: Collection[int]) -> None:
        """Say who has come and gone, once that is committed; what the log held when we started is no news."""
        now, ours = self.state.servers, self._driver.core.id
        logger.info(
            "servers",
            server=ours,
            joined=sorted(set(now) - set(before)),
            left=sorted(set(before) - set(now)),
            now=sorted(now),
        )
        if ours in before and ours not in now:
            logger.warning("this server is out of the farm: it was removed", server=ours, index=self.applied)

    async def reaches(self, index: int) -> None:
        """Return when the entry at this index has been taken in."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.applied >= index)


def take_in(state: FarmState, index: int, entry: Entry) -> None:
    """Have the state follow from one more entry, whatever is in it."""
    try:
        match entry.value_type:
            case ValueType.CONFIGURATION:
                state.configure(server.id for server in Configuration.decode(entry.value).servers)
            case ValueType.APPLICATION:
                state.apply(entry.value, index)
    except Exception:  # no entry may stop the farm: it would do so on every server, and after every restart
        logger.exception("a defect: an entry cannot be taken in, and is left out", index=index)
