"""A leaf member: a client beside a router where no server runs. The client reports the router's leaves."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import structlog

from bridges.router_protocol import RouterBridge
from gf_i2p import __version__
from gf_i2p.farm.record.status_record import ReportedConfig, StatusRecord, router_numbers
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.node.clock import now_ms
from gf_i2p.node.report.local_leaf import LocalLeaf
from gf_i2p.node.report.own_leaves import OwnLeaves
from gf_i2p.node.report.router_question import LEAF_SECONDS, ROUTER_SECONDS, RouterQuestion
from gf_i2p.transport.backoff import Backoff
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError

logger = structlog.get_logger()

INTERVAL_SECONDS: Final = 30.0
"""Seconds between two records when nothing changes."""
POST_SECONDS: Final = 30.0
WAIT_SECONDS: Final = 5.0
"""Seconds to wait for the router's answers, and for a post before its delay is reported. Later answers still count."""
_PAUSE_FLOOR: Final = 5.0
_PAUSE_CEILING: Final = 30.0
_REDIAL_FLOOR: Final = 1.0
_REDIAL_CEILING: Final = 30.0


def patient() -> Backoff:
    """Make a leaf member's delays between attempts to connect.

    When a leader dies, all leaf members dial the next leader, which can accept some hundreds of connections a second
    at best. A leaf member that tries again too soon only takes the place of others. A record may arrive a minute and a
    half late.
    """
    return Backoff(floor=_REDIAL_FLOOR, ceiling=_REDIAL_CEILING)


class LogClient(Protocol):
    """Posts values to the farm's log: the part of `FarmClient` that a leaf member needs."""

    async def post(self, values: Sequence[bytes], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        """Post the values; return the log index of the last value when all are committed. `timeout`: seconds.

        Raises `NotCommittedError` or `OutcomeUnknownError`.
        """
        ...


@dataclass(slots=True)
class LeafMemberReport:
    """The status of a leaf member's process. Times in ms since the epoch; None: never, or nothing."""

    id: int
    cluster: str
    started: int
    posted: int = 0
    """Number of committed records."""
    index: int | None = None
    """Log index of the newest committed record."""
    committed: int | None = None
    """Time at which that record was committed."""
    router: str | None = None
    """"up", or why the router reports nothing; None: not known yet."""
    leaves: tuple[tuple[str, bool, str | None], ...] = ()
    """For each leaf of which the router tells: the address, whether the leaf is up, and why not."""
    troubles: tuple[str, ...] = ()
    """Advice for the operator about the leaves; empty while all is well."""
    error: str | None = None
    """Why the newest record is not known to be in the log; None when the record is in the log."""
    failed: int | None = None
    """Time of the last failed post, in ms since the epoch."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON object."""
        return asdict(self)


class LeafMember:
    """Looks at the router, and posts records. `run` does so until cancelled."""

    def __init__(
        self,
        member: int,
        cluster: str,
        poster: LogClient,
        bridge: RouterBridge,
        *,
        look_seconds: float,
        tell: Callable[[LeafMemberReport], None],
        local_leaves: Sequence[LocalLeaf] = (),
        interval: float = INTERVAL_SECONDS,
        pause: Backoff | None = None,
        why: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`look_seconds`: seconds between two questions to the router. `interval`: seconds between two records.

        `local_leaves`: for each leaf, the watch of its service and its forwarder; empty: no service is watched.

        `tell` is called after each post, and every `WAIT_SECONDS` while a post is under way. `why` returns what a post
        waits for, as a clause; None when that is not known.
        """
        self.report = LeafMemberReport(member, cluster, now_ms())
        self._poster = poster
        self._bridge = bridge
        self._look_seconds = look_seconds
        self._tell = tell
        self._why = why
        self._local_leaves = local_leaves
        self._interval = interval
        self._pause = pause or Backoff(floor=_PAUSE_FLOOR, ceiling=_PAUSE_CEILING)
        self._router: RouterQuestion[dict[str, Any]] = RouterQuestion(self._ask_router, seconds=ROUTER_SECONDS)
        self._leaves = OwnLeaves(bridge, local_leaves, seconds=LEAF_SECONDS)
        self._log = logger.bind(member=member)

    async def run(self) -> None:
        """Post a record at intervals, and on a change that decides whether a leaf is listed."""
        posted_facts: object = None
        next_at = time.monotonic()
        watching = [asyncio.get_running_loop().create_task(each.run()) for each in self._local_leaves]
        try:
            while True:
                began = time.monotonic()
                wait = min(WAIT_SECONDS, self._look_seconds)
                await asyncio.gather(self._router.ask(wait), self._leaves.ask(wait))
                self._note_answers()
                record = self._record()
                facts = _deciding_facts(record)
                if facts != posted_facts or time.monotonic() >= next_at:
                    if await self._post(record):
                        posted_facts, next_at = facts, began + self._interval
                    else:
                        # The record may be in the log all the same, so the next interval counts from this post.
                        posted_facts, next_at = None, began + self._interval
                        await asyncio.sleep(self._pause.next())
                        continue
                await asyncio.sleep(max(min(began + self._look_seconds, next_at) - time.monotonic(), 0.0))
        finally:
            for task in watching:
                task.cancel()
            if watching:
                await asyncio.wait(watching)
            await self._router.close()
            await self._leaves.close()

    async def _post(self, record: StatusRecord) -> bool:
        report = self.report
        post = asyncio.ensure_future(self._poster.post([record.encode()], timeout=POST_SECONDS))
        try:
            while not (await asyncio.wait([post], timeout=WAIT_SECONDS))[0]:
                self._tell_meanwhile()
            index = post.result()
        except (NotCommittedError, OutcomeUnknownError) as error:
            if report.failed is None or (report.committed or 0) > report.failed:
                self._log.warning("this leaf member's record is not known to be in the log", reason=str(error))
            report.error, report.failed = str(error), now_ms()
            self._tell(report)
            return False
        finally:
            if post.cancel():  # this process is stopping
                await asyncio.wait([post])
        if report.error is not None or report.index is None:
            self._log.info("this leaf member's record is in the log", index=index)
        self._pause.reset()
        report.index, report.committed, report.error = index, now_ms(), None
        report.posted += 1
        self._tell(report)
        return True

    def _tell_meanwhile(self) -> None:
        """Report why the record is late, while the post is still under way."""
        self._note_answers()
        why = self._why()
        if why is not None:
            self.report.error = f"Not committed yet: {why.rstrip('.')}."
        self._tell(self.report)

    async def _ask_router(self) -> dict[str, Any]:
        return router_numbers(await self._bridge.local_router_status())

    def _note_answers(self) -> None:
        report = self.report
        router = None
        if self._router.settled:
            router = "up" if self._router.trouble is None else self._router.trouble
        before = report.router, report.troubles
        report.router, report.troubles = router, self._leaves.troubles
        if before != (report.router, report.troubles):
            if self._router.trouble is not None:
                self._log.warning("the router is down for the farm", reason=self._router.trouble)
            elif report.troubles:
                self._log.warning("a leaf is not listed", reason="; ".join(report.troubles))
            else:
                self._log.info("the router answers")
        report.leaves = tuple((to_b32_address(leaf.hash), leaf.up, why) for leaf, why in self._leaves.told)

    def _record(self) -> StatusRecord:
        return StatusRecord(
            cluster=self.report.cluster,
            date_ms=now_ms(),
            id=self.report.id,
            router_up=self._router.trouble is None,
            router=self._router.answer or {},
            leaves=self._leaves.leaves,
            config=ReportedConfig(interval_ms=int(self._interval * 1000), version=__version__),
        )


def _deciding_facts(record: StatusRecord) -> object:
    """Return the fields that decide whether the leaves are listed; other numbers wait for the next record."""
    return record.router_up, tuple((leaf.hash, leaf.up) for leaf in record.leaves)
