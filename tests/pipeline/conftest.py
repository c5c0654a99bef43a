"""One Spark for all tests of the pipeline."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from gf_i2p.pipeline.spark_session import SessionOptions, session
from integration.harness import spark_jvm
from tests.tier import is_everything

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS = 600
"""The first test waits for Spark to start, and later ones make some dozens of small jobs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the one Spark, and give each its time; a conftest's `pytestmark` has no effect."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(_SECONDS))
            item.add_marker(pytest.mark.spark)


_FOR_FEW_ROWS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    # Planning takes nearly all of a query's time. Generating and compiling Java for a query would take as long.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Spark would note the line of Python that each column comes from.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Start the one Spark, tuned for few rows. With `GF_I2P_TIER=all` Spark plans and compiles as for users."""
    os.environ.setdefault(spark_jvm.VARIABLE, spark_jvm.FOR_FEW_ROWS)
    options = SessionOptions(
        master="local[2]",
        memory_mb=1024,
        scratch=tmp_path_factory.mktemp("spark"),
        settings={
            **({"spark.sql.shuffle.partitions": "2"} if is_everything() else _FOR_FEW_ROWS),
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    with session(options) as spark:
        yield spark
