"""Starts Spark for a job of `gf-i2p pipeline`, and shows the job's progress on a terminal."""

import argparse
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from gf_i2p.cli.pipeline.arguments import session_options
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.spark_session import SessionOptions, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gf_i2p.pipeline.spark_progress import Steps

_AGAIN_SECONDS: Final = 1.0


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
    tuned for few entries. None: Spark is not tuned. Raises `PipelineError`, also for an error of Spark in between.
    """
    with ExitStack() as stack:
        with repeated(progress, "starting Spark"):
            if exports is not None:
                from gf_i2p.pipeline.lake.expected_entries import expected_entries  # noqa: PLC0415 -- needs pyarrow

                options = replace(options, entries=expected_entries(Lake(options.lake), exports))
            spark = stack.enter_context(session(options))
        from gf_i2p.pipeline.spark_progress import watched  # noqa: PLC0415 -- needs Spark

        yield spark, stack.enter_context(watched(spark, progress))


@contextmanager
def repeated(progress: Progress, text: str) -> Iterator[None]:
    """Show a text at once, and until the end of the block again and again with the seconds that have passed.

    Java writes a line of its own over the text.
    """
    progress(text, at_once=True)
    began, ended = time.monotonic(), threading.Event()

    def repeat() -> None:
        while not ended.wait(_AGAIN_SECONDS):
            progress(f"{text}, {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
