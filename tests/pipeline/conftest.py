"""One Spark for all tests of the pipeline."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gf_i2p.pipeline.session import SessionOptions, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Two cores, and as many partitions: more would take most of the time."""
    options = SessionOptions(
        master="local[2]",
        memory_mb=1024,
        scratch=tmp_path_factory.mktemp("spark"),
        more={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    with session(options) as made:
        yield made
