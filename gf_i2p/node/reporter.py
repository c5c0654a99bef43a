"""What this node tells the farm about itself: asks its router, and posts the status record."""

import asyncio
import time
from typing import Any, Final

import structlog

from bridges.errors import RouterError
from bridges.protocol import RouterBridge
from gf_i2p.farm.record import Leaf, Meta, StatusRecord, router_numbers
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.node.driver import Driver, PostError, PostOutcomeUnknownError

logger = structlog.get_logger()

POST_SECONDS: Final = 30.0


class Reporter:
    """Posts the records of one server. `run` does so at intervals, `announce` at once."""

    def __init__(
        self,
        server_id: int,
        cluster: str,
        driver: Driver,
        bridge: RouterBridge,
        *,
        master: Destination | None,
        may_publish: bool,
        interval: float,
    ) -> None:
        """`master`: whose leaves are reported. `interval`: seconds between two records."""
        self.publishing = False
        """Whether this node publishes now; told by whoever does that."""
        self.committed_at = float("-inf")
        """When the last record of ours was committed (monotonic seconds)."""
        self.trouble: str | None = None
        """What keeps the router from telling us, None when it tells."""
        self._id = server_id
        self._cluster = cluster
        self._driver = driver
        self._bridge = bridge
        self._master = master
        self._may_publish = may_publish
        self._interval = interval
        self._last_set: MetaLeaseSet | None = None
        self._log = logger.bind(server=server_id)

    async def run(self) -> None:
        """Post, at intervals, for ever."""
        while True:
            began = time.monotonic()
            record = await self._record()
            try:
                await self._post(record)
            except (PostError, PostOutcomeUnknownError) as error:
                self._log.warning("our status is not in the log", reason=str(error))
            await asyncio.sleep(max(self._interval - (time.monotonic() - began), 0.0))

    async def announce(self, lease_set: MetaLeaseSet) -> int:
        """Write into the log that we are about to publish this set; return the entry's index when it is committed.

        Raises `PostError` or `PostOutcomeUnknownError`.
        """
        self._last_set = lease_set
        return await self._post(await self._record(publishing=True))

    async def _post(self, record: StatusRecord) -> int:
        index = await self._driver.post([record.encode()], seconds=POST_SECONDS)
        self.committed_at = time.monotonic()
        return index

    async def _record(self, *, publishing: bool = False) -> StatusRecord:
        numbers: dict[str, Any] = {}
        leaves: list[Leaf] = []
        trouble: str | None = None
        try:
            numbers = router_numbers(await self._bridge.local_router_status())
            if self._master is not None:
                leaf = await self._bridge.local_leaf_hash(self._master.hash)
                if leaf is not None:
                    status = await self._bridge.local_leaf_status(leaf)
                    leaves.append(Leaf(leaf, status.up))
        except RouterError as error:
            trouble = str(error)
        if trouble != self.trouble:
            self.trouble = trouble
            if trouble is None:
                self._log.info("the router answers")
            else:
                self._log.warning("the router is down for the farm", reason=trouble)
        return StatusRecord(
            cluster=self._cluster,
            date_ms=int(time.time() * 1000),
            id=self._id,
            router_up=trouble is None,
            router=numbers,
            meta=self._meta(publishing=publishing or self.publishing),
            leaves=tuple(leaves),
        )

    def _meta(self, *, publishing: bool) -> Meta | None:
        if self._master is None:
            return None
        last = self._last_set
        return Meta(
            destination=self._master.base64,
            publish_config="auto" if self._may_publish else "off",
            publishing=publishing,
            last_published_ms=0 if last is None else last.published * 1000,
            last_published_set=None if last is None else to_base64(last.data),
        )
