"""The office in `failover` mode: the chosen server runs the master's address itself (`failover.Failover`).

What is served is announced in the log like any set, so `published` rises strictly from one server to the next. Keys
that are replaced end the session, for it shows the router the old ones: the next one is open some seconds later.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from bridges.hosting_protocol import ServiceHosting, ServiceOffer
from gf_i2p.farm.versions import next_version
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.netdb.session_config import SERVICE_OPTIONS
from gf_i2p.node.clock import awake_or_not
from gf_i2p.node.publish.failover import Failover, FailoverState
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.office import Tenure
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Purpose
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.report.service_watch import TargetWatch
from gf_i2p.node.view import FarmView
from gf_i2p.wire.errors import NotCommittedError

logger = structlog.get_logger()

_POLL_SECONDS = 1.0
_FINISH_POLL_SECONDS = 0.1


class FailoverOffice:
    """One server's office (`Office`), when it has it. `run` takes it up and lays it down."""

    def __init__(
        self,
        server_id: int,
        view: FarmView,
        reporter: Reporter,
        hosting: ServiceHosting,
        keys: KeysWatch,
        target: TargetWatch,
        *,
        http: bool = False,
        options: Mapping[str, str] | None = None,
        clock: Callable[[], float] = awake_or_not,
    ) -> None:
        """Take up nothing yet.

        Args:
            server_id: who we are.
            view: the farm.
            reporter: who announces.
            hosting: the router.
            keys: the master's own, or delegated by it.
            target: the operator's local service, where clients are led to.
            http: whether that is a web server that is told who asks.
            options: I2CP's, of the session, in place of those that we would choose; with delegated keys an i2pd has
                those that the master has signed.
            clock: seconds, the reporter's.
        """
        self._view = view
        self._reporter = reporter
        self._hosting = hosting
        self._keys = keys
        self._target = target
        self._http = http
        self._options = {**SERVICE_OPTIONS, **(options or {})}
        self._clock = clock
        self._tenure = Tenure(server_id, view, reporter, clock=clock)
        self._failover: Failover | None = None
        self._objection: str | None = None
        self._sent = 0
        self._log = logger.bind(server=server_id, master=keys.keys.destination.b32)

    @property
    def trouble(self) -> str | None:
        """Why what should be served is not, None when all is well."""
        found = self._keys.ended or self._target.trouble or self._objection
        return found if found is not None or self._failover is None else self._failover.trouble

    def shown(self) -> dict[str, Any] | None:
        """Describe what is served; times are seconds since the epoch. None while nothing is, nor about to be."""
        failover, progress = self._failover, self._reporter.progress.current
        if failover is None or failover.state is FailoverState.IDLE:
            return None
        lease_set = failover.lease_set
        return {
            "state": str(failover.state),
            "master": self._keys.keys.destination.b32,
            "target": self._target.name,
            "published": None if lease_set is None else lease_set.published,
            "expires": None if lease_set is None else lease_set.expires_at,
            "streams": failover.streams,
            "sessions": failover.opened,
            "sent": self._sent,
            "word": None if progress is None else progress.word,
        }

    async def run(self) -> None:
        """Serve when chosen, stop when not, for ever."""
        watching = asyncio.get_running_loop().create_task(self._target.run())
        try:
            while True:
                await self._serve(self._keys.keys)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            self._look()

    async def finish(self, seconds: float) -> None:
        """See `Office.finish`: the streams that are open may end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._failover is not None and self._failover.streams:  # noqa: ASYNC110 - nobody tells it
                    await asyncio.sleep(_FINISH_POLL_SECONDS)

    async def _serve(self, keys: PublishingKeys) -> None:
        """Serve by these keys, until there are others."""
        offer = ServiceOffer(
            keys.keys,
            self._target.place,
            lambda: next_version(self._view.state, int(time.time() * 1000)),
            http=self._http,
            options=self._options,
            signed_session=keys.signed_session(Purpose.SERVICE),
        )
        self._failover = Failover(self._hosting, offer, due=self._due, announce=self._announce, clock=self._clock)
        serving = asyncio.get_running_loop().create_task(self._failover.run())
        try:
            while self._keys.keys is keys and not serving.done():
                self._look()
                await asyncio.wait([serving], timeout=_POLL_SECONDS)
        finally:
            serving.cancel()
            await asyncio.wait([serving])
        if not serving.cancelled():
            serving.result()
        self._log.info("new keys: the service is opened anew")

    def _due(self) -> bool:
        """Whether this server is to serve now."""
        ended = self._keys.ended is not None
        self._reporter.able(keys=not ended, service=self._target.up)
        if ended or not self._tenure.chosen:
            self._objection = None
            return False
        self._objection = self._tenure.objection
        return self._objection is None and self._view.choice.mode == "failover"

    async def _announce(self, lease_set: LeaseSet2) -> int:
        """Write a set into the log; return its entry's index when it is committed and taken in here."""
        index = await self._reporter.announce(lease_set)
        await self._view.reaches(index)
        if self._view.state.last_published_ms != lease_set.published * 1000:
            # Another one's is later, or ours is of the future to the farm: who comes next would not know of it.
            raise NotCommittedError("the farm knows another lease set as the last one: is a machine's clock ahead?")
        self._reporter.progress.attempted(int(time.time() * 1000))
        return index

    def _look(self) -> None:
        """Have the reporter say how far we are."""
        failover, current = self._failover, self._reporter.progress.current
        serving = failover is not None and failover.state in {FailoverState.SERVING, FailoverState.DRAINING}
        lease_set = None if failover is None or not serving else failover.lease_set
        if lease_set is not None and current is not None and current.attempted_ms and not current.sent_ms:
            given = lease_set.published * 1000 == current.published_ms
            if given:
                self._sent += 1
                self._reporter.progress.sent(int(time.time() * 1000))
        if serving != self._reporter.publishing:
            self._reporter.publishing = serving
            self._reporter.changed()
