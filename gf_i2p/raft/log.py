"""The log as the core sees it: term runs for all of it, entries in memory for its newest part.

Terms only rise along a log, so the term of every entry fits into one run per term: a log of a million entries and
twenty elections takes twenty pairs. Entry values are kept in memory until they are both durable and crowded out;
older ones come back through a `LogReader`.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from gf_i2p.raft.effects import LogReader, Write
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry
from gf_i2p.wire.messages import Request

CACHE_BYTES = 16 << 20
"""Entries are dropped from memory beyond this many bytes. A follower that lags by more is served from disk."""


def size_of(entry: Entry) -> int:
    """Bytes of the entry on the wire, which is what all limits count."""
    return ENTRY_HEADER_BYTES + len(entry.value)


class Log:
    """Entries 1 to `last_index`; `stored` of them are known to be durable.

    `terms` are (first index, term) pairs, both strictly ascending. The log is empty when `last_index` is 0.
    """

    def __init__(
        self,
        reader: LogReader,
        *,
        last_index: int = 0,
        terms: Sequence[tuple[int, int]] = (),
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._reader = reader
        self.last_index = last_index
        self.stored = last_index
        self._run_starts = [first for first, _ in terms]
        self._run_terms = [term for _, term in terms]
        assert (last_index == 0) == (not terms), "an empty log has no terms, any other begins with one"
        self._cache: list[Entry] = []
        self._cache_first = last_index + 1
        self._cache_size = 0
        self._cache_bytes = cache_bytes
        self._writes_issued = 0
        self._writes_pending: deque[tuple[int, int]] = deque()  # (number, last index), both ascending

    @property
    def last_term(self) -> int:
        """Term of the last entry; 0 when there is none."""
        return self._run_terms[-1] if self._run_terms else 0

    def term(self, index: int) -> int:
        """Term of the entry at `index` (0 to `last_index`); 0 at index 0."""
        assert 0 <= index <= self.last_index
        return self._run_terms[bisect_right(self._run_starts, index) - 1] if index else 0

    def is_up_to_date(self, last_term: int, last_index: int) -> bool:
        """Whether a log that ends so is at least as up-to-date as this one (Raft 5.4.1)."""
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def slice(self, first: int, last: int, *, max_entries: int, max_bytes: int) -> tuple[Entry, ...]:
        """Entries from `first` on, up to `last` and the limits; at least one when `first <= last`."""
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
        """Cut the log before `first` and append `entries` there; terms never fall."""
        assert 1 <= first <= self.last_index + 1
        if first <= self.last_index:
            self._cut(first)
        last_term = self.last_term
        index = first
        for entry in entries:
            if entry.term != last_term:
                assert entry.term > last_term, "terms only rise along a log"
                last_term = entry.term
                self._run_starts.append(index)
                self._run_terms.append(last_term)
            self._cache_size += size_of(entry)
            index += 1
        self._cache.extend(entries)
        self.last_index = index - 1

    def _cut(self, first: int) -> None:
        """Forget the entries from `first` on."""
        runs = bisect_right(self._run_starts, first - 1)
        del self._run_starts[runs:]
        del self._run_terms[runs:]
        keep = max(first - self._cache_first, 0)
        self._cache_size -= sum(map(size_of, self._cache[keep:]))
        del self._cache[keep:]
        self._cache_first = min(self._cache_first, first)
        self.last_index = first - 1
        self.stored = min(self.stored, first - 1)
        # What a pending write stores from here on is about to be overwritten by the next one.
        self._writes_pending = deque((number, min(last, first - 1)) for number, last in self._writes_pending)

    def write_issued(self, write: Write) -> None:
        """Note the core's next write, so that `write_stored` knows what it made durable."""
        self._writes_issued += 1
        if write.entries:
            self._writes_pending.append((self._writes_issued, write.first_index + len(write.entries) - 1))

    def write_stored(self, number: int) -> None:
        """All writes up to `number` are durable."""
        assert number <= self._writes_issued
        while self._writes_pending and self._writes_pending[0][0] <= number:
            self.stored = max(self.stored, self._writes_pending.popleft()[1])
        if self._cache_size > self._cache_bytes:
            self._evict()

    def _evict(self) -> None:
        """Drop the older half of the memory, as far as it is durable: each entry is moved at most about once."""
        target = self._cache_bytes // 2
        keep = 0
        durable = self.stored - self._cache_first + 1
        while keep < durable and self._cache_size > target:
            self._cache_size -= size_of(self._cache[keep])
            keep += 1
        del self._cache[:keep]
        self._cache_first += keep

    def matches(self, index: int, term: int) -> bool:
        """Whether this log holds an entry with that index and term; index 0 always matches (jraft-facts 12)."""
        return index == 0 or (index <= self.last_index and self.term(index) == term)

    def known_entries(self, request: Request) -> int:
        """How many of the entries of a matching AppendEntries are here already."""
        index = request.last_log_index
        known = 0
        for entry in request.entries:
            index += 1
            if index > self.last_index or self.term(index) != entry.term:
                break
            known += 1
        return known

    def back_off(self, index: int, term: int) -> int:
        """Next index to ask for after a mismatch at `index`, where the leader has `term` (Raft 5.3, last paragraphs).

        Skips a whole term of this log at a time: runs of a higher term than the leader's cannot match there, and a
        run of a lower term that reaches up to `index` is tried from its beginning. At most one round trip a term.
        """
        candidate = min(index, self.last_index)
        run = bisect_right(self._run_starts, candidate) - 1
        while run >= 0 and self._run_terms[run] > term:
            candidate = self._run_starts[run] - 1
            run -= 1
        if candidate == index:
            candidate = self._run_starts[run] - 1
        return candidate + 1
