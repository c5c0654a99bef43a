"""One Spark for all tests of the pipeline."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gf_i2p.pipeline.session import SessionOptions, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS = 600
"""The first test waits for Spark to start, and later ones make some dozens of small jobs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that use Spark more time; pytest ignores a conftest's `pytestmark`."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(_SECONDS))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Two cores, and as many partitions: more would take most of the time, and so would compiling for speed."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    options = SessionOptions(
        master="local[2]",
        memory_mb=1024,
        scratch=tmp_path_factory.mktemp("spark"),
        more={
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    with session(options) as made:
        yield made
