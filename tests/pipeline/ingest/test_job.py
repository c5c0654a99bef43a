"""Ingesting histories: each entry once, also with damaged files and after repeated or killed runs."""

import gzip
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gf_i2p.farm.schema import text as schema_text
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.ingest import job
from gf_i2p.pipeline.ingest.entry_writer import KINDS
from gf_i2p.pipeline.ingest.job import IngestFigures, ingest
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.read.line_walk import MAX_BAD_LINES
from gf_i2p.storage.history_lines import record_line, servers_line
from gf_i2p.storage.packed_files import GZIP
from tests.farm.strategies import text
from tests.pipeline.made_up_exports import at, content, lines, packed, plain, status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ADMIN = b'{"action":"release","by":"admin-joe","cluster":"farm","date":1790000000000}'


class Farm:
    """Some exports, and the lake of these exports."""

    def __init__(self, spark: "SparkSession", root: Path) -> None:
        self.spark = spark
        self.exports = root / "exports"
        self.lake = Lake(str(root / "lake"))

    def ingest(self, **options: Any) -> IngestFigures:
        figures = ingest(self.spark, self.lake, [str(self.exports)], **options)
        assert not Path(self.lake.root, "_ingest").exists(), "nothing is left of what a run needed"
        return figures

    def rows(self, table: str) -> list[Any]:
        frame = tables.read_table(self.spark, self.lake, table)
        return [] if frame is None else frame.collect()

    def keys(self, farm: str) -> list[tuple[int, int]]:
        return sorted((row["index"], row["term"]) for row in self.rows("entries") if row["farm"] == farm)

    def quarantine(self) -> Counter[tuple[str, str]]:
        return Counter((row["what"], row["reason"].split(":")[0].split(" /")[0]) for row in self.rows("quarantine"))


@pytest.fixture(scope="module")
def farm(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Farm:
    """A lake and exports that all tests of this file share; each test goes on where the test before ended."""
    return Farm(spark, tmp_path_factory.mktemp("ingest"))


def odd_lines() -> list[bytes]:
    """Return the lines of entries 101 to 107, all with errors or unusual values."""
    return [
        servers_line(101, 2, at(101), (1, 2, 3), 2),
        record_line(102, 2, at(102), ADMIN),
        record_line(103, 2, at(103), b"\xff\xfe"),
        record_line(104, 2, at(104), text(date=at(104), id="1")),
        record_line(105, 2, at(105), text(date=1000)),
        record_line(106, 2, at(106), text(date=at(106), cluster="another")),
        b'{"index":107,"received":1,"record":{"a":\n',
    ]


def test_the_first_time(farm: Farm) -> None:
    data = content(lines(range(1, 101)), last=100)
    packed(farm.exports / "one", data)
    packed(farm.exports / "copy" / "of" / "one", data)
    plain(farm.exports / "one", content([*odd_lines(), *lines([108, 109], term=2)], first=101)[:-7], first=101)
    packed(farm.exports / "two", content(lines(range(51, 101), delay=80), first=51, last=100, server=2), first=51)
    packed(farm.exports / "y2026", content(lines(range(1, 6), cluster="2026"), last=5, cluster="2026"))
    clock = content(lines(range(1, 4), cluster="clock", delay=-at(0)), last=3, cluster="clock")
    packed(farm.exports / "clock", clock)
    cut = gzip.compress(content(lines(range(1, 2001), cluster="cut"), last=2000, cluster="cut"))
    packed(farm.exports / "cut", b"", suffix=GZIP).write_bytes(cut[: len(cut) // 2])
    packed(farm.exports / "none", b"no history\n")
    packed(Path(os.fsdecode(os.fsencode(farm.exports) + b"/t\xe9l\xe9")), data)

    steps: list[str] = []
    figures = farm.ingest(step=steps.append)
    assert len(steps) > 3
    assert (figures.files, figures.unchanged, figures.duplicates, figures.damaged) == (8, 0, 1, 2)
    assert farm.keys("farm") == sorted(
        [(index, 1) for index in range(1, 101)] + [(index, 2) for index in (*range(101, 107), 108)]
    )
    assert farm.keys("2026") == [(index, 1) for index in range(1, 6)]
    saved = len(farm.keys("cut"))
    assert farm.keys("cut") == [(index, 1) for index in range(1, saved + 1)]
    assert 900 < saved < 1100
    assert figures.new == len(farm.rows("entries")) == 107 + 5 + 3 + saved
    assert figures.known == figures.entries - figures.new == 100 + 50
    assert figures.kinds == {"status": 100 + 4 + 5 + 3 + saved, "admin": 1, "servers": 1, "other": 1}
    assert tuple(figures.kinds) == KINDS
    assert figures.misfits == 3 + 3
    assert farm.quarantine() == {
        ("directory", "the name of this directory is not in UTF-8"): 1,
        ("file", "it is the same as"): 1,
        ("file", "line 1"): 1,
        ("file", "its gzip is damaged"): 1,
        ("line", "it is not JSON in UTF-8"): 1,
        ("line", "it has no end"): 2,
        ("record", "id must be of type integer"): 1,
        ("record", "its date is before 2020"): 1,
        ("record", "it is of another farm"): 1,
        ("record", "the exporter's clock said that it was before 2020"): 3,
    }
    assert figures.quarantined_rows == sum(figures.quarantined.values()) == 13
    assert figures.lake_bytes > 0
    assert figures.read_bytes < figures.content_bytes


@pytest.mark.slow  # one more run; test_read_files.py goes on where files have grown, without Spark
def test_only_the_new_lines_of_a_file_that_has_grown_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    farm = Farm(spark, tmp_path)
    path = plain(farm.exports, content([*lines(range(1, 11)), b"a\0b\n"]))
    assert farm.ingest().new == 10
    assert [row["text"] for row in farm.rows("quarantine")] == ["a\ufffdb"]
    with path.open("ab") as file:
        file.write(b"".join(lines(range(11, 14))))
    figures = farm.ingest()
    assert (figures.lines, figures.entries, figures.new, figures.quarantined_rows) == (3, 3, 3, 0)
    assert figures.content_bytes < 4_000 < figures.read_bytes
    assert farm.keys("farm") == [(index, 1) for index in range(1, 14)]


@pytest.mark.slow  # one more run
def test_files_are_taken_in_batches_of_limited_size(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "BATCH_BYTES", 1)
    farm = Farm(spark, tmp_path)
    plain(farm.exports / "one", content(lines(range(1, 11))))
    plain(farm.exports / "two", content(lines(range(6, 16), delay=900), first=6, server=2), first=6)
    steps: list[str] = []
    figures = farm.ingest(step=steps.append)
    assert [step for step in steps if step.startswith("reading")] == ["reading 1 of 2 files", "reading 1 of 1 files"]
    assert (figures.entries, figures.new, len(farm.rows("files"))) == (20, 15, 2)
    assert farm.keys("farm") == [(index, 1) for index in range(1, 16)]


def test_the_rows(farm: Farm) -> None:
    rows = {row["index"]: row for row in farm.rows("entries") if row["farm"] == "farm"}
    assert rows[1]["day"] == "2026-09-21"
    assert rows[1]["received_ms"] == at(1) + 40
    assert rows[1]["record"]["destinations"][0]["up"] is True
    assert json.loads(rows[1]["value"]) == json.loads(status(1))
    assert (rows[101]["servers"], rows[101]["leader"], rows[101]["value"]) == ([1, 2, 3], 2, None)
    assert bytes(rows[103]["raw"]) == b"\xff\xfe"
    assert (rows[104]["record"], rows[104]["misfit"]) == (None, "id must be of type integer")
    records = [row for row in farm.rows("quarantine") if row["what"] == "record" and row["index"] == 104]
    assert [(row["farm"], row["source"].rpartition("/")[2]) for row in records] == [
        ("farm", "entries-00000000000000000101.jsonl")
    ]
    assert json.loads(records[0]["text"])["id"] == "1"
    assert records[0]["length"] == len(rows[104]["value"])
    assert {row["exporter"] for row in rows.values()} == {1}
    first = farm.spark.read.parquet(farm.lake.path("entries")).where("farm = 'farm' and day = '2026-09-21'")
    indexes = [row[0] for row in first.select("index").coalesce(1).collect()]
    assert indexes == sorted(indexes)


def test_nothing_new_is_nothing(farm: Farm) -> None:
    before = farm.rows("entries"), farm.rows("quarantine")
    figures = farm.ingest()
    assert (figures.files, figures.unchanged, figures.entries, figures.new) == (8, 8, 0, 0)
    assert (farm.rows("entries"), farm.rows("quarantine")) == before


def test_what_grows_is_packed_and_comes_late(farm: Farm) -> None:
    """The schema also has a field more than the schema before."""
    (farm.exports / "one" / "entries-00000000000000000101.jsonl").unlink()
    line = record_line(110, 2, at(110), text(date=at(110), battery=50))
    packed(
        farm.exports / "one",
        content([*odd_lines()[:6], *lines([107, 108, 109], term=2), line], first=101, last=110),
        first=101,
    )
    packed(farm.exports / "two", content(lines(range(1, 51)), last=50, server=2))
    packed(farm.exports / "late", content(lines(range(6, 8), cluster="2026"), first=6, last=7, cluster="2026"), first=6)
    grown = json.loads(schema_text())
    grown["properties"]["battery"] = {"type": "integer"}
    before = sum(farm.quarantine().values())
    figures = farm.ingest(schema_text=json.dumps(grown))
    assert (figures.unchanged, figures.new) == (7, 3 + 2)
    assert farm.keys("farm") == sorted(
        [(index, 1) for index in range(1, 101)] + [(index, 2) for index in range(101, 111)]
    )
    assert farm.keys("2026") == [(index, 1) for index in range(1, 8)]
    batteries = {row["index"]: row["record"]["battery"] for row in farm.rows("entries") if row["record"]}
    assert (batteries[110], batteries[1]) == (50, None)
    assert (figures.quarantined_rows, sum(farm.quarantine().values())) == (0, before)


@pytest.mark.slow  # the run that was killed half way is made good, too
def test_a_run_that_was_interrupted_is_made_good(farm: Farm) -> None:
    """The interrupted run had written the entries, and nothing else."""
    keys, quarantine = farm.keys("farm"), farm.quarantine()
    shutil.rmtree(farm.lake.path("files"))
    shutil.rmtree(farm.lake.path("quarantine"))
    figures = farm.ingest()
    assert (figures.unchanged, figures.new) == (0, 0)
    assert farm.keys("farm") == keys
    del quarantine["line", "it is not JSON in UTF-8"]  # these lines were in a file that is gone
    quarantine["line", "it has no end"] -= 1
    assert farm.quarantine() == quarantine


def test_where_there_is_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"none: there is no such directory. Give directories"):
        ingest(spark, Lake(str(tmp_path / "lake")), [str(tmp_path / "none")])
    with pytest.raises(PipelineError, match="There is no history under"):
        ingest(spark, Lake(str(tmp_path / "lake")), [str(tmp_path)])


def test_a_run_that_was_killed_half_way_is_gone_on_with(farm: Farm) -> None:
    """Some files are in their places, others are not whole yet."""
    keys = farm.keys("farm")
    lost, *others = sorted(Path(farm.lake.path("entries"), "farm=farm").rglob("*.parquet"))
    assert others
    left_over = Path(farm.lake.root, "_ingest", "killed", "unfinished")
    left_over.mkdir(parents=True)
    lost.rename(left_over / "part-00000-killed-0001.attempt")
    (left_over / "part-00000-killed-0002.attempt").write_bytes(b"PAR1")
    missing = len(keys) - len(farm.keys("farm"))
    assert missing > 0
    shutil.rmtree(farm.lake.path("files"))
    assert farm.ingest().new == missing
    assert not left_over.exists()
    assert farm.keys("farm") == keys


@pytest.mark.slow  # a thousand reasons; the line walk counts them, too
def test_what_is_quarantined_is_counted_however_many_reasons_there_are(spark: "SparkSession", tmp_path: Path) -> None:
    farm = Farm(spark, tmp_path)
    body = [record_line(index, 1, at(index), b"1") for index in range(1, 1_102)]
    plain(farm.exports, content([*body, *body]))
    figures = farm.ingest()
    rows = MAX_BAD_LINES + 1  # the last row counts the further bad lines of the file
    assert (figures.new, figures.quarantined_rows, len(farm.rows("quarantine"))) == (1_101, rows, rows)
    assert 0 < len(figures.quarantined) <= 50


@pytest.mark.slow  # the tests of line walk and columns read such lines, without Spark
def test_lines_and_clocks_that_no_file_should_have_end_no_run(spark: "SparkSession", tmp_path: Path) -> None:
    farm = Farm(spark, tmp_path)
    good, ahead = lines(range(1, 9)), 253_402_300_799_999
    odd = [
        b'{"index":9,"received":1,"record":"\xed\xa0\x80","term":1}\n',
        b'{"index":10,"received":1,"record":%b%b,"term":1}\n' % (b"[" * 960, b"]" * 960),
        record_line(11, 1, ahead, text(date=ahead)),
        record_line(12, 1, 2**53 - 1, text(date=2**53 - 1)),
    ]
    plain(farm.exports, content([*good, *odd, *lines(range(13, 15)), record_line(2**63 - 1, 1, at(15), b"1")]))
    figures = farm.ingest()
    assert [index for index, _ in farm.keys("farm")] == [*range(1, 9), *range(11, 15), 2**63 - 1]
    assert (figures.misfits, figures.damaged, figures.quarantined_rows) == (2, 1, 5)
    assert farm.ingest().unchanged == 1
