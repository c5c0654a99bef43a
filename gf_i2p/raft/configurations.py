"""The voters of the farm: the Configurations in the log, the Configuration before the log, and majorities.

A Configuration is in force from the moment it is in the log, committed or not (Raft thesis, 4.1). So when a cut of
the log removes a Configuration, the previous Configuration is in force again.
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
    """Return the highest number that a majority of `values` reach or exceed. `values` must not be empty."""
    ordered = sorted(values, reverse=True)
    return ordered[majority(len(ordered)) - 1]


class Configurations:
    """All known Configurations.

    `first`: the Configuration of a new farm or of a snapshot, in force while the log holds no later Configuration. On a
    server that waits for an invitation, `first` has no servers. `stored`: the Configurations in the log, as
    (index, value) pairs with rising indexes. A snapshot may cover entries that the log still has, so `stored` may
    contain `first`.
    """

    def __init__(self, first: Configuration, stored: Sequence[tuple[int, Configuration]] = ()) -> None:
        at = first.log_index
        before, after = [item for item in stored if item[0] < at], [item for item in stored if item[0] > at]
        self._history = [*before, (at, first), *after]
        self.changes = 0
        """How often the voters may have changed; a reader compares two values to notice a change."""
        self._members_changed()

    @property
    def current(self) -> Configuration:
        """The newest Configuration."""
        return self._history[-1][1]

    @property
    def current_index(self) -> int:
        """Log index of the newest Configuration; 0 for a Configuration that no entry holds."""
        return self._history[-1][0]

    def at(self, index: int) -> Configuration:
        """Return the Configuration that is in force when the log ends at `index`."""
        return next(value for first, value in reversed(self._history) if first <= index or first == self._history[0][0])

    def has_since(self, index: int, server_id: int) -> bool:
        """Return whether the Configuration in force at `index`, or a later Configuration, contains this server."""
        values = [self.at(index), *(value for first, value in self._history if first > index)]
        return any(server.id == server_id for value in values for server in value.servers)

    def ever_has(self, server_id: int) -> bool:
        """Return whether any known Configuration contains this server."""
        return any(server.id == server_id for _, value in self._history for server in value.servers)

    def _members_changed(self) -> None:
        self.changes += 1
        self.voters = tuple(server.id for server in self.current.servers)
        """Ids of the servers in the newest Configuration: the voters."""

    def replace_from(self, first: int, entries: Sequence[Entry]) -> None:
        """Forget the Configurations from index `first` on, and add the Configurations in `entries`, which begin there.

        Raises:
            RemoteProtocolError: an entry of type Configuration cannot be decoded. No Configuration has changed then.
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
        """Note that the log has dropped its entries up to `index`; the Configuration in force there becomes `first`."""
        first = self.at(index)
        self._history = [(first.log_index, first), *(item for item in self._history if item[0] > index)]

    def begin(self, index: int, first: Configuration) -> None:
        """Replace all Configurations up to `index` by `first`, the Configuration of a snapshot that ends there.

        The log may lack entries that the snapshot covers, and so the Configurations in them.
        """
        self._history = [(first.log_index, first), *(item for item in self._history if item[0] > index)]
        self._members_changed()

    def restart(self, first: Configuration) -> None:
        """Replace all Configurations by `first`, from an installed snapshot that replaces the whole log."""
        self._history = [(first.log_index, first)]
        self._members_changed()

    def no_op(self, index: int) -> Configuration:
        """Return the Configuration that a new leader appends at `index`; the servers stay the same."""
        return self.next(index, self.current.servers)

    def next(self, index: int, servers: tuple[ClusterServer, ...]) -> Configuration:
        """Return a Configuration with these servers, to be appended at `index`."""
        return Configuration(log_index=index, last_log_index=self.current_index, servers=servers)
