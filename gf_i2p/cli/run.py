"""`gf-i2p run`: one node in the foreground, until SIGTERM or Ctrl-C."""

import asyncio
import gc
import signal
import sys
import time
from functools import partial
from pathlib import Path

import structlog

from gf_i2p.admin.local import LocalInterface
from gf_i2p.cli.descriptors import raise_limit
from gf_i2p.cli.errors import CommandError, Exit
from gf_i2p.cli.logs import configure
from gf_i2p.cli.loops import loop_factory, stop_signal
from gf_i2p.cli.router import i2p_transport, master_keys, router_bridge
from gf_i2p.node.administration import administration
from gf_i2p.node.config import Config, Secrets
from gf_i2p.node.errors import ConfigError
from gf_i2p.node.layout import SOCKET_FILE
from gf_i2p.node.node import Node, Reload
from gf_i2p.node.snapshotting import of_running
from gf_i2p.node.status import status
from gf_i2p.transport.errors import TransportError

logger = structlog.get_logger()


def run(directory: Path) -> Exit:
    """Run the node of this directory; returns when it has stopped."""
    config, secrets = Config.load(directory), Secrets.load(directory)
    configure(config.logging.level, config.logging.format)
    raise_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(directory, config, secrets))


async def _serve(directory: Path, config: Config, secrets: Secrets) -> Exit:
    stopped, stop = stop_signal()
    node = Node(
        directory,
        config,
        secrets,
        i2p=i2p_transport(directory, config),
        bridge=router_bridge(config, secrets),
        keys=master_keys(directory, config),
        on_halt=stop,
    )
    started = time.monotonic()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, partial(_reload, node, directory))
    local = LocalInterface(
        directory / SOCKET_FILE,
        node.driver,
        lambda: status(node, started),
        partial(of_running, node),
        lacking=node.lacking,
        objection=node.objection_to_own,
        administration=lambda: administration(node),
        farm=lambda: node.outsider.farm,
    )
    await node.start()
    try:
        await local.start()
        # What lives from here to the end need not be looked at by every collection.
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(0.0005)
        reason = await stopped
    finally:
        await local.stop()
        await node.stop()
    if reason is not None:
        raise CommandError(f"the node stopped by itself: {reason}")
    return Exit.OK


def _reload(node: Node, directory: Path) -> None:
    """SIGHUP: take over what can change; a mistake leaves everything as it was."""
    number = 1 if node.last_reload is None else node.last_reload.number + 1
    try:
        config, secrets = Config.load(directory), Secrets.load(directory)
        pending = node.reload(config, secrets)
    except (ConfigError, TransportError) as error:
        node.last_reload = Reload(number, str(error))
        logger.error("not reloaded", reason=str(error))
        return
    node.last_reload = Reload(number, None, tuple(pending))
    configure(config.logging.level, config.logging.format)
    logger.info("reloaded", needs_restart=pending)
