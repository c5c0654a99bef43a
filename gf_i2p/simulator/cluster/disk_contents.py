"""The content of a simulated disk: the storage's own tables, in an SQLite database in memory."""

import sqlite3
from contextlib import suppress
from typing import Final

from gf_i2p.simulator.registers import CLUSTER
from gf_i2p.storage.loading import Loaded
from gf_i2p.storage.log_tables import Tables
from gf_i2p.storage.write_group import WriteGroup
from gf_i2p.wire.entries import Entry

_TEAR_STEPS: Final = 400
"""Number of instructions of SQLite's virtual machine that stores almost any group; most groups need 18."""


class Store:
    """The content of one server's disk, which outlives the server's processes.

    Here a write is durable at once; `Disk` adds the time.
    """

    def __init__(self, server_id: int) -> None:
        """Make the tables of an empty log."""
        self._server_id = server_id
        self._connection = sqlite3.connect(":memory:")
        Tables.create(self._connection, cluster=CLUSTER, server_id=server_id)
        self.reopen()

    def reopen(self) -> None:
        """Open the database, as a new process does. Raises `StorageError` when the content is damaged."""
        self._tables = Tables.on(self._connection, cluster=CLUSTER, server_id=self._server_id)

    def close(self) -> None:
        """Free the memory of the database. After that, nothing can be stored or read."""
        self._connection.close()

    @property
    def loaded(self) -> Loaded:
        """The content of the disk as it was at the latest `reopen`."""
        return self._tables.loaded

    def group(self) -> WriteGroup:
        """Return an empty group for the next writes."""
        return self._tables.group()

    def store(self, group: WriteGroup) -> None:
        """Make all writes of a group durable, or none of them."""
        self._tables.store(group)

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return the stored entries from `first` to `last`, at most about `max_bytes`; see `LogReader.read`."""
        return self._tables.read(first, last, max_bytes)

    def tear(self, group: WriteGroup, share: float) -> bool:
        """Begin to store a group, and stop in the middle; return whether the group was stored all the same.

        `share`: how far the storing goes, from 0 (it stops at once) to 1. Call `reopen` before the next group.
        """
        before = self._stored_content()
        self._connection.set_progress_handler(lambda: 1, int(_TEAR_STEPS**share))
        with suppress(sqlite3.OperationalError):
            self._tables.store(group)
        self._connection.set_progress_handler(None, 0)
        return self._stored_content() != before  # the interruption may have come just after the commit

    def _stored_content(self) -> Loaded:
        return Tables.on(self._connection, cluster=CLUSTER, server_id=self._server_id).loaded

    def damage_snapshot(self) -> None:
        """Change one byte of the stored snapshot while no process has the database open."""
        self._connection.rollback()
        self._connection.execute("UPDATE snapshot_block SET data = x'00' || substr(data, 2)")
