"""Readings of one file: its entries, its bad lines, and the account of the file."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gf_i2p.pipeline.read.arrivals import LATE_MS, WANTED, arrivals
from gf_i2p.pipeline.read.line_walk import MAX_BAD_LINES, Is
from gf_i2p.storage.history_lines import gap_line, other_line, record_line
from gf_i2p.storage.packed_files import GZIP
from tests.pipeline.made_up_exports import at, content, lines, packed, plain, status

Rows = list[dict[str, Any]]


def read(path: Path, *, live: bool = False, **state: Any) -> tuple[dict[str, Any], Rows, Rows]:
    """Read a file; give the account of the file, the entries, and the bad lines."""
    wanted = pa.RecordBatch.from_pylist([{"path": str(path), "size": 1, "mtime_ms": 2, **state}], WANTED)
    rows = [row for batch in arrivals(live, iter([wanted])) for row in batch.to_pylist()]
    *others, last = rows
    assert (last["part"], last["path"]) == ("file", str(path))
    assert {row["part"] for row in others} <= {"entry", "bad"}
    entries = [row for row in others if row["part"] == "entry"]
    assert last["file"]["entries"] == len(entries)
    known = {"farm": last["farm"], "exporter": last["exporter"]}
    return last["file"] | known, entries, [row for row in others if row["part"] == "bad"]


def indexes(rows: Rows) -> list[int]:
    return [row["index"] for row in rows]


def test_a_whole_file(tmp_path: Path) -> None:
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
    file, entries, bad = read(path)
    assert [(row["index"], row["term"]) for row in entries] == [
        *((index, 1) for index in (1, 2, 3, 5, 6)),
        *((index, 2) for index in (7, 10)),
    ]
    assert {(row["farm"], row["exporter"], row["worth"]) for row in entries} == {("farm", 3, 0)}
    assert (file["farm"], file["exporter"], file["lines"], file["entries"]) == ("farm", 3, 11, 7)
    assert (file["reason"], bad, file["bytes"], file["place"], file["next"]) == (None, [], len(data), len(data), None)
    assert file["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert json.loads(entries[0]["text"]) == json.loads(status(1))
    assert entries[0]["received_ms"] == at(1) + 40


def test_who_was_away_is_late_and_one_wrong_clock_is_not(tmp_path: Path) -> None:
    body = lines(range(1, 30)) + lines(range(30, 60), delay=LATE_MS + 1) + lines(range(60, 90))
    _, entries, _ = read(packed(tmp_path / "away", content(body, last=89)))
    assert [row["worth"] for row in entries] == [0] * 44 + [1] * 30 + [0] * 15
    wrong = [
        record_line(index, 1, at(index), status(index, date=at(index) - (index % 3 == 1) * 10 * LATE_MS))
        for index in range(1, 90)
    ]
    assert {row["worth"] for row in read(packed(tmp_path / "clock", content(wrong, last=89)))[1]} == {0}
    _, entries, _ = read(packed(tmp_path / "1970", content(lines([1, 2], delay=-at(0)), last=2)))
    assert [row["worth"] for row in entries] == [2, 2]


def test_a_damaged_gzip_gives_what_is_before_the_damage(tmp_path: Path) -> None:
    whole = gzip.compress(content(lines(range(1, 2001)), last=2000))
    path = packed(tmp_path, b"", suffix=GZIP)
    path.write_bytes(whole[: len(whole) // 2])
    file, entries, bad = read(path)
    last = entries[-1]["index"]
    assert indexes(entries) == list(range(1, last + 1))
    assert 900 < last < 1100
    assert file["reason"] == (
        f"its gzip is damaged: its end is missing, by byte {len(whole) // 2}; saved up to entry {last}"
    )
    assert [row["line"]["reason"] for row in bad] == ["it has no end: the file was cut, or is being written"]


def test_a_line_of_a_damaged_file_is_taken_only_if_it_is_json(tmp_path: Path) -> None:
    """No checksum vouches for these lines."""
    line = lines([2])[0].replace(b'"date":', b'"date":x')
    whole = gzip.compress(content([*lines([1]), line, *lines([3])], last=3))
    path = packed(tmp_path, b"", suffix=GZIP)
    path.write_bytes(whole[:-4])
    file, entries, bad = read(path)
    assert file["reason"].startswith("its gzip is damaged")
    assert (indexes(entries), [row["line"]["reason"] for row in bad]) == ([1, 3], ["it is not JSON in UTF-8"])


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
    file, _, _ = read(path)
    assert why in file["reason"]
    assert file["sha256"] == hashlib.sha256(data).hexdigest()


def test_a_file_that_is_gone_is_looked_for_packed(tmp_path: Path) -> None:
    data = content(lines([1, 2]), last=2)
    path = plain(tmp_path, data)
    path.unlink()
    file, entries, _ = read(path)
    assert (file["sha256"], file["reason"][:17], entries) == (None, "it cannot be read", [])
    packed(tmp_path, data)
    assert indexes(read(path)[1]) == [1, 2]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_small_packed_file_of_many_bad_lines_gives_few_rows(tmp_path: Path, damaged: bool) -> None:
    """Before, 13 KB that unpack to 13 million empty lines gave as many rows."""
    body = [*lines(range(1, 4)), b"\n" * 100_000, *lines(range(4, 6))]
    path = packed(tmp_path, content(body, last=5))
    if damaged:
        path.write_bytes(path.read_bytes()[:-3])
    file, entries, bad = read(path)
    assert path.stat().st_size < 3000
    assert (file["bad"], indexes(entries)) == (100_000, [1, 2, 3, 4, 5])
    assert len(bad) == MAX_BAD_LINES + 1
    assert {row["line"]["reason"] for row in bad[:-1]} == {"it is not JSON in UTF-8"}
    rest = bad[-1]
    assert rest["line"]["reason"] == f"{100_000 - MAX_BAD_LINES} more bad lines of the file have no rows of their own"
    assert (rest["text"], rest["line"]["length"]) == (b"", 100_000 - MAX_BAD_LINES)
    assert len({row["line"]["digest"] for row in bad}) == 2


@pytest.mark.parametrize("live", [False, True])
def test_an_unfinished_line_is_bad_only_if_nobody_writes_the_file_now(tmp_path: Path, live: bool) -> None:
    whole = content(lines([1, 2]))
    file, entries, bad = read(plain(tmp_path, whole + lines([3])[0][:-9]), live=live)
    assert (indexes(entries), len(bad)) == ([1, 2], 0 if live else 1)
    assert (file["place"], file["next"]) == (len(whole), 3)


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_reading_goes_on_where_the_reading_before_ended(tmp_path: Path, cut: int) -> None:
    """Both readings together find what one reading finds, wherever the file ended at first."""
    odd = [b"{}\n", b"\xff\n", *lines(range(6, 9)), *lines([4]), *lines(range(9, 12))]
    data = content(lines(range(1, 6)) + odd)
    path = plain(tmp_path, data[: len(data) * cut // 40])
    first_file, first, first_bad = read(path, live=True)
    path.write_bytes(data)
    state = {name: first_file[name] for name in ("farm", "exporter", "opened_ms", "place", "check", "next")}
    file, entries, bad = read(path, live=True, **state)
    whole_file, whole, whole_bad = read(path)
    assert indexes(first + entries) == indexes(whole) == [*range(1, 12)]
    assert [row["line"] for row in first_bad + bad] == [row["line"] for row in whole_bad]
    names = ("place", "check", "next", "sha256")
    assert [file[name] for name in names] == [whole_file[name] for name in names]
    for name in ("lines", "entries", "bad"):
        assert first_file[name] + file[name] == whole_file[name]


def test_the_place_of_an_error_is_that_in_the_file(tmp_path: Path) -> None:
    whole = content(lines(range(1, 4)))
    path = plain(tmp_path, whole)
    file, _, _ = read(path)
    path.write_bytes(whole + b"".join(lines(range(9, 12))))
    state = {name: file[name] for name in ("farm", "exporter", "opened_ms", "place", "check", "next")}
    again, entries, _ = read(path, **state)
    assert indexes(entries) == [9, 10, 11]
    assert again["reason"] == f"after entry 3 comes 9, at byte {len(whole)} of its content"
    assert read(path)[0]["reason"] == again["reason"]


def test_the_servers_behind_a_gap_take_no_entrys_place(tmp_path: Path) -> None:
    """Their row has the term 0, so its key is none of an entry."""
    _, entries, _ = read(packed(tmp_path, content([gap_line(1, 4, (1, 2)), *lines([5])], last=5)))
    assert [(row["what"], row["index"], row["term"]) for row in entries] == [(Is.GAP, 4, 0), (Is.RECORD, 5, 1)]
