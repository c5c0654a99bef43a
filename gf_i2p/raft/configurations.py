"""Which servers belong to the farm: the Configurations in the log, the one before them, and what a majority is.

A Configuration counts from the moment it is in the log, committed or not (Raft thesis, 4.1), so cutting the log brings
the one before it back.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, Configuration

T = TypeVar("T", int, float)


def majority(servers: int) -> int:
    """How many of so many servers make a majority."""
    return servers // 2 + 1


def agreed(values: Iterable[T]) -> T:
    """The highest value that a majority has reached. There must be at least one value."""
    ordered = sorted(values, reverse=True)
    return ordered[majority(len(ordered)) - 1]


class Configurations:
    """`first` counts while the log holds no later one; `stored` are the log's: (index, value) pairs, ascending.

    `first` is the one that a new farm begins with, or a snapshot's, or one without servers: who waits to be invited
    has that. A snapshot may cover entries that the log still has, so a snapshot's may be one of the log's.
    """

    def __init__(self, first: Configuration, stored: Sequence[tuple[int, Configuration]] = ()) -> None:
        at = first.log_index
        before, after = [item for item in stored if item[0] < at], [item for item in stored if item[0] > at]
        self._history = [*before, (at, first), *after]
        self.changes = 0
        """How often the members have changed: to see that they have."""
        self._members_changed()

    @property
    def current(self) -> Configuration:
        """The newest Configuration."""
        return self._history[-1][1]

    @property
    def current_index(self) -> int:
        """Its log index; 0 for the one that a new farm begins with."""
        return self._history[-1][0]

    def at(self, index: int) -> Configuration:
        """The one that counts when all entries up to `index`, and no more, are taken in."""
        return next(value for first, value in reversed(self._history) if first <= index or first == self._history[0][0])

    def has_since(self, index: int, server_id: int) -> bool:
        """Whether the Configuration that counts at `index`, or one after it, has this server."""
        values = [self.at(index), *(value for first, value in self._history if first > index)]
        return any(server.id == server_id for value in values for server in value.servers)

    def ever_has(self, server_id: int) -> bool:
        """Whether any Configuration that is still known has this server."""
        return any(server.id == server_id for _, value in self._history for server in value.servers)

    def _members_changed(self) -> None:
        self.changes += 1
        self.voters = tuple(server.id for server in self.current.servers)
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

    def drop(self, index: int) -> None:
        """The log's beginning is dropped up to `index`: what counts there becomes the first."""
        first = self.at(index)
        self._history = [(first.log_index, first), *(item for item in self._history if item[0] > index)]

    def begin(self, index: int, first: Configuration) -> None:
        """A snapshot up to `index` has come, with the Configuration that counts there: ours may have been lost."""
        self._history = [(first.log_index, first), *(item for item in self._history if item[0] > index)]
        self._members_changed()

    def restart(self, first: Configuration) -> None:
        """The log begins anew, after a snapshot with this Configuration."""
        self._history = [(first.log_index, first)]
        self._members_changed()

    def no_op(self, index: int) -> Configuration:
        """The Configuration that a new leader appends at `index`: the same servers."""
        return self.next(index, self.current.servers)

    def next(self, index: int, servers: tuple[ClusterServer, ...]) -> Configuration:
        """The Configuration with these servers that is to be appended at `index`."""
        return Configuration(log_index=index, last_log_index=self.current_index, servers=servers)
