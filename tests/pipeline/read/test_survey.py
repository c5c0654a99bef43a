"""A survey's account of files, and the lines that are taken afterwards."""

import gzip
import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gf_i2p.farm.schema import text as schema_text
from gf_i2p.pipeline.ingest.entry_reader import CHANGED, taken
from gf_i2p.pipeline.ingest.plan import PLAN, RUNS, planned
from gf_i2p.pipeline.read.line_walk import MAX_BAD_LINES
from gf_i2p.pipeline.read.survey import LATE_MS, survey_file, surveyed
from gf_i2p.storage.history_lines import gap_line, other_line, record_line
from gf_i2p.storage.packed_files import GZIP
from tests.pipeline.made_up_exports import at, content, lines, packed, plain, status


def look(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Give a survey: the file, the file's runs, the bad lines."""
    rows = [*survey_file(str(path), 1, 2)]
    parts = {part: [row for row in rows if row["part"] == part] for part in ("file", "run", "bad")}
    pa.RecordBatch.from_pylist(rows, next(surveyed(iter([]))).schema)
    assert len(parts["file"]) == 1
    return parts["file"][0], parts["run"], parts["bad"]


def spans(runs: list[dict[str, Any]]) -> list[tuple[int, int, int, int]]:
    return [(run["first"], run["last"], run["term"], run["worth"]) for run in runs]


def take(*paths: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = []
    for path in paths:
        file, file_runs, _ = look(path)
        runs += [{name: run.get(name) for name in RUNS.names} | {"strict": file["strict"]} for run in file_runs]
    plan = planned(pa.Table.from_pylist(runs, RUNS)).to_batches()
    return [row for batch in taken(schema_text(), iter(plan)) for row in batch.to_pylist()]


def test_the_servers_behind_a_gap_take_no_entrys_place(tmp_path: Path) -> None:
    late = packed(tmp_path / "late", content([gap_line(1, 4, (1, 2)), *lines([5])], last=5))
    whole = packed(tmp_path / "whole", content(lines(range(1, 6)), last=5, server=2))
    rows = [(row["index"], row["term"], row["kind"]) for row in take(late, whole)]
    assert sorted(rows) == sorted([(4, 0, "servers"), *[(index, 1, "status") for index in range(1, 6)]])


def test_a_file_that_goes_before_it_is_taken_has_a_message(tmp_path: Path) -> None:
    path = packed(tmp_path, content(lines(range(1, 4)), last=3))
    _, runs, _ = look(path)
    plan = planned(pa.Table.from_pylist([{**runs[0], "strict": False}], RUNS)).to_batches()
    path.unlink()
    with pytest.raises(RuntimeError, match=f"{path} {CHANGED}: it is gone"):
        list(taken(schema_text(), iter(plan)))


def test_runs_break_at_terms_and_holes(tmp_path: Path) -> None:
    body = [
        *lines(range(1, 4)),
        other_line(4, 4),
        *lines([5, 6]),
        *lines([7], term=2),
        gap_line(8, 9),
        *lines([10], term=2),
    ]
    data = content(body, last=10, server=3)
    path = packed(tmp_path, data)
    file, runs, bad = look(path)
    assert spans(runs) == [(1, 3, 1, 0), (5, 6, 1, 0), (7, 7, 2, 0), (10, 10, 2, 0)]
    assert (file["farm"], file["exporter"], file["lines"], file["entries"]) == ("farm", 3, 11, 7)
    assert (file["reason"], bad, file["strict"], file["bytes"]) == (None, [], False, len(data))
    assert file["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [row["index"] for row in take(path)] == [1, 2, 3, 5, 6, 7, 10]


def test_who_was_away_is_late_and_one_wrong_clock_is_not(tmp_path: Path) -> None:
    body = lines(range(1, 30)) + lines(range(30, 60), delay=LATE_MS + 1) + lines(range(60, 90))
    _, runs, _ = look(packed(tmp_path / "away", content(body, last=89)))
    assert spans(runs) == [(1, 44, 1, 0), (45, 74, 1, 1), (75, 89, 1, 0)]
    wrong = [
        record_line(index, 1, at(index), status(index, date=at(index) - (index % 3 == 1) * 10 * LATE_MS))
        for index in range(1, 90)
    ]
    assert len(look(packed(tmp_path / "clock", content(wrong, last=89)))[1]) == 1
    assert spans(look(packed(tmp_path / "1970", content(lines([1, 2], delay=-at(0)), last=2)))[1]) == [(1, 2, 1, 2)]


def test_a_damaged_gzip_gives_what_is_before_the_damage(tmp_path: Path) -> None:
    whole = gzip.compress(content(lines(range(1, 2001)), last=2000))
    path = packed(tmp_path, b"", suffix=GZIP)
    path.write_bytes(whole[: len(whole) // 2])
    file, runs, bad = look(path)
    assert len(runs) == 1
    last = runs[0]["last"]
    assert 900 < last < 1100
    assert file["reason"] == (
        f"its gzip is damaged: its end is missing, by byte {len(whole) // 2}; saved up to entry {last}"
    )
    assert file["strict"]
    assert {each["reason"] for each in bad} == {"it has no end: the file was cut, or is being written"}
    assert [row["index"] for row in take(path)] == list(range(1, last + 1))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "its gzip is damaged: its end is missing"),
        (b"no gzip", "its gzip is damaged: incorrect header check"),
        (gzip.compress(b"hello\n", mtime=0), "line 1: it is not JSON"),
        (gzip.compress(content(lines([1, 2])), mtime=0), "its last line is missing, after entry 2, at byte"),
        (
            gzip.compress(content(lines([5, 6]), first=5, last=6), mtime=0),
            "it begins with entry 5, and its name says otherwise",
        ),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, data: bytes, why: str) -> None:
    path = packed(tmp_path, b"", suffix=GZIP)
    path.write_bytes(data)
    file, _, _ = look(path)
    assert why in file["reason"]
    assert file["sha256"] == hashlib.sha256(data).hexdigest()


def test_a_file_that_is_gone_is_looked_for_packed(tmp_path: Path) -> None:
    data = content(lines([1, 2]), last=2)
    path = plain(tmp_path, data)
    plan = planned(pa.Table.from_pylist([{"farm": "farm", "path": str(path), "exporter": 1, "first": 1, "last": 2,
        "term": 1, "worth": 0, "bytes": 2, "strict": True}], RUNS)).to_batches()  # fmt: skip
    path.unlink()
    file, _, _ = look(path)
    assert (file.get("sha256"), file["reason"][:17]) == (None, "it cannot be read")
    packed(tmp_path, data)
    read = partial(taken, schema_text())
    assert sum(batch.num_rows for batch in read(iter(plan))) == 2
    packed(tmp_path, content(lines([1]), last=1))
    with pytest.raises(RuntimeError, match="was changed while it was read: 1 of 2 entries are there"):
        list(read(iter(plan)))


def test_two_nodes_copies_make_one(tmp_path: Path) -> None:
    one = packed(tmp_path / "1", content(lines(range(1, 51)), last=50))
    two = plain(tmp_path / "2", content(lines(range(41, 61), delay=70), first=41, server=2), first=41)
    entries = take(one, two)
    assert sorted(row["index"] for row in entries) == list(range(1, 61))
    assert {row["exporter"] for row in entries if row["index"] <= 50} == {1}
    assert {row["exporter"] for row in entries if row["index"] > 50} == {2}
    assert PLAN.names[0] == "farm"


@pytest.mark.parametrize("damaged", [False, True])
def test_a_small_packed_file_of_many_bad_lines_gives_few_rows(tmp_path: Path, damaged: bool) -> None:
    """Before, 13 KB that unpack to 13 million empty lines gave as many rows."""
    body = [*lines(range(1, 4)), b"\n" * 100_000, *lines(range(4, 6))]
    path = packed(tmp_path, content(body, last=5))
    if damaged:
        path.write_bytes(path.read_bytes()[:-3])
    file, runs, bad = look(path)
    assert path.stat().st_size < 3000
    assert (file["bad"], file["entries"], spans(runs)) == (100_000, 5, [(1, 5, 1, 0)])
    assert len(bad) == (1 + damaged) * MAX_BAD_LINES + 1
    assert {row["reason"] for row in bad[:-1]} == {"it is not JSON in UTF-8"}
    rest = bad[-1]
    assert rest["reason"] == f"{100_000 - MAX_BAD_LINES} more bad lines of the file have no rows of their own"
    assert (rest["text"], rest["length"]) == ("", 100_000 - MAX_BAD_LINES)
    assert len({row["digest"] for row in bad}) == 2
