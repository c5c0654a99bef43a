"""Serves the master destination through the router beside this node: the driver of `farm.publishing.failover`.

New keys end the session, because the router knows the session by the old keys. The next session opens some seconds
later.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from bridges.errors import RouterError
from bridges.hosting_protocol import HostedService, ServiceHosting, ServiceOffer, ServiceState, StreamLimits
from gf_i2p.farm.publishing.effects import Close, Drain, Effect, Open, PublishingEffects
from gf_i2p.farm.publishing.failover import DRAIN_SECONDS, FailoverMachine, FailoverState
from gf_i2p.farm.publishing.situation import Situation
from gf_i2p.farm.record.master_load import MasterLoad
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.netdb.session_config import SERVICE_OPTIONS
from gf_i2p.node.clock import now_ms, seconds_since_boot
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.machine_loop import MachineLoop
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Purpose
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.report.service_watch import ServiceWatch
from gf_i2p.node.view import FarmView

logger = structlog.get_logger()

_FINISH_POLL_SECONDS: Final = 0.1


class FailoverPublisher:
    """The publisher of one server (`Publisher`), in mode `failover`."""

    def __init__(
        self,
        server_id: int,
        view: FarmView,
        reporter: Reporter,
        hosting: ServiceHosting,
        keys: KeysWatch,
        target: ServiceWatch,
        *,
        http: bool = False,
        limits: StreamLimits | None = None,
        options: Mapping[str, str] | None = None,
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        """Serve nothing yet.

        Args:
            server_id: this server.
            view: the farm.
            reporter: announces the lease sets.
            hosting: the router.
            keys: the master's own keys, or delegated ones.
            target: the operator's local service, to which clients are led.
            http: whether the service is a web server that gets the client's address.
            limits: the limits of streams; None: the defaults.
            options: I2CP options of the session, in place of the node's defaults. With delegated keys, i2pd uses the
                options that the master has signed.
            clock: the reporter's clock, in seconds.
        """
        self.machine = FailoverMachine(server_id, reporter.lease, reporter.progress)
        self._view = view
        self._reporter = reporter
        self._hosting = hosting
        self._keys = keys
        self._target = target
        self._http = http
        self._limits = limits or StreamLimits()
        self._options = {**SERVICE_OPTIONS, **(options or {})}
        self._clock = clock
        self._service: HostedService | None = None
        self._opened_at = 0.0
        """Time at which the session had its first lease set, in seconds of `clock`."""
        self._watching: asyncio.Task[None] | None = None
        """The task that waits for the loss of the session."""
        self._logged: tuple[FailoverState, str | None] = (FailoverState.IDLE, None)
        self._log = logger.bind(server=server_id, master=keys.keys.destination.b32)
        self._loop = MachineLoop(
            self._step, self._begin, view=view, reporter=reporter, clock=clock, resume=self._resume
        )
        keys.on_change.append(self._loop.wake)
        reporter.master_load = self._load

    @property
    def trouble(self) -> str | None:
        """Why the master is not served as it should be; None when all is well."""
        service = None if self._service is None else self._service.trouble
        return self._keys.ended or self._target.trouble or service or self.machine.trouble

    def shown(self) -> dict[str, Any] | None:
        """Describe the service for the status; times are seconds since the epoch. None while idle."""
        machine, progress, service = self.machine, self._reporter.progress.current, self._service
        if machine.state is FailoverState.IDLE:
            return None
        lease_set = None if service is None else service.announced
        return {
            "state": str(machine.state),
            "master": self._keys.keys.destination.b32,
            "target": self._target.name,
            "published": None if lease_set is None else lease_set.published,
            "expires": None if lease_set is None else lease_set.expires_at,
            "streams": 0 if service is None else service.streams,
            "max_streams": self._limits.streams,
            "max_streams_per_destination": self._limits.per_destination,
            "sessions": machine.sessions,
            "sent": machine.sent,
            "word": None if progress is None else progress.stage,
            "load": None if (load := self._load()) is None else load.encode(),
        }

    def _load(self) -> MasterLoad | None:
        """Return the load of the open session; None without one."""
        service = self._service
        if service is None or service.state is ServiceState.LOST:
            return None
        return replace(service.load, uptime_ms=int((self._clock() - self._opened_at) * 1000))

    async def run(self) -> None:
        """Serve while this server is chosen, until cancelled. Cancelling breaks off streams and ends the session."""
        watching = asyncio.get_running_loop().create_task(self._target.run())
        try:
            await self._loop.run()
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            await self._close()
            self._report_changes()

    async def finish(self, seconds: float) -> None:
        """Wait up to `seconds` until no client has an open stream. Ends no stream."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._service is not None and self._service.streams:  # noqa: ASYNC110 - no event signals the end
                    await asyncio.sleep(_FINISH_POLL_SECONDS)

    # The machine ----------------------------------------------------------------------------------------------------

    def _step(self) -> PublishingEffects:
        self._reporter.able(keys=self._keys.ended is None, service=self._target.up)
        effects = self.machine.step(self._situation())
        self._report_changes()
        return effects

    def _situation(self) -> Situation:
        service, loss = self._service, None
        if service is not None and service.state is ServiceState.LOST:
            loss = service.trouble or "the router has ended the session"
        return Situation(
            self._clock(),
            now_ms(),
            self._view.choice,
            self._view.state,
            self._view.applied,
            keys=self._keys.keys,
            signing_obstacle=self._keys.ended,
            loss=loss,
        )

    def _report_changes(self) -> None:
        """Tell the farm and the operator of changes."""
        machine = self.machine
        if machine.serving != self._reporter.publishing:
            self._reporter.publishing = machine.serving
            self._reporter.changed()
        state, trouble = self._logged
        self._logged = machine.state, machine.trouble
        if machine.state is not state:
            self._log.info("failover", state=str(machine.state))
        if machine.trouble is not None and machine.trouble != trouble:
            self._log.warning("the master is not served", reason=machine.trouble)

    # Effects of the machine --------------------------------------------------------------------------------------

    async def _begin(self, effect: Effect) -> None:
        match effect:
            case Open(keys):
                assert isinstance(keys, PublishingKeys)
                await self._open(keys)
            case Drain():
                await self._drain()
            case _:
                assert isinstance(effect, Close), f"no effect of this machine: {effect!r}"
                await self._close()
        self._report_changes()

    async def _open(self, keys: PublishingKeys) -> None:
        offer = ServiceOffer(
            keys.keys,
            self._target.place,
            lambda: self.machine.version(self._situation()),
            announce=self._announce,
            on_given=self._given,
            http=self._http,
            limits=self._limits,
            options=self._options,
            signed_session=keys.signed_session(Purpose.SERVICE),
        )
        try:
            service = await self._hosting.open(offer)
        except RouterError as error:
            self.machine.failed(str(error), self._clock())
        except Exception as error:  # noqa: BLE001 -- the other servers rely on this one to try again, or to stop
            self.machine.failed(self._defect(error), self._clock())
        else:
            self._service = service
            self._opened_at = self._clock()
            self._watching = asyncio.get_running_loop().create_task(service.lost())
            self._watching.add_done_callback(lambda _: self._loop.wake())
            self.machine.opened(self._clock())

    async def _drain(self) -> None:
        assert self._service is not None
        try:
            await self._service.drain(DRAIN_SECONDS)
        except Exception as error:  # noqa: BLE001 -- the session is to be closed whatever happens
            self._defect(error)
        self.machine.drained()

    def _resume(self) -> None:
        if self._service is not None:
            self._service.resume()

    async def _close(self) -> None:
        service, self._service = self._service, None
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
        try:
            if service is not None:
                await service.close()
        except Exception as error:  # noqa: BLE001 -- a session that cannot be ended is over with its connection
            self._defect(error)
        finally:
            self.machine.closed()

    async def _announce(self, lease_set: LeaseSet2) -> int:
        """Write a lease set into the log; return the entry's index when the router may have the set.

        Raises `NotDueError` when the router must not have the set, and the errors of `Driver.post`.
        """
        announcement = self.machine.announce(lease_set.published, self._situation())
        index = await self._reporter.announce(lease_set)
        await self._view.reaches(index)
        self.machine.check(announcement, self._situation())
        return index

    def _given(self, lease_set: LeaseSet2) -> None:
        """Note that the router has this lease set."""
        self.machine.taken(lease_set.published, now_ms())

    def _defect(self, error: Exception) -> str:
        self._log.error("a defect in serving", exc_info=error)
        return f"a defect of this program: {error!r}"
