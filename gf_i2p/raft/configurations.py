"""Which servers belong to the farm: the Configurations in the log, and the one before them.

A Configuration counts from the moment it is in the log, committed or not (Raft thesis, 4.1), so cutting the log brings
the one before it back.
"""

from collections.abc import Sequence

from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.values import Configuration


class Configurations:
    """`bootstrap` counts while the log holds no Configuration; `stored` are (index, value) pairs, ascending."""

    def __init__(self, bootstrap: Configuration, stored: Sequence[tuple[int, Configuration]] = ()) -> None:
        self._history = [(0, bootstrap), *stored]
        self._members_changed()

    @property
    def current(self) -> Configuration:
        """The newest Configuration."""
        return self._history[-1][1]

    @property
    def current_index(self) -> int:
        """Its log index; 0 for the bootstrap one."""
        return self._history[-1][0]

    def _members_changed(self) -> None:
        self.members = tuple(server.id for server in self.current.servers)
        """Ids of the servers that vote and count."""

    def replace_from(self, first: int, entries: Sequence[Entry]) -> None:
        """The log is cut before `first` and continued with `entries`.

        Raises:
            RemoteProtocolError: an entry says that it is a Configuration and is none; nothing has changed then.
        """
        added = [
            (index, Configuration.decode(entry.value))
            for index, entry in enumerate(entries, first)
            if entry.value_type == ValueType.CONFIGURATION
        ]
        kept = [item for item in self._history if item[0] < first]
        if added or len(kept) != len(self._history):
            self._history = kept + added
            self._members_changed()

    def no_op(self, index: int) -> Configuration:
        """The Configuration that a new leader appends at `index`: the same servers."""
        return Configuration(log_index=index, last_log_index=self.current_index, servers=self.current.servers)
