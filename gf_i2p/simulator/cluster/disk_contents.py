"""What stands on a simulated disk: the storage's own tables, in an SQLite database in memory."""

import sqlite3
from contextlib import suppress
from typing import Final

from gf_i2p.simulator.registers import CLUSTER
from gf_i2p.storage.loading import Loaded
from gf_i2p.storage.tables import Tables
from gf_i2p.storage.write_group import Group
from gf_i2p.wire.entries import Entry

_TEAR_STEPS: Final = 400
"""As many instructions of SQLite's virtual machine store almost any group; most need 18."""


class Store:
    """The disk of one server, through all its lives. All that it stores is at once durable; `Disk` adds the time."""

    def __init__(self, server_id: int) -> None:
        """Make the tables of an empty log."""
        self._server_id = server_id
        self._connection = sqlite3.connect(":memory:")
        Tables.create(self._connection, cluster=CLUSTER, server_id=server_id)
        self.reopen()

    def reopen(self) -> None:
        """Open what stands there, as a new process does. Raises `StorageError` when it cannot be right."""
        self._tables = Tables.on(self._connection, cluster=CLUSTER, server_id=self._server_id)

    def close(self) -> None:
        """Give its memory back: nothing can be stored or read any more."""
        self._connection.close()

    @property
    def loaded(self) -> Loaded:
        """What it held when it was opened."""
        return self._tables.loaded

    def group(self) -> Group:
        """Return an empty group for the next writes."""
        return self._tables.group()

    def store(self, group: Group) -> None:
        """Make it durable, all or nothing."""
        self._tables.store(group)

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """See `LogReader`."""
        return self._tables.read(first, last, max_bytes)

    def tear(self, group: Group, share: float) -> bool:
        """End in the middle of storing it; return whether all of it was done. `share`: 0 (at once) to 1.

        Nothing may be stored then until it is opened again.
        """
        before = self._look()
        self._connection.set_progress_handler(lambda: 1, int(_TEAR_STEPS**share))
        with suppress(sqlite3.OperationalError):
            self._tables.store(group)
        self._connection.set_progress_handler(None, 0)
        return self._look() != before  # SQLite may have been interrupted just after it was done

    def _look(self) -> Loaded:
        return Tables.on(self._connection, cluster=CLUSTER, server_id=self._server_id).loaded

    def damage_snapshot(self) -> None:
        """Have one byte of the stored snapshot changed while nobody has it open."""
        self._connection.rollback()
        self._connection.execute("UPDATE snapshot_block SET data = x'00' || substr(data, 2)")
