"""The members of the farm: the Configurations in the log, the one before them, and the meaning of a majority.

A Configuration counts from the moment it is in the log, committed or not (Raft thesis, 4.1). So a cut of the log brings
the previous Configuration back.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, Configuration

T = TypeVar("T", int, float)


def majority(servers: int) -> int:
    """Return how many servers make a majority of `servers`."""
    return servers // 2 + 1


def agreed(values: Iterable[T]) -> T:
    """The highest value that a majority has reached. `values` must not be empty."""
    ordered = sorted(values, reverse=True)
    return ordered[majority(len(ordered)) - 1]


class Configurations:
    """The known Configurations: `first`, and the later ones in the log, `stored`, as ascending (index, value) pairs.

    `first` counts while the log holds no later one. It is the Configuration of a new farm, or a snapshot's, or one
    without servers on a server that waits for an invitation. A snapshot may cover entries that the log still has, so a
    snapshot's Configuration may also be among the log's.
    """

    def __init__(self, first: Configuration, stored: Sequence[tuple[int, Configuration]] = ()) -> None:
        at = first.log_index
        before, after = [item for item in stored if item[0] < at], [item for item in stored if item[0] > at]
        self._history = [*before, (at, first), *after]
        self.changes = 0
        """Count of changes of the members, by which a change is noticed."""
        self._members_changed()

    @property
    def current(self) -> Configuration:
        """The newest Configuration."""
        return self._history[-1][1]

    @property
    def current_index(self) -> int:
        """Log index of the newest Configuration; 0 for that of a new farm."""
        return self._history[-1][0]

    def at(self, index: int) -> Configuration:
        """The Configuration that counts when exactly the entries up to `index` are taken in."""
        return next(value for first, value in reversed(self._history) if first <= index or first == self._history[0][0])

    def has_since(self, index: int, server_id: int) -> bool:
        """Whether the Configuration that counts at `index`, or a later one, has this server."""
        values = [self.at(index), *(value for first, value in self._history if first > index)]
        return any(server.id == server_id for value in values for server in value.servers)

    def ever_has(self, server_id: int) -> bool:
        """Whether any known Configuration has this server."""
        return any(server.id == server_id for _, value in self._history for server in value.servers)

    def _members_changed(self) -> None:
        self.changes += 1
        self.voters = tuple(server.id for server in self.current.servers)
        """Ids of the servers that vote and count."""

    def replace_from(self, first: int, entries: Sequence[Entry]) -> None:
        """Cut the log's Configurations before `first`, and take those in `entries`.

        Raises:
            RemoteProtocolError: an entry of type Configuration holds none; nothing has changed then.
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
        """Follow the log, whose beginning is dropped up to `index`: the Configuration there becomes the first."""
        first = self.at(index)
        self._history = [(first.log_index, first), *(item for item in self._history if item[0] > index)]

    def begin(self, index: int, first: Configuration) -> None:
        """Take the Configuration of a snapshot up to `index`: the log's own may have been lost."""
        self._history = [(first.log_index, first), *(item for item in self._history if item[0] > index)]
        self._members_changed()

    def restart(self, first: Configuration) -> None:
        """Begin anew with the log, after a snapshot with this Configuration."""
        self._history = [(first.log_index, first)]
        self._members_changed()

    def no_op(self, index: int) -> Configuration:
        """The Configuration that a new leader appends at `index`: with the same servers."""
        return self.next(index, self.current.servers)

    def next(self, index: int, servers: tuple[ClusterServer, ...]) -> Configuration:
        """The Configuration with these servers, to be appended at `index`."""
        return Configuration(log_index=index, last_log_index=self.current_index, servers=servers)
