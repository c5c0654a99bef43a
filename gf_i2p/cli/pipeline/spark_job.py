"""Starts Spark for a job of `gf-i2p pipeline`, and shows the job's progress on a terminal."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from gf_i2p.cli.pipeline.arguments import session_options
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.spark_session import SessionOptions, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gf_i2p.pipeline.spark_progress import Steps


class Progress(Protocol):
    """Shows a text that says what is being done. `gf_i2p.cli.shared.terminal.ProgressLine` is one."""

    def __call__(self, text: str, *, at_once: bool = False) -> None:
        """Show the text, perhaps not when another text came a moment ago. `at_once`: always show the text."""


@contextmanager
def working(
    options: argparse.Namespace, progress: Progress, exports: Sequence[str] | None = None
) -> Iterator[tuple["SparkSession", "Steps"]]:
    """Start Spark with the options of `add_spark`, as `started` does."""
    with started(session_options(options), progress, exports) as (spark, steps):
        yield spark, steps


@contextmanager
def started(
    options: SessionOptions, progress: Progress, exports: Sequence[str] | None = None
) -> Iterator[tuple["SparkSession", "Steps"]]:
    """Start Spark with these options, and stop Spark at the end. Yield Spark and the function that shows a job's steps.

    `exports`: directories of histories that the job reads besides the lake's entries. If all these are small, Spark is
    tuned for few rows. None: Spark is not tuned. Raises `PipelineError`, also for an error of Spark in between.
    """
    progress("starting Spark", at_once=True)  # Spark always needs seconds to start
    if exports is not None:
        from gf_i2p.pipeline.lake.few_rows import are_few  # noqa: PLC0415 -- needs pyarrow, which takes a second

        options = replace(options, few_rows=are_few(Lake(options.lake), exports))
    with session(options) as spark:
        from gf_i2p.pipeline.spark_progress import watched  # noqa: PLC0415 -- needs Spark

        with watched(spark, progress) as steps:
            yield spark, steps
