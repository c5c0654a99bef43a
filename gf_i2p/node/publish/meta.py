"""Publishes the Meta lease set through the router beside this node: drives `farm.publishing.meta.MetaMachine`."""

import asyncio
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import structlog

from bridges.errors import RouterError
from bridges.router_protocol import Publication, RouterBridge
from gf_i2p.farm.publishing.announcement import Announcement
from gf_i2p.farm.publishing.effects import Announce, Effect, Give, PublishingEffects, Rehearse, Stop
from gf_i2p.farm.publishing.meta import MetaMachine
from gf_i2p.farm.publishing.situation import Situation
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.node.clock import now_ms, seconds_since_boot
from gf_i2p.node.publish.branch_keys import BranchKeys, derive
from gf_i2p.node.publish.branches import Branches, leases
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.machine_loop import MachineLoop
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Purpose
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.view import FarmView
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError

logger = structlog.get_logger()

PUBLISH_SECONDS: Final = 300.0
"""Seconds for the router to take a set. The tunnels of a new session take up to two minutes."""
STOP_SECONDS: Final = 30.0
"""Most seconds for the router to stop publishing a set."""


class MetaPublisher:
    """The publisher of one server (`Publisher`), in mode `meta` or `dry-run`."""

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
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        """`keys`: the master's own or delegated keys. `clock`: the reporter's clock, in seconds.

        `branch_keys`: without it, the branch keys are derived from the master's own key.
        """
        self.lease_set: MetaLeaseSet | None = None
        """The set given last to the router, or rehearsed in a dry run; None while this node publishes nothing."""
        self.machine = MetaMachine(server_id, reporter.lease, reporter.progress, dry_run=dry_run)
        self._view = view
        self._reporter = reporter
        self._bridge = bridge
        self._keys = keys
        self._branches = Branches(
            bridge, cache(partial(derive, keys.keys.keys)) if branch_keys is None else branch_keys
        )
        self._dry_run = dry_run
        self._server_id = server_id
        self._clock = clock
        self._built: MetaLeaseSet | None = None
        """The set that was built last: it is announced first, and then given to the router."""
        self._logged_trouble: str | None = None
        """The trouble that was logged last."""
        self._unstopped: str | None = None
        """Why the router could not be told to stop; None when the last attempt succeeded."""
        self._logged_stage: tuple[int, str] | None = None
        """The version that was logged last as found or confirmed, and that stage."""
        self._log = logger.bind(server=server_id, master=keys.keys.destination.b32)
        self._loop = MachineLoop(self._step, self._begin, view=view, reporter=reporter, clock=clock)
        keys.on_change.append(self._loop.wake)

    @property
    def trouble(self) -> str | None:
        """Why the set is not published as it should be; None when all is well."""
        return self.machine.trouble

    async def run(self) -> None:
        """Publish while this server is chosen, until cancelled."""
        await self._loop.run()

    async def finish(self, seconds: float) -> None:
        """Return at once: clients can use a published set without this server."""

    def shown(self) -> dict[str, Any] | None:
        """Describe the published set; None without one. Times: seconds since the epoch; in "next", from now."""
        lease_set, last_set, progress = self.lease_set, self.machine.last_set, self._reporter.progress.current
        if lease_set is None or last_set is None:
            return None
        due = self.machine.next(self._situation())
        return {
            "dry_run": self._dry_run,
            "master": lease_set.destination.b32,
            "published": lease_set.published,
            "expires": lease_set.expires_at,
            "leaves": len(lease_set.entries),
            "entries": [
                {"hash": to_b32_address(entry.hash), "type": int(entry.type), "cost": entry.cost}
                for entry in lease_set.entries
            ],
            "branches": len(self.machine.last_leaf_set.branches),
            "sent": 0 if self._dry_run else last_set.sent_count,
            "progress": None
            if progress is None
            else {
                "word": progress.stage,
                "attempted": progress.attempted_ms / 1000 or None,
                "sent": progress.sent_ms / 1000 or None,
                "found": progress.found_ms / 1000 or None,
                "found_by": progress.found_by,
                "confirmed": progress.confirmed_ms / 1000 or None,
                "confirmed_by": progress.confirmed_by,
                "unconfirmed": progress.unconfirmed,
                "retries": last_set.retries,
            },
            "next": {"seconds": round(max(due.at - self._clock(), 0.0), 1), "why": due.why},
        }

    # The machine ----------------------------------------------------------------------------------------------------

    def _step(self) -> PublishingEffects:
        situation = self._situation(look=True)
        self._reporter.able(keys=situation.signing_obstacle is None)
        effects = self.machine.step(situation)
        self._report_changes()
        return effects

    def _situation(self, *, look: bool = False) -> Situation:
        """Return the present situation. `look`: also ask the bridge whether the router still has the set."""
        choice = self._view.choice
        return Situation(
            self._clock(),
            now_ms(),
            choice,
            self._view.state,
            self._view.applied,
            keys=self._keys.keys,
            # A server without keys for a branch must say so before it is chosen: otherwise no server would publish.
            signing_obstacle=self._keys.ended or self._branches.lacking(choice.branches),
            loss=self._lost() if look else None,
        )

    def _lost(self) -> str | None:
        if self.lease_set is None or self._dry_run:
            return None
        try:
            return self._bridge.publication_trouble(self._keys.keys.destination.hash) or self._branches.trouble
        except RouterError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 -- the other servers rely on this one to try again, or to stop
            return self._defect(error)

    def _may_give(self, announcement: Announcement) -> bool:
        return self.machine.may_give(announcement, self._situation())

    def _report_changes(self) -> None:
        """Tell the farm and the operator of changes."""
        publishing = self.machine.last_set is not None and not self._dry_run
        if publishing != self._reporter.publishing:
            self._reporter.publishing = publishing
            self._reporter.changed()
        if self.machine.last_set is None and self.lease_set is not None:
            self.lease_set = None
            self._log.info("no longer the publisher")
        if self.trouble != self._logged_trouble:
            self._logged_trouble = self.trouble
            if self.trouble is not None:
                self._log.warning("not published", reason=self.trouble)
        current = self._reporter.progress.current
        if current is not None and current.stage in {"found", "confirmed"}:
            stage = current.published_ms, current.stage
            if stage != self._logged_stage:
                self._logged_stage = stage
                by = current.confirmed_by or current.found_by
                self._log.info(current.stage, published=current.published_ms // 1000, by=by)

    # Effects of the machine --------------------------------------------------------------------------------------

    async def _begin(self, effect: Effect) -> None:
        try:
            match effect:
                case Announce(announcement):
                    await self._announce(announcement)
                case Rehearse(announcement):
                    self._rehearse(announcement)
                case Give(announcement, new_session):
                    await self._give(announcement, new_session=new_session)
                case _:
                    assert isinstance(effect, Stop), f"no effect of this machine: {effect!r}"
                    await self._stop()
        except (RouterError, NetDbError, NotCommittedError, OutcomeUnknownError) as error:
            self.machine.failed(str(error), self._clock())
        except Exception as error:  # noqa: BLE001 -- the other servers rely on this one to try again, or to stop
            self.machine.failed(self._defect(error), self._clock())
        self._report_changes()

    def _build(self, announcement: Announcement) -> MetaLeaseSet:
        """Make and sign the set. Raises `NotCommittedError` when no router would take the set, and `NetDbError`."""
        keys = _keys_of(announcement)
        leaf_set, published = announcement.leaf_set, announcement.published
        entries = leaf_set.entries + self._branches.entries(leaf_set.branches, self._server_id)
        lease_set = MetaLeaseSet.build(keys.keys, published=published, entries=leases(entries, published, keys.ends))
        objection = lease_set.objection(int(time.time()))
        if objection is not None:
            raise NotCommittedError(f"no router would take the set: {objection}")
        self._built = lease_set
        return lease_set

    async def _announce(self, announcement: Announcement) -> None:
        index = await self._reporter.announce(self._build(announcement))
        self.machine.announced(announcement, index)

    def _rehearse(self, announcement: Announcement) -> None:
        """Build and sign as for a real set, but give it to no router."""
        lease_set = self._build(announcement)
        self._branches.build(announcement.leaf_set.branches, lease_set.published)
        self.lease_set = lease_set
        self.machine.taken(announcement, self._situation())
        self._log.info(
            "would publish",
            published=lease_set.published,
            leaves=[to_b32_address(entry.hash) for entry in lease_set.entries],
            expires=lease_set.expires_at,
        )

    async def _give(self, announcement: Announcement, *, new_session: bool) -> None:
        keys, lease_set = _keys_of(announcement), self._built
        assert lease_set is not None, "announced first"
        began_ms = now_ms()
        may_give = partial(self._may_give, announcement)
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                if new_session:
                    await self._bridge.stop_publishing_meta_lease_set(keys.destination.hash)
                await self._branches.publish(
                    announcement.leaf_set.branches, lease_set.published, now_ms=began_ms, may_give=may_give
                )
                if not may_give():  # the process may have stood still, or the log may have moved on
                    raise NotCommittedError(
                        "the set was not given: since its announcement the log has moved on, or this server's lease "
                        "has come into doubt; the next set follows by itself"
                    )
                await self._bridge.publish_meta_lease_set(
                    Publication(
                        lease_set,
                        keys.fresh_session(Purpose.META, now_ms()),
                        keys.signed_session(Purpose.META),
                        may_give=may_give,
                    )
                )
        except TimeoutError as error:
            raise RouterError(f"the router has not taken the set within {PUBLISH_SECONDS:.0f} s") from error
        self.lease_set = lease_set
        self.machine.taken(announcement, self._situation())
        assert self.machine.last_set is not None
        self._log.info(
            "published",
            published=lease_set.published,
            leaves=len(lease_set.entries),
            expires=lease_set.expires_at,
            sent=self.machine.last_set.sent_count,
        )

    async def _stop(self) -> None:
        """Have the router drop the sets that this node gave to it."""
        why = None
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._bridge.stop_publishing_meta_lease_set(self._keys.keys.destination.hash)
                await self._branches.stop()
        except TimeoutError:
            why = f"it has not answered within {STOP_SECONDS:.0f} s"
        except RouterError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 -- the other servers rely on this one to try again, or to stop
            why = self._defect(error)
        if why is not None and why != self._unstopped:
            self._log.warning("the router was not told to stop; this server goes on telling it", reason=why)
        self._unstopped = why
        self.machine.stopped(self._clock(), failed=why is not None)

    def _defect(self, error: Exception) -> str:
        self._log.error("a defect in publishing", exc_info=error)
        return f"a defect of this program: {error!r}"


def _keys_of(announcement: Announcement) -> PublishingKeys:
    assert isinstance(announcement.keys, PublishingKeys)
    return announcement.keys
