"""One master's publication: opens the session at the router when needed, and answers the router's requests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import structlog

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.messages import (
    Disconnect,
    RequestVariableLeaseSet,
    RouterMessage,
    SessionStatus,
    Status,
    create_lease_set2,
)
from bridges.i2cp.publication_status import I2cpPhase, PublicationStatus
from bridges.i2cp.router_kind import router_kind
from bridges.i2cp.session import begin_session, end_session, no_request, read_config, session_ended
from bridges.i2cp.settings import I2cpSettings, RouterKind
from bridges.router_protocol import Publication
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.netdb.session_config import SessionConfig

logger = structlog.get_logger()


@dataclass(slots=True)
class _Session:
    """An open session and its connection: i2pd has one session on each connection."""

    connection: I2cpConnection
    kind: RouterKind
    number: int
    task: "asyncio.Task[None] | None" = None
    """Answers the router."""


class MasterPublication:
    """Publishes for one master. The first `publish` opens the connection.

    States and transitions, each seen in `status`:

        idle ── publish ──► opening ── the router asked, and got the set ──► sent ──┐ asked and answered, published anew
          ▲                    │                                              ▲ │ ◄─┘
          │ stop               │ refused, out of reach, too late      publish │ │ asked, but the set is too old
        (any)                  ▼                                              │ ▼
                             lost ◄── the router hung up ─────────────── stale, sent
    """

    def __init__(self, b32: str, settings: I2cpSettings, clock: Callable[[], float]) -> None:
        self.status = PublicationStatus()
        self._settings = settings
        self._clock = clock
        self._log = logger.bind(master=b32)
        self._turn = asyncio.Lock()  # for publish and stop, which run one by one
        self._opening: asyncio.Timeout | None = None
        self._stops = 0  # running calls of stop
        self._session: _Session | None = None
        self._set: MetaLeaseSet | None = None
        self._may_give: Callable[[], bool] = lambda: True

    # Calls of the node ----------------------------------------------------------------------------------------------

    async def publish(self, publication: Publication) -> None:
        """See `RouterBridge.publish_meta_lease_set`."""
        async with self._turn:
            if self._stops:
                raise _stopped_error()
            fresh = publication.lease_set
            self._check_version(fresh)
            self._check_time(fresh)
            if self._session is not None:
                self._set, self._may_give = fresh, publication.may_give
                await self._renew(self._session)
            else:
                configs = _Configs.read(publication)
                self._set, self._may_give = fresh, publication.may_give
                await self._open(configs)

    async def stop(self) -> None:
        """End the session, and every running `publish`."""
        self._stops += 1
        if self._opening is not None and not self._opening.expired():
            self._opening.reschedule(asyncio.get_running_loop().time())
        try:
            async with self._turn:
                session, self._session, self._set = self._session, None, None
                self._set_phase(I2cpPhase.IDLE)
                if session is not None:
                    await self._end(session)
                    self._log.info("i2cp_session_ended")
        finally:
            self._stops -= 1

    # Checks -------------------------------------------------------------------------------------------------------

    def _check_version(self, fresh: MetaLeaseSet) -> None:
        last = self.status.published
        # In a new session, the router may get the same set again: the old session may have ended before the router
        # passed the set on.
        if last is not None and (fresh.published < last or (fresh.published == last and self._session is not None)):
            raise RouterRefusedError(
                f"the lease set was not sent: it is published at {fresh.published}, and the last set at {last}; "
                "routers keep the later set. If the clock was set back, wait until it has passed that time"
            )

    def _check_time(self, lease_set: MetaLeaseSet) -> None:
        objection = lease_set.objection(int(self._clock()))
        if objection is not None:
            raise RouterRefusedError(f"the lease set was not sent: {objection}. Sign a fresh lease set")

    # A session ----------------------------------------------------------------------------------------------------

    async def _open(self, configs: "_Configs") -> None:
        self._set_phase(I2cpPhase.OPENING)
        reason = "the attempt was given up"
        try:
            async with asyncio.timeout(None) as self._opening:
                session = await self._begin(configs)
        except TimeoutError:
            reason = str(_stopped_error())
            raise _stopped_error() from None
        except RouterError as error:
            reason = str(error)
            raise
        finally:
            self._opening = None
            if self.status.phase is not I2cpPhase.SENT:
                self._set_phase(I2cpPhase.LOST, reason)
        session.task = asyncio.create_task(self._receive_until_end(session))
        session.task.add_done_callback(partial(self._receiving_ended, session))
        self._session = session
        self._log.info("i2cp_session_opened", router=str(session.kind))

    async def _begin(self, configs: "_Configs") -> _Session:
        kind = await router_kind(self._settings)
        self.status = replace(self.status, kind=kind)
        connection = await I2cpConnection.open(self._settings, self._clock)
        try:
            session = _Session(connection, kind, await begin_session(connection, kind, configs.of(kind)))
            self.status = replace(self.status, sessions=self.status.sessions + 1)
            await self._first_request(session)
        except BaseException:
            connection.close()
            raise
        return session

    async def _first_request(self, session: _Session) -> None:
        """Wait until the router has asked for the set and has got the set."""
        seconds = self._settings.deadlines.tunnels
        try:
            async with asyncio.timeout(seconds):
                while self.status.phase is I2cpPhase.OPENING:
                    await self._handle(session, await session.connection.receive())
        except TimeoutError as error:
            await self._end(session)
            raise no_request(self._settings) from error
        if self.status.phase is not I2cpPhase.SENT:
            await self._end(session)
            raise RouterRefusedError(self.status.reason)

    async def _receive_until_end(self, session: _Session) -> None:
        """Answer the router until the session ends."""
        while True:
            await self._handle(session, await session.connection.receive())

    def _receiving_ended(self, session: _Session, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        error = task.exception()
        if not isinstance(error, RouterError):
            self._log.error("i2cp_defect", exc_info=error)
        self._lose(session, str(error) if isinstance(error, RouterError) else f"a defect of gf-i2p: {error!r}")

    async def _handle(self, session: _Session, message: RouterMessage) -> None:
        match message:
            case RequestVariableLeaseSet(number) if number == session.number:
                await self._answer(session)
            case SessionStatus(number, Status.DESTROYED) if number == session.number:
                raise RouterUnreachableError(f"{self._settings} ended the session: the router stops; see its log")
            case Disconnect(reason):
                raise session_ended(self._settings, reason)

    async def _answer(self, session: _Session) -> None:
        """Give the router the last set only while that set is fresh: the router would publish an old set, too."""
        assert self._set is not None
        if not self._may_give():
            self._set_phase(
                I2cpPhase.STALE, "the router asked for the set, and this node was not sure to be the publisher"
            )
            return
        try:
            self._check_time(self._set)
        except RouterRefusedError as error:
            self._set_phase(I2cpPhase.STALE, str(error))
            self._log.warning("i2cp_lease_set_stale", reason=str(error))
        else:
            await self._give(session)

    async def _renew(self, session: _Session) -> None:
        try:
            await self._give(session)
        except RouterError as error:
            self._lose(session, str(error))
            raise

    async def _give(self, session: _Session) -> None:
        lease_set = self._set
        assert lease_set is not None
        i2pd = session.kind is RouterKind.I2PD
        await session.connection.send(create_lease_set2(session.number, lease_set.data, key_count=i2pd))
        self.status = replace(self.status, published=lease_set.published, sets_given=self.status.sets_given + 1)
        self._set_phase(I2cpPhase.SENT)

    async def _end(self, session: _Session) -> None:
        """End the session at the router, and wait for the end: until then the router refuses a new session."""
        try:
            if session.task is not None:
                session.task.cancel()
                await asyncio.wait([session.task])
            await end_session(session.connection, session.number)
        finally:
            session.connection.close()

    def _lose(self, session: _Session, reason: str) -> None:
        session.connection.close()
        if self._session is session:
            self._session = None
            self._set_phase(I2cpPhase.LOST, reason)
            self._log.warning("i2cp_session_lost", reason=reason)

    def _set_phase(self, phase: I2cpPhase, reason: str = "") -> None:
        if (phase, reason) != (self.status.phase, self.status.reason):
            self.status = replace(self.status, phase=phase, reason=reason, since=self._clock())


def _stopped_error() -> RouterError:
    return RouterError("publishing was stopped meanwhile")


@dataclass(frozen=True, slots=True)
class _Configs:
    """The configs that may open the session. The kind of router decides which config is used."""

    fresh: SessionConfig
    signed: SessionConfig | None
    """Signed by the destination's own key, perhaps long ago."""

    @classmethod
    def read(cls, publication: Publication) -> Self:
        signed = publication.signed_session
        fresh = _read_config(publication, publication.session)
        return cls(fresh, None if signed is None else _read_config(publication, signed))

    def of(self, kind: RouterKind) -> SessionConfig:
        """Return the config that this kind of router takes."""
        return self.signed if self.signed is not None and kind is RouterKind.I2PD else self.fresh


def _read_config(publication: Publication, data: bytes) -> SessionConfig:
    destination = publication.lease_set.destination
    return read_config(data, destination, subject="the lease set", owner="the lease set's destination")
