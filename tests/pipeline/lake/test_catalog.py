"""The SQL for catalogs: names and places are quoted, and Spark finds the tables and their partitions with it."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gf_i2p.cli.main import main
from gf_i2p.pipeline.lake.catalog import script
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def made(tmp_path: Path) -> Lake:
    """Make a lake with entries of two farms, one of them with a name of digits and a column more."""
    lake = Lake(str(tmp_path / "the lake's"))
    for farm, day, columns in (
        ("2026", "2025-01-01", {"index": [1, 2], "later": [1, 2]}),
        ("2026", "2025-01-02", {"index": [3]}),
        ("www", "2025-01-01", {"index": [1]}),
    ):
        path = Path(lake.path("entries"), f"farm={farm}", f"day={day}", "part-0.parquet")
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table(columns), path)
    Path(lake.path("files"), "_temporary").mkdir(parents=True)
    Path(lake.path("files"), "_temporary", "part-0.parquet").touch()
    return lake


def test_names_and_places_are_quoted() -> None:
    sql = script(Lake("/srv/it's"), ["entries", "files"], "a`b")
    using = "USING parquet OPTIONS (mergeSchema 'true') LOCATION"
    assert sql.splitlines() == [
        "SET spark.sql.sources.partitionColumnTypeInference.enabled = false;",
        "CREATE DATABASE IF NOT EXISTS `a``b`;",
        rf"CREATE TABLE IF NOT EXISTS `a``b`.`entries` {using} '/srv/it\'s/entries';",
        "MSCK REPAIR TABLE `a``b`.`entries`;",
        rf"CREATE TABLE IF NOT EXISTS `a``b`.`files` {using} '/srv/it\'s/files';",
    ]


def test_a_place_without_tables_is_no_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "catalog", str(tmp_path)]) == 1
    assert "has no table yet: run `gf-i2p pipeline ingest`" in capsys.readouterr().err
    assert main(["pipeline", "catalog", "odd://x/lake"]) == 1
    assert "odd://x/lake is not a lake that can be read" in capsys.readouterr().err


def test_spark_reads_the_tables_by_the_script(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = made(tmp_path)
    assert main(["pipeline", "catalog", lake.root, "--database", "2026"]) == 0
    sql = capsys.readouterr().out
    assert sql.count("CREATE TABLE") == 1  # files has no whole file
    name = "`2026`"
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "true")  # as others have it
    try:
        for _ in range(2):
            for statement in sql.split(";\n"):
                if statement:
                    spark.sql(statement)
            counts = spark.sql(f"SELECT farm, count(*), count(later) FROM {name}.entries GROUP BY farm").collect()
            assert Counter(map(tuple, counts)) == Counter([("2026", 3, 2), ("www", 1, 0)])
    finally:
        spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")
    assert len([*Path(lake.root).rglob("*.parquet")]) == 4  # the catalog does not own the files
