"""Each entry is taken once, from the best file; a set of indexes gives the same result."""

import random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.pipeline.ingest.plan import KNOWN, RUNS, Covered, WantedEntries, islands, planned

spans = st.tuples(st.integers(1, 40), st.integers(0, 12)).map(lambda span: (span[0], span[0] + span[1]))


@given(st.lists(spans, max_size=12))
def test_what_is_new_is_what_no_set_has(given_: list[tuple[int, int]]) -> None:
    covered, present = Covered(), set[int]()
    for first, last in given_:
        new = covered.add(first, last)
        added = [index for low, high in new for index in range(low, high + 1)]
        assert added == sorted(set(range(first, last + 1)) - present)
        present |= set(range(first, last + 1))


def run(
    path: str | None, first: int, last: int, *, term: int = 1, worth: int = 0, strict: bool = False
) -> dict[str, Any]:
    return {
        "farm": "farm", "path": path, "exporter": 1, "first": first, "last": last, "term": term, "worth": worth,
        "bytes": (last - first + 1) * 100, "strict": strict,
    }  # fmt: skip


def plan(*runs: dict[str, Any]) -> dict[str, list[tuple[int, int, int]]]:
    rows = planned(pa.Table.from_pylist([*runs], RUNS)).to_pylist()
    for each in rows:
        spans = list(zip(each["firsts"], each["lasts"], strict=True))
        assert each["entries"] == sum(last - first + 1 for first, last in spans)
        assert each["bytes"] == 100 * each["entries"]
    return {each["path"]: list(zip(each["firsts"], each["lasts"], each["terms"], strict=True)) for each in rows}


def test_the_longest_first_and_the_rest_from_others() -> None:
    assert plan(run("a", 1, 10), run("b", 5, 30), run("c", 1, 31)) == {"c": [(1, 31, 1)]}
    assert plan(run("a", 1, 10), run("b", 5, 30)) == {"b": [(5, 30, 1)], "a": [(1, 4, 1)]}


def test_what_the_lake_has_is_not_taken() -> None:
    of_lake = run(None, 4, 6, worth=KNOWN)
    assert plan(run("a", 1, 10), of_lake) == {"a": [(1, 3, 1), (7, 10, 1)]}
    assert plan(run("a", 4, 6), of_lake) == {}


def test_another_term_is_another_entry() -> None:
    assert plan(run("a", 1, 5), run("b", 3, 5, term=9)) == {"a": [(1, 5, 1)], "b": [(3, 5, 9)]}


def test_who_took_part_is_better_than_who_was_late_or_had_no_clock() -> None:
    assert plan(run("a", 1, 90, worth=2), run("b", 1, 50, worth=1), run("c", 1, 5)) == {
        "a": [(51, 90, 1)],
        "b": [(6, 50, 1)],
        "c": [(1, 5, 1)],
    }
    assert plan(run("a", 1, 9, strict=True), run("b", 1, 5)) == {"a": [(6, 9, 1)], "b": [(1, 5, 1)]}


def test_the_islands_of_what_there_is() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    entries = sorted({(rng.choice(["a", "2026"]), rng.randrange(60), rng.randrange(1, 3)) for _ in range(90)})
    batches = [
        pa.RecordBatch.from_pydict(
            dict(zip(("farm", "index", "term"), map(list, zip(*part, strict=True)), strict=True))
        )
        for part in (entries[:40], entries[40:], entries[:3])
    ]
    rows = [row for batch in islands(iter(batches)) for row in batch.to_pylist()]
    assert {(row["farm"], index, row["term"]) for row in rows for index in range(row["first"], row["last"] + 1)} == set(
        entries
    )
    assert all(row["worth"] == KNOWN and row["path"] is None for row in rows)
    assert len(rows) < len(entries)


def test_what_is_wanted_is_asked_for_in_order() -> None:
    wanted = WantedEntries({"firsts": [2, 6], "lasts": [3, 6], "terms": [1, 2]})
    indexes = [index for index in range(1, 9) if wanted.takes(index, 2 if index > 5 else 1)]
    assert indexes == [2, 3, 6]
    assert wanted.done
    assert not WantedEntries({"firsts": [2], "lasts": [3], "terms": [2]}).takes(2, 1)
