"""Which file each entry is taken from: every one once, whatever exports have it, and none that the lake has already.

Entries that follow each other in one term are a run, and a run is known by its ends: so this takes memory by changes
of the term and of what is missing, not by entries.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

KNOWN: Final = -1
"""Worth of what the lake has."""
RUNS: Final = pa.schema(
    {
        "farm": pa.string(),
        "path": pa.string(),
        "exporter": pa.int64(),
        "first": pa.int64(),
        "last": pa.int64(),
        "term": pa.int64(),
        "worth": pa.int64(),
        "bytes": pa.int64(),
        "strict": pa.bool_(),
    }
)
"""What is there, and what the lake has: the latter with `KNOWN`, and without a path."""
PLAN: Final = pa.schema(
    {
        "farm": pa.string(),
        "path": pa.string(),
        "exporter": pa.int64(),
        "strict": pa.bool_(),
        "first": pa.int64(),
        "bytes": pa.int64(),
        "entries": pa.int64(),
        "firsts": pa.list_(pa.int64()),
        "lasts": pa.list_(pa.int64()),
        "terms": pa.list_(pa.int64()),
    }
)
"""For each file of which something is taken: the runs, in their order; how many entries, and about how many bytes."""


class Covered:
    """Runs that do not touch each other's entries, of one farm in one term."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> list[tuple[int, int]]:
        """Add what is not there yet; return that."""
        new = []
        begin = place = bisect_left(self._lasts, first)
        at = first
        while place < len(self._firsts) and self._firsts[place] <= last:
            if at < self._firsts[place]:
                new.append((at, self._firsts[place] - 1))
            at = self._lasts[place] + 1
            place += 1
        if at <= last:
            new.append((at, last))
        if new:
            low = min(first, self._firsts[begin]) if begin < place else first
            high = max(last, self._lasts[place - 1]) if begin < place else last
            self._firsts[begin:place] = [low]
            self._lasts[begin:place] = [high]
        return new


def planned(runs: pa.Table) -> pa.Table:
    """Choose, for one farm (`RUNS`): gives `PLAN`, for `applyInArrow`.

    First comes what the lake has, then who took part when the entries were new, then who has the longest runs.
    """
    rows = sorted(
        runs.to_pylist(),
        key=lambda run: (run["worth"], run["strict"] or False, run["first"] - run["last"], run["path"] or ""),
    )
    covered: dict[int, Covered] = defaultdict(Covered)
    taken: dict[tuple[str, int, bool], list[tuple[int, int, int, int]]] = defaultdict(list)
    for run in rows:
        new = covered[run["term"]].add(run["first"], run["last"])
        if run["worth"] != KNOWN:
            size = run["bytes"] // (run["last"] - run["first"] + 1)
            for first, last in new:
                taken[run["path"], run["exporter"], run["strict"]].append((first, last, run["term"], size))
    plan = []
    for (path, exporter, strict), parts in taken.items():
        parts.sort()
        firsts, lasts, terms, sizes = zip(*parts, strict=True)
        counts = [last - first + 1 for first, last in zip(firsts, lasts, strict=True)]
        plan.append(
            {
                "farm": rows[0]["farm"],
                "path": path,
                "exporter": exporter,
                "strict": strict,
                "first": firsts[0],
                "bytes": sum(size * count for size, count in zip(sizes, counts, strict=True)),
                "entries": sum(counts),
                "firsts": list(firsts),
                "lasts": list(lasts),
                "terms": list(terms),
            }
        )
    return pa.Table.from_pylist(plan, PLAN)


def islands(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the runs of entries (columns farm, index, term; in order as far as they are) as `RUNS`, for `mapInArrow`."""
    for batch in batches:
        if not batch.num_rows:
            continue
        farms, places = np.unique(batch.column(0).to_numpy(zero_copy_only=False), return_inverse=True)
        index, term = batch.column(1).to_numpy(), batch.column(2).to_numpy()
        order = np.lexsort((index, term, places))
        places, index, term = places[order], index[order], term[order]
        begins = np.flatnonzero((np.diff(places) != 0) | (np.diff(term) != 0) | (np.diff(index) > 1)) + 1
        begins = np.concatenate(([0], begins))
        ends = np.concatenate((begins[1:], [len(index)])) - 1
        count = len(begins)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(farms[places[begins]].tolist(), pa.string()),
                pa.nulls(count, pa.string()),
                pa.nulls(count, pa.int64()),
                pa.array(index[begins]),
                pa.array(index[ends]),
                pa.array(term[begins]),
                pa.array(np.full(count, KNOWN)),
                pa.array(np.zeros(count, dtype=np.int64)),
                pa.array(np.zeros(count, dtype=np.bool_)),
            ],
            schema=RUNS,
        )


class Wanted:
    """What is wanted of one file; asked about its entries in their order."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """`plan`: a row of `PLAN`."""
        self._firsts: Sequence[int] = plan["firsts"]
        self._lasts: Sequence[int] = plan["lasts"]
        self._terms: Sequence[int] = plan["terms"]
        self._at = 0

    def takes(self, index: int, term: int) -> bool:
        """Say whether this entry is."""
        while self._at < len(self._lasts) and self._lasts[self._at] < index:
            self._at += 1
        return self._at < len(self._lasts) and self._firsts[self._at] <= index and self._terms[self._at] == term

    @property
    def done(self) -> bool:
        """Whether nothing more is, after the last wanted one was asked about."""
        return self._at >= len(self._lasts)
