"""People who wait for Spark hear about the progress."""

import threading
from typing import TYPE_CHECKING

from gf_i2p.pipeline.spark_progress import Steps, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_is_said() -> None:
    texts: list[str] = []
    steps = Steps(texts.append)
    steps.tasks(1, 2)
    steps("reading")
    steps.tasks(0, 0)
    steps.tasks(1, 2)
    assert not steps.is_resting
    steps("")  # a stream waits for the next batch
    steps.tasks(1, 2)
    assert steps.is_resting
    assert texts == ["reading", "reading: 1 of 2 tasks"]


def test_tasks_are_counted_while_they_run(spark: "SparkSession") -> None:
    heard = threading.Event()
    texts: list[str] = []

    def say(text: str) -> None:
        texts.append(text)
        if "tasks" in text:
            heard.set()

    with watched(spark, say) as steps:
        steps("counting")
        count = 0
        while not heard.is_set():  # on a fast machine one job may end before the progress is read
            count += spark.range(30_000_000).selectExpr("sum(hash(id))").count()
    assert texts[0] == "counting"
    assert any(text.startswith("counting: ") and text.endswith(" tasks") for text in texts)
    assert not any(thread.name == "progress" for thread in threading.enumerate())
