"""Files of entries: a reader sees only whole files, a repeated write adds nothing, and few files are open at a time."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from chispa import assert_df_equality

from gf_i2p.farm.schema import text as schema_text
from gf_i2p.pipeline.ingest import entry_writer
from gf_i2p.pipeline.ingest.entry_writer import WRITTEN, EntryWriter, OutputDirectories, write_entries
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.read.entry_columns import Typer
from gf_i2p.pipeline.read.line_walk import FoundLine, Is
from gf_i2p.storage.history_lines import restored_line, servers_line
from tests.farm.strategies import text
from tests.pipeline.made_up_exports import at, status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
TYPER = Typer(schema_text())


def batch(*indexes: int, farm: str = "farm", term: int = 1, days: int = 0) -> pa.RecordBatch:
    """Make a batch of status records that were received `days` days after their dates."""
    lines = [FoundLine(Is.RECORD, each, term, at(each) + days * DAY_MS, status(each, cluster=farm)) for each in indexes]
    return TYPER.rows(farm, [1] * len(lines), lines)


def target(root: Path, run: str = "run") -> OutputDirectories:
    return OutputDirectories(str(root / "entries"), str(root / "_ingest" / run), run)


def files(root: Path) -> list[Path]:
    return sorted(each for each in root.joinpath("entries").rglob("*") if each.is_file())


def rows(root: Path) -> list[dict[str, Any]]:
    """Read all rows of the table `entries` in the lake at `root`."""
    partitioning = pads.partitioning(pa.schema({"farm": pa.string(), "day": pa.string()}), flavor="hive")
    found: list[dict[str, Any]] = (
        pads.dataset(root / "entries", format="parquet", partitioning=partitioning).to_table().to_pylist()
    )
    return found


def odd() -> pa.RecordBatch:
    """Make a batch with an entry of each kind."""
    return TYPER.rows(
        "farm",
        [2] * 6,
        [
            FoundLine(Is.GAP, 100, 7, at(101), restored_line(5, 100, 7, (1, 2)).strip()),
            FoundLine(Is.SERVERS, 101, 7, at(101), servers_line(101, 7, at(101), (1, 2, 3), 2)),
            FoundLine(Is.RECORD, 102, 7, at(102), b'{"action":"release","by":"admin-joe"}'),
            FoundLine(Is.RAW, 103, 7, at(103), b"\xff"),
            FoundLine(Is.RECORD, 104, 7, at(104), text(id="1").replace(b" ", b"")),
            FoundLine(Is.RECORD, 105, 7, 1000, status(105)),
        ],
    )


def test_spark_reads_what_it_would_have_written(spark: "SparkSession", tmp_path: Path) -> None:
    batches = [batch(*range(1, 50)), odd(), batch(*range(1, 5), farm="-2026_a.b"), batch(*range(5, 9), farm="_x")]
    (counts,) = write_entries(target(tmp_path), 3, batches).to_pylist()
    assert counts == {
        "new": 63, "misfits": 2, "files": 4, "bytes": sum(each.stat().st_size for each in files(tmp_path)),
        "kind_status": 59, "kind_admin": 1, "kind_servers": 2, "kind_other": 1,
    }  # fmt: skip
    assert [*counts] == WRITTEN.names
    lake, other = Lake(str(tmp_path)), Lake(str(tmp_path / "other"))
    table = pa.Table.from_batches(batches)
    tables.append(spark.createDataFrame(table), other, "entries")
    mine, its = tables.read_table(spark, lake, "entries"), tables.read_table(spark, other, "entries")
    assert mine is not None
    assert its is not None
    order = ["farm", "index", "term"]
    assert_df_equality(mine.orderBy(order), its.orderBy(order), ignore_nullable=True)
    assert {row[0] for row in mine.select("farm").distinct().collect()} == {"farm", "-2026_a.b", "_x"}


def test_a_task_that_is_done_again_is_there_once(tmp_path: Path) -> None:
    batches = [batch(*range(1, 50)), batch(50, days=1)]
    write_entries(target(tmp_path), 1, batches)
    before = {path: path.read_bytes() for path in files(tmp_path)}
    assert len(before) == 2
    write_entries(target(tmp_path), 1, batches)
    assert {path: path.read_bytes() for path in files(tmp_path)} == before
    write_entries(target(tmp_path), 2, [batch(51)])
    write_entries(target(tmp_path, "next"), 1, [batch(52)])
    assert sorted(row["index"] for row in rows(tmp_path)) == [*range(1, 53)]


def test_where_a_file_system_replaces_nothing(tmp_path: Path) -> None:
    write_entries(target(tmp_path), 1, [batch(1)])
    before = files(tmp_path)
    writer = EntryWriter(target(tmp_path), 1)
    writer.add(batch(1))
    system = writer._system

    class Stubborn:
        def __getattr__(self, name: str) -> Any:
            return getattr(system, name)

        def move(self, *_: str) -> None:
            raise FileExistsError

    with patch.object(writer, "_system", Stubborn()):
        writer.close()
        assert files(tmp_path) == before
        assert not [*tmp_path.joinpath("_ingest", "run").iterdir()]
        writer.add(batch(2, days=1))
        with pytest.raises(FileExistsError):
            writer.close()


def test_what_is_not_whole_is_not_read(tmp_path: Path) -> None:
    with patch.object(entry_writer, "_GROUP_BYTES", 1):
        killed = EntryWriter(target(tmp_path), 1)
        killed.add(batch(*range(1, 10)))
        assert killed.open == 1
        assert [*tmp_path.joinpath("_ingest", "run").iterdir()]
        assert files(tmp_path) == []
        write_entries(target(tmp_path), 1, [batch(*range(1, 10))])
    assert [row["index"] for row in rows(tmp_path)] == [*range(1, 10)]


def test_many_odd_days(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    writer = EntryWriter(target(tmp_path), 1)
    indexes_and_days: list[tuple[int, str]] = []
    with patch.object(entry_writer, "_GROUP_BYTES", 1 << 18), patch.object(entry_writer, "_HELD_BYTES", 1 << 20):
        for number in range(100):
            days = dice.randrange(40) if dice.random() < 0.5 else 0
            rows_of_day = batch(*range(number * 20 + 1, number * 20 + 21), days=days)
            indexes_and_days += zip(
                rows_of_day.column("index").to_pylist(), rows_of_day.column("day").to_pylist(), strict=True
            )
            writer.add(rows_of_day)
            assert writer.open <= 4
            assert writer.held_bytes <= 1 << 20
        writer.close()
    assert writer.open == writer.held_bytes == 0
    assert sorted((row["index"], row["day"]) for row in rows(tmp_path)) == indexes_and_days
    assert writer.files == len(files(tmp_path)) < 80


def test_one_batch_of_many_days(tmp_path: Path) -> None:
    parts = [batch(number + 1, days=number % 3) for number in range(30)]
    (mixed,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    write_entries(target(tmp_path), 1, [mixed])
    assert len(files(tmp_path)) == 3
    assert sorted((row["index"], row["day"]) for row in rows(tmp_path)) == [
        (index, day) for index, day in zip(range(1, 31), mixed.column("day").to_pylist(), strict=True)
    ]
