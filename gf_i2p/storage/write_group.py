"""Joins several writes into one: the net effect of these writes on the disk."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gf_i2p.raft.effects import HardState, Snapshot, Write
from gf_i2p.storage.entry_chunks import term_at
from gf_i2p.storage.errors import defect
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry
from gf_i2p.wire.limits import MAX_SNAPSHOT_BYTES
from gf_i2p.wire.messages import NOBODY

MAX_GROUP_BYTES: Final = 4 << 20
"""Bytes at which a group takes no more writes, so that the first write does not wait long for the last."""


class Base(NamedTuple):
    """The last dropped entry, after which the log begins."""

    last: int
    """Index of that entry; 0: nothing was dropped, the log begins at 1."""
    term: int
    """Term of that entry; 0 without one."""


NO_BASE: Final = Base(0, 0)


class WriteGroup:
    """The net effect of writes, in order, on a log that ends at `last_index` and remembers `hard_state`.

    Data that one write stores and a later write of the same group removes never reach the disk.

    `terms`: (first index, term) runs of the log, the base's first. `covered`: index of the stored snapshot, 0 without
    one. `lost`: the stored snapshot is damaged; a new snapshot may cover as few entries as the base.
    """

    __slots__ = (
        "_covered",
        "_final",
        "_terms",
        "base",
        "entries",
        "first_index",
        "hard_state",
        "hard_state_changed",
        "last_index",
        "number",
        "size",
        "snapshot",
    )

    def __init__(
        self,
        last_index: int,
        hard_state: HardState,
        *,
        terms: Sequence[tuple[int, int]] = (),
        base: Base = NO_BASE,
        covered: int = 0,
        lost: bool = False,
    ) -> None:
        self._terms = terms
        # A new snapshot may have the index of the damaged one, but no lower index.
        self._covered = max(base.last - 1, 0) if lost else covered
        self._final = max(base.last, covered)
        """Index up to which no entry is ever replaced."""
        self.number = 0
        """Number of the last write taken."""
        self.size = 0
        """Bytes of all entries and snapshots taken, the removed ones included."""
        self.hard_state = hard_state
        self.hard_state_changed = False
        self.first_index = last_index + 1
        """Index from which on stored entries are removed and replaced by `entries`."""
        self.entries: list[Entry] = []
        self.last_index = last_index
        """Last index after the group."""
        self.base = base
        """Base after the group. Entries up to the base are removed."""
        self.snapshot: Snapshot | None = None
        """The snapshot that replaces the stored one."""

    @property
    def full(self) -> bool:
        """Whether the caller should store the group before adding more writes."""
        return self.size >= MAX_GROUP_BYTES

    def add(self, write: Write) -> None:
        """Take the next write. Raises `StorageError` for a write that no correct core issues.

        A correct core keeps these rules. Terms, votes, the base and the snapshot's index never go back. Entries leave
        no gap, and replace no entry that the snapshot covers. The snapshot covers all dropped entries. The log has the
        snapshot's last entry, or `install` replaces a log without that entry. (To install a snapshot over a log with
        that entry would remove later entries that this server has acknowledged; Raft, figure 13, step 6.)
        """
        if write.hard_state is not None:
            self._check(write.hard_state)
            self.hard_state = write.hard_state
            self.hard_state_changed = True
        first, entries = write.first_index, write.entries
        if entries:
            if not self._final < first <= self.last_index + 1:
                raise self._misplaced(first)
            self.first_index = min(self.first_index, first)
            del self.entries[first - self.first_index :]
            self.entries.extend(entries)
            self.last_index = first + len(entries) - 1
            self.size += ENTRY_HEADER_BYTES * len(entries) + sum([len(entry.value) for entry in entries])
        if self.entries and self.entries[-1].term > self.hard_state.term:
            raise defect(f"an entry of term {self.entries[-1].term} was to be stored in term {self.hard_state.term}")
        if write.snapshot is not None:
            self._take_snapshot(write.snapshot, install=write.install, alone=not entries)
        elif write.install:
            raise defect("a log was to be replaced without a snapshot")
        if write.drop:
            self._drop(write.drop)
        self.number = write.number

    def _check(self, new: HardState) -> None:
        """Raise `StorageError` when `new` forgets a term or a vote, for the server could vote twice (Raft 5.2)."""
        old = self.hard_state
        if new.term < old.term or (new.term == old.term and old.vote not in (NOBODY, new.vote)):
            raise defect(
                f"term {old.term} with vote {old.vote} was to be replaced by term {new.term} with vote {new.vote}"
            )

    def _misplaced(self, first: int) -> Exception:
        fault = f"entries from index {first} were to be stored in a log that ends at {self.last_index}"
        return defect(f"{fault}, covered up to {self._final} by a snapshot" if self._final else fault)

    def _take_snapshot(self, snapshot: Snapshot, *, install: bool, alone: bool) -> None:
        index, term = snapshot.index, snapshot.term
        subject = f"a snapshot of the entries up to {index} of term {term}"
        if not self._covered < index or index < 1:
            raise defect(f"{subject} was to be stored after one up to {self._covered}")
        if not 1 <= term <= self.hard_state.term:
            raise defect(f"{subject} was to be stored in term {self.hard_state.term}")
        if not 1 <= len(snapshot.data) <= MAX_SNAPSHOT_BYTES:
            raise defect(
                f"{subject} was to be stored with {len(snapshot.data)} bytes; 1 to {MAX_SNAPSHOT_BYTES} are legal"
            )
        in_log = index <= self.last_index and self._term_at(index) == term
        if not install and not in_log:
            raise defect(f"{subject} was to be stored in a log that ends at {self.last_index} and has no such entry")
        if install and not alone:
            raise defect(f"{subject} was to be stored in the place of entries that came with it")
        if install and in_log and index < self.last_index:
            raise defect(f"{subject} was to replace a log that has that entry, and others up to {self.last_index}")
        self.snapshot = snapshot
        self.size += len(snapshot.data)
        self._covered = self._final = index
        if install:
            self.base = Base(index, term)
            self.entries.clear()
            self.first_index = index + 1
            self.last_index = index

    def _drop(self, index: int) -> None:
        if not self.base.last <= index <= self._covered:
            raise defect(
                f"entries up to {index} were to be dropped from a log that begins after {self.base.last}, with a "
                f"snapshot of the entries up to {self._covered}"
            )
        self.base = Base(index, self._term_at(index))
        if index >= self.first_index:
            del self.entries[: index + 1 - self.first_index]
            self.first_index = index + 1

    def _term_at(self, index: int) -> int:
        """Return the term of the entry at `index`, from the base's index to `last_index`."""
        if index >= self.first_index:
            return self.entries[index - self.first_index].term
        return self.base.term if index == self.base.last else term_at(self._terms, index)
