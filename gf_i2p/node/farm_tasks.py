"""The tasks of a node for its farm: follow the log, export the log, report, and publish."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from bridges.hosting_protocol import ServiceHosting, StreamLimits
from bridges.router_protocol import RouterBridge
from gf_i2p.node.consensus.driver import Driver
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.router_settings import host_and_port
from gf_i2p.node.history.exporter import Exporter
from gf_i2p.node.publish.branch_keys import branch_keys
from gf_i2p.node.publish.failover import FailoverPublisher
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.machine_loop import Publisher
from gf_i2p.node.publish.meta import MetaPublisher
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.node.report.destination_sensing import DestinationSensing
from gf_i2p.node.report.failure_detector import FailureDetector
from gf_i2p.node.report.leaf_farm import LeafFarm
from gf_i2p.node.report.local_leaf import LocalLeaf, local_leaves
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.report.router_info_file import RouterInfoFile
from gf_i2p.node.report.service_watch import ServiceWatch
from gf_i2p.node.view import FarmView

logger = structlog.get_logger()

CLOSE_SECONDS: Final = 15.0
"""Most seconds that a stopping node waits until the router has ended its work for the node."""
RESIGN_SECONDS: Final = 3.0
"""Most seconds that a stopping node waits until the farm has committed that this node publishes no more. After that
time, the farm has to notice the node's silence."""
FINISH_SECONDS: Final = 4.0
"""Most seconds that a stopping node goes on serving its clients, so that their requests can end. Clients find the next
server some seconds later at the earliest."""
_AGAIN_SECONDS: Final = 5.0


class FarmTasks:
    """The tasks of one node.

    `publisher` is None until this server may publish: see `may_publish`. `keys` is None on a server without keys of the
    master. `exporter` is None without a history. `leaves`: for each leaf of this server, the watch of its service and
    the forwarder. `router_info` is None when the records do not have the router info.
    """

    def __init__(
        self,
        view: FarmView,
        reporter: Reporter | None,
        bridge: RouterBridge | None,
        exporter: Exporter | None = None,
        *,
        make_publisher: Callable[[], Publisher | None] = lambda: None,
        failure_detector: FailureDetector | None = None,
        sensing: DestinationSensing | None = None,
        keys: KeysWatch | None = None,
        leaves: Sequence[LocalLeaf] = (),
        router_info: RouterInfoFile | None = None,
    ) -> None:
        self.view = view
        self.sensing = sensing
        self.exporter = exporter
        self.reporter = reporter
        self.publisher: Publisher | None = None
        self._make_publisher = make_publisher
        self._failure_detector = failure_detector
        self.keys = keys
        self.leaves = leaves
        self.router_info = router_info
        self._bridge = bridge
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks."""
        all_parts = (
            self.view,
            self.exporter,
            self.keys,
            *self.leaves,
            self.router_info,
            self.reporter,
            self._failure_detector,
            self.sensing,
            self.publisher,
        )
        parts = [part.run for part in all_parts if part is not None]
        self._tasks = [asyncio.get_running_loop().create_task(_for_ever(part)) for part in parts]

    def may_publish(self, publish: str) -> bool:
        """Let the farm choose this server from now on, or not. `publish`: the setting; "on", "auto" or "off".

        Returns whether the setting is in force: a server that began without keys of the master needs a restart.
        """
        if self.reporter is None or self.reporter.mode == "off":
            return True
        if publish != "off" and self.publisher is None:
            self.publisher = self._make_publisher()
            if self.publisher is not None and self._tasks:
                self._tasks.append(asyncio.get_running_loop().create_task(_for_ever(self.publisher.run)))
        self.reporter.publish_config = "off" if self.publisher is None else publish
        self.reporter.changed()
        return self.reporter.publish_config == publish

    async def resign(self) -> None:
        """If the farm has chosen this node as publisher, let the farm choose another server before this node stops.

        Takes at most `RESIGN_SECONDS` plus `FINISH_SECONDS`.
        """
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
        """Stop publishing and end the tasks, even when the router fails: the caller closes the log next."""
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
    """Run a task, and run the task again after it has failed: a defect must not cost the farm a member."""
    while True:
        try:
            await part()
        except Exception:
            logger.exception("a defect in one of this node's farm tasks")
        await asyncio.sleep(_AGAIN_SECONDS)


def farm_tasks_of(
    directory: Path,
    config: Config,
    driver: Driver,
    view: FarmView,
    *,
    bridge: RouterBridge | None,
    keys: PublishingKeys | None,
    exporter: Exporter | None,
    leaf_farm: LeafFarm | None = None,
    hosting: ServiceHosting | None = None,
) -> FarmTasks:
    """Make the tasks that the configuration asks for: without a router only the view and the exporter."""
    if bridge is None:
        return FarmTasks(view, None, None, exporter)
    publish, server_id = config.publish, config.node.id
    leaves = local_leaves(publish)
    info_file = None if config.router is None else config.router.info_file
    router_info = None if info_file is None else RouterInfoFile(directory / info_file)
    reporter = Reporter(
        server_id,
        config.node.cluster,
        driver,
        bridge,
        master=None if keys is None else keys.destination,
        interval=publish.status_seconds,
        mode=publish.mode,
        leaf_farm=leaf_farm,
        local_leaves=leaves,
        router_info=router_info,
        parameters=lambda: view.state.parameters,
    )
    watch = None
    if keys is not None and publish.mode != "off":
        kind = "auto" if config.router is None else config.router.kind
        watch = KeysWatch(keys, directory / publish.keys, router=kind, server=server_id)

    def make_publisher() -> Publisher | None:
        return None if watch is None else _publisher(directory, config, view, reporter, bridge, hosting, watch)

    failure_detector = FailureDetector(driver, view, reporter, clock=asyncio.get_running_loop().time)
    sensing = None
    if publish.sense_minutes:
        sensing = DestinationSensing(
            server_id, view, reporter, bridge, mode=publish.mode, minutes=publish.sense_minutes
        )
    tasks = FarmTasks(
        view,
        reporter,
        bridge,
        exporter,
        make_publisher=make_publisher,
        failure_detector=failure_detector,
        sensing=sensing,
        keys=watch,
        leaves=leaves,
        router_info=router_info,
    )
    tasks.may_publish(publish.publish)
    return tasks


def _publisher(
    directory: Path,
    config: Config,
    view: FarmView,
    reporter: Reporter,
    bridge: RouterBridge,
    hosting: ServiceHosting | None,
    keys: KeysWatch,
) -> Publisher | None:
    """Make the publisher that `[publish] mode` names; None when this mode is "off" or lacks its settings."""
    match config.publish.mode:
        case "meta" | "dry-run" as mode:
            below = branch_keys(keys.keys.keys, directory / config.publish.keys)
            dry_run = mode == "dry-run"
            return MetaPublisher(config.node.id, view, reporter, bridge, keys, branch_keys=below, dry_run=dry_run)
        case "failover" if hosting is not None and config.publish.service is not None:
            service = config.publish.service
            target = ServiceWatch(host_and_port(service.target), on_change=reporter.changed)
            return FailoverPublisher(
                config.node.id,
                view,
                reporter,
                hosting,
                keys,
                target,
                http=service.http,
                limits=StreamLimits(service.max_streams, service.max_streams_per_destination),
                options=service.session,
            )
        case _:
            return None
