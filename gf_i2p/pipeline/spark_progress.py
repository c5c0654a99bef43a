"""Reports how far Spark is, as lines of text.

If Spark's driver runs in this process, a thread asks the driver every `EVERY_SECONDS`. A Connect server reports without
being asked.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_SECONDS: Final = 0.5


class Steps:
    """Reports the job's present step, and how many of Spark's tasks are done in that step."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()  # the thread that asks Spark calls `tasks`
        self._doing = ""

    def __call__(self, doing: str) -> None:
        """Begin the step `doing`; "" ends the last step, and nothing is reported until the next step."""
        with self._lock:
            self._doing = doing
            if doing:
                self._say(doing)

    @property
    def is_resting(self) -> bool:
        """Whether there is no present step. Then Spark is not asked, because even questions take processor time."""
        return not self._doing

    def tasks(self, done: int, count: int) -> None:
        """Report that `done` of `count` tasks are done. Says nothing before the first step, or without tasks."""
        with self._lock:
            if count and self._doing:
                self._say(f"{self._doing}: {done} of {count} tasks")


@contextmanager
def watched(spark: "SparkSession", say: Callable[[str], None]) -> Iterator[Steps]:
    """Report Spark's progress until the end of the block. Yield the object that the job calls at each step.

    `say`: called with each line of text, also from another thread.
    """
    steps = Steps(say)
    if type(spark).__module__.startswith("pyspark.sql.connect"):  # nothing else distinguishes Connect

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
        if steps.is_resting:
            continue
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # noqa: BLE001 -- py4j may raise any error when the JVM ends, and then no progress is left
            return
        running = [stage for stage in stages if stage is not None]
        steps.tasks(sum(stage.numCompletedTasks for stage in running), sum(stage.numTasks for stage in running))
