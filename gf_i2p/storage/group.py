"""Several writes as one: what the disk must look like after the last of them."""

from typing import Final

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage.errors import defect
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry
from gf_i2p.wire.messages import NOBODY

MAX_GROUP_BYTES: Final = 4 << 20
"""A group takes no more writes from here on: it bounds how long the first one waits for the last one's bytes."""


class Group:
    """The net effect of writes, in their order, on a log that ends at `last_index` and remembers `hard_state`.

    What one write stores and a later one of the same group removes never reaches the disk.
    """

    __slots__ = ("count", "entries", "first_index", "hard_state", "hard_state_changed", "last_index", "size")

    def __init__(self, last_index: int, hard_state: HardState) -> None:
        self.count = 0
        """Writes taken."""
        self.size = 0
        """Bytes of all entries taken, the removed ones included."""
        self.hard_state = hard_state
        self.hard_state_changed = False
        self.first_index = last_index + 1
        """Everything stored from here on is removed and replaced by `entries`."""
        self.entries: list[Entry] = []
        self.last_index = last_index
        """The log's end after all of it."""

    @property
    def full(self) -> bool:
        """Whether the group should be written before it takes more."""
        return self.size >= MAX_GROUP_BYTES

    def add(self, write: Write) -> None:
        """Take the next write. Raises `StorageError` when it would leave a gap or take a promise back."""
        if write.hard_state is not None:
            self._check(write.hard_state)
            self.hard_state = write.hard_state
            self.hard_state_changed = True
        first, entries = write.first_index, write.entries
        if entries:
            if not 1 <= first <= self.last_index + 1:
                raise defect(f"entries from index {first} were to be stored in a log that ends at {self.last_index}")
            self.first_index = min(self.first_index, first)
            del self.entries[first - self.first_index :]
            self.entries.extend(entries)
            self.last_index = first + len(entries) - 1
            self.size += ENTRY_HEADER_BYTES * len(entries) + sum([len(entry.value) for entry in entries])
        if self.entries and self.entries[-1].term > self.hard_state.term:
            raise defect(f"an entry of term {self.entries[-1].term} was to be stored in term {self.hard_state.term}")
        self.count += 1

    def _check(self, new: HardState) -> None:
        """A server that forgets a term or a vote may vote twice (Raft 5.2)."""
        old = self.hard_state
        if new.term < old.term or (new.term == old.term and old.vote not in (NOBODY, new.vote)):
            raise defect(
                f"term {old.term} with vote {old.vote} was to be replaced by term {new.term} with vote {new.vote}"
            )
