"""One server's disk: writes take time, the disk can be full, and a crash loses writes that were not synced."""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from random import Random

from gf_i2p.raft.effects import Write
from gf_i2p.simulator.cluster.disk_contents import Store
from gf_i2p.simulator.events import Events
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.write_group import WriteGroup


class DiskFullError(StorageError):
    """No space is left on the disk. The node halts, as at every error of the disk."""


class Loss(Enum):
    """The effect of a crash on the group of writes under way."""

    NOTHING = "crash while the disk was idle"
    BEFORE = "crash before fsync"
    AFTER = "crash after fsync, before anybody heard of it"
    TORN = "crash in the middle of a write"


class Disk:
    """Makes writes durable in groups, as `storage.writer.LogWriter` does: writes that wait form the next group.

    Each life of a server has a `Disk` of its own; `store` outlives the `Disk`. `on_stored(number)` is called some time
    after the sync, as a real writer's thread takes time to tell the event loop. `number` is the last durable write's.
    """

    def __init__(
        self,
        events: Events,
        rng: Random,
        store: Store,
        *,
        seconds: Callable[[], float],
        on_durable: Callable[[Sequence[Write]], None],
        on_stored: Callable[[int], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        """Begin with an idle disk.

        Args:
            events: the run's events.
            rng: the run's source of random numbers.
            store: the content of the disk.
            seconds: draws the duration of one sync.
            on_durable: gets the writes as soon as they are durable, for the checker.
            on_stored: gets the number of the last durable write, later than `on_durable`, for the server.
            on_failure: called when the disk is full.
        """
        self.store = store
        self.full = False
        self.synced_at = 0.0
        """Time when the present group of writes, if any, will be durable, in seconds since the run began."""
        self.slow = 1.0
        """Factor by which a sync takes longer than usual."""
        self._events = events
        self._rng = rng
        self._seconds = seconds
        self._on_durable = on_durable
        self._on_stored = on_stored
        self._on_failure = on_failure
        self._waiting: deque[Write] = deque()
        self._group: WriteGroup | None = None
        self._writes: list[Write] = []  # the writes of the present group
        self._reported_at = 0.0  # time of the latest `on_stored`: the thread's messages arrive in order
        self._alive = True

    def submit(self, write: Write) -> None:
        """Take the next write. Writes become durable in the order in which the disk took them."""
        self._waiting.append(write)
        if self._group is None:
            self._begin()

    def _begin(self) -> None:
        self._group = group = self.store.group()
        self._writes = []
        while self._waiting and not group.full:
            self._writes.append(self._waiting.popleft())
            group.add(self._writes[-1])
        seconds = self._seconds() * self.slow
        self.synced_at = self._events.now + seconds
        self._events.after(seconds, self._synced, group)

    def _synced(self, group: WriteGroup) -> None:
        if not self._alive or group is not self._group:
            return  # the server has crashed, or `finish_within` was called
        if self.full:
            self._alive = False
            self._on_failure(DiskFullError("the disk is full: free some space, then start this node again"))
            return
        self._group = None
        self.store.store(group)
        self._on_durable(self._writes)
        now = self._events.now
        self._reported_at = max(self._reported_at, now + self._seconds() * self._rng.random())
        self._events.after(self._reported_at - now, self._on_stored, self._writes[-1].number)
        if self._waiting:
            self._begin()

    def finish_within(self, seconds: float) -> None:
        """End the sync under way after at most `seconds`: the disk was slow and is not slow any more."""
        if self._group is not None and self.synced_at > self._events.now + seconds:
            self.synced_at = self._events.now + seconds
            self._events.after(seconds, self._synced, self._group)

    def crash(self) -> tuple[Loss, int]:
        """End the disk's work at a crash; return the effect on the present group, and the number of lost writes."""
        group, self._group = self._group, None
        lost = len(self._waiting)
        was_alive, self._alive = self._alive, False
        if group is None or not was_alive:
            return Loss.NOTHING, lost
        loss = self._rng.choice((Loss.BEFORE, Loss.AFTER, Loss.TORN))
        if loss is Loss.AFTER:
            self.store.store(group)
        elif loss is Loss.TORN and self.store.tear(group, self._rng.random()):
            loss = Loss.AFTER
        if loss is Loss.AFTER:
            self._on_durable(self._writes)
            return loss, lost
        return loss, lost + len(self._writes)
