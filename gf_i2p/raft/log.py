"""The log as the core sees it: terms of all entries as runs, and the newest entries in memory.

Terms only rise along a log, so one run for each term holds the terms of all entries: a log of a million entries and
twenty elections takes twenty pairs. Entry values stay in memory until they are durable and memory is short; older
values come back through a `LogReader`. The beginning of the log may have been dropped where a snapshot covers it
(Raft 7).
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from gf_i2p.raft.effects import LogReader, Write
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry
from gf_i2p.wire.messages import Request

CACHE_BYTES = 16 << 20
"""Most bytes of entries kept in memory. A follower that lags by more is served from the disk."""


def size_of(entry: Entry) -> int:
    """Return the entry's size on the wire in bytes. All limits count this size."""
    return ENTRY_HEADER_BYTES + len(entry.value)


class Log:
    """The entries from `base` + 1 to `last_index`. The entries up to `stored` are known to be durable.

    `base`: index and term of the last dropped entry; (0, 0) when no entry was dropped. `terms`: for each run of entries
    with one term, a pair (first index, term); both numbers strictly rise. The first run may begin before `base`.
    """

    def __init__(
        self,
        reader: LogReader,
        *,
        last_index: int = 0,
        terms: Sequence[tuple[int, int]] = (),
        base: tuple[int, int] = (0, 0),
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._reader = reader
        self.last_index = last_index
        self.stored = last_index
        self.base, self.base_term = base
        runs = [(max(first, self.base + 1), term) for first, term in terms if first <= last_index]
        old_runs = max(sum(first <= self.base + 1 for first, _ in terms) - 1, 0)  # runs that end before base + 1
        runs = runs[old_runs:] if last_index > self.base else []
        assert (last_index == self.base) == (not runs), "every entry has a term"
        self._run_starts = [first for first, _ in runs]
        self._run_terms = [term for _, term in runs]
        self._cache: list[Entry] = []
        self._cache_first = last_index + 1
        self._cache_size = 0
        self._cache_bytes = cache_bytes
        self._writes_pending: deque[tuple[int, int]] = deque()  # (number, last index), both ascending

    @property
    def in_memory(self) -> int:
        """Index of the first entry in memory; `last_index` + 1 when no entry is there."""
        return self._cache_first

    @property
    def last_term(self) -> int:
        """Term of the last entry, even if the entry was dropped; 0 when there never was an entry."""
        return self._run_terms[-1] if self._run_terms else self.base_term

    def term(self, index: int) -> int:
        """Return the term of the entry at `index` (`base` to `last_index`); 0 at index 0."""
        assert self.base <= index <= self.last_index
        return self.base_term if index == self.base else self._run_terms[bisect_right(self._run_starts, index) - 1]

    def is_up_to_date(self, last_term: int, last_index: int) -> bool:
        """Return whether a log with this last entry is at least as up-to-date as this log (Raft 5.4.1)."""
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def slice(self, first: int, last: int, *, max_entries: int, max_bytes: int) -> tuple[Entry, ...]:
        """Return entries from `first` on, up to `last` or a limit; at least one entry if `first <= last`.

        The result may be shorter than the limits allow: it ends where the entries in memory begin.
        """
        assert first > self.base, "dropped entries are in a snapshot"
        last = min(last, first + max_entries - 1)
        if first > last:
            return ()
        if first < self._cache_first:
            return tuple(self._reader.read(first, min(last, self._cache_first - 1), max_bytes))
        start = end = first - self._cache_first
        stop = last - self._cache_first + 1
        size = 0
        while end < stop:
            size += size_of(self._cache[end])
            if size > max_bytes and end > start:
                break
            end += 1
        return tuple(self._cache[start:end])

    def replace_from(self, first: int, entries: Sequence[Entry]) -> None:
        """Remove the entries from `first` on, and append `entries` there. Their terms must not fall."""
        assert self.base < first <= self.last_index + 1
        if first <= self.last_index:
            self._cut(first)
        last_term = self._run_terms[-1] if self._run_terms else 0
        index = first
        for entry in entries:
            if entry.term != last_term:
                assert entry.term > last_term or not self._run_terms, "terms only rise along a log"
                last_term = entry.term
                self._run_starts.append(index)
                self._run_terms.append(last_term)
            self._cache_size += size_of(entry)
            index += 1
        self._cache.extend(entries)
        self.last_index = index - 1

    def _cut(self, first: int) -> None:
        """Remove the entries from `first` on. The caller then sets `last_index`."""
        runs = bisect_right(self._run_starts, first - 1)
        del self._run_starts[runs:]
        del self._run_terms[runs:]
        keep = max(first - self._cache_first, 0)
        self._cache_size -= sum(map(size_of, self._cache[keep:]))
        del self._cache[keep:]
        self._cache_first = min(self._cache_first, first)
        self.stored = min(self.stored, first - 1)
        # The next write will overwrite whatever a pending write stores from `first` on.
        self._writes_pending = deque((number, min(last, first - 1)) for number, last in self._writes_pending)

    def drop(self, index: int) -> None:
        """Drop the entries up to `index`, which a snapshot covers."""
        assert self.base < index <= self.last_index
        term = self.term(index)
        runs = bisect_right(self._run_starts, index)
        if index < self.last_index and (runs == len(self._run_starts) or self._run_starts[runs] > index + 1):
            runs -= 1
            self._run_starts[runs] = index + 1  # the term of this run goes on
        del self._run_starts[:runs]
        del self._run_terms[:runs]
        self.base, self.base_term = index, term
        self.stored = max(self.stored, index)
        count = index - self._cache_first + 1
        if count > 0:
            self._cache_size -= sum(map(size_of, self._cache[:count]))
            del self._cache[:count]
            self._cache_first = index + 1

    def restart(self, index: int, term: int) -> None:
        """Drop all entries. The empty log continues after entry `index` with term `term`, the last of a snapshot."""
        self._run_starts.clear()
        self._run_terms.clear()
        self._cache.clear()
        self._cache_size = 0
        self.base, self.base_term = index, term
        self.last_index = self.stored = index
        self._cache_first = index + 1
        self._writes_pending.clear()  # writes of entries that this log no longer has

    def write_issued(self, write: Write) -> None:
        """Note a write that the core issues now, so that `write_stored` knows the write's last index."""
        if write.entries:
            self._writes_pending.append((write.number, write.first_index + len(write.entries) - 1))

    def write_stored(self, number: int) -> None:
        """Note that all writes up to `number` are durable."""
        while self._writes_pending and self._writes_pending[0][0] <= number:
            self.stored = max(self.stored, self._writes_pending.popleft()[1])
        if self._cache_size > self._cache_bytes:
            self._evict()

    def _evict(self) -> None:
        """Remove durable entries from memory, oldest first, until half of the memory is free.

        Each call moves the entries that stay. Because half of the memory becomes free, an entry is moved about once.
        """
        target = self._cache_bytes // 2
        count = 0
        durable = self.stored - self._cache_first + 1
        while count < durable and self._cache_size > target:
            self._cache_size -= size_of(self._cache[count])
            count += 1
        del self._cache[:count]
        self._cache_first += count

    def matches(self, index: int, term: int) -> bool:
        """Return whether this log has an entry with this index and term. Index 0 always matches (docs/design/jraft.md).

        Dropped entries match, too: they were committed, so every server has the same ones.
        """
        return index < self.base or index == 0 or (index <= self.last_index and self.term(index) == term)

    def request_overlap(self, request: Request) -> int:
        """Return how many entries of an AppendEntries, from the first on, this log already has.

        The entry before the request's entries must match.
        """
        return self.overlap(request.last_log_index + 1, request.entries)

    def overlap(self, first: int, entries: Sequence[Entry]) -> int:
        """Return how many of `entries` this log already has, counted from the first one, whose index is `first`.

        Indexes whose entries this log has dropped count, too.
        """
        count = 0
        for index, entry in enumerate(entries, first):
            if index > self.last_index or (index > self.base and self.term(index) != entry.term):
                break
            count += 1
        return count

    def back_off(self, index: int, term: int) -> int:
        """Return the next index to ask for after a mismatch at `index`, where the leader has `term` (Raft 5.3, end).

        Each round trip skips at least one term of this log. Entries with a higher term than the leader's cannot match,
        so they are skipped. If the mismatched entry itself has a lower term, its whole term is skipped.
        """
        candidate = min(index, self.last_index)
        run = bisect_right(self._run_starts, candidate) - 1
        while run >= 0 and self._run_terms[run] > term:
            candidate = self._run_starts[run] - 1
            run -= 1
        if candidate == index:
            candidate = self._run_starts[run] - 1 if run >= 0 else self.base
        return candidate + 1
