"""What this node tells the farm about itself: asks its router, and posts the status record."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import structlog

from bridges.protocol import RouterBridge
from gf_i2p.farm.record import Leaf, Meta, StatusRecord, router_numbers
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.node.asking import Question
from gf_i2p.node.driver import Driver, PostError, PostOutcomeUnknownError
from gf_i2p.node.leaf_farm import LeafFarm

logger = structlog.get_logger()

POST_SECONDS: Final = 30.0
ROUTER_SECONDS: Final = 25.0
"""A router that has not said by then how it does is down. Its answer by i2pcontrol takes up to 20."""
LEAF_SECONDS: Final = 90.0
"""The same for our leaf: i2pd takes 30 s for a lease set that it does not find."""
WAIT_SECONDS: Final = 5.0
"""A record waits so long for answers; then it says what was known before. Others take a server without records as
gone, and its leaf with it."""
_MAX_COMMITS: Final = 64


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
        leaf_farm: LeafFarm | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`master`: whose leaves are reported. `interval`: seconds between two records. `clock`: monotonic seconds.

        `leaf_farm`: the farm whose master is our leaf; None: the router says which leaf is ours.
        """
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
        self._leaf_farm = leaf_farm
        self._clock = clock
        self._commits: deque[tuple[int, float]] = deque(maxlen=_MAX_COMMITS)
        self._router: Question[dict[str, Any]] = Question(self._ask_router, seconds=ROUTER_SECONDS)
        self._leaf: Question[Leaf | None] = Question(self._ask_leaf, seconds=LEAF_SECONDS)
        self._last_set: MetaLeaseSet | None = None
        self._log = logger.bind(server=server_id)

    async def run(self) -> None:
        """Post, at intervals, for ever."""
        try:
            while True:
                began = time.monotonic()
                wait = min(WAIT_SECONDS, self._interval)
                await asyncio.gather(self._router.ask(wait), self._leaf.ask(wait))
                self._note()
                try:
                    await self._post(self._record())
                except (PostError, PostOutcomeUnknownError) as error:
                    self._log.warning("our status is not in the log", reason=str(error))
                await asyncio.sleep(max(self._interval - (time.monotonic() - began), 0.0))
        finally:
            await self._router.close()
            await self._leaf.close()

    def seen_at(self, applied: int) -> float:
        """When the last record of ours up to this index of the log was committed (monotonic seconds)."""
        return max((at for index, at in self._commits if index <= applied), default=float("-inf"))

    async def announce(self, lease_set: MetaLeaseSet) -> int:
        """Write into the log that we are about to publish this set; return the entry's index when it is committed.

        Raises `PostError` or `PostOutcomeUnknownError`.
        """
        self._last_set = lease_set
        return await self._post(self._record(publishing=True))

    async def _post(self, record: StatusRecord) -> int:
        index = await self._driver.post([record.encode()], seconds=POST_SECONDS)
        self.committed_at = self._clock()
        self._commits.append((index, self.committed_at))
        return index

    async def _ask_router(self) -> dict[str, Any]:
        return router_numbers(await self._bridge.local_router_status())

    async def _ask_leaf(self) -> Leaf | None:
        if self._leaf_farm is not None:
            return await self._leaf_farm.leaf()
        hash_ = None if self._master is None else await self._bridge.local_leaf_hash(self._master.hash)
        return None if hash_ is None else Leaf(hash_, (await self._bridge.local_leaf_status(hash_)).up)

    def _note(self) -> None:
        below = None if self._leaf_farm is None else self._leaf_farm.trouble
        trouble = self._router.trouble or self._leaf.trouble or below
        if trouble == self.trouble:
            return
        self.trouble = trouble
        if self._router.trouble is not None:
            self._log.warning("the router is down for the farm", reason=trouble)
        elif trouble is not None:
            self._log.warning("our leaf is not listed", reason=trouble)
        else:
            self._log.info("the router answers")

    def _record(self, *, publishing: bool = False) -> StatusRecord:
        leaf = self._leaf.answer
        return StatusRecord(
            cluster=self._cluster,
            date_ms=int(time.time() * 1000),
            id=self._id,
            router_up=self._router.trouble is None,
            router=self._router.answer or {},
            meta=self._meta(publishing=publishing or self.publishing),
            leaves=() if leaf is None else (leaf,),
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
