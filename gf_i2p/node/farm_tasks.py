"""A node's tasks in its farm: follow the log and export it, post the node's status, publish when chosen."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from bridges.protocol import RouterBridge
from gf_i2p.node.exporter import Exporter
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.machine_loop import Publisher
from gf_i2p.node.report.destination_sensing import DestinationSensing
from gf_i2p.node.report.failure_detector import FailureDetector
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.view import FarmView

logger = structlog.get_logger()

CLOSE_SECONDS: Final = 15.0
"""For the router to end its work for this node; a stopping node cannot wait for ever."""
RESIGN_SECONDS: Final = 3.0
"""For the farm to commit that this node publishes no more; without it, the farm notices the silence."""
FINISH_SECONDS: Final = 4.0
"""For clients to end their requests; clients learn the next server's place after a minute at the earliest."""
_AGAIN_SECONDS: Final = 5.0


class FarmTasks:
    """The tasks of one node. `publisher`, `keys`: None if this server never publishes; `exporter`: None, no history."""

    def __init__(
        self,
        view: FarmView,
        reporter: Reporter | None,
        publisher: Publisher | None,
        bridge: RouterBridge | None,
        exporter: Exporter | None = None,
        *,
        failure_detector: FailureDetector | None = None,
        sensing: DestinationSensing | None = None,
        keys: KeysWatch | None = None,
    ) -> None:
        self.view = view
        self.sensing = sensing
        self.exporter = exporter
        self.reporter = reporter
        self.publisher = publisher
        self._failure_detector = failure_detector
        self.keys = keys
        self._bridge = bridge
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks."""
        all_parts = (
            self.view,
            self.exporter,
            self.keys,
            self.reporter,
            self._failure_detector,
            self.sensing,
            self.publisher,
        )
        parts = [part.run for part in all_parts if part is not None]
        self._tasks = [asyncio.get_running_loop().create_task(_for_ever(part)) for part in parts]

    async def resign(self) -> None:
        """If the farm has chosen this node, let it choose another publisher first. Takes some seconds at most."""
        reporter, publisher = self.reporter, self.publisher
        if reporter is None or publisher is None or not self._tasks or self.view.choice.publisher != reporter.server_id:
            return
        logger.info("stopping: the farm is to choose another publisher first")
        try:
            async with asyncio.timeout(RESIGN_SECONDS):
                await reporter.resign()
        except TimeoutError:
            logger.warning("the farm could not be told that this server stops: the farm will notice the silence")
        await publisher.finish(FINISH_SECONDS)

    async def stop(self) -> None:
        """Stop publishing and end the tasks, whatever the router does, because the log is closed after this."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self.exporter is not None:
            await self.exporter.close()
        if self._bridge is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._bridge.close()
        except Exception:
            logger.exception("the router session did not close properly; the router drops it later")


async def _for_ever(part: Callable[[], Awaitable[None]]) -> None:
    """Run a task again after a defect has ended it: the defect costs the farm a moment, not a member."""
    while True:
        try:
            await part()
        except Exception:
            logger.exception("a defect in one of this node's farm tasks")
        await asyncio.sleep(_AGAIN_SECONDS)
