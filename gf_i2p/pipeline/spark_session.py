"""The Spark session of a job: on this machine, under spark-submit, or by Spark Connect; the jobs see no difference.

Memory has a bound whatever the data: Spark spills to the disk when its heap is full, and Python workers get batches of
limited rows.
"""

import errno
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gf_i2p.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_JAVA: Final = 17
DEFAULT_MEMORY_MB: Final = 2048
BATCH_ROWS: Final = 2_000
"""Rows of an Arrow batch: usually some megabytes of status records, at most 125 MiB, for a record has up to 64 KiB."""
_INSTALL_JAVA: Final = f"Spark needs Java {LEAST_JAVA} or newer: apt-get install default-jre-headless"

_NO_SPARK: Final = "The pipeline needs Spark ({}): pip install '.[spark]' in a checkout of gf-i2p."

# For every session, also on a cluster or a Connect server: Spark takes these settings while the JVM runs.
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.mergeSchema": "true",  # files from before a column existed lack that column
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # a farm may be called 2026
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
}
_LOGGING: Final = Path(__file__).with_name("log4j2.properties").as_uri()
_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
# Only for a JVM that gf-i2p starts: Spark reads these settings when the JVM starts.
_OF_OUR_OWN: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    _JVM_OPTIONS: f"-Dlog4j2.configurationFile={_LOGGING}",
    "spark.io.compression.codec": "zstd",
    "spark.sql.catalogImplementation": "in-memory",
}
FEW_ENTRIES: Final = 250_000
"""Most entries for a Spark that starts and plans quickly, at the cost of the time for each row."""
VERY_FEW_ENTRIES: Final = 40_000
"""Most entries for which to generate and compile Java for each query takes longer than to interpret the query."""
_FOR_FEW: Final = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}
_FOR_VERY_FEW: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# With few entries, the JVM compiles for a quick start, and not for speed.
_JVM_FOR_FEW: Final = "-XX:TieredStopAtLevel=1 -XX:MetaspaceSize=512m"
_JVM_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
# PySpark 4.3 runs with pandas 3, but warns of pandas 3 on import. No job uses pandas: Spark exchanges Arrow tables with
# Python.
_WARNS_OF_PANDAS_3: Final = "PySpark does not yet fully support pandas >= 3"
_RETYPED: Final = re.compile(r"SchemaColumnConvertNotSupportedException: column: \[([^\]]{1,200})\]")
NO_SPACE: Final = os.strerror(errno.ENOSPC)
"""The words by which Java and Python say that a disk is full."""
_NO_LOCALHOST: Final = (
    "Spark does not start: this machine has no address for the name localhost. Write the line `127.0.0.1 localhost` "
    "into /etc/hosts."
)
_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""These loggers write kilobytes of the JVM's stack to standard error, also for errors that the pipeline reports."""
# No other machine needs to reach a Spark that runs wholly here. On a cluster, the executors connect to the driver.
_OF_THIS_MACHINE: Final = {
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    # To list 10,950 directories by tasks took 82 s here, and 13 s without.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The way to Spark. By default this process starts a Spark of its own, on all cores of this machine."""

    master: str | None = None
    """As spark-submit's --master; None: `local[*]`, or the master that spark-submit has set."""
    remote: str | None = None
    """A Spark Connect server: sc://HOST:PORT."""
    memory_mb: int = DEFAULT_MEMORY_MB
    """MiB of heap of the JVM that this process starts. Python's workers need memory besides."""
    scratch: Path | None = None
    """Directory to which Spark spills; None: the system's directory for temporary files."""
    lake: str = ""
    """The place to which the job writes, for an error that names a full disk; empty: not known."""
    entries: int | None = None
    """About how many entries the job reads; None: not known, perhaps many."""
    settings: dict[str, str] = field(default_factory=dict)
    """More settings, by Spark's names."""


@contextmanager
def session(options: SessionOptions) -> Iterator["SparkSession"]:
    """Start Spark, and stop Spark at the end of the block.

    Raises `PipelineError` when Spark does not start, and when Spark fails within the block.
    """
    spark = start(options)
    from py4j.protocol import Py4JError  # noqa: PLC0415 -- py4j comes with Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        if NO_SPACE in str(error):
            raise PipelineError(no_space(options)) from error
        raise failed(error) from error
    finally:
        with suppress(PySparkException, Py4JError, OSError):  # the JVM itself may have failed
            spark.stop()


def start(options: SessionOptions) -> "SparkSession":
    """Start Spark, or join a running Spark. Raises `PipelineError` when there is no Spark, or no Java."""
    warnings.filterwarnings("ignore", _WARNS_OF_PANDAS_3, FutureWarning)
    try:
        from pyspark.errors import PySparkException  # noqa: PLC0415 -- an extra, and it takes seconds
        from pyspark.logger import PySparkLogger  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise PipelineError(_NO_SPARK.format(error)) from None
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    builder = SparkSession.builder.appName("gf-i2p")
    for name, value in (_SETTINGS | settings_for(options.entries)).items():
        builder = builder.config(name, value)
    if options.remote is not None:
        builder = builder.remote(options.remote)
    elif "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit, which has a JVM already, sets this variable
        _check_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers get the same Python
        if is_local(options):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for name, value in own_settings(options).items():
            builder = builder.config(name, value)
        builder = builder.master(options.master or "local[*]")
    elif options.master is not None:
        raise PipelineError("Under spark-submit, give --master to spark-submit and not to gf-i2p.")
    for name, value in options.settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except socket.gaierror as error:
        if options.remote is None and is_local(options):  # PySpark itself listens at this name
            raise PipelineError(_NO_LOCALHOST) from None
        raise not_started(options, error) from None
    except (PySparkException, RuntimeError, ValueError) as error:
        raise not_started(options, error) from None


def check_installed() -> None:
    """Check, without the seconds of a start, that Spark and a Java are there. Raises `PipelineError`."""
    if find_spec("pyspark") is None:
        raise PipelineError(no_package("pyspark"))
    _check_java()


def no_package(name: str | None) -> str:
    """Say what to do about a missing package of the extra `spark`."""
    return _NO_SPARK.format(f"there is no {name}")


def not_started(options: SessionOptions, error: Exception) -> PipelineError:
    """Return the error that says why Spark does not start.

    The text names only the host of a Connect address: the parameters after the host may hold a token.
    """
    remote = options.remote or ""
    address, *secrets = remote.split(";")
    reason = _reason(error).replace(remote, address) if remote else _reason(error)
    for secret in filter(None, secrets):
        reason = reason.replace(secret, "…")
    options_to_check = "--remote, and whether a server runs there" if remote else "--master, --memory and JAVA_HOME"
    place = address or options.master or "this machine"
    return PipelineError(f"Spark does not start on {place}: {reason}. Check {options_to_check}.")


def failed(error: Exception, doing: str = "") -> PipelineError:
    """Return the error that says how Spark has failed. `doing`: the step in which Spark failed."""
    when = f" while {doing}" if doing else ""
    if (retyped := _RETYPED.search(str(error))) is not None:
        column = retyped[1].replace(", ", ".")
        return PipelineError(
            f"A file of this lake has another type for {column} than this version of gf-i2p writes. Make a new lake of "
            "the exports with `gf-i2p pipeline ingest`, or use the version of gf-i2p that made this lake."
        )
    return PipelineError(
        f"Spark failed{when}: {_reason(error)}. Remove the cause, and run the job again. If memory or disk space "
        "is short, give more: --memory, or --scratch DIR on a larger disk."
    )


def no_space(options: SessionOptions) -> str:
    """Say how much room the disks have that the job has used. A part of the job's files may be gone already."""
    scratch = options.scratch or Path(tempfile.gettempdir())
    rooms = []
    for words, directory in ((f"the lake {options.lake}", Path(options.lake)), (f"Spark's data, {scratch}", scratch)):
        there = next((each for each in (directory, *directory.parents) if each.exists()), None)
        if directory.is_absolute() and there is not None:
            rooms.append(f"{shutil.disk_usage(there).free >> 20} MiB are free on the disk of {words}")
    return (
        f"A disk is full: {', and '.join(rooms) or 'see the disks of the cluster'}. Make room for the lake, or name a "
        "directory on a larger disk for Spark's data (--scratch DIR). Then run the job again: nothing is lost, and "
        "nothing is taken twice."
    )


def _reason(error: Exception) -> str:
    """Find the line with the reason in Spark's message: the first cause, or the error of a Python worker."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [
        line.removeprefix("Caused by: ")
        for line in lines
        if line.startswith("Caused by: ") or ("Error: " in line and not line.startswith("at "))
    ]
    causes = [line for line in causes if not line.endswith("Traceback (most recent call last):")]
    thrown = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (*causes[-1:], *thrown, *lines, type(error).__name__)[0].rstrip(".")[:1000]


def is_local(options: SessionOptions) -> bool:
    """Return whether a Spark that this process starts would run wholly on this machine."""
    return options.master is None or options.master.startswith("local")


def settings_for(entries: int | None) -> dict[str, str]:
    """Return the settings that save time with so many entries, by Spark's names. `entries`: None if not known."""
    if entries is None or entries > FEW_ENTRIES:
        return {}
    return _FOR_FEW | (_FOR_VERY_FEW if entries <= VERY_FEW_ENTRIES else {})


def own_settings(options: SessionOptions) -> dict[str, str]:
    """Return the settings for a JVM that this process starts, by Spark's names."""
    settings = _OF_OUR_OWN | {"spark.driver.memory": f"{options.memory_mb}m"}
    settings[_JVM_OPTIONS] = " ".join((settings[_JVM_OPTIONS], *_jvm_options(options)))
    if is_local(options):
        settings |= _OF_THIS_MACHINE
    if options.scratch is not None:
        settings["spark.local.dir"] = str(options.scratch)
    return settings


def _jvm_options(options: SessionOptions) -> list[str]:
    """Return options of the JVM that save time.

    The JVM does not start with two collectors, so the operator's choice counts. Pauses harm no job, and these two
    collectors take the least time of the processor.
    """
    are_few = options.entries is not None and options.entries <= FEW_ENTRIES
    found = [_JVM_FOR_FEW] if are_few else []
    if not any("GC" in os.environ.get(name, "") for name in _JVM_VARIABLES):
        found.append("-XX:+UseSerialGC" if are_few else "-XX:+UseParallelGC")
    return found


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    try:
        if java is None:
            raise FileNotFoundError
        command = [java, "-version"]  # the operator's own Java
        version_text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr  # noqa: S603
        version = version_text.split('"')[1].removeprefix("1.").split(".")[0]  # Java 8 calls itself 1.8.0
    except (OSError, subprocess.SubprocessError, IndexError):
        if home:
            raise PipelineError(
                f"JAVA_HOME is {home}, and {java} is no working Java: set JAVA_HOME to a Java's directory, or unset "
                f"it. {_INSTALL_JAVA}"
            ) from None
        raise PipelineError(f"No working Java was found. {_INSTALL_JAVA}") from None
    if not version.isdigit() or int(version) < LEAST_JAVA:
        raise PipelineError(f"{java} is Java {version}. {_INSTALL_JAVA}, or set JAVA_HOME.")
