"""`gf-i2p pipeline run` with the real jobs: a history becomes a report."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gf_i2p.cli.pipeline import run as command
from gf_i2p.cli.shared.terminal import ProgressLine
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.spark_session import SessionOptions
from tests.pipeline.made_up_exports import content, lines, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow  # four jobs, each tested alone too; the quick sister is tests/cli/pipeline/test_run.py
def test_a_history_becomes_a_report(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def started(*_: object) -> Iterator[tuple["SparkSession", object]]:
        yield spark, lambda step: None

    monkeypatch.setattr(command, "started", started)
    plain(tmp_path / "exports" / "server-1", content(lines(range(1, 40))))
    lake, page = Lake(str(tmp_path / "lake")), tmp_path / "report.html"
    answer = command.run_jobs(
        SessionOptions(), lake, [str(tmp_path / "exports")], page, command.JobProgress(ProgressLine())
    )
    assert [*answer.data] == ["ingest", "health", "backtest", "report"]
    assert answer.data["ingest"]["new"] == answer.data["backtest"]["entries"] == answer.data["health"]["records"] == 39
    assert answer.data["report"]["file"] == str(page)
    assert "Nothing is recommended" in answer.text
    assert "backtest_days" not in answer.data["report"]["missing"]
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
