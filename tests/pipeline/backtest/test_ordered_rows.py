"""A farm's rows out of many files come in the order of the log, however the rows are spread; no Spark."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gf_i2p.pipeline.backtest import ordered_rows
from gf_i2p.pipeline.backtest.ordered_rows import Window, farms, rows
from gf_i2p.pipeline.backtest.replay import Row

KINDS = ("status", "admin", "other")


def entry(index: int, *, term: int = 1, kind: str = "status", received_ms: int | None = None) -> Row:
    value = None if kind == "servers" else f'{{"index":{index},"term":{term}}}'.encode()
    servers = (1, 2, 3) if kind == "servers" else ()
    return Row(index, term, 1000 * index if received_ms is None else received_ms, kind, value, servers)


def gap(index: int, *, term: int = 1) -> Row:
    return Row(index, term, 1000 * index, "servers", b'{"gap":1}', (1, 2))


def write(path: Path, log: Sequence[Row], *, groups: int = 1 << 20) -> None:
    """Write a file in the form of ingest: the value as text, or raw."""
    is_text = [each.value is not None and not each.value.startswith(b"\xff") for each in log]
    values = [None if each.value is None else each.value for each in log]
    table = pa.table(
        {
            "index": pa.array([each.index for each in log], pa.int64()),
            "term": pa.array([each.term for each in log], pa.int64()),
            "received_ms": pa.array([each.received_ms for each in log], pa.int64()),
            "exporter": pa.array([1 for _ in log], pa.int64()),
            "kind": pa.array([each.kind for each in log], pa.string()),
            "value": pa.array(
                [value.decode() if text and value else None for value, text in zip(values, is_text, strict=True)],
                pa.string(),
            ),
            "raw": pa.array(
                [None if text else value for value, text in zip(values, is_text, strict=True)], pa.binary()
            ),
            "servers": pa.array([list(each.servers) or None for each in log], pa.list_(pa.int64())),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=groups)


def in_order(log: Sequence[Row]) -> list[Row]:
    return sorted(log, key=lambda each: (each.index, each.is_gap, -each.term))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have batches and limits that small logs reach."""
    monkeypatch.setattr(ordered_rows, "BATCH_ROWS", 7)
    monkeypatch.setattr(ordered_rows, "_PIECE_ROWS", 20)
    monkeypatch.setattr(ordered_rows, "MOST_OPEN", 3)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(scratch))
    return scratch


def test_days_that_follow_one_another_are_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = [entry(index) for index in range(1, 101)]
    for day in range(10):
        write(tmp_path / f"farm=a/day=2026-01-{day:02}/part.parquet", log[10 * day : 10 * day + 10])
    opened: list[str] = []
    read = ordered_rows._File.read

    def watched(self: ordered_rows._File, rows: int) -> Iterator[pa.RecordBatch]:
        opened.append(self.path)
        yield from read(self, rows)

    monkeypatch.setattr(ordered_rows._File, "read", watched)
    found = rows(str(tmp_path / "farm=a"), Window())
    assert next(found) == log[0]
    assert len(opened) == 1, "the others wait until their indexes are reached"
    assert [log[0], *found] == log
    assert opened == sorted(opened)
    assert len(opened) == 10


def test_files_that_overlap_are_merged_with_the_highest_term_first_and_gaps_last(tmp_path: Path, small: Path) -> None:
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    random = Random(seed)
    log = [entry(index, term=term) for index in range(1, 200) for term in {1, random.randrange(1, 4)}]
    log += [gap(index, term=random.randrange(1, 4)) for index in random.sample(range(1, 200), 20)]
    parts: list[list[Row]] = [[] for _ in range(12)]  # four times as many as may be open at once
    for each in log:
        random.choice(parts).append(each)
    for number, part in enumerate(parts):
        part.sort(key=lambda each: each.index)
        write(tmp_path / f"farm=a/day=2026-01-{number % 5:02}/{number}.parquet", part, groups=11)
    assert list(rows(str(tmp_path / "farm=a"), Window())) == in_order(log)
    assert list(small.iterdir()) == [], "what was kept for the time being is gone"


def test_no_more_than_so_many_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = [entry(index) for index in range(1, 401)]
    for number in range(40):  # all of them from the first indexes to the last
        write(tmp_path / f"farm=a/day=1970-01-01/{number}.parquet", log[number::40])
    most = 0
    add = ordered_rows._Merge._add

    def added(self: ordered_rows._Merge, source: ordered_rows._Source) -> None:
        nonlocal most
        add(self, source)
        most = max(most, len(self._sources))

    monkeypatch.setattr(ordered_rows._Merge, "_add", added)
    assert list(rows(str(tmp_path / "farm=a"), Window())) == log
    assert most == 3


@pytest.mark.parametrize("count", [15, 150])
def test_a_file_that_is_not_sorted_is_sorted(tmp_path: Path, count: int) -> None:
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    log = [entry(index) for index in range(1, count + 1)]
    mixed = Random(seed).sample(log[: count // 2], count // 2)
    write(tmp_path / "farm=a/day=2026-01-01/1.parquet", mixed, groups=40)
    write(tmp_path / "farm=a/day=2026-01-02/2.parquet", log[count // 2 :])
    assert list(rows(str(tmp_path / "farm=a"), Window())) == log


def test_more_of_one_index_than_a_batch_holds_comes_in_order(tmp_path: Path) -> None:
    log = [entry(5, term=term) for term in range(1, 40)] + [entry(1), entry(9)]
    write(tmp_path / "farm=a/day=2026-01-01/1.parquet", sorted(log[::2], key=lambda each: each.index))
    write(tmp_path / "farm=a/day=2026-01-01/2.parquet", sorted(log[1::2], key=lambda each: each.index))
    assert list(rows(str(tmp_path / "farm=a"), Window())) == in_order(log)


def test_a_window_keeps_what_was_said_for_good(tmp_path: Path) -> None:
    kinds = ("servers", "admin", "status", "other", "status")
    log = [entry(index, kind=kinds[index % len(kinds)]) for index in range(1, 41)]
    write(tmp_path / "farm=a/day=2026-01-01/1.parquet", log)
    found = list(rows(str(tmp_path / "farm=a"), Window(since_ms=20_000, until_ms=30_000)))
    assert found == [
        each
        for each in log
        if each.received_ms < 30_000 and (each.received_ms >= 20_000 or each.kind in {"servers", "admin"})
    ]
    assert len(found) < 20


def test_raw_values_empty_files_and_odd_names(tmp_path: Path) -> None:
    raw = Row(2, 1, 2, "other", b"\xff\x00")
    write(tmp_path / "farm=a%3Ab %25/day=2026-01-01/1.parquet", [entry(1), raw])
    write(tmp_path / "farm=a%3Ab %25/day=2026-01-02/2.parquet", [])
    write(tmp_path / "farm=a%3Ab %25/day=odd/.2.parquet", [entry(7)])
    write(tmp_path / "farm=a%3Ab %25/_temporary/3.parquet", [entry(8)])
    write(tmp_path / "_other/3.parquet", [entry(8)])
    write(tmp_path / "farm=b/day=x/1.parquet", [])
    (tmp_path / "_SUCCESS").touch()
    for path in (str(tmp_path), tmp_path.as_uri()):
        first, second = farms(path)
        assert (first.farm, second.farm) == ("a:b %", "b")
        assert first.bytes > 0
        assert list(rows(first.path, Window())) == [entry(1), raw]
        assert list(rows(second.path, Window())) == []
    assert farms(str(tmp_path / "none")) == []
    assert list(rows(str(tmp_path / "none"), Window())) == []


def test_a_footer_without_statistics_is_no_obstacle(tmp_path: Path) -> None:
    log = [entry(index) for index in range(1, 61)]
    write(tmp_path / "farm=a/day=1/1.parquet", log[:30])
    write(tmp_path / "farm=a/day=0/2.parquet", log[30:])
    table = pq.ParquetFile(tmp_path / "farm=a/day=0/2.parquet").read()
    pq.write_table(table.drop_columns(["raw"]), tmp_path / "farm=a/day=0/2.parquet", write_statistics=False)
    assert list(rows(str(tmp_path / "farm=a"), Window())) == log
