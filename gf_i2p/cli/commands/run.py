"""`gf-i2p run`: runs one node or several in the foreground, until SIGTERM or Ctrl-C."""

import argparse
import asyncio
import contextlib
import gc
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from bridges.router import LocalRouter
from gf_i2p.admin.api import Api
from gf_i2p.admin.local_interface import LocalInterface
from gf_i2p.admin.monitoring.listener import Monitoring
from gf_i2p.admin.monitoring.metrics import NodeFigures
from gf_i2p.admin.remote_interface import RemoteInterface
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.long_running import raise_limit, stop_signal
from gf_i2p.cli.shared.router_setup import check_logins, i2p_transport, master_keys, router_bridge, service_hosting
from gf_i2p.cli.shared.service_manager import ServiceManager
from gf_i2p.node.files.checked_read import ConfigError, NoNodeDirectoryError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import SOCKET_FILE
from gf_i2p.node.files.trust import tls_settings
from gf_i2p.node.listener import SharedListener, Tenant, tenants_by_listener
from gf_i2p.node.node import Node, Reload
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.node.recovery.snapshot_copy import of_running
from gf_i2p.node.report.leaf_farm import ElsewhereFarm, HostedFarm, LeafFarm, check_nesting, target_of
from gf_i2p.node.status.admin_status import administration
from gf_i2p.node.status.node_status import explanation, status
from gf_i2p.node.status.record_status import record
from gf_i2p.node.supervisor import Supervisor
from gf_i2p.transport.errors import TransportError, error_text
from gf_i2p.transport.event_loop import loop_factory
from gf_i2p.transport.interface import Transport
from gf_i2p.transport.tls.tls_transport import TlsTransport

logger = structlog.get_logger()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument."""
    parser.add_argument(
        "directories",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="the directory of a server. Several directories must be of different farms; farms with the same "
        "node.listen share one listener",
    )


def run(options: argparse.Namespace) -> Exit:
    """Run the nodes of these directories; return when all have stopped.

    Each directory is a server of a farm of its own. Raises `CommandError` when a node or all nodes together cannot run.
    The exit code for a mistake in the files is `Exit.USAGE`: after this code, systemd does not start the node again.
    A disk fault that shows later ends only the node of that disk.
    """
    try:
        return _run(options.directories)
    except NoNodeDirectoryError:  # no mistake in a file: the disk may not be mounted yet, so systemd may try again
        raise
    except ConfigError as error:
        raise CommandError(str(error), code=Exit.USAGE) from error


def _run(directories: Iterable[Path]) -> Exit:
    node_runs = [_NodeRun(directory) for directory in directories]
    tenants = [node_run.tenant for node_run in node_runs]
    listeners = tenants_by_listener(tenants)
    check_nesting(tenants)
    configure(node_runs[0].tenant.config.logging.level, node_runs[0].tenant.config.logging.format)
    raise_limit()
    manager = ServiceManager.of_environment()
    by_name = {str(node_run.tenant.directory): node_run for node_run in node_runs}
    with asyncio.Runner(loop_factory=loop_factory()) as runner, contextlib.closing(manager):
        return runner.run(_serve(by_name, listeners, manager))


async def _serve(
    node_runs: Mapping[str, "_NodeRun"], listeners: Sequence[Sequence[Tenant]], manager: ServiceManager
) -> Exit:
    stopped, stop = stop_signal()
    stopped.add_done_callback(lambda _: manager.stopping())
    supervisor = Supervisor()
    alone = len(node_runs) == 1
    for tenants in listeners:
        if len(tenants) > 1:
            _share(node_runs, tenants)
    for name, node_run in node_runs.items():
        node_run.bridge = router_bridge(node_run.tenant.config, node_run.secrets)
        node_run.on_halt = stop if alone else supervisor.halts(name)
        node_run.leaf_farm = _leaf_farm(node_run, node_runs)
    reload = manager.wrap_reload(partial(_reload, tuple(node_runs.values())))
    for node_run in node_runs.values():
        node_run.reload = reload
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    if alone:
        (node_run,) = node_runs.values()
        async with _monitored(node_runs.values(), {}):
            await node_run.start()
            try:
                _started(manager)
                reason = await stopped
            finally:
                await node_run.stop()
        if reason is not None:
            raise CommandError(f"the node stopped by itself: {reason}")
        return Exit.OK
    async with _monitored(node_runs.values(), supervisor.troubles):
        await supervisor.run(node_runs, stopped, on_start=partial(_started, manager))
    if supervisor.troubles:
        reasons = "; ".join(f"{name}: {error}" for name, error in supervisor.troubles.items())
        raise CommandError(f"{len(supervisor.troubles)} of {len(node_runs)} nodes stopped by themselves: {reasons}")
    return Exit.OK


def _leaf_farm(node_run: "_NodeRun", node_runs: Mapping[str, "_NodeRun"]) -> LeafFarm | None:
    """Return the nested farm whose master is this node's leaf; None when the node has no such leaf."""
    target = target_of(node_run.tenant, [each.tenant for each in node_runs.values()])
    if target is None:
        return None
    if isinstance(target, Tenant):
        nested = node_runs[str(target.directory)]
        return HostedFarm(str(target.directory), lambda: nested.node)
    assert node_run.bridge is not None, "by the configuration's own check"
    return ElsewhereFarm(target, node_run.bridge)


def _started(manager: ServiceManager) -> None:
    """Freeze the objects that live until the end, so that no garbage collection looks at them again. Then be ready."""
    gc.collect()
    gc.freeze()
    manager.ready()


@contextlib.asynccontextmanager
async def _monitored(node_runs: Iterable["_NodeRun"], troubles: Mapping[str, BaseException]) -> AsyncIterator[None]:
    """Serve the monitoring pages while the context is open. Nodes with the same `monitoring.listen` share the pages.

    `troubles`: the nodes that have stopped by themselves, by directory. Raises `CommandError`.
    """
    groups: dict[tuple[str, int], list[_NodeRun]] = defaultdict(list)
    for node_run in node_runs:
        if (address := node_run.tenant.config.monitoring.address) is not None:
            groups[address].append(node_run)
    async with contextlib.AsyncExitStack() as stack:
        for address, group in groups.items():
            monitoring = Monitoring(address, partial(_figures, group), partial(_stopped, group, troubles))
            stack.push_async_callback(monitoring.stop)
            try:
                await monitoring.start()
            except OSError as error:
                where = group[0].tenant.config.monitoring.listen
                raise CommandError(f"monitoring.listen: cannot listen on {where}: {error_text(error)}") from error
        yield


def _figures(node_runs: Iterable["_NodeRun"]) -> Iterator[NodeFigures]:
    """Yield the figures of the nodes that run now."""
    for node_run in node_runs:
        if (node := node_run.node) is not None:
            yield NodeFigures(status(node, node_run.started_at), node.driver.measured)


def _stopped(node_runs: Iterable["_NodeRun"], troubles: Mapping[str, BaseException]) -> dict[str, str]:
    """Return those of the troubles that are of these nodes, as text."""
    names = [str(node_run.tenant.directory) for node_run in node_runs]
    return {name: str(troubles[name]) for name in names if name in troubles}


def _share(node_runs: Mapping[str, "_NodeRun"], tenants: Sequence[Tenant]) -> None:
    """Make one listener for several nodes that have the same `node.listen`. `tenants`: these nodes, two or more."""
    first = tenants[0]
    i2p: Transport | None = None
    tls: TlsTransport | None = None
    if first.config.own_endpoint.is_i2p:
        i2p = i2p_transport(first.directory, first.config, node_runs[str(first.directory)].secrets)
    else:
        settings = tls_settings(first.directory, first.config)
        place = first.place
        tls = TlsTransport(replace(settings, fingerprints={}, ca_file=None), host=place.host, port=place.port)
    transport = i2p or tls
    assert transport is not None
    listener = SharedListener(transport, {tenant.config.node.cluster for tenant in tenants}, tls=tls)
    for tenant in tenants:
        node_run = node_runs[str(tenant.directory)]
        node_run.listener = listener
        # Nodes with one destination share one session. A node that dials by the proxy alone makes its own transport.
        node_run.i2p = i2p if tenant.session is not None else None


class _NodeRun:
    """One directory: its node, and the interfaces by which commands ask that node."""

    def __init__(self, directory: Path) -> None:
        """Read the files. Raises `ConfigError`."""
        config, secrets = _files(directory)
        self.keys: PublishingKeys | None = master_keys(directory, config)
        self.tenant = Tenant(directory, config, None if self.keys is None else self.keys.destination)
        self.secrets = secrets
        self.bridge: LocalRouter | None = None
        self.leaf_farm: LeafFarm | None = None
        self.listener: SharedListener | None = None
        """The listener that several nodes share; None: the node opens its own listener."""
        self.i2p: Transport | None = None
        """The shared transport through I2P; None: the node makes its own transport, if it needs one."""
        self.on_halt: Callable[[BaseException], None] = _nobody_listens
        self.reload: Callable[[], None] = _nobody_reloads
        self.node: Node | None = None
        """None while the node does not run."""
        self.started_at = 0.0
        """Time of the node's start, in monotonic seconds."""
        self._local: LocalInterface | None = None
        self._remote: RemoteInterface | None = None

    async def start(self) -> None:
        """See `gf_i2p.node.supervisor.SupervisedNode`."""
        directory, config = self.tenant.directory, self.tenant.config
        try:
            node = Node(
                directory,
                config,
                self.secrets,
                i2p=i2p_transport(directory, config, self.secrets) if self.i2p is None else self.i2p,
                bridge=self.bridge,
                keys=self.keys,
                listener=self.listener,
                leaf_farm=self.leaf_farm,
                hosting=service_hosting(config, self.secrets),
                on_halt=self.on_halt,
            )
            self.started_at = time.monotonic()
            self.node = node
            api = Api(
                node.driver,
                lambda: status(node, self.started_at),
                partial(of_running, node),
                lacking=node.lacking,
                objection=node.objection_to,
                administration=lambda: administration(node),
                farm=lambda: node.removal_check.farm,
                explain=lambda: explanation(node),
                reload=self.reload,
                events=node.farm_tasks.view.events.after,
                admit=node.admissions.admit,
                record=partial(record, node),
            )
            local, remote = LocalInterface(directory / SOCKET_FILE, api), RemoteInterface(api)
            node.on_administration = remote.serve
            await node.start()
        except BaseException:
            self.node = None
            if self.listener is not None:
                await self.listener.leave(config.node.cluster, 0.0)
            raise
        self._local, self._remote = local, remote
        try:
            await remote.start()
            await local.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """See `gf_i2p.node.supervisor.SupervisedNode`."""
        node, local, remote = self.node, self._local, self._remote
        assert node is not None
        assert local is not None
        assert remote is not None
        try:
            await local.stop()
            await remote.stop()
        finally:
            await node.stop()
            self.node = None


def _files(directory: Path) -> tuple[Config, Secrets]:
    """Read the settings and the secrets of a node, and check that both fit together. Raises `ConfigError`."""
    config, secrets = Config.load(directory), Secrets.load(directory)
    check_logins(config.router, secrets)
    return config, secrets


def _nobody_listens(error: BaseException) -> None:
    raise RuntimeError("a node has stopped before its supervisor listened") from error


def _nobody_reloads() -> None:
    raise RuntimeError("a node was told to reload before reloading was set up")


def _reload(node_runs: Sequence[_NodeRun]) -> None:
    """Reload the files of all nodes, after SIGHUP or when one node is asked to reload.

    Each node takes over the settings that can change while it runs. A node with a mistake in its files keeps all its
    settings.
    """
    settings: dict[_NodeRun, tuple[Config, Secrets]] = {}
    for node_run in node_runs:
        directory = node_run.tenant.directory
        try:
            settings[node_run] = _files(directory)
        except ConfigError as error:
            _not_reloaded(node_run, error)
    # A reload does not move a listener, so the [node] tables from the start count here.
    tenants = [
        node_run.tenant
        if node_run not in settings
        else replace(
            node_run.tenant, config=settings[node_run][0].model_copy(update={"node": node_run.tenant.config.node})
        )
        for node_run in node_runs
    ]
    try:
        tenants_by_listener(tenants)
    except ConfigError as error:
        for node_run in settings:
            _not_reloaded(node_run, error)
        return
    for node_run, (config, secrets) in settings.items():
        node = node_run.node
        if node is None:
            continue
        try:
            pending = node.reload(config, secrets)
        except (ConfigError, TransportError) as error:
            _not_reloaded(node_run, error)
            continue
        node.last_reload = Reload(_number(node), None, tuple(pending))
        if node_run is node_runs[0]:
            configure(config.logging.level, config.logging.format)
        logger.info("reloaded", node=str(node_run.tenant.directory), needs_restart=pending)


def _not_reloaded(node_run: _NodeRun, error: Exception) -> None:
    node = node_run.node
    if node is not None:
        node.last_reload = Reload(_number(node), str(error))
    logger.error("not reloaded", node=str(node_run.tenant.directory), reason=str(error))


def _number(node: Node) -> int:
    """Return the number of the node's next reload, from 1 on."""
    return 1 if node.last_reload is None else node.last_reload.number + 1
