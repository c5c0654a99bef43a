"""Ways to reach Spark, and a quiet start."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.spark_session import (
    FEW_ENTRIES,
    VERY_FEW_ENTRIES,
    SessionOptions,
    failed,
    not_started,
    own_settings,
    settings_for,
    start,
)
from tests.tier import mostly_slow


@pytest.mark.parametrize("master", [None, "local", "local[2]", "local[*]"])
def test_a_spark_of_this_machine_listens_on_loopback_only(master: str | None) -> None:
    settings = own_settings(SessionOptions(master, memory_mb=1024, scratch=Path("/big")))
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.driver.host"] == "localhost"
    assert settings["spark.driver.memory"] == "1024m"
    assert settings["spark.local.dir"] == "/big"


@pytest.mark.parametrize("master", ["spark://192.0.2.1:7077", "yarn", "k8s://https://192.0.2.1:6443"])
def test_the_executors_of_a_cluster_can_call_the_driver(master: str) -> None:
    settings = own_settings(SessionOptions(master))
    assert "spark.driver.host" not in settings
    assert "spark.driver.bindAddress" not in settings
    assert "spark.local.dir" not in settings


def test_a_java_has_one_collector_and_writes_a_quiet_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def options(entries: int | None) -> str:
        return own_settings(SessionOptions(entries=entries))["spark.driver.extraJavaOptions"]

    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    for entries, collector in ((None, "Parallel"), (FEW_ENTRIES + 1, "Parallel"), (FEW_ENTRIES, "Serial")):
        assert re.findall(r"Use(\w+)GC", options(entries)) == [collector]
        assert "log4j2.properties" in options(entries)
    assert "TieredStopAtLevel=1" in options(FEW_ENTRIES)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseZGC")  # with two collectors, Java does not start
    assert "GC" not in options(None) + options(FEW_ENTRIES)


def test_the_fewer_entries_the_less_is_prepared() -> None:
    very_few, few = settings_for(VERY_FEW_ENTRIES), settings_for(VERY_FEW_ENTRIES + 1)
    assert very_few["spark.sql.codegen.wholeStage"] == few["spark.sql.adaptive.enabled"] == "false"
    assert few.items() < very_few.items()
    assert settings_for(FEW_ENTRIES) == few
    assert settings_for(FEW_ENTRIES + 1) == settings_for(None) == {}


def test_under_spark_submit_a_master_of_ours_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(PipelineError, match="not to gf-i2p"):
        start(SessionOptions("local[2]"))


def test_a_token_in_an_address_is_not_repeated() -> None:
    options = SessionOptions(remote="sc://farm.example:15002/;use_ssl=true;token=secret-word")
    for error in (
        RuntimeError(f"cannot reach {options.remote}"),
        RuntimeError("bad parameter token=secret-word"),
        RuntimeError(""),
    ):
        text = str(not_started(options, error))
        assert "secret-word" not in text
        assert text.startswith("Spark does not start on sc://farm.example:15002/: ")
        assert text.endswith("Check --remote, and whether a server runs there.")
    assert str(not_started(SessionOptions(), RuntimeError("why\nat x"))).startswith(
        "Spark does not start on this machine: why. Check --master"
    )


def test_a_machine_without_the_name_localhost_is_told_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_name(builder: object) -> SparkSession:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", no_name)
    with pytest.raises(PipelineError, match=r"no address for the name localhost.* /etc/hosts"):
        start(SessionOptions())


def test_an_error_is_raised_and_not_logged_too(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnalysisException):
        spark.range(1).select(fn.struct("id").alias("record")).select(fn.col("record.nothing"))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "remote",
    mostly_slow(["sc://[::1", "http://farm.example;token=secret-word"], "http://farm.example;token=secret-word"),
)
def test_an_address_that_is_none_is_said(remote: str, tmp_path: Path) -> None:
    """In a separate process: after a request for a Connect server, a process cannot have another Spark."""
    command = [sys.executable, "-m", "gf_i2p.cli.main", "pipeline", "health", str(tmp_path), "--remote", remote]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 1
    assert "Spark does not start on " in json.loads(done.stdout)["error"]
    assert "secret-word" not in done.stdout + done.stderr
    assert "Warning" not in done.stderr


STARTS = """
import sys
from pathlib import Path
from gf_i2p.pipeline.spark_session import SessionOptions, session
with session(SessionOptions(master="local[1]", memory_mb=512, scratch=Path(sys.argv[1]))) as spark:
    print(spark.range(3).count())
    print("ours", file=sys.stderr)
"""
# Java says so whenever Spark starts, and no option ends the message.
INCUBATOR = "WARNING: Using incubator modules: jdk.incubator.vector\n"


@pytest.mark.timeout(600)
@pytest.mark.slow  # a second JVM
def test_spark_starts_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    assert (done.stdout, done.stderr.replace(INCUBATOR, "")) == ("3\n", "ours\n")


def test_a_column_of_another_type_is_named_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    spark.range(1).select(
        fn.struct(fn.struct(fn.lit("12").alias("jobLag")).alias("router")).alias("record")
    ).write.parquet(path)
    frame = spark.read.schema("record struct<router struct<jobLag double>>").parquet(path)
    with pytest.raises(Exception, match="SchemaColumnConvertNotSupported") as raised:
        frame.collect()
    message = str(failed(raised.value))
    assert message.startswith("A file of this lake has another type for record.router.jobLag than this version")
    assert "Make a new lake of the exports" in message
