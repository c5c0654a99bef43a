"""Publishes the Meta lease set while the farm's log says that this server is to.

What is published is written into the log first, and sent only when that entry is committed and the log still names
this server: so `published` rises strictly from one publisher to the next, and who has lost the farm publishes nothing.
In a dry run all is done but that: sets are chosen, built and signed, and nobody is given one.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final

import structlog

from bridges.errors import RouterError
from bridges.protocol import Publication, RouterBridge
from gf_i2p.farm.choice.publisher import Branch, Entry
from gf_i2p.farm.versions import next_version
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.node.clock import awake_or_not
from gf_i2p.node.publish.branch_keys import BranchKeys, derive
from gf_i2p.node.publish.branches import Branches, leases
from gf_i2p.node.publish.cadence import HURRIED_SETS, Due, Given, Pace, next_due
from gf_i2p.node.publish.confirmation import judge
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.office import Tenure
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Purpose
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.view import FarmView
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError

logger = structlog.get_logger()

PUBLISH_SECONDS: Final = 300.0
"""From the announcement until the router has the set. A session's tunnels take up to two minutes."""
STOP_SECONDS: Final = 30.0
"""For the router to stop."""
_POLL_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 5.0
"""After the router, or the log, has refused; twice as long each further time."""
_MAX_AGAIN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be published."""

    entries: tuple[Entry, ...]
    """Of the first set, those for branches among them."""
    branches: tuple[Branch, ...] = ()

    def differs(self, other: "Wanted") -> bool:
        """Whether a set that clients see is another one."""
        return self.content != other.content

    @property
    def hashes(self) -> set[bytes]:
        """Of all leaves."""
        return {
            entry.hash for entries in (self.entries, *(each.entries for each in self.branches)) for entry in entries
        }

    @property
    def numbers(self) -> set[int]:
        """Of the branches."""
        return {branch.number for branch in self.branches}

    @property
    def content(self) -> object:
        """All that clients see."""
        return (
            frozenset((entry.hash, entry.type, entry.cost) for entry in self.entries),
            frozenset(
                (branch.number, entry.hash, entry.type, entry.cost)
                for branch in self.branches
                for entry in branch.entries
            ),
        )


@dataclass(frozen=True, slots=True)
class Published:
    """What this node has last given to its router, or would have in a dry run."""

    lease_set: MetaLeaseSet
    given: Given
    wanted: Wanted

    @property
    def sent(self) -> int:
        """How many sets it has given since it was chosen, the router lost one, or there was a new branch."""
        return self.given.sent

    @property
    def at(self) -> float:
        """When (by the clock)."""
        return self.given.at


class Publisher:
    """One server's office (`Office`), when it has it. `run` takes it up and lays it down."""

    def __init__(
        self,
        server_id: int,
        view: FarmView,
        reporter: Reporter,
        bridge: RouterBridge,
        keys: KeysWatch,
        *,
        branch_keys: BranchKeys | None = None,
        dry_run: bool = False,
        clock: Callable[[], float] = awake_or_not,
    ) -> None:
        """`keys`: the master's own, or delegated by it. `branch_keys`: None for those that follow from it.

        `clock`: seconds, the reporter's.
        """
        self.published: Published | None = None
        """None while this node publishes nothing."""
        self.trouble: str | None = None
        """Why what should be published is not, None when all is well."""
        self._id = server_id
        self._view = view
        self._reporter = reporter
        self._bridge = bridge
        self._keys = keys
        self._branches = Branches(
            bridge, cache(partial(derive, keys.keys.keys)) if branch_keys is None else branch_keys
        )
        self._dry_run = dry_run
        self._signer: PublishingKeys | None = None
        """The keys of the session that is open."""
        self._clock = clock
        self._tenure = Tenure(server_id, view, reporter, clock=clock)
        self._again = _AGAIN_SECONDS
        self._lost = False
        """Whether what was given is not with the router any more."""
        self._given = False
        """Whether the router may have something that it is to forget when we stop."""
        self._unstopped: str | None = None
        """Why it has not been told so."""
        self._log = logger.bind(server=server_id, master=keys.keys.destination.b32)

    async def finish(self, seconds: float) -> None:
        """See `Office.finish`: what was published is good without us."""

    async def run(self) -> None:
        """Publish when chosen, stop when not, for ever."""
        while True:
            pause = await self._step()
            await asyncio.sleep(pause)

    def shown(self) -> dict[str, Any] | None:
        """Describe what is published; times are seconds since the epoch, or from now ("next")."""
        last, progress = self.published, self._reporter.progress.current
        if last is None:
            return None
        due = self._next(last.wanted)
        return {
            "dry_run": self._dry_run,
            "master": last.lease_set.destination.b32,
            "published": last.lease_set.published,
            "expires": last.lease_set.expires_at,
            "leaves": len(last.lease_set.entries),
            "entries": [
                {"hash": to_b32_address(entry.hash), "type": int(entry.type), "cost": entry.cost}
                for entry in last.lease_set.entries
            ],
            "branches": len(last.wanted.branches),
            "sent": 0 if self._dry_run else last.sent,
            "progress": None
            if progress is None
            else {
                "word": progress.word,
                "attempted": progress.attempted_ms / 1000 or None,
                "sent": progress.sent_ms / 1000 or None,
                "confirmed": progress.confirmed_ms / 1000 or None,
                "confirmed_by": progress.confirmed_by,
                "unconfirmed": progress.unconfirmed,
                "retries": last.given.retries,
            },
            "next": {"seconds": round(max(due.at - self._clock(), 0.0), 1), "why": due.why},
        }

    async def _step(self) -> float:
        """Do what is to be done now; return after how many seconds to look again."""
        wanted = self._due()
        if wanted is None:
            return await self._stop()
        try:
            self._look_for_confirmation()
            if not self._is_time(wanted):
                return _POLL_SECONDS
            await self._while_due(self._rehearse(wanted) if self._dry_run else self._publish(wanted))
        except (RouterError, NetDbError, NotCommittedError, OutcomeUnknownError) as error:
            self._note(str(error))
        except Exception as error:  # noqa: BLE001 -- the other servers count on us to try again, or to stop
            self._log.exception("a defect in publishing")
            self._note(f"a defect of ours: {error!r}")
        else:
            self._again = _AGAIN_SECONDS
            return _POLL_SECONDS
        pause, self._again = self._again, min(2 * self._again, _MAX_AGAIN_SECONDS)
        return pause

    # When -----------------------------------------------------------------------------------------------------------

    def _due(self) -> Wanted | None:
        """Return what to publish; None when this server is not to publish."""
        choice = self._view.choice
        # Who lacks keys for a branch says so before it is chosen, or nobody would publish while it is.
        lacking = self._keys.ended or self._branches.lacking(choice.branches)
        self._reporter.able(keys=lacking is None)
        if choice.publisher != self._id or lacking is not None:
            self._note(lacking)
            return None
        objection = self._tenure.objection
        if objection is not None:
            self._note(objection)
            return None
        if not choice.listed:
            self._note("no leaf is up: a set without entries would make the service unreachable")
            return None
        return Wanted(choice.entries + self._branches.entries(choice.branches, self._id), choice.branches)

    def _is_time(self, wanted: Wanted) -> bool:
        """Whether a set is to be sent now."""
        last = self.published
        if last is None or self.trouble is not None:
            return True
        if self._signer is not self._keys.keys:
            return True
        lost = None
        if not self._dry_run:
            lost = self._bridge.publication_trouble(self._keys.keys.destination.hash) or self._branches.trouble
        if lost is not None:
            self._lost = True
            self._note(lost)
            return True
        return self._next(wanted).at <= self._clock()

    def _next(self, wanted: Wanted) -> Due:
        """When the next set is due, and why then."""
        last = self.published
        differs = last is not None and last.wanted.differs(wanted)
        return next_due(None if last is None else last.given, differs=differs, pace=self._pace, now=self._clock())

    @property
    def _pace(self) -> Pace:
        parameters = self._view.state.parameters
        return Pace(
            parameters.republish_min_ms / 1000,
            parameters.republish_max_ms / 1000,
            hurried=0 if self._dry_run else HURRIED_SETS,
        )

    def _look_for_confirmation(self) -> None:
        """See whether another server has found the set that we gave last."""
        progress, last = self._reporter.progress, self.published
        current = progress.current
        if last is None or current is None or not current.sent_ms or current.confirmed_ms:
            return
        verdict = judge(self._view.state.records, self._id, published_ms=current.published_ms, sent_ms=current.sent_ms)
        if verdict.confirmed_by is not None:
            progress.confirmed(verdict.confirmed_ms, verdict.confirmed_by)
            self.published = replace(last, given=replace(last.given, missed=False, retries=0))
            self._log.info("confirmed", published=current.published_ms // 1000, by=verdict.confirmed_by)
        else:
            progress.unconfirmed(verdict.why or "")
            self.published = replace(last, given=replace(last.given, missed=verdict.missed))

    # What -----------------------------------------------------------------------------------------------------------

    async def _while_due(self, publishing: Coroutine[None, None, None]) -> None:
        """Give it up when this server is not to publish any more: log and router may let us wait for minutes."""
        task = asyncio.get_running_loop().create_task(publishing)
        try:
            while not task.done() and self._due() is not None:
                await asyncio.wait([task], timeout=_POLL_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    def _build(self, keys: PublishingKeys, wanted: Wanted) -> MetaLeaseSet:
        """Make and sign a set, later than all that the farm has announced."""
        now = time.time()
        published = next_version(self._view.state, int(now * 1000))
        entries = leases(wanted.entries, published, keys.ends)
        lease_set = MetaLeaseSet.build(keys.keys, published=published, entries=entries)
        objection = lease_set.objection(int(now))
        if objection is not None:
            raise NotCommittedError(f"no router would take the set: {objection}")
        return lease_set

    async def _rehearse(self, wanted: Wanted) -> None:
        """Do what can be done without telling anybody."""
        self._signer = self._keys.keys
        lease_set = self._build(self._signer, wanted)
        self._branches.build(wanted.branches, lease_set.published)
        self._keep(lease_set, wanted)
        self._note(None)
        self._log.info(
            "would publish",
            published=lease_set.published,
            leaves=[to_b32_address(entry.hash) for entry in lease_set.entries],
            expires=lease_set.expires_at,
        )

    async def _publish(self, wanted: Wanted) -> None:
        keys = self._keys.keys
        lease_set = self._build(keys, wanted)
        await self._view.reaches(await self._reporter.announce(lease_set))
        due = self._due()
        if due is None or self._view.state.last_published_ms > lease_set.published * 1000:
            return  # another one has the office, or has had it meanwhile
        if self._view.state.last_published_ms < lease_set.published * 1000:
            # The next publisher would not know of it, and could publish what routers hold for older.
            raise NotCommittedError("the farm takes our set for one of the future: is this machine's clock ahead?")
        if wanted.hashes - due.hashes:
            return  # a leaf was taken out meanwhile, perhaps by an administrator
        self._reporter.progress.attempted(int(time.time() * 1000))
        changed = self._given and self._signer is not keys
        self._given = True
        now_ms = int(time.time() * 1000)
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                if changed:  # the session shows the authorisation of the old ones
                    await self._bridge.stop_publishing_meta_lease_set(keys.destination.hash)
                self._signer = keys
                await self._branches.publish(
                    wanted.branches, lease_set.published, now_ms=now_ms, wanted=lambda: self._tenure.holds
                )
                await self._bridge.publish_meta_lease_set(
                    Publication(
                        lease_set,
                        keys.fresh_session(Purpose.META, int(time.time() * 1000)),
                        keys.signed_session(Purpose.META),
                        wanted=lambda: self._tenure.holds,
                    )
                )
        except TimeoutError as error:
            raise RouterError(f"the router has not taken the set within {PUBLISH_SECONDS:.0f} s") from error
        self._keep(lease_set, wanted)
        self._reporter.publishing = True
        self._reporter.progress.sent(int(time.time() * 1000))
        self._note(None)
        assert self.published is not None
        self._log.info(
            "published",
            published=lease_set.published,
            leaves=len(wanted.entries),
            expires=lease_set.expires_at,
            sent=self.published.sent,
        )

    def _keep(self, lease_set: MetaLeaseSet, wanted: Wanted) -> None:
        """Note what was given."""
        now, last = self._clock(), None if self._lost else self.published
        same = last is not None and not last.wanted.differs(wanted)
        missed = last is not None and last.given.missed
        # A router may drop the first sets of a session; a new branch has a session of its own.
        begun = last is None or bool(wanted.numbers - last.wanted.numbers)
        given = Given(
            now,
            last.given.changed_at if last is not None and same else now,
            1 if last is None or begun else last.given.sent + 1,
            retries=last.given.retries + 1 if last is not None and missed else 0,
        )
        self._lost = False
        self.published = Published(lease_set, given, wanted)

    async def _stop(self) -> float:
        """Have the router forget what it was given, if it was given anything; return as `_step` does."""
        if self.published is not None:
            self._log.info("no longer the publisher")
        self.published = None
        if self._reporter.publishing:
            self._reporter.publishing = False
            self._reporter.changed()
        if not self._given:
            return _POLL_SECONDS
        why = None
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._bridge.stop_publishing_meta_lease_set(self._keys.keys.destination.hash)
                await self._branches.stop()
        except TimeoutError:
            why = f"it has not answered within {STOP_SECONDS:.0f} s"
        except RouterError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 -- the other servers count on us to try again, or to stop
            self._log.exception("a defect in publishing")
            why = f"a defect of ours: {error!r}"
        self._given = why is not None
        if why is not None and why != self._unstopped:
            self._log.warning("the router was not told to stop; we go on telling it", reason=why)
        self._unstopped = why
        return _POLL_SECONDS if why is None else _AGAIN_SECONDS

    def _note(self, trouble: str | None) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            if trouble is not None:
                self._log.warning("not published", reason=trouble)
