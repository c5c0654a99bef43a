"""The farm as its log describes it: follows the log, keeps the farm's state, and makes snapshots of that state."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

import structlog

from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.events import EventLog
from gf_i2p.farm.record_series import RecordSeries
from gf_i2p.farm.state import FarmState
from gf_i2p.node.clock import now_ms
from gf_i2p.node.consensus.driver import Driver
from gf_i2p.raft.effects import Snapshot
from gf_i2p.raft.log import size_of
from gf_i2p.storage.errors import StorageError
from gf_i2p.transport.request_slices import SLICE_SECONDS
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration

logger = structlog.get_logger()

_PAGE_ENTRIES: Final = 256
_PAGE_BYTES: Final = 1 << 20

SNAPSHOT_ENTRIES: Final = 10_000
"""Number of entries after which the node makes a snapshot, so that the log can drop old entries."""
SNAPSHOT_BYTES: Final = 64 << 20
"""Bytes of entries after which the node makes a snapshot, even after fewer than `SNAPSHOT_ENTRIES` entries."""
KEPT_ENTRIES: Final = 50_000
"""Most entries before a snapshot that the log keeps. A follower that was away gets these entries from the log, and then
has no gap in its history."""
KEPT_BYTES: Final = 64 << 20
"""Bytes of entries before a snapshot that the log keeps. When earlier snapshots are far apart, the log keeps up to
twice as many, because the log drops entries only up to an earlier snapshot."""


class FarmView:
    """The farm's state on one node. `run` keeps the state up to date.

    `droppable` returns the index up to which no other part of the node needs the log. Without `droppable`, no other
    part needs the log.
    """

    def __init__(self, cluster: str, driver: Driver, *, droppable: Callable[[], int] | None = None) -> None:
        self.state = FarmState(cluster)
        self.applied = 0
        """Index of the last entry that was applied to the state."""
        self.events = EventLog()
        self.series = RecordSeries()
        """The numbers of the servers' records since this node's start."""
        self.on_change: list[Callable[[], None]] = []
        """Callbacks, each called after more entries were applied."""
        self._cluster = cluster
        self._driver = driver
        self._droppable = droppable
        self._more = asyncio.Event()
        self._more.set()
        self._moved = asyncio.Condition()
        self._received_snapshot = driver.core.snapshot
        self._snapshot_wanted = False
        self._new_bytes = 0  # of entries since the last snapshot
        self._total_bytes = 0  # of entries since the start
        driver.on_applicable.append(self._more.set)
        driver.on_restore.append(self._restore)
        driver.on_snapshot_wanted = self._want_snapshot
        self._take_received()
        self._snapshots = deque([(self.applied, 0)])  # indexes of snapshots, and `_total_bytes` there
        self._news_from = driver.core.log.last_index

    @property
    def choice(self) -> Choice:
        """The farm's choice of publisher and leaves, from the applied part of the log."""
        return self.state.choice

    async def run(self) -> None:
        """Follow the log until cancelled."""
        core = self._driver.core
        self._more.set()
        while True:
            await self._more.wait()
            self._more.clear()
            self._take_received()
            while core.log.base <= self.applied < core.applicable and not self._driver.halted:
                await self._apply_page(self._next_page())
                self.events.note(self.state, self.applied, now_ms() if self.applied > self._news_from else None)
                self._keep_snapshot()
                if self.applied < core.applicable:
                    await asyncio.sleep(0)  # a long log must not keep heartbeats waiting
                self._take_received()
            self._keep_snapshot()
            async with self._moved:
                self._moved.notify_all()
            for tell in self.on_change:
                tell()

    def _next_page(self) -> tuple[Entry, ...]:
        """Read the next entries to apply. When the disk fails, halt the driver, as after any failed read of the log."""
        core = self._driver.core
        try:
            return core.log.slice(self.applied + 1, core.applicable, max_entries=_PAGE_ENTRIES, max_bytes=_PAGE_BYTES)
        except StorageError as error:
            self._driver.halt(error)
            return ()

    # Snapshots ------------------------------------------------------------------------------------------------------

    def _restore(self, snapshot: Snapshot) -> None:
        self._received_snapshot = snapshot
        self._more.set()

    def _want_snapshot(self) -> None:
        self._snapshot_wanted = True
        self._more.set()

    def _take_received(self) -> None:
        """Replace the state by a received snapshot that is ahead of the state."""
        snapshot, self._received_snapshot = self._received_snapshot, None
        if snapshot is None or snapshot.index <= self.applied:
            return
        self.state = FarmState.decode(self._cluster, snapshot.data)  # checked by storage or core, see `snapshot_fault`
        self.applied = snapshot.index
        self.events.begin_from(self.state)
        self._new_bytes = 0

    def _keep_snapshot(self) -> None:
        """Make a snapshot when one is due, and tell the core up to which index the log can drop entries."""
        core = self._driver.core
        last = 0 if core.snapshot is None else core.snapshot.index
        new = self.applied - last
        if new <= 0 or not (self._snapshot_wanted or new >= SNAPSHOT_ENTRIES or self._new_bytes >= SNAPSHOT_BYTES):
            return
        needed = self.applied if self._droppable is None else self._droppable()
        drop = min(max(self.applied - KEPT_ENTRIES, self._droppable_for_room()), needed)
        self._snapshot_wanted = False
        self._new_bytes = 0
        self._driver.snapshotted(self.applied, self.state.encode(), max(drop, core.log.base))

    def _droppable_for_room(self) -> int:
        """Return the index of the latest snapshot with at least `KEPT_BYTES` of entries after it; 0 when there is none.

        The log may drop the entries up to that index.
        """
        snapshots = self._snapshots
        while len(snapshots) > 1 and (
            self._total_bytes - snapshots[1][1] >= KEPT_BYTES or self.applied - snapshots[1][0] >= KEPT_ENTRIES
        ):
            snapshots.popleft()
        index, total = snapshots[0]
        snapshots.append((self.applied, self._total_bytes))
        return index if self._total_bytes - total >= KEPT_BYTES else 0

    async def _apply_page(self, page: Sequence[Entry]) -> None:
        """Apply the entries after `applied`, in slices of time: some entries are slow to read."""
        loop = asyncio.get_running_loop()
        end = loop.time() + SLICE_SECONDS
        for entry in page:
            self._apply(entry)
            if loop.time() >= end:
                await asyncio.sleep(0)
                if self._received_snapshot is not None:
                    return  # the rest of the page may be older than the snapshot
                end = loop.time() + SLICE_SECONDS

    def _apply(self, entry: Entry) -> None:
        self.applied += 1
        self._new_bytes += size_of(entry)
        self._total_bytes += size_of(entry)
        before = self.state.servers
        take_in(self.state, self.applied, entry)
        self.series.take(self.state.last_record, self.state.clock.now_ms)
        if self.state.servers != before:
            self.series.keep(self.state.servers)
            if self.applied > self._news_from:
                self._log_servers(before)

    def _log_servers(self, before: Collection[int]) -> None:
        """Log the servers that a newly committed Configuration has added and removed. `before`: the former servers."""
        now, own_id = self.state.servers, self._driver.core.id
        logger.info(
            "servers",
            server=own_id,
            joined=sorted(set(now) - set(before)),
            left=sorted(set(before) - set(now)),
            now=sorted(now),
        )
        if own_id in before and own_id not in now:
            logger.warning("this server was removed from the farm", server=own_id, index=self.applied)

    async def reaches(self, index: int) -> None:
        """Return when the entry at this index has been applied."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.applied >= index)


def take_in(state: FarmState, index: int, entry: Entry) -> None:
    """Apply one entry, of any content, to the state. Raises nothing: a defect is logged, and the entry is left out."""
    try:
        match entry.value_type:
            case ValueType.CONFIGURATION:
                state.configure(server.id for server in Configuration.decode(entry.value).servers)
            case ValueType.APPLICATION:
                state.apply(entry.value, index)
    except Exception:  # an entry must not stop the farm: it would stop every server, and again after each restart
        logger.exception("a defect: an entry cannot be applied and is left out", index=index)
