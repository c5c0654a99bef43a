"""Chooses the file from which each entry is taken, so that the lake gets each missing entry once.

A run is a range of consecutive entries of one term, stored as its first and last index. So memory grows with the number
of terms and gaps, not with the number of entries.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

KNOWN: Final = -1
"""`worth` of a run that the lake already has: less than the worth of any run of a file."""
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
"""The runs in the files, and the runs in the lake. A run in the lake has the worth `KNOWN`, and no path."""
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
"""A row for each file from which entries are taken: the runs in order, the number of entries, roughly their bytes."""


class Covered:
    """The union of runs of one farm in one term, as ranges that share no entry."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> list[tuple[int, int]]:
        """Add the range from `first` to `last`; return the parts that the union did not have."""
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
    """Choose the files for one farm. For `applyInArrow`: takes rows of `RUNS`, and returns rows of `PLAN`.

    Entries that the lake has are not taken. If several runs have an entry, the run with the least `worth` wins: the
    exporter was not late (see `survey.SURVEYED`). If the worth is equal, a run of an undamaged packed file wins, and
    then the longer run.
    """
    rows = sorted(
        runs.to_pylist(),
        key=lambda run: (run["worth"], run["strict"] or False, run["first"] - run["last"], run["path"] or ""),
    )
    covered: dict[int, Covered] = defaultdict(Covered)
    parts_by_file: dict[tuple[str, int, bool], list[tuple[int, int, int, int]]] = defaultdict(list)
    for run in rows:
        new = covered[run["term"]].add(run["first"], run["last"])
        if run["worth"] != KNOWN:
            size = run["bytes"] // (run["last"] - run["first"] + 1)
            for first, last in new:
                parts_by_file[run["path"], run["exporter"], run["strict"]].append((first, last, run["term"], size))
    plan = []
    for (path, exporter, strict), parts in parts_by_file.items():
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
    """Join entries to runs. For `mapInArrow`: takes rows (farm, index, term) in any order; yields rows of `RUNS`."""
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


class WantedEntries:
    """The wanted entries of one file. Call `takes` for the file's entries in ascending order."""

    def __init__(self, plan: dict[str, Any]) -> None:
        """`plan`: the row of `PLAN` for the file, with values by column name."""
        self._firsts: Sequence[int] = plan["firsts"]
        self._lasts: Sequence[int] = plan["lasts"]
        self._terms: Sequence[int] = plan["terms"]
        self._at = 0

    def takes(self, index: int, term: int) -> bool:
        """Return whether the plan wants this entry, by index and term, from this file."""
        while self._at < len(self._lasts) and self._lasts[self._at] < index:
            self._at += 1
        return self._at < len(self._lasts) and self._firsts[self._at] <= index and self._terms[self._at] == term

    @property
    def done(self) -> bool:
        """Whether the last call of `takes` had an entry behind all wanted entries, so the rest is not needed."""
        return self._at >= len(self._lasts)
