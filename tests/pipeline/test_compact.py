"""The job `compact`: one file for each directory, with all rows and columns, in the order of the log."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gf_i2p.cli.main import main
from gf_i2p.cli.shared.errors import Exit
from gf_i2p.pipeline import compact as job
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.locks import tables_locked
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.lake.replaced_files import STAGE, finish, table_files
from tests.pipeline.lake.test_replaced_files import Killed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 3


def made(root: Path) -> Lake:
    """Make the files of three batches. The first batch is of a version without the column `later`."""
    for batch in range(BATCHES):
        later = {"later": [batch] * 2} if batch else {}
        for farm in ("2026", "b:ü"):
            folder = root / "entries" / f"farm={farm.replace(':', '%3A')}" / "day=2025-01-01"
            write(folder, batch, {"index": [9 - batch, batch], "term": [1, 1], "record": [{"up": True, **later}] * 2})
        write(root / "files", batch, {"path": ["x"], "read_ms": [batch], **({"later": [batch]} if batch else {})})
        write(root / "alerts", batch, {"farm": ["www"], "noticed_ms": [BATCHES - batch]})
    write(root / "entries" / "farm=2026" / "day=2025-01-02", 0, {"index": [1], "term": [2], "record": [{"up": False}]})
    write(root / "quarantine", 0, {"source": ["x"], "found_ms": [1]})
    return Lake(str(root))


def write(folder: Path, batch: int, columns: dict[str, list[Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table({name: values[: len(columns[next(iter(columns))])] for name, values in columns.items()}),
        folder / f"part-{batch}.parquet",
    )


def content(root: Path) -> list[str]:
    """Give all rows of the lake, with their places, without the columns that are null."""
    return sorted(
        json.dumps([table, str(path.parent.relative_to(root)), without_nulls(row)], sort_keys=True)
        for table in ("alerts", "entries", "files", "quarantine")
        for path in table_files(root, table)
        for row in pq.ParquetFile(path).read().to_pylist()
    )


def without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(each) for name, each in value.items() if each is not None}


@contextmanager
def with_spark(spark: "SparkSession") -> Iterator[None]:
    """Let the command use the tests' Spark."""
    with patch("gf_i2p.pipeline.spark_session.start", lambda options: spark), patch.object(spark, "stop"):
        yield


def test_small_files_become_one_and_keep_their_rows(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    before = content(tmp_path)
    with with_spark(spark):
        assert main(["pipeline", "compact", str(tmp_path), "--json"]) == Exit.OK
    figures = json.loads(capsys.readouterr().out)
    assert (figures["files_before"], figures["files_after"]) == (14, 6)
    assert (
        figures["bytes_before"]
        > figures["bytes_after"]
        == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    )
    assert content(tmp_path) == before
    folder = tmp_path / "entries" / "farm=2026" / "day=2025-01-01"
    merged = [path for path in folder.iterdir() if path.suffix == ".parquet"]
    assert pq.ParquetFile(merged[0]).read().column("index").to_pylist() == [0, 1, 2, 7, 8, 9]
    assert not (tmp_path / STAGE).exists()
    with patch("gf_i2p.pipeline.spark_session.start", lambda options: pytest.fail("there is nothing to merge")):
        assert main(["pipeline", "compact", str(tmp_path)]) == Exit.OK
    assert "6 before, 6 now" in capsys.readouterr().out


def test_a_kill_while_files_are_moved_and_a_failure_while_they_are_merged(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = made(tmp_path)
    before = content(tmp_path)
    numbers = iter(range(9))
    monkeypatch.setattr(job, "_rows", lambda files: next(numbers))
    with pytest.raises(PipelineError, match="nothing was changed"):
        job.compact(spark, lake, tmp_path)
    assert not (tmp_path / STAGE).exists()
    assert content(tmp_path) == before
    monkeypatch.undo()
    moves = iter(range(3))

    def moved(path: Path, to: Path, move: Any = Path.replace) -> Any:
        if path.suffix == ".parquet" and next(moves, None) is None:
            raise Killed
        return move(path, to)

    monkeypatch.setattr(Path, "replace", moved)
    with pytest.raises(Killed):
        job.compact(spark, lake, tmp_path)
    monkeypatch.undo()
    assert len(content(tmp_path)) > len(before)  # rows are there twice, until the next job begins
    finish(tmp_path)
    assert content(tmp_path) == before
    assert job.sizes(tmp_path)[0] == 6


def test_a_place_where_nothing_can_be_merged_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "compact", "hdfs://host/lake"]) == Exit.USAGE
    assert "hdfs://host/lake is no directory of this machine" in capsys.readouterr().err
    assert main(["pipeline", "compact", str(tmp_path / "none")]) == Exit.FAILED
    assert f"There is no lake {tmp_path / 'none'}" in capsys.readouterr().err
    with tables_locked(Lake(str(tmp_path)), "stream"):
        assert main(["pipeline", "compact", str(tmp_path)]) == Exit.FAILED
    assert "`gf-i2p pipeline stream` (process" in capsys.readouterr().err
