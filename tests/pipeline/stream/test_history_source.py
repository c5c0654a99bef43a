"""The stream's source, called in Spark's way, on files that grow, turn, are packed, are cut and go."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from gf_i2p.farm import schema
from gf_i2p.pipeline.stream.history_source import LINES, HistoryReader
from gf_i2p.pipeline.stream.stream_rows import arrived
from gf_i2p.storage.history_lines import gap_line, record_line
from gf_i2p.storage.packed_files import GZIP, ZSTD
from tests.pipeline.made_up_exports import at, content, lines, packed, plain


class Reading:
    """Reads on in the way of Spark, with one checkpoint."""

    def __init__(self, *directories: Path, most: int = 1 << 20) -> None:
        self.options = {
            "directories": json.dumps([str(each) for each in directories]),
            "maxBytesPerTrigger": str(most),
        }
        self.reader = HistoryReader(self.options)
        self.offset = self.reader.initialOffset()
        self.before = self.offset

    def restart(self) -> None:
        """Go on from the checkpoint in another process."""
        self.reader = HistoryReader(self.options)
        self.offset = json.loads(json.dumps(self.offset))

    def plan(self) -> dict[str, Any]:
        """Go on by one batch, without reading the batch."""
        self.before, self.offset = self.offset, self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())
        return self.offset

    def rows(self) -> list[dict[str, Any]]:
        """Read the batch that was planned last."""
        parts = self.reader.partitions(self.before, self.offset)
        return [row for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()]

    def batch(self) -> list[dict[str, Any]]:
        """Go on by one batch; give the batch's rows."""
        self.plan()
        return self.rows()

    def indexes(self) -> list[int]:
        """Go on by one batch; give the batch's entries."""
        return indexes(self.batch())

    def all(self) -> list[int]:
        """Go on until nothing is left; give the entries."""
        entries: list[int] = []
        while True:
            rows = self.batch()
            if self.offset == self.before:
                return entries
            entries += indexes(rows)


def indexes(rows: list[dict[str, Any]]) -> list[int]:
    """Give the indexes of rows; no row may have a problem, and each must be at the right place."""
    assert [row["problem"] for row in rows if row["problem"]] == []
    return [json.loads(row["line"])["index"] for row in rows if b'"index"' in row["line"]]


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_file_that_grows_is_read_on(tmp_path: Path) -> None:
    path = plain(tmp_path / "one", content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    assert reading.indexes() == [1, 2, 3]
    assert reading.indexes() == []
    assert reading.offset == reading.before
    add(path, b" " + b"".join(lines(range(4, 6))))
    reading.restart()
    rows = reading.batch()
    assert indexes(rows) == [4, 5]
    header = json.loads(rows[0]["line"])
    assert (rows[0]["at"], header["first"], header["server"]) == (None, 4, 1)
    data = path.read_bytes()
    assert all(data[row["at"] :].startswith(row["line"] + b"\n") for row in rows[1:])


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    reading.plan()
    *_, line = lines([4])
    for byte in (1, len(line) // 2, len(line) - 1):
        path.write_bytes(content(lines(range(1, 4))) + line[:byte])
        assert reading.indexes() == []
        assert reading.offset == reading.before
    add(path, line[-1:])
    assert reading.indexes() == [4]


def test_what_is_packed_meanwhile_is_gone_on_with(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    assert reading.indexes() == [1, 2, 3]
    path.unlink()
    packed(tmp_path, content(lines(range(1, 7)), last=6))
    plain(tmp_path, content(lines(range(7, 9)), first=7), first=7)
    reading.restart()
    assert reading.indexes() == [4, 5, 6, 7, 8]
    assert reading.indexes() == []


def test_a_file_is_packed_between_plan_and_reading(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4)), last=3))
    reading = Reading(tmp_path)
    reading.plan()
    path.unlink()
    packed(tmp_path, content(lines(range(1, 4)), last=3))
    assert indexes(reading.rows()) == [1, 2, 3]


def test_files_that_have_ended_take_no_room(tmp_path: Path) -> None:
    for first in range(1, 101, 10):
        packed(tmp_path, content(lines(range(first, first + 10)), first=first, last=first + 9), first=first)
    plain(tmp_path, content(lines([101]), first=101), first=101)
    reading = Reading(tmp_path)
    assert reading.indexes() == list(range(1, 102))
    add(tmp_path / f"entries-{101:020}.jsonl", lines([102])[0])
    assert reading.indexes() == [102]
    (state,) = reading.offset.values()
    assert (state["done"], list(state["files"])) == ("1-100", ["101"])
    packed(tmp_path, content(lines([50]), first=50, last=50), first=50)  # somebody's copy of known entries
    assert reading.indexes() == []


def test_what_was_cut_and_written_otherwise_is_begun_anew(tmp_path: Path) -> None:
    begin, written = content(lines(range(1, 4))), lines(range(4, 9))
    path = plain(tmp_path, begin + b" " + b"".join(written[:2]))
    reading = Reading(tmp_path)
    assert reading.indexes() == [1, 2, 3, 4, 5]
    path.write_bytes(begin)  # the end was never synced
    reading.restart()
    assert reading.indexes() == [1, 2, 3]
    path.write_bytes(begin + b" " + b"".join(lines(range(4, 9), delay=123_456)))
    assert reading.indexes() == [4, 5, 6, 7, 8]


def test_a_cut_between_plan_and_reading_takes_nothing_by_half(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    reading.plan()
    add(path, b"".join(lines(range(4, 9))))
    reading.plan()
    path.write_bytes(content(lines(range(1, 3))) + b" " + b"".join(lines(range(3, 8), delay=1_234)))
    again = indexes(reading.rows())
    assert again == sorted(set(again))
    assert sorted({*again, *reading.all()}) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("most", [1, 700, 3_000, 100_000])
def test_a_batch_has_about_so_many_bytes(tmp_path: Path, most: int) -> None:
    packed(tmp_path / "a", content(lines(range(1, 21)), last=20))
    plain(tmp_path / "a", content(lines(range(21, 31)), first=21), first=21)
    plain(tmp_path / "b" / "c", content(lines(range(1, 31)), server=2))
    reading = Reading(tmp_path, most=most)
    line = max(len(each) for each in lines(range(1, 31)))
    entries: list[int] = []
    batches = 0
    while True:
        rows = reading.batch()
        if reading.offset == reading.before:
            break
        batches += 1
        assert sum(len(row["line"]) + 1 for row in rows if row["at"]) <= max(most, 2 * line) + 2 * line
        entries += indexes(rows)
        reading.restart()
    assert sorted(entries) == sorted([*range(1, 31)] * 2)
    assert batches >= sum(map(len, lines(range(1, 31)))) * 2 // (most + 4 * line)


def test_only_what_is_there_at_first_is_available_now(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    reading.reader.prepareForTriggerAvailableNow()
    add(path, lines([4])[0])
    plain(tmp_path / "later", content(lines([1])))
    assert reading.indexes() == [1, 2, 3]
    assert reading.indexes() == []
    reading.restart()
    assert reading.indexes() == [4, 1]


def test_when_it_is_to_end_nothing_is_news(tmp_path: Path) -> None:
    plain(tmp_path / "exports", content(lines(range(1, 4))))
    reading = Reading(tmp_path / "exports")
    reading.options["ending"] = str(tmp_path / "ending")
    reading.restart()
    (tmp_path / "ending").mkdir()
    assert reading.indexes() == []
    assert reading.offset == reading.before
    (tmp_path / "ending").rmdir()
    assert reading.indexes() == [1, 2, 3]


def test_all_is_read_when_spark_wants_all(tmp_path: Path) -> None:
    plain(tmp_path, content(lines(range(1, 50))))
    reading = Reading(tmp_path, most=100)
    assert reading.reader.getDefaultReadLimit() == ReadMaxBytes(100)
    reading.offset = reading.reader.latestOffset({}, ReadAllAvailable())
    assert indexes(reading.rows()) == [*range(1, 50)]


@pytest.mark.parametrize(("suffix", "name", "cut"), [(GZIP, "gzip", 9), (ZSTD, "zstd", 2)])
def test_a_damaged_file_is_told_once_and_what_can_be_saved_is_read(
    tmp_path: Path, suffix: str, name: str, cut: int
) -> None:
    path = packed(tmp_path, content(lines(range(1, 4)), last=3), suffix=suffix)
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    reading = Reading(tmp_path)
    rows = reading.batch()
    assert [row["problem"] for row in rows if row["problem"]] == [f"its {name} is damaged: its end is missing"]
    assert indexes([row for row in rows if not row["problem"]]) == [1, 2, 3]
    reading.restart()
    assert reading.batch() == []
    assert reading.offset == reading.before


def test_a_packed_file_that_was_still_being_copied_is_read_when_it_is_whole(tmp_path: Path) -> None:
    dice = random.Random(1)
    body = [record_line(index, 1, at(index), b'"%b"' % dice.randbytes(400).hex().encode()) for index in range(1, 40)]
    path = packed(tmp_path, content(body, last=39), suffix=GZIP)  # gives bytes also of a small part
    data = path.read_bytes()
    reading = Reading(tmp_path)
    rows = []
    for size in (len(data) // 2, len(data) // 3 * 2, len(data)):
        path.write_bytes(data[:size])
        rows += arrive(reading.batch())
        reading.restart()
    assert {row["index"] for row in rows if row["what"] is None} == {*range(1, 40)}
    assert {row["what"] for row in rows} == {None, "file", "line"}
    assert reading.all() == []


def test_a_history_that_was_begun_anew_in_its_place_is_read(tmp_path: Path) -> None:
    for begun in (1, 5, 9):
        plain(tmp_path, content(lines(range(begun, begun + 4)), first=begun, last=begun + 3), first=begun)
    plain(tmp_path, content(lines(range(13, 15)), first=13), first=13)
    reading = Reading(tmp_path, most=3_000)
    assert sorted(reading.all()) == [*range(1, 15)]
    assert reading.offset[str(tmp_path)]["done"] == "1-8"
    for path in tmp_path.iterdir():
        path.unlink()
    path = plain(tmp_path, content([gap_line(1, 20), *lines(range(21, 24))]))
    assert reading.all() == [21, 22, 23]
    reading.restart()
    add(path, lines([24])[0])
    assert reading.all() == [24]


def test_a_history_that_was_begun_anew_and_has_turned_meanwhile_is_read(tmp_path: Path) -> None:
    for begun in (1, 5, 9):
        plain(tmp_path, content(lines(range(begun, begun + 4)), first=begun, last=begun + 3), first=begun)
    plain(tmp_path, content(lines(range(13, 15)), first=13), first=13)
    reading = Reading(tmp_path, most=3_000)
    reading.all()
    for path in tmp_path.iterdir():
        path.unlink()
    packed(tmp_path, content([gap_line(1, 20), *lines(range(21, 24))], last=23))
    plain(tmp_path, content(lines([24]), first=24), first=24)
    assert reading.all() == [21, 22, 23, 24]
    reading.restart()
    assert reading.all() == []


def test_who_removes_the_oldest_files_has_nothing_read_again(tmp_path: Path) -> None:
    paths = [
        plain(tmp_path, content(lines(range(begun, begun + 4)), first=begun, last=begun + 3), first=begun)
        for begun in (1, 5, 9)
    ]
    plain(tmp_path, content(lines(range(13, 15)), first=13), first=13)
    reading = Reading(tmp_path, most=3_000)
    reading.all()
    for path in paths:
        path.unlink()
        assert reading.all() == []


def test_a_file_that_goes_before_it_was_read_is_told(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    reading = Reading(tmp_path)
    reading.plan()
    path.unlink()
    (row,) = reading.rows()
    assert row["problem"].startswith("it cannot be read any more")
    assert reading.indexes() == []


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    reading = Reading(tmp_path / "nowhere")
    with pytest.raises(OSError, match="nowhere"):
        reading.plan()


def test_whatever_happens_to_the_files_each_entry_is_read(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    reading = Reading(tmp_path, most=dice.choice([1, 5_000, 1 << 20]))
    tmp_path.joinpath("n").mkdir()
    first = index = 1
    body: list[bytes] = []
    entries: set[int] = set()
    for _ in range(60):
        match dice.randrange(6):
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
            case 5:
                reading.restart()
        data = content(body, first=first)
        torn = dice.randrange(9) if body else 0
        plain(tmp_path / "n", data + lines([index])[0][:torn], first=first)
        if dice.random() < 0.7:
            entries |= set(reading.indexes())
    entries |= set(reading.all())
    assert entries >= set(range(1, index))


def test_pieces_of_a_file_give_what_the_file_gives(tmp_path: Path) -> None:
    odd = [b"{}\n", b"\xff\n", *lines(range(6, 9)), *lines([30]), *lines(range(9, 12))]
    plain(tmp_path, content(lines(range(1, 6)) + odd))
    by_file, by_piece = Reading(tmp_path), Reading(tmp_path, most=2_500)
    expected = [_shown(row) for row in arrive(by_file.batch())]
    in_pieces: list[dict[str, Any]] = []
    while (rows := by_piece.batch()) or by_piece.offset != by_piece.before:
        in_pieces += [_shown(row) for row in arrive(rows)]
    in_pieces.sort(key=lambda row: row["what"] is None)  # the order of arrival is not the file's order
    assert in_pieces == sorted(expected, key=lambda row: row["what"] is None)
    assert [row["index"] for row in in_pieces if row["what"] is None] == [*range(1, 12)]
    assert [row["text"] for row in in_pieces if row["what"] == "line"][:2] == ["{}", "\ufffd"]
    assert [row["reason"] for row in in_pieces if row["what"] == "line"][2] == "entry 30 does not belong after entry 8"


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
def test_one_line_that_is_off_where_a_piece_ends_costs_none_of_the_next_piece(tmp_path: Path, odd: bytes) -> None:
    path = plain(tmp_path, content([*lines(range(1, 4)), odd]))
    reading = Reading(tmp_path)
    rows = arrive(reading.batch())
    for indexes_ in (range(5, 9), range(9, 10), range(10, 14)):
        add(path, b"".join(lines(indexes_)))
        reading.restart()
        rows += arrive(reading.batch())
    assert {*range(1, 4), *range(5, 14)} <= {row["index"] for row in rows if row["what"] is None}
    assert [row["reason"] for row in rows if row["what"] and "line 1" in row["reason"]] == []


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("what", "index", "term", "farm", "received_ms", "value", "reason", "text")}


def arrive(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows as a Spark worker reads them."""
    batches = arrived(schema.text(), iter([pa.RecordBatch.from_pylist(rows, LINES)]))
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_file_without_its_first_line_is_told(tmp_path: Path) -> None:
    plain(tmp_path, b"".join(lines(range(1, 4))))
    (row,) = arrive(Reading(tmp_path).batch())
    assert (row["what"], row["source"]) == ("file", str(tmp_path / f"entries-{1:020}.jsonl"))
    assert row["reason"].startswith("line 1: ")
