"""Tells how far Spark is, as lines of text: asks the driver now and then, or a Connect server reports."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_SECONDS: Final = 0.5


class Steps:
    """The job's present step, and how many of Spark's tasks are done in that step."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()  # a thread asks Spark
        self._doing = ""

    def __call__(self, doing: str) -> None:
        """Begin a step."""
        with self._lock:
            self._doing = doing
            self._say(doing)

    def tasks(self, done: int, count: int) -> None:
        """Take in how far the step is."""
        with self._lock:
            if count and self._doing:
                self._say(f"{self._doing}: {done} of {count} tasks")


@contextmanager
def watched(spark: "SparkSession", say: Callable[[str], None]) -> Iterator[Steps]:
    """Watch Spark meanwhile; give the object that a job calls at each step. `say`: a thread may call this function."""
    steps = Steps(say)
    if type(spark).__module__.startswith("pyspark.sql.connect"):  # the only place that tells the two kinds apart

        def hear(stages: Any, *_: Any, **__: Any) -> None:
            steps.tasks(sum(each.num_completed_tasks for each in stages), sum(each.num_tasks for each in stages))

        server: Any = spark  # a later Spark may pass more arguments to a handler, so the handler takes any
        server.registerProgressHandler(hear)
        try:
            yield steps
        finally:
            server.removeProgressHandler(hear)
        return
    ended = threading.Event()
    thread = threading.Thread(target=_ask, args=(spark, steps, ended), name="progress", daemon=True)
    thread.start()
    try:
        yield steps
    finally:
        ended.set()
        thread.join()


def _ask(spark: "SparkSession", steps: Steps, ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(EVERY_SECONDS):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # noqa: BLE001 -- the gateway raises anything when its JVM ends: nothing is left to tell
            return
        known = [stage for stage in stages if stage is not None]
        steps.tasks(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))
