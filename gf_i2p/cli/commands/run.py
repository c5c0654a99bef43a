"""`gf-i2p run`: one node in the foreground, or several, until SIGTERM or Ctrl-C."""

import argparse
import asyncio
import gc
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from bridges.router import LocalRouter
from gf_i2p.admin.local_api import LocalInterface
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.long_running import loop_factory, raise_limit, stop_signal
from gf_i2p.cli.shared.router_setup import i2p_transport, master_keys, router_bridge, service_hosting
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.layout import SOCKET_FILE
from gf_i2p.node.files.trust import tls_settings
from gf_i2p.node.listener import SharedListener, Tenant, sharing
from gf_i2p.node.node import Node, Reload
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.node.recovery.snapshot_copy import of_running
from gf_i2p.node.report.leaf_farm import ElsewhereFarm, HostedFarm, LeafFarm, check_nesting, target_of
from gf_i2p.node.status.admin_status import administration
from gf_i2p.node.status.node_status import explanation, status
from gf_i2p.node.supervisor import Supervisor
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.interface import Transport
from gf_i2p.transport.tls.tls_transport import TlsTransport

logger = structlog.get_logger()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say whose nodes run."""
    parser.add_argument(
        "directories",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="a server's directory; with more than one, each of another farm: those with the same node.listen share it",
    )


def run(options: argparse.Namespace) -> Exit:
    """Run the nodes of these directories; returns when they have stopped.

    Each is a server of a farm of its own. Raises `ConfigError` before anything runs when one of them, or all together,
    cannot: what is wrong with a disk later ends that one only.
    """
    seats = [_Seat(directory) for directory in options.directories]
    tenants = [seat.tenant for seat in seats]
    doors = sharing(tenants)
    check_nesting(tenants)
    configure(seats[0].tenant.config.logging.level, seats[0].tenant.config.logging.format)
    raise_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve({str(seat.tenant.directory): seat for seat in seats}, doors))


async def _serve(seats: Mapping[str, "_Seat"], doors: Sequence[Sequence[Tenant]]) -> Exit:
    stopped, stop = stop_signal()
    several = Supervisor()
    only = len(seats) == 1
    for tenants in doors:
        if len(tenants) > 1:
            _share(seats, tenants)
    for name, seat in seats.items():
        seat.bridge = router_bridge(seat.tenant.config, seat.secrets)
        seat.on_halt = stop if only else several.halts(name)
        seat.leaf_farm = _leaf_farm(seat, seats)
    reload = partial(_reload, tuple(seats.values()))
    for seat in seats.values():
        seat.reload = reload
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    if only:
        (seat,) = seats.values()
        await seat.start()
        try:
            _settle()
            reason = await stopped
        finally:
            await seat.stop()
        if reason is not None:
            raise CommandError(f"the node stopped by itself: {reason}")
        return Exit.OK
    await several.run(seats, stopped, on_start=_settle)
    if several.troubles:
        reasons = "; ".join(f"{name}: {error}" for name, error in several.troubles.items())
        raise CommandError(f"{len(several.troubles)} of {len(seats)} nodes stopped by themselves: {reasons}")
    return Exit.OK


def _leaf_farm(seat: "_Seat", seats: Mapping[str, "_Seat"]) -> LeafFarm | None:
    """Say whose master is this one's leaf, and how it is asked."""
    target = target_of(seat.tenant, [each.tenant for each in seats.values()])
    if target is None:
        return None
    if isinstance(target, Tenant):
        below = seats[str(target.directory)]
        return HostedFarm(str(target.directory), lambda: below.node)
    assert seat.bridge is not None, "by the configuration's own check"
    return ElsewhereFarm(target, seat.bridge)


def _settle() -> None:
    """What lives from here to the end need not be looked at by every collection."""
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.0005)


def _share(seats: Mapping[str, "_Seat"], tenants: Sequence[Tenant]) -> None:
    """Give these a door together."""
    first = tenants[0]
    i2p: Transport | None = None
    tls: TlsTransport | None = None
    if first.config.own_endpoint.is_i2p:
        i2p = i2p_transport(first.directory, first.config)
    else:
        settings = tls_settings(first.directory, first.config)
        place = first.place
        tls = TlsTransport(replace(settings, fingerprints={}, ca_file=None), host=place.host, port=place.port)
    transport = i2p or tls
    assert transport is not None
    door = SharedListener(transport, {tenant.config.node.cluster for tenant in tenants}, tls=tls)
    for tenant in tenants:
        seat = seats[str(tenant.directory)]
        seat.door = door
        # One session is for all that have its destination; who dials by the proxy alone has a way of its own.
        seat.i2p = i2p if tenant.session is not None else None


class _Seat:
    """One directory: its node, and the socket by which commands ask it."""

    def __init__(self, directory: Path) -> None:
        """Read the files. Raises `ConfigError`."""
        config, secrets = Config.load(directory), Secrets.load(directory)
        self.keys: PublishingKeys | None = master_keys(directory, config)
        self.tenant = Tenant(directory, config, None if self.keys is None else self.keys.destination)
        self.secrets = secrets
        self.bridge: LocalRouter | None = None
        self.leaf_farm: LeafFarm | None = None
        self.door: SharedListener | None = None
        """None: its own."""
        self.i2p: Transport | None = None
        """The way into I2P that it shares; None: its own, if any."""
        self.on_halt: Callable[[BaseException], None] = _nobody_listens
        self.reload: Callable[[], None] = _nobody_reloads
        self.node: Node | None = None
        """While it runs."""
        self._local: LocalInterface | None = None

    async def start(self) -> None:
        """See `gf_i2p.node.supervisor.SupervisedNode`."""
        directory, config = self.tenant.directory, self.tenant.config
        try:
            node = Node(
                directory,
                config,
                self.secrets,
                i2p=i2p_transport(directory, config) if self.i2p is None else self.i2p,
                bridge=self.bridge,
                keys=self.keys,
                door=self.door,
                leaf_farm=self.leaf_farm,
                hosting=service_hosting(config),
                on_halt=self.on_halt,
            )
            self.node = node
            started = time.monotonic()
            local = LocalInterface(
                directory / SOCKET_FILE,
                node.driver,
                lambda: status(node, started),
                partial(of_running, node),
                lacking=node.lacking,
                objection=node.objection_to_own,
                administration=lambda: administration(node),
                farm=lambda: node.outsider.farm,
                explain=lambda: explanation(node),
                reload=self.reload,
            )
            await node.start()
        except BaseException:
            self.node = None
            if self.door is not None:
                await self.door.leave(config.node.cluster, 0.0)
            raise
        self._local = local
        try:
            await local.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """See `gf_i2p.node.supervisor.SupervisedNode`."""
        node, local = self.node, self._local
        assert node is not None
        assert local is not None
        try:
            await local.stop()
        finally:
            await node.stop()
            self.node = None


def _nobody_listens(error: BaseException) -> None:
    raise RuntimeError("a node has stopped before anybody listened") from error


def _nobody_reloads() -> None:
    raise RuntimeError("a node was to reload before anybody can have it do so")


def _reload(seats: Sequence[_Seat]) -> None:
    """SIGHUP, or one is asked to: each takes what can change; a mistake in its files leaves all of it as it was."""
    found: dict[_Seat, tuple[Config, Secrets]] = {}
    for seat in seats:
        directory = seat.tenant.directory
        try:
            found[seat] = Config.load(directory), Secrets.load(directory)
        except ConfigError as error:
            _not_reloaded(seat, error)
    # Where a node listens is as at its start, so those that share a door share it still.
    then = [
        seat.tenant
        if seat not in found
        else replace(seat.tenant, config=found[seat][0].model_copy(update={"node": seat.tenant.config.node}))
        for seat in seats
    ]
    try:
        sharing(then)
    except ConfigError as error:
        for seat in found:
            _not_reloaded(seat, error)
        return
    for seat, (config, secrets) in found.items():
        node = seat.node
        if node is None:
            continue
        try:
            pending = node.reload(config, secrets)
        except (ConfigError, TransportError) as error:
            _not_reloaded(seat, error)
            continue
        node.last_reload = Reload(_number(node), None, tuple(pending))
        if seat is seats[0]:
            configure(config.logging.level, config.logging.format)
        logger.info("reloaded", node=str(seat.tenant.directory), needs_restart=pending)


def _not_reloaded(seat: _Seat, error: Exception) -> None:
    node = seat.node
    if node is not None:
        node.last_reload = Reload(_number(node), str(error))
    logger.error("not reloaded", node=str(seat.tenant.directory), reason=str(error))


def _number(node: Node) -> int:
    """Give the next reload its number."""
    return 1 if node.last_reload is None else node.last_reload.number + 1
