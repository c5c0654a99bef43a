"""`gf-i2p pipeline ingest`: the arguments, and the output."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from gf_i2p.cli.main import main
from gf_i2p.cli.pipeline import spark_job
from gf_i2p.pipeline import spark_progress
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.ingest import job
from gf_i2p.pipeline.ingest.job import IngestFigures
from gf_i2p.pipeline.lake.paths import Lake

FIGURES = IngestFigures(
    files=5, unchanged=1, duplicates=1, damaged=1, lines=1200, entries=1000, new=600, known=400,
    kinds={"status": 598, "admin": 2, "servers": 0, "other": 0}, misfits=3,
    quarantined={"record: id must be of type integer": 3, "file: it is the same as /x\x1b[2J": 1}, quarantined_rows=4,
    read_bytes=12_345, content_bytes=123_456, lake_bytes=9_999, seconds=2.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in `tmp_path`: a job may make the lake there."""
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, outcome: Any = FIGURES) -> tuple[int, str]:
    """Run the command with a job that only returns, or raises, something."""

    def stand_in(spark: object, lake: Lake, exports: list[str], *, step: Any) -> IngestFigures:
        assert (lake, exports) == (Lake("lake"), ["a", "b"])
        if isinstance(outcome, Exception):
            raise outcome
        step("reading")
        return FIGURES

    with (
        patch.object(spark_job, "session", lambda options: nullcontext(object())),
        patch.object(spark_progress, "watched", lambda spark, say: nullcontext(say)),
        patch.object(job, "ingest", stand_in),
    ):
        code = main(["pipeline", "ingest", "lake", "a", "b", *arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys)
    assert code == 0
    assert out.splitlines() == [
        "files       5: 4 read, 1 unchanged, 1 the same as other files, 1 with faults",
        "entries     1,000 in 1,200 lines: 600 new, 400 known",
        "new         598 status, 2 admin; 3 status records are not believed",
        "quarantine  4 new rows",
        "            3 × record: id must be of type integer",
        out.splitlines()[5],
        "bytes       12,345 read, 123,456 unpacked; the lake's entries take 9,999",
        "time        2.0 s, 500 entries a second",
    ]
    assert "\x1b" not in out


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "--json")
    answer = json.loads(out)
    assert (code, answer["ok"], answer["new"], answer["rows_per_second"]) == (0, True, 600, 500.0)
    assert answer["kinds"] == FIGURES.kinds


def test_what_goes_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, outcome=PipelineError("There is no history under a."))
    assert code == 1
    assert "There is no history under a." in out


def test_an_export_is_needed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["pipeline", "ingest", str(tmp_path)])
    assert "EXPORT" in capsys.readouterr().err
