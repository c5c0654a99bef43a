"""What stands on a simulated disk: the storage's own grouping, packing and term runs, over rows in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gf_i2p.raft.effects import HardState
from gf_i2p.storage.chunks import Chunk, Run, pack, pack_chunk, term_at, unpack_chunk
from gf_i2p.storage.errors import StorageError, damaged
from gf_i2p.storage.group import Group
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry
from gf_i2p.wire.messages import NOBODY

_PATH = Path("simulated")


class Store(Protocol):
    """What the simulator needs of a storage. All of it is at once durable; `Disk` adds time and crashes."""

    @property
    def loaded(self) -> Loaded:
        """What it held when it was opened."""
        ...

    def group(self) -> Group:
        """Return an empty group for the next writes."""
        ...

    def store(self, group: Group) -> None:
        """Make it durable, all or nothing."""
        ...

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """See `LogReader`."""
        ...

    def tear(self, group: Group, share: float) -> None:
        """The power went when this share (0 to 1) of the group's bytes was written."""
        ...

    def reopen(self) -> "Store":
        """Open what stands there, as a new process does; what was torn is gone."""
        ...


class MemoryStore:
    """A `Store` of rows as the tables of a log file have them."""

    def __init__(self) -> None:
        self._hard_state = HardState(0, NOBODY)
        self._last_index = 0
        self._chunks: list[Chunk] = []
        self._runs: list[Run] = []
        self._configurations: list[tuple[int, bytes]] = []
        self._torn: list[Chunk] = []
        self._entries: dict[int, tuple[Entry, ...]] = {}  # by a chunk's first index, unpacked and proved
        self.loaded = self._load()

    def _load(self) -> Loaded:
        return Loaded(self._hard_state, self._last_index, tuple(self._runs), tuple(self._configurations), 1)

    def group(self) -> Group:
        """Return an empty group for the next writes."""
        return Group(self._last_index, self._hard_state)

    def store(self, group: Group) -> None:
        """Make it durable, as `Storage.store` does."""
        first = group.first_index
        packed = pack(first, group.entries, term_at(self._runs, first - 1))
        if first <= self._last_index:
            self._truncate(first)
        self._chunks += packed.chunks
        self._runs += packed.runs
        self._configurations += packed.configurations
        self._hard_state = group.hard_state
        self._last_index = group.last_index

    def _truncate(self, first: int) -> None:
        self._runs = [run for run in self._runs if run.first < first]
        self._configurations = [item for item in self._configurations if item[0] < first]
        while self._chunks and self._chunks[-1].end > first:
            chunk = self._chunks.pop()
            self._entries.pop(chunk.first, None)
            if chunk.first < first:
                self._chunks.append(pack_chunk(chunk.first, unpack_chunk(chunk)[: first - chunk.first]))

    def tear(self, group: Group, share: float) -> None:
        """Leave the first bytes of the group's rows where a restart finds them."""
        left = share * sum(len(chunk.data) for chunk in pack(group.first_index, group.entries, 0).chunks)
        for chunk in pack(group.first_index, group.entries, 0).chunks:
            if left < len(chunk.data):
                self._torn = [*self._torn, chunk._replace(data=chunk.data[: int(left)])]
                return
            left -= len(chunk.data)

    def reopen(self) -> "MemoryStore":
        """Open what stands there: rows are proved, a torn one is no row. Raises `StorageError` when one is damaged."""
        other = MemoryStore()
        other._hard_state, other._last_index = self._hard_state, self._last_index
        other._runs, other._configurations = list(self._runs), list(self._configurations)
        other._chunks = list(self._chunks)
        for torn in self._torn:
            if _is_whole(torn):
                raise damaged(_PATH, f"a torn row from index {torn.first} passes for a whole one")
        ends = [chunk.end for chunk in self._chunks]
        if [chunk.first for chunk in self._chunks] != [1, *ends][: len(ends)] or [1, *ends][-1] != self._last_index + 1:
            raise damaged(_PATH, "its rows leave a gap")
        other.loaded = other._load()
        return other

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """See `LogReader`. Raises `StorageError` when the log does not hold the entries."""
        entries: list[Entry] = []
        size = 0
        for chunk in self._chunks:
            if chunk.end <= first:
                continue
            if chunk.first > last:
                break
            for entry in self._unpacked(chunk)[max(first - chunk.first, 0) : last + 1 - chunk.first]:
                size += ENTRY_HEADER_BYTES + len(entry.value)
                if size > max_bytes and entries:
                    return entries
                entries.append(entry)
        if len(entries) < last - first + 1:
            raise StorageError(f"the log does not hold the entries {first + len(entries)} to {last}")
        return entries

    def _unpacked(self, chunk: Chunk) -> Sequence[Entry]:
        found = self._entries.get(chunk.first)
        if found is None:
            found = self._entries[chunk.first] = unpack_chunk(chunk)
        return found


def _is_whole(chunk: Chunk) -> bool:
    try:
        unpack_chunk(chunk)
    except ValueError:
        return False
    return True
