"""The thread that writes: all waiting writes go into one transaction with one fsync."""

import queue
import threading
import time
from collections.abc import Callable

from gf_i2p.raft.effects import Write
from gf_i2p.storage.database import Storage
from gf_i2p.storage.durations import Durations
from gf_i2p.storage.write_group import WriteGroup


class LogWriter:
    """Makes writes durable, in order, in a thread of its own.

    `on_durable(number)`: the write of this number and all earlier writes are on the disk. `on_failure(error)`: the disk
    has failed, or a write was wrong. The writer then ends, because the content of the disk is no longer certain. The
    writer's thread makes both calls.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        on_durable: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._storage = storage
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._queue: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._stopping = False
        self.times = Durations()
        """Times of the transactions, each with its sync."""
        # A daemon thread, so that a failing interpreter can end; that end is no worse than a kill.
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)

    def start(self) -> None:
        """Start the thread, which also takes the writes that were submitted before."""
        self._thread.start()

    def submit(self, write: Write) -> None:
        """Queue a write, without blocking. Call this always from the same thread, never after `stop`."""
        assert not self._stopping, "submit after stop"
        self._queue.put(write)

    def stop(self) -> None:
        """Write all submitted writes, and wait for the end of the thread. Before `start`, return at once."""
        if not self._stopping:
            self._stopping = True
            self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:  # noqa: BLE001 - the node must learn of every error
            self._on_failure(error)

    def _write(self) -> None:
        goes_on = True
        while goes_on:
            group = self._storage.group()
            goes_on = self._fill(group)
            if group.number:
                began = time.perf_counter()
                self._storage.store(group)
                self.times.observe(time.perf_counter() - began)
                self._on_durable(group.number)
                if self._storage.checkpoint_due(idle=self._queue.empty()):
                    self._storage.checkpoint()

    def _fill(self, group: WriteGroup) -> bool:
        """Wait for a write, then add waiting writes until the group is full; return False after `stop`."""
        write = self._queue.get()
        while write is not None:
            group.add(write)
            if group.full:
                return True
            try:
                write = self._queue.get_nowait()
            except queue.Empty:
                return True
        return False
