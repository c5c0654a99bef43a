"""Readings of directories, one after another: files grow, turn, are packed, are cut, and go."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gf_i2p.pipeline.ingest.read_files import FilesRead
from gf_i2p.pipeline.read.arrivals import WANTED, arrivals
from gf_i2p.pipeline.read.history_files import listed
from gf_i2p.storage.history_lines import gap_line, record_line
from gf_i2p.storage.packed_files import GZIP, ZSTD
from tests.pipeline.made_up_exports import at, content, lines, packed, plain


class Reading:
    """Reads on, as a batch does without Spark."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = FilesRead({})
        self.wanted: list[dict[str, Any]] = []
        self.originals: dict[str, str] = {}

    def plan(self) -> None:
        """Find what is new, without reading it."""
        roots = pa.RecordBatch.from_pydict({"path": [str(self.directory)]})
        self.wanted = self.files.news([file for batch in listed(iter([roots])) for file in batch.to_pylist()])

    def rows(self) -> list[dict[str, Any]]:
        """Read what was found last."""
        batch = pa.RecordBatch.from_pylist(self.wanted, WANTED)
        rows = [row for batch in arrivals(True, iter([batch])) for row in batch.to_pylist()]
        self.originals |= self.files.add([row | row["file"] for row in rows if row["part"] == "file"])
        return rows

    def batch(self) -> list[dict[str, Any]]:
        """Read what is new; give the rows."""
        self.plan()
        return self.rows()

    def indexes(self) -> list[int]:
        """Read what is new; give the entries. No file may have an error."""
        rows = self.batch()
        assert [row["file"]["reason"] for row in rows if row["part"] == "file" and row["file"]["reason"]] == []
        return indexes(rows)


def indexes(rows: list[dict[str, Any]]) -> list[int]:
    return [row["index"] for row in rows if row["part"] == "entry"]


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_file_that_grows_is_read_on(tmp_path: Path) -> None:
    path = plain(tmp_path / "one", content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    assert reading.indexes() == [1, 2, 3]
    assert reading.batch() == []
    add(path, b" " + b"".join(lines(range(4, 6))))
    *entries, file = reading.batch()
    assert indexes(entries) == [4, 5]
    assert {row["exporter"] for row in entries} == {1}
    assert (file["file"]["lines"], file["file"]["place"], file["file"]["next"]) == (2, path.stat().st_size, 6)


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    assert reading.indexes() == [1, 2, 3]
    *_, line = lines([4])
    for byte in (1, len(line) // 2, len(line) - 1):
        path.write_bytes(content(lines(range(1, 4))) + line[:byte])
        assert reading.indexes() == []
    add(path, line[-1:])
    assert reading.indexes() == [4]


def test_what_is_packed_meanwhile_is_gone_on_with(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    assert reading.indexes() == [1, 2, 3]
    path.unlink()
    packed(tmp_path, content(lines(range(1, 7)), last=6))
    plain(tmp_path, content(lines(range(7, 9)), first=7), first=7)
    assert reading.indexes() == [4, 5, 6, 7, 8]
    assert reading.batch() == []


def test_a_file_that_had_its_last_line_is_no_damaged_file_when_it_is_packed(tmp_path: Path) -> None:
    data = content(lines(range(1, 4)), last=3)
    path = plain(tmp_path, data)
    reading = Reading(tmp_path)
    assert reading.indexes() == [1, 2, 3]
    path.unlink()
    packed(tmp_path, data)
    assert set(reading.indexes()) <= {1, 2, 3}
    assert reading.batch() == []


def test_a_file_is_packed_between_plan_and_reading(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4)), last=3))
    reading = Reading(tmp_path)
    reading.plan()
    path.unlink()
    packed(tmp_path, content(lines(range(1, 4)), last=3))
    assert indexes(reading.rows()) == [1, 2, 3]
    assert set(reading.indexes()) <= {1, 2, 3}
    assert reading.originals == {}, "the packed file is no copy of the plain file"


def test_what_was_cut_and_written_otherwise_is_begun_anew(tmp_path: Path) -> None:
    begin, written = content(lines(range(1, 4))), lines(range(4, 9))
    path = plain(tmp_path, begin + b" " + b"".join(written[:2]))
    reading = Reading(tmp_path)
    assert reading.indexes() == [1, 2, 3, 4, 5]
    path.write_bytes(begin)  # the end was never synced
    assert reading.indexes() == [1, 2, 3]
    path.write_bytes(begin + b" " + b"".join(lines(range(4, 9), delay=123_456)))
    assert reading.indexes() == [4, 5, 6, 7, 8]


def test_a_cut_between_plan_and_reading_takes_nothing_by_half(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    entries = reading.indexes()
    add(path, b"".join(lines(range(4, 9))))
    reading.plan()
    path.write_bytes(content(lines(range(1, 3))) + b" " + b"".join(lines(range(3, 8), delay=1_234)))
    again = indexes(reading.rows())
    assert again == sorted(set(again))
    assert sorted({*entries, *again, *reading.indexes()}) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(("suffix", "name", "cut"), [(GZIP, "gzip", 9), (ZSTD, "zstd", 2)])
def test_a_damaged_file_is_told_once_and_what_can_be_saved_is_read(
    tmp_path: Path, suffix: str, name: str, cut: int
) -> None:
    path = packed(tmp_path, content(lines(range(1, 4)), last=3), suffix=suffix)
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    reading = Reading(tmp_path)
    *rows, file = reading.batch()
    assert file["file"]["reason"].startswith(f"its {name} is damaged: its end is missing")
    assert indexes(rows) == [1, 2, 3]
    assert reading.batch() == []


def test_a_packed_file_that_was_still_being_copied_is_read_when_it_is_whole(tmp_path: Path) -> None:
    dice = random.Random(1)
    body = [record_line(index, 1, at(index), b'"%b"' % dice.randbytes(400).hex().encode()) for index in range(1, 40)]
    path = packed(tmp_path, content(body, last=39), suffix=GZIP)  # gives bytes also of a small part
    data = path.read_bytes()
    reading = Reading(tmp_path)
    entries: list[int] = []
    for size in (len(data) // 2, len(data) // 3 * 2, len(data)):
        path.write_bytes(data[:size])
        *rows, file = reading.batch()
        entries += indexes(rows)
        assert (file["file"]["reason"] is None) == (size == len(data))
    assert entries == [*range(1, 40)], "each once: a reading goes on where the damage was"
    assert reading.batch() == []


@pytest.mark.parametrize("turned", [False, True])
def test_a_history_that_was_begun_anew_in_its_place_is_read(tmp_path: Path, turned: bool) -> None:
    for begun in (1, 5, 9):
        plain(tmp_path, content(lines(range(begun, begun + 4)), first=begun, last=begun + 3), first=begun)
    plain(tmp_path, content(lines(range(13, 15)), first=13), first=13)
    reading = Reading(tmp_path)
    assert sorted(reading.indexes()) == [*range(1, 15)]
    for path in tmp_path.iterdir():
        path.unlink()
    body = [gap_line(1, 20), *lines(range(21, 24))]
    if turned:
        packed(tmp_path, content(body, last=23))
        path = plain(tmp_path, content(lines([24]), first=24), first=24)
    else:
        path = plain(tmp_path, content([*body, *lines([24])]))
    assert reading.indexes() == [21, 22, 23, 24]
    add(path, lines([25])[0])
    assert reading.indexes() == [25]


def test_a_file_that_goes_before_it_was_read_is_told_and_is_read_when_it_is_back(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    reading.plan()
    path.unlink()
    (row,) = reading.rows()
    assert row["file"]["reason"].startswith("it cannot be read")
    plain(tmp_path, content(lines(range(1, 4))))
    assert reading.indexes() == [1, 2, 3]


def test_of_files_with_the_same_content_the_first_counts(tmp_path: Path) -> None:
    data = content(lines(range(1, 4)), last=3)
    first, second = packed(tmp_path / "a", data), packed(tmp_path / "b", data)
    files = FilesRead({})
    read = [{"path": str(path), "sha256": "the same"} for path in (second, first)]
    assert files.add(read) == {str(second): str(first)}
    assert files.add([{"path": str(tmp_path / "c"), "sha256": "the same"}]) == {str(tmp_path / "c"): str(first)}
    assert files.add([{"path": str(tmp_path / "d"), "sha256": None}]) == {}


def test_whatever_happens_to_the_files_each_entry_is_read(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    reading = Reading(tmp_path)
    tmp_path.joinpath("n").mkdir()
    first = index = 1
    body: list[bytes] = []
    entries: set[int] = set()
    for step in range(60):
        match dice.randrange(5):
            case 0 | 1 | 2:
                count = dice.randrange(1, 5)
                body += [b" " + b"".join(lines(range(index, index + count)))]
                index += count
            case 3 if index > first:
                path = plain(tmp_path / "n", content(body, first=first, last=index - 1), first=first)
                if dice.random() < 0.7:
                    path.unlink()
                    packed(tmp_path / "n", content(body, first=first, last=index - 1), first=first)
                first, body = index, []
            case 4 if body:
                index = json.loads(body.pop().split(b"\n")[0])["index"]
        data = content(body, first=first)
        torn = dice.randrange(9) if body else 0
        path = plain(tmp_path / "n", data + lines([index])[0][:torn], first=first)
        os.utime(path, (step, step))
        if dice.random() < 0.7:
            entries |= set(reading.indexes())
    entries |= set(reading.indexes())
    assert entries >= set(range(1, index))


@pytest.mark.parametrize(
    "odd",
    [
        record_line(2**63 - 1, 1, at(4), b"1"),
        b'{"index":9999999999999999999,"received":1,"record":1,"term":1}\n',
        record_line(900, 1, at(4), b"1"),
        record_line(2, 1, at(4), b"1"),
        b"{}\n",
    ],
)
def test_one_line_that_is_off_where_a_reading_ends_costs_none_of_the_next_reading(tmp_path: Path, odd: bytes) -> None:
    path = plain(tmp_path, content([*lines(range(1, 4)), odd]))
    reading = Reading(tmp_path)
    rows = reading.batch()
    for indexes_ in (range(5, 9), range(9, 10), range(10, 14)):
        add(path, b"".join(lines(indexes_)))
        rows += reading.batch()
    assert {*range(1, 4), *range(5, 14)} <= {*indexes(rows)}


def test_a_file_without_its_first_line_is_told(tmp_path: Path) -> None:
    plain(tmp_path, b"".join(lines(range(1, 4))))
    (row,) = Reading(tmp_path).batch()
    assert (row["part"], row["path"]) == ("file", str(tmp_path / f"entries-{1:020}.jsonl"))
    assert row["file"]["reason"].startswith("line 1: ")
