"""Builds a node's farm tasks from its configuration: the reporter, the publisher and their helpers."""

import asyncio
from pathlib import Path

from bridges.hosting_protocol import ServiceHosting
from bridges.protocol import RouterBridge
from gf_i2p.node.consensus.driver import Driver
from gf_i2p.node.exporter import Exporter
from gf_i2p.node.farm_tasks import FarmTasks
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.router_config import place
from gf_i2p.node.publish.branch_keys import branch_keys
from gf_i2p.node.publish.failover import FailoverPublisher
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.machine_loop import Publisher
from gf_i2p.node.publish.meta import MetaPublisher
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.node.report.destination_sensing import DestinationSensing
from gf_i2p.node.report.failure_detector import FailureDetector
from gf_i2p.node.report.leaf_farm import LeafFarm
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.report.service_watch import ServiceWatch
from gf_i2p.node.view import FarmView


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
    """Make all tasks that the configuration asks for, as far as the node has a router to report on."""
    if bridge is None:
        return FarmTasks(view, None, None, None, exporter)
    publish, server_id = config.publish, config.node.id
    reporter = Reporter(
        server_id,
        config.node.cluster,
        driver,
        bridge,
        master=None if keys is None else keys.destination,
        interval=publish.status_seconds,
        mode=publish.mode,
        leaf_farm=leaf_farm,
    )
    watch = None
    if keys is not None and publish.mode != "off":
        kind = "auto" if config.router is None else config.router.kind
        watch = KeysWatch(keys, directory / publish.keys, router=kind, server=server_id)
    publisher = None
    if watch is not None and publish.publish != "off":
        publisher = _publisher(directory, config, view, reporter, bridge, hosting, watch)
    if publisher is not None:
        reporter.publish_config = publish.publish
    failure_detector = FailureDetector(driver, view, reporter, clock=asyncio.get_running_loop().time)
    sensing = None
    if publish.sense_minutes:
        sensing = DestinationSensing(
            server_id, view, reporter, bridge, mode=publish.mode, minutes=publish.sense_minutes
        )
    return FarmTasks(
        view, reporter, publisher, bridge, exporter, failure_detector=failure_detector, sensing=sensing, keys=watch
    )


def _publisher(
    directory: Path,
    config: Config,
    view: FarmView,
    reporter: Reporter,
    bridge: RouterBridge,
    hosting: ServiceHosting | None,
    keys: KeysWatch,
) -> Publisher | None:
    """Make the publisher that `[publish] mode` names; None for "off"."""
    match config.publish.mode:
        case "meta" | "dry-run" as mode:
            below = branch_keys(keys.keys.keys, directory / config.publish.keys)
            dry_run = mode == "dry-run"
            return MetaPublisher(config.node.id, view, reporter, bridge, keys, branch_keys=below, dry_run=dry_run)
        case "failover" if hosting is not None and config.publish.service is not None:
            service = config.publish.service
            target = ServiceWatch(place(service.target), on_change=reporter.changed)
            return FailoverPublisher(
                config.node.id, view, reporter, hosting, keys, target, http=service.http, options=service.session
            )
        case _:
            return None
