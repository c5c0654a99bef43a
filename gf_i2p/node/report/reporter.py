"""The reporter of one node: asks the router for its status, and posts the status record.

The reporter posts at intervals, and at once when a fact changes by which the farm decides. Other numbers change all
the time; these wait for the next record.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from bridges.router_protocol import RouterBridge
from gf_i2p import __version__
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing.lease import PublisherLease, record_seconds
from gf_i2p.farm.publishing.set_progress import PublishProgress
from gf_i2p.farm.record.master_load import MasterLoad
from gf_i2p.farm.record.remote_sensing import MetaSensing, RemoteDestination, RemoteRouter
from gf_i2p.farm.record.status_record import Meta, ReportedConfig, StatusRecord, router_numbers
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.lease_set import LeaseSet2
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.node.clock import now_ms, seconds_since_boot
from gf_i2p.node.consensus.driver import Driver
from gf_i2p.node.report.leaf_farm import LeafFarm
from gf_i2p.node.report.local_leaf import LocalLeaf
from gf_i2p.node.report.own_leaves import OwnLeaves
from gf_i2p.node.report.router_info_file import RouterInfoFile
from gf_i2p.node.report.router_question import LEAF_SECONDS, ROUTER_SECONDS, RouterQuestion
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError

logger = structlog.get_logger()

POST_SECONDS: Final = 30.0
ASK_SECONDS: Final = 10.0
"""Seconds between two questions to the router: the longest delay before a change is noticed."""
LEAST_SECONDS: Final = 2.0
"""Least seconds between two records, however much changes; the announcement of a set does not wait."""
WAIT_SECONDS: Final = 5.0
"""Most seconds that the first record waits for the router's answers. For the other servers, a server without records is
gone, and so is its leaf."""


class Reporter:
    """Posts the records of one server: `run` at intervals and at changes, `announce` before a set is sent."""

    def __init__(
        self,
        server_id: int,
        cluster: str,
        driver: Driver,
        bridge: RouterBridge,
        *,
        master: Destination | None,
        interval: float,
        publish_config: str = "off",
        mode: str = "off",
        leaf_farm: LeafFarm | None = None,
        local_leaves: Sequence[LocalLeaf] = (),
        router_info: RouterInfoFile | None = None,
        parameters: Callable[[], Parameters] = Parameters,
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        """Prepare the reporter; only `run` posts.

        Attributes may be set later: the next record has their new values. After `changed`, that record comes early.

        Args:
            server_id: id of this server.
            cluster: the farm's name.
            driver: posts the records.
            bridge: leads to this server's router.
            master: the farm's master, for which this server may publish; None: this server has no keys.
            interval: seconds between two records when nothing changes; less while the farm's lease is short.
            publish_config: "on", "auto" or "off".
            mode: mode of publishing when this server is chosen: "off", "dry-run", "meta" or "failover".
            leaf_farm: the nested farm whose master is this server's leaf; None: the router names the leaves.
            local_leaves: for each leaf, the watch of its service and its forwarder; empty: no service is watched.
            router_info: the file with the router's router info; None: the records do not have the router info.
            parameters: returns the farm's present parameters.
            clock: monotonic seconds; the clock goes on while the machine sleeps.
        """
        self.publishing = False
        """Whether this node publishes now. The driver of publishing sets this."""
        self.publish_config = publish_config
        self.progress = PublishProgress(self.changed)
        """Progress of the newest set. The driver of publishing updates this."""
        self.lease = PublisherLease()
        """Tells from committed records whether this server may publish now."""
        self.on_committed: list[Callable[[], None]] = []
        """Each is called when a record of this server is committed."""
        self.remote_routers: tuple[RemoteRouter, ...] = ()
        """Servers that this leader no longer hears, and servers that this leader hears again; empty on a follower."""
        self.before_record: Callable[[], None] = lambda: None
        """Called before each record, to update the record's contents; must not raise."""
        self.master_load: Callable[[], MasterLoad | None] = lambda: None
        """Returns the load of the master's session; None without one. The driver of publishing sets this."""
        self.remote_destinations: tuple[RemoteDestination, ...] = ()
        self.meta_sensing: MetaSensing | None = None
        self.has_keys = True
        """Whether the keys for publishing are good now; see `able`."""
        self.has_service = True
        """Whether the service to which clients are led answers; see `able`."""
        self.troubles: tuple[str, ...] = ()
        """Why the router gives no status, or else the faults of the leaves; empty while all is well."""
        self.server_id = server_id
        """Id of this server."""
        self._cluster = cluster
        self._driver = driver
        self._bridge = bridge
        self._master = master
        self._config = ReportedConfig(mode, int(interval * 1000), __version__)
        self._interval = interval
        self._resigned = False
        self._resignation = asyncio.Event()
        self._router_info = router_info
        self._parameters = parameters
        self._clock = clock
        self._router: RouterQuestion[dict[str, Any]] = RouterQuestion(
            self._ask_router, seconds=ROUTER_SECONDS, on_answer=self._on_answer
        )
        self._leaves = OwnLeaves(
            bridge, local_leaves, leaf_farm=leaf_farm, seconds=LEAF_SECONDS, on_answer=self._on_answer
        )
        self._asked = False
        self._news = asyncio.Event()
        self._posted_at = float("-inf")  # monotonic
        self._posted_facts: object = None
        self._log = logger.bind(server=server_id)

    @property
    def trouble(self) -> str | None:
        """All `troubles` in one text; None while all is well."""
        return "; ".join(self.troubles) or None

    @property
    def mode(self) -> str:
        """Mode of publishing when this server is chosen: "off", "dry-run", "meta" or "failover"."""
        return self._config.mode or "off"

    @property
    def router_up(self) -> bool:
        """Whether the router beside this node answers."""
        return self._router.trouble is None

    # Posting --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask the router and post records until cancelled."""
        asking: asyncio.Task[None] | None = None
        try:
            await self._ask(min(WAIT_SECONDS, self._interval))
            asking = asyncio.get_running_loop().create_task(self._go_on_asking())
            while True:
                try:
                    await self._post(self._record())
                except (NotCommittedError, OutcomeUnknownError) as error:
                    self._log.warning("this server's status is not in the log", reason=str(error))
                await self._until_due()
        finally:
            if asking is not None:
                asking.cancel()
                await asyncio.wait([asking])
            await self._router.close()
            await self._leaves.close()

    def changed(self) -> None:
        """Have `run` check now whether a record is due."""
        self._news.set()

    def renew(self) -> None:
        """Have `run` post a record soon, even without a change, because this server's lease is in doubt."""
        self._posted_facts = None
        self.changed()

    def able(self, *, keys: bool, service: bool = True) -> None:
        """Set whether this server has the keys and the service for publishing; a change is posted at once."""
        if (keys, service) != (self.has_keys, self.has_service):
            self.has_keys, self.has_service = keys, service
            self.changed()

    async def resign(self) -> None:
        """Tell the farm that this server publishes nothing from now on; return when that record is committed.

        Takes as long as a post. Never returns while `run` does not run.
        """
        self._resigned = True
        self.changed()
        await self._resignation.wait()

    async def announce(self, lease_set: MetaLeaseSet | LeaseSet2) -> int:
        """Write into the log that this server is about to publish this set; return the committed entry's index.

        Raises `NotCommittedError` or `OutcomeUnknownError`.
        """
        self.progress.announced(lease_set.published, lease_set.data)
        return await self._post(self._record(publishing=True))

    async def _post(self, record: StatusRecord) -> int:
        facts, at, began = self._deciding_facts(), self._clock(), time.monotonic()
        resigned = self._resigned
        self._posted_at = began
        index = await self._driver.post([record.encode()], seconds=POST_SECONDS)
        self.lease.committed(index, at)
        if began >= self._posted_at:  # otherwise a newer record is under way or posted
            self._posted_facts = facts
        if resigned:
            self._resignation.set()
        for tell in self.on_committed:
            tell()
        return index

    async def _until_due(self) -> None:
        """Wait for the interval's end, or for a change by which other servers decide."""
        while True:
            self._news.clear()
            least = 0.0 if self._resigned else min(LEAST_SECONDS, self._interval)
            interval = record_seconds(self._interval, self._parameters())
            wait = least if self._deciding_facts() != self._posted_facts else interval
            wait -= time.monotonic() - self._posted_at
            if wait <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._news.wait()

    # Asking ---------------------------------------------------------------------------------------------------------

    async def _go_on_asking(self) -> None:
        pause = min(ASK_SECONDS, self._interval)
        while True:
            await asyncio.sleep(pause)
            await self._ask(0.0)  # a change is posted when the answer is there

    async def _ask(self, wait: float) -> None:
        await asyncio.gather(self._router.ask(wait), self._leaves.ask(wait))
        self._asked = True
        self._note_trouble()

    def _on_answer(self) -> None:
        if self._asked:
            self._note_trouble()
            self.changed()

    async def _ask_router(self) -> dict[str, Any]:
        status = await self._bridge.local_router_status()
        if self._router_info is not None:
            status = replace(status, last_published_ri=self._router_info.base64)
        return router_numbers(status)

    def _note_trouble(self) -> None:
        router = self._router.trouble
        troubles = self._leaves.troubles if router is None else (router,)
        if troubles == self.troubles:
            return
        self.troubles = troubles
        if router is not None:
            self._log.warning("the router is down for the farm", reason=router)
        elif troubles:
            self._log.warning("a leaf of this server is not listed", reason=self.trouble)
        else:
            self._log.info("the router answers")

    # The record -----------------------------------------------------------------------------------------------------

    @property
    def _publish_config(self) -> str:
        """The `publishConfig` of the record: "off" from a server that lacks keys or service, or has resigned."""
        return self.publish_config if self.has_keys and self.has_service and not self._resigned else "off"

    def _deciding_facts(self) -> object:
        """Return the facts by which other servers decide. A record is due when they differ from the last record's."""
        progress = self.progress.current
        return (
            self.router_up,
            tuple((leaf.hash, leaf.up, leaf.type, leaf.below) for leaf in self._leaves.leaves),
            self._publish_config,
            self.publishing,
            self._resigned,
            self.remote_routers,
            None if progress is None else (progress.published_ms, progress.stage),
        )

    def _record(self, *, publishing: bool = False) -> StatusRecord:
        self.before_record()
        return StatusRecord(
            cluster=self._cluster,
            date_ms=now_ms(),
            id=self.server_id,
            router_up=self.router_up,
            router=self._router.answer or {},
            meta=self._meta(publishing=(publishing or self.publishing) and not self._resigned),
            leaves=self._leaves.leaves,
            config=self._config,
            remote_routers=self.remote_routers,
            remote_destinations=self.remote_destinations,
            meta_sensing=self.meta_sensing,
        )

    def _meta(self, *, publishing: bool) -> Meta | None:
        if self._master is None:
            return None
        last = self.progress.current
        publish_config = self._publish_config
        load = self.master_load()
        if last is None:
            return Meta(self._master.base64, publish_config, publishing, load=load)
        return Meta(
            self._master.base64,
            publish_config,
            publishing,
            last_published_ms=last.published_ms,
            last_published_set=to_base64(last.data),
            attempted_ms=last.attempted_ms,
            sent_ms=last.sent_ms,
            found_ms=last.found_ms,
            confirmed_ms=last.confirmed_ms,
            load=load,
        )
