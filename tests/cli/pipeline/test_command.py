"""`gf-i2p pipeline`: the message of every job that cannot do its work; no test starts Spark."""

import argparse
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from gf_i2p.cli.main import main
from gf_i2p.cli.pipeline import spark_job
from gf_i2p.cli.pipeline.jobs import _JOBS as COMMANDS_OF_JOBS
from gf_i2p.cli.pipeline.jobs import COMMANDS
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.spark_session import SessionOptions, session


class FakeSpark:
    """Counts the calls of stop; the JVM has died, and stop fails, too."""

    stopped = 0

    def stop(self) -> None:
        self.stopped += 1
        raise ConnectionRefusedError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in `tmp_path`: a job may make the lake there."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["health", "lake", "--since", "yesterday"], "write YYYY-MM-DD"),
        (["health", "lake", "--since", "2025-01-02", "--until", "2025-01-01"], "give the earlier day as --since"),
        (["report", "lake", "--out", "page.html", "--until", "2025-02-30"], "write YYYY-MM-DD"),
        (["backtest", "lake", "--set", "margin=no"], "No farm can have the parameters margin=no"),
        (["backtest", "lake", "--set", "republishMaxMs=1"], "leave republishMaxMs out"),
        (["backtest", "lake", "--weight", "chance=1"], "'chance' is no weight; choose from change, "),
        (["backtest", "lake", "--grid", "file"], "file is not TOML"),
        (["floodfills", "lake", "--netdb", "x", "--hashes", "file"], "file: line 1: "),
    ],
)
def test_an_argument_of_the_wrong_kind_is_a_mistake_of_usage(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("nonsense!\n")
    assert main(["pipeline", *words]) == Exit.USAGE
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("job", ["backtest", "report"])
@pytest.mark.parametrize(("out", "why"), [("none/page", "no directory none"), ("", "it is a directory")])
def test_a_place_where_nothing_can_be_written_is_told_before_the_work(
    job: str, out: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gf_i2p.pipeline.spark_session.start", lambda options: pytest.fail("the work has begun"))
    assert main(["pipeline", job, "lake", "--out", out or str(tmp_path)]) == Exit.FAILED
    told = capsys.readouterr().err
    assert why in told
    assert "Choose another place with --out." in told


def test_what_fails_later_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(options: argparse.Namespace) -> Exit:
        raise PipelineError("there is nothing")

    monkeypatch.setattr("gf_i2p.cli.pipeline.report.run", fails)
    with pytest.raises(CommandError, match="there is nothing") as error:
        COMMANDS["report"].run(argparse.Namespace(lake="lake", remote=None))
    assert error.value.code is Exit.FAILED


SPARK_SAID = """An error occurred while calling o123.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2856)
Caused by: java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
\t... 1 more
"""
PYTHON_SAID = """Traceback (most recent call last):
  File "closest.py", line 1, in find_in
OSError: the disk is gone
"""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (SPARK_SAID.replace("No space left on device", "broken"), "java.io.IOException: broken"),
        (PYTHON_SAID, "OSError: the disk is gone"),
        (f"{SPARK_SAID.splitlines()[0]}\nCaused by: PythonException: {PYTHON_SAID}", "OSError: the disk is gone"),
        ("[TABLE] is odd. SQLSTATE: 42000\nmore", r"\[TABLE\] is odd. SQLSTATE: 42000"),
        ("", "PySparkException"),
    ],
)
def test_what_spark_fails_with_is_one_sentence_and_what_to_do(
    said: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkException

    spark = FakeSpark()
    monkeypatch.setattr("gf_i2p.pipeline.spark_session.start", lambda options: spark)
    told = rf"^Spark failed: {why}\. .*--memory.*--scratch"
    with pytest.raises(PipelineError, match=told) as error, session(SessionOptions()):
        raise PySparkException(said)
    assert "\n" not in str(error.value)
    assert spark.stopped == 1


def test_what_spark_does_not_translate_is_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.protocol import Py4JError

    spark = FakeSpark()
    monkeypatch.setattr("gf_i2p.pipeline.spark_session.start", lambda options: spark)
    told = r"^Spark failed: java\.io\.IOException: Input/output error"
    with pytest.raises(PipelineError, match=told), session(SessionOptions()):
        raise Py4JError(SPARK_SAID.replace("No space left on device", "Input/output error"))
    assert spark.stopped == 1


def test_a_full_disk_is_named_with_the_room_that_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.protocol import Py4JError

    monkeypatch.setattr("gf_i2p.pipeline.spark_session.start", lambda options: FakeSpark())
    lake, scratch = tmp_path / "lake", tmp_path / "scratch"
    scratch.mkdir()
    room = r"\d+ MiB are free on the disk of"
    told = rf"^A disk is full: {room} the lake {lake}, and {room} Spark's data, {scratch}\."
    with pytest.raises(PipelineError, match=told), session(SessionOptions(scratch=scratch, lake=str(lake))):
        raise Py4JError(SPARK_SAID)
    told = rf"^A disk is full: {room} Spark's data, {scratch}\."
    with (
        pytest.raises(PipelineError, match=told),
        session(SessionOptions(scratch=scratch, lake="s3a://bucket/lake")),
    ):
        raise Py4JError(SPARK_SAID)


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ('openjdk version "1.8.0_392"', "java is Java 8. Spark needs Java 17 or newer"),
        ('java version "11.0.2"', "java is Java 11. "),
        ("nothing", "JAVA_HOME is {home}, and {home}/bin/java is no working Java: set JAVA_HOME"),
    ],
)
def test_a_java_that_does_not_do_is_named(
    says: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with pytest.raises(PipelineError) as error, session(SessionOptions()):
        pass
    assert told.format(home=tmp_path) in str(error.value)


def test_without_spark_it_is_said_from_where_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    told = r"pip install '\.\[spark\]' in a checkout of gf-i2p"
    with pytest.raises(PipelineError, match=told), session(SessionOptions()):
        pytest.fail("there is no Spark")


@pytest.mark.parametrize(
    "words",
    [
        ["ingest", "lake", "exports"],
        ["health", "lake"],
        ["backtest", "lake"],
        ["floodfills", "lake", "--netdb", "netDb"],
        ["stream", "lake", "exports"],
        ["report", "lake", "--out", "page.html"],
    ],
)
def test_who_waits_for_spark_to_start_is_told(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def starts(options: SessionOptions) -> None:
        assert capsys.readouterr().err.endswith("starting Spark\r")
        raise PipelineError("there is no Java")

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("gf_i2p.pipeline.spark_session.start", starts)
    assert main(["pipeline", *words]) == Exit.FAILED
    assert capsys.readouterr().err == "\r\x1b[Kgf-i2p: there is no Java\n"


def test_a_credential_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pipeline", "post", "lake", "--farm", "web", "--admin", "admin-joe.toml", "--sensing", "--dry-run"]
    assert main(words) == Exit.FAILED
    assert "There is no file admin-joe.toml: gf-i2p init makes such a file" in capsys.readouterr().err


def test_the_start_of_spark_is_told_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_job, "_AGAIN_SECONDS", 0.001)
    told: list[str] = []
    heard_again = threading.Event()

    def progress(text: str, *, at_once: bool = False) -> None:
        told.append(text)
        if not at_once:
            heard_again.set()

    with spark_job.repeated(progress, "starting Spark"):
        assert heard_again.wait(30)
    count = len(told)
    assert told[:2] == ["starting Spark", "starting Spark, 0 s"]
    assert not any(thread.name == "progress" for thread in threading.enumerate())
    assert len(told) == count


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "numpy"])
@pytest.mark.parametrize("words", [["health", "lake"], ["ingest", "lake", "exports"], ["try", "place"]])
def test_without_the_extra_a_job_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], package: str
) -> None:
    """The name of the missing package stands in the message, whichever part of the job needs the package first."""

    def missing(*_: object) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setitem(COMMANDS_OF_JOBS, words[0], SimpleNamespace(run=missing))
    Path("exports").mkdir()
    assert main(["pipeline", *words]) == Exit.FAILED
    assert f"there is no {package}): pip install" in capsys.readouterr().err
