"""`gf-i2p pipeline run` and `try`: the order of the jobs, the progress and the output; no test starts Spark."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gf_i2p.cli.main import main
from gf_i2p.cli.pipeline import run as command
from gf_i2p.cli.pipeline import try_out
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import Exit
from gf_i2p.cli.shared.terminal import ProgressLine
from gf_i2p.pipeline.backtest.recommendation import LEAST_DAYS as LEAST_BACKTEST_DAYS
from gf_i2p.pipeline.errors import NothingToDoError, PipelineError
from gf_i2p.pipeline.lake.locks import tables_locked
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.spark_session import SessionOptions
from gf_i2p.pipeline.synth.labelled_farm import LEAST_DAYS, LabelledFigures

RUN = ("pipeline", "run", "lake", "exports", "--report", "page.html")
JOBS = ("ingest", "health", "backtest", "report")


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Work in `tmp_path`, with jobs that only note their calls; `outcomes` has errors that a job raises."""
    monkeypatch.chdir(tmp_path)
    seen = SimpleNamespace(calls=[], sessions=[], outcomes={})

    def job(name: str) -> Any:
        def work(spark: object, steps: object, lake: Lake, *more: Any, brief: bool = False) -> Answer:
            with pytest.raises(PipelineError), tables_locked(lake, "health"):
                pytest.fail("the tables are not locked")
            seen.calls.append((name, *more))
            if name in seen.outcomes:
                raise seen.outcomes[name]
            return Answer({"rows": 1}, f"result of {name}")

        return work

    @contextmanager
    def started(
        options: SessionOptions, progress: command.JobProgress, exports: list[str]
    ) -> Iterator[tuple[object, object]]:
        seen.sessions.append((options.lake, exports))
        progress("starting Spark", at_once=True)
        yield object(), lambda step: None

    monkeypatch.setattr(command, "started", started)
    monkeypatch.setattr(command, "_ingest", job("ingest"))
    monkeypatch.setattr(command, "_backtest", job("backtest"))
    monkeypatch.setattr("gf_i2p.cli.pipeline.health.work", job("health"))
    monkeypatch.setattr("gf_i2p.cli.pipeline.report.work", job("report"))
    return seen


def test_all_jobs_run_in_order_with_one_spark(jobs: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RUN) == Exit.OK
    assert jobs.calls == [("ingest", ["exports"]), ("health",), ("backtest",), ("report", Path("page.html"))]
    assert jobs.sessions == [(Lake("lake").root, ["exports"])], "one start of Spark, which looks at these sizes"
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "starting Spark", "1 of 4: ingest", "2 of 4: health", "3 of 4: backtest", "4 of 4: report",
    ]  # fmt: skip
    assert out.split("\n\n")[0] == "Ingest\nresult of ingest"
    assert out.split("\n\n")[-1] == "Report\nresult of report\n"


def test_a_job_without_work_stops_no_other_job(jobs: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.outcomes = {name: NothingToDoError(f"no rows for {name}") for name in ("health", "backtest")}
    assert main([*RUN, "--json"]) == Exit.OK
    out = json.loads(capsys.readouterr().out)
    assert [name for name, *_ in jobs.calls] == [*JOBS]
    assert out["backtest"] == {"nothing_to_do": "no rows for backtest"}
    assert out["report"] == {"rows": 1}


def test_a_job_that_fails_ends_the_run(jobs: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.outcomes = {"health": PipelineError("the disk is full")}
    assert main(RUN) == Exit.FAILED
    assert [name for name, *_ in jobs.calls] == ["ingest", "health"]
    assert "the disk is full" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_told_before_the_work(
    jobs: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN[:-1], "none/page.html"]) == Exit.FAILED
    assert "Choose another place with --report." in capsys.readouterr().err
    assert not jobs.sessions


def test_a_terminal_shows_the_step_of_the_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with ProgressLine() as line:
        progress = command.JobProgress(line)
        progress("starting Spark", at_once=True)
        progress.begin("health")
        progress("making anomalies", at_once=True)
    shown = capsys.readouterr().err.replace("\x1b[K", "").split("\r")
    assert [text for text in shown if text] == [
        "starting Spark", "2 of 4: health", "2 of 4: health: making anomalies",
    ]  # fmt: skip


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the addresses that a browser would open. The farm is a stand-in: to make a real one takes seconds."""
    addresses: list[str] = []

    def note(address: str) -> bool:
        addresses.append(address)
        return True

    def write(out: Path, climate: str, farms: int, days: int, *_: object) -> LabelledFigures:
        assert (climate, farms) == ("usual", 1)
        assert days >= max(LEAST_DAYS, LEAST_BACKTEST_DAYS)
        (out / "farm-0").mkdir()
        return LabelledFigures(farms, days, 60_000, 8)

    monkeypatch.setattr("gf_i2p.pipeline.synth.labelled_farm.write_labelled", write)
    monkeypatch.setattr(try_out, "check_installed", lambda: None)  # also without Java
    monkeypatch.setattr("webbrowser.open", note)
    monkeypatch.setenv("DISPLAY", ":0")
    return addresses


def test_try_makes_up_a_farm_and_opens_the_report(
    jobs: SimpleNamespace, opened: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["pipeline", "try"]) == Exit.OK
    assert [name for name, *_ in jobs.calls] == [*JOBS]
    assert jobs.calls[-1] == ("report", Path("gf-i2p-try/report.html"))
    assert [each.name for each in (tmp_path / "gf-i2p-try" / "exports").iterdir()] == ["farm-0"]
    assert opened == [(tmp_path / "gf-i2p-try" / "report.html").as_uri()]
    out, err = capsys.readouterr()
    assert err.splitlines()[0] == "making up a farm"
    assert "This farm is made up" in out
    assert str(tmp_path / "gf-i2p-try" / "report.html") in out
    assert "gf-i2p pipeline run lake exports --report report.html" in out
    assert main(["pipeline", "try"]) == Exit.FAILED, "the directory holds a farm already"


def test_without_a_display_the_place_of_the_report_is_told(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert main(["pipeline", "try", "here", "--json"]) == Exit.OK
    assert not opened
    assert json.loads(capsys.readouterr().out)["page"] == os.fspath(tmp_path / "here" / "report.html")


def test_without_java_try_makes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", os.fspath(tmp_path / "no-java"))
    assert main(["pipeline", "try"]) == Exit.FAILED
    assert "JAVA_HOME is" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]
