"""A leaf-only member: a router beside which no server runs tells the farm, as a client, that its leaf serves."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import structlog

from bridges.protocol import RouterBridge
from gf_i2p import __version__
from gf_i2p.farm.record.status_record import Config, Leaf, StatusRecord, router_numbers
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.node.report.router_question import Question
from gf_i2p.transport.backoff import Backoff
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError

logger = structlog.get_logger()

INTERVAL_SECONDS: Final = 30.0
"""Between two records when nothing changes."""
POST_SECONDS: Final = 30.0
ROUTER_SECONDS: Final = 25.0
"""A router that has not said by then how it does is down."""
LEAF_SECONDS: Final = 120.0
"""The same for the leaf: i2pd takes 30 to 40 s for a lease set that it does not find, and is asked twice."""
WAIT_SECONDS: Final = 5.0
"""A look waits so long for answers; what comes later counts at the next one."""
_PAUSE_FLOOR: Final = 5.0
_PAUSE_CEILING: Final = 30.0
_REDIAL_FLOOR: Final = 1.0
_REDIAL_CEILING: Final = 30.0
_ANY_MASTER: Final = bytes(32)
"""Whose leaf is asked for: a member's file names its leaf itself."""


def patient() -> Backoff:
    """Make a member's delays between attempts to connect.

    When a leader dies, all members turn to the next one, which can let in some hundreds a second at best: who comes
    again too soon only pushes out others that come. A record has a minute and a half to get there.
    """
    return Backoff(floor=_REDIAL_FLOOR, ceiling=_REDIAL_CEILING)


class Poster(Protocol):
    """What brings a record into the farm's log: `gf_i2p.transport.client.farm_client.FarmClient`."""

    async def post(self, values: Sequence[bytes], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        """See `FarmClient.post`."""
        ...


@dataclass(slots=True)
class MemberReport:
    """What a member's process says of itself. Times in ms since the epoch; None: never, or nothing."""

    id: int
    cluster: str
    started: int
    posted: int = 0
    """Records that were committed."""
    index: int | None = None
    """In the log, of the newest record."""
    committed: int | None = None
    """When that was committed."""
    router: str | None = None
    """"up", or why it tells nothing; None: not known yet."""
    leaf: str | None = None
    """Why it does not tell of the leaf."""
    leaves: tuple[tuple[str, bool], ...] = ()
    """Addresses, and whether they are up, as the router said last."""
    error: str | None = None
    """Why the newest record is not in the log, or not yet, as far as known."""
    failed: int | None = None
    """When a record last failed to get there."""

    def encode(self) -> dict[str, Any]:
        """Give the JSON object."""
        return asdict(self)


class LeafMember:
    """Looks at the router, and posts. `run` does so for ever."""

    def __init__(
        self,
        member: int,
        cluster: str,
        poster: Poster,
        bridge: RouterBridge,
        *,
        look_seconds: float,
        tell: Callable[[MemberReport], None],
        interval: float = INTERVAL_SECONDS,
        pause: Backoff | None = None,
        why: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`look_seconds`: between two looks. `interval`: between two records.

        `tell`: hears of each record that was tried, and of news meanwhile. `why`: says what a post waits for, a clause.
        """
        self.report = MemberReport(member, cluster, _now_ms())
        self._poster = poster
        self._bridge = bridge
        self._look_seconds = look_seconds
        self._tell = tell
        self._why = why
        self._interval = interval
        self._pause = pause or Backoff(floor=_PAUSE_FLOOR, ceiling=_PAUSE_CEILING)
        self._router: Question[dict[str, Any]] = Question(self._ask_router, seconds=ROUTER_SECONDS)
        self._leaf: Question[Leaf | None] = Question(self._ask_leaf, seconds=LEAF_SECONDS)
        self._log = logger.bind(member=member)

    async def run(self) -> None:
        """Post a record at intervals, and when something has changed that decides who is listed."""
        said: object = None
        next_at = time.monotonic()
        try:
            while True:
                began = time.monotonic()
                wait = min(WAIT_SECONDS, self._look_seconds)
                await asyncio.gather(self._router.ask(wait), self._leaf.ask(wait))
                self._note()
                record = self._record()
                news = _what_matters(record)
                if news != said or time.monotonic() >= next_at:
                    if await self._post(record):
                        said, next_at = news, began + self._interval
                    else:
                        # The farm may have the record: only time tells it from one that never came.
                        said, next_at = None, began + self._interval
                        await asyncio.sleep(self._pause.next())
                        continue
                await asyncio.sleep(max(min(began + self._look_seconds, next_at) - time.monotonic(), 0.0))
        finally:
            await self._router.close()
            await self._leaf.close()

    async def _post(self, record: StatusRecord) -> bool:
        report = self.report
        post = asyncio.ensure_future(self._poster.post([record.encode()], timeout=POST_SECONDS))
        try:
            while not (await asyncio.wait([post], timeout=WAIT_SECONDS))[0]:
                self._tell_meanwhile()
            index = post.result()
        except (NotCommittedError, OutcomeUnknownError) as error:
            if report.failed is None or (report.committed or 0) > report.failed:
                self._log.warning("our record is not in the log, as far as we know", reason=str(error))
            report.error, report.failed = str(error), _now_ms()
            self._tell(report)
            return False
        finally:
            if post.cancel():  # we are being stopped
                await asyncio.wait([post])
        if report.error is not None or report.index is None:
            self._log.info("our record is in the log", index=index)
        self._pause.reset()
        report.index, report.committed, report.error = index, _now_ms(), None
        report.posted += 1
        self._tell(report)
        return True

    def _tell_meanwhile(self) -> None:
        """Tell what keeps the record, so that nobody has to wait until it is given up."""
        self._note()
        why = self._why()
        if why is not None:
            self.report.error = f"Not committed yet: {why.rstrip('.')}."
        self._tell(self.report)

    async def _ask_router(self) -> dict[str, Any]:
        return router_numbers(await self._bridge.local_router_status())

    async def _ask_leaf(self) -> Leaf | None:
        hash_ = await self._bridge.local_leaf_hash(_ANY_MASTER)
        return None if hash_ is None else Leaf(hash_, (await self._bridge.local_leaf_status(hash_)).up)

    def _note(self) -> None:
        report, leaf = self.report, self._leaf.answer
        router = None
        if self._router.settled:
            router = "up" if self._router.trouble is None else self._router.trouble
        before = report.router, report.leaf
        report.router, report.leaf = router, self._leaf.trouble
        if before != (report.router, report.leaf):
            if self._router.trouble is not None:
                self._log.warning("the router is down for the farm", reason=self._router.trouble)
            elif self._leaf.trouble is not None:
                self._log.warning("our leaf is not listed", reason=self._leaf.trouble)
            else:
                self._log.info("the router answers")
        report.leaves = () if leaf is None else ((to_b32_address(leaf.hash), leaf.up),)

    def _record(self) -> StatusRecord:
        leaf = self._leaf.answer
        return StatusRecord(
            cluster=self.report.cluster,
            date_ms=_now_ms(),
            id=self.report.id,
            router_up=self._router.trouble is None,
            router=self._router.answer or {},
            leaves=() if leaf is None else (leaf,),
            config=Config(interval_ms=int(self._interval * 1000), version=__version__),
        )


def _what_matters(record: StatusRecord) -> object:
    """Return what decides who is listed; the numbers wait for the next record."""
    return record.router_up, tuple((leaf.hash, leaf.up) for leaf in record.leaves)


def _now_ms() -> int:
    return int(time.time() * 1000)
