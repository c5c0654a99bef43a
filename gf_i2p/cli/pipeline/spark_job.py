"""Spark for a job of `gf-i2p pipeline`, and how far it is, on a terminal."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gf_i2p.cli.pipeline.arguments import session_options
from gf_i2p.cli.shared.terminal import Progress
from gf_i2p.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gf_i2p.pipeline.spark_progress import Steps


@contextmanager
def working(options: argparse.Namespace, progress: Progress) -> Iterator[tuple["SparkSession", "Steps"]]:
    """Start Spark as `options` has it, and stop it at the end; give also what a job calls at each of its steps.

    Raises `PipelineError`, also for what Spark fails with meanwhile.
    """
    progress("starting Spark", at_once=True)  # it always takes seconds
    with session(session_options(options)) as spark:
        from gf_i2p.pipeline.spark_progress import watched  # noqa: PLC0415 -- needs Spark

        with watched(spark, progress) as steps:
            yield spark, steps
