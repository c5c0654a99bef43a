"""Publishes the Meta lease set while the farm's log says that this server is to.

What is published is written into the log first, and sent only when that entry is committed and the log still names
this server: so `published` rises strictly from one publisher to the next, and who has lost the farm publishes nothing.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Final

import structlog

from bridges.errors import RouterError
from bridges.protocol import Publication, RouterBridge
from gf_i2p.farm.publisher import Entry
from gf_i2p.farm.versions import next_version
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.keys import DestinationKeys
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease, MetaLeaseSet
from gf_i2p.netdb.session_config import session_config
from gf_i2p.node.driver import PostError, PostOutcomeUnknownError
from gf_i2p.node.reporter import Reporter
from gf_i2p.node.view import FarmView

logger = structlog.get_logger()

ENTRY_SECONDS: Final = 1800
"""How long an entry of a published set is good for."""
FRESH_SECONDS: Final = 450.0
"""After which a new set is signed and sent: Java takes none that is ten minutes old."""
HURRIED_SECONDS: Final = 25.0
"""The same for the first few: i2pd may drop one and not say so, and takes no more than one in 20 s."""
HURRIED_SETS: Final = 4
LEASE_SECONDS: Final = 60.0
"""A publisher whose last record was committed longer ago stops by itself."""
PUBLISH_SECONDS: Final = 300.0
"""From the announcement until the router has the set. A session's tunnels take up to two minutes."""
STOP_SECONDS: Final = 30.0
"""For the router to stop."""
_POLL_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 5.0
"""After the router, or the log, has refused; twice as long each further time."""
_MAX_AGAIN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Published:
    """What this node has last given to its router."""

    lease_set: MetaLeaseSet
    sent: int
    """How many sets it has given since it was chosen, or since the router lost one."""
    at: float
    """When (monotonic seconds)."""


class Publisher:
    """One server's office, when it has it. `run` takes it up and lays it down."""

    def __init__(
        self,
        server_id: int,
        view: FarmView,
        reporter: Reporter,
        bridge: RouterBridge,
        keys: DestinationKeys,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`keys`: the master's, or delegated by it. `clock`: monotonic seconds, the reporter's."""
        self.published: Published | None = None
        """None while this node publishes nothing."""
        self.trouble: str | None = None
        """Why what should be published is not, None when all is well."""
        self._id = server_id
        self._view = view
        self._reporter = reporter
        self._bridge = bridge
        self._keys = keys
        self._clock = clock
        self._again = _AGAIN_SECONDS
        self._lost = False
        """Whether what was given is not with the router any more."""
        self._given = False
        """Whether the router may have something that it is to forget when we stop."""
        self._unstopped: str | None = None
        """Why it has not been told so."""
        self._log = logger.bind(server=server_id, master=keys.destination.b32)

    async def run(self) -> None:
        """Publish when chosen, stop when not, for ever."""
        while True:
            pause = await self._step()
            await asyncio.sleep(pause)

    async def _step(self) -> float:
        """Do what is to be done now; return after how many seconds to look again."""
        entries = self._due()
        if entries is None:
            return await self._stop()
        try:
            if not self._is_time(entries):
                return _POLL_SECONDS
            await self._while_due(self._publish(entries))
        except (RouterError, NetDbError, PostError, PostOutcomeUnknownError) as error:
            self._note(str(error))
        except Exception as error:  # noqa: BLE001 -- the other servers count on us to try again, or to stop
            self._log.exception("a defect in publishing")
            self._note(f"a defect of ours: {error!r}")
        else:
            self._again = _AGAIN_SECONDS
            return _POLL_SECONDS
        pause, self._again = self._again, min(2 * self._again, _MAX_AGAIN_SECONDS)
        return pause

    def _due(self) -> tuple[Entry, ...] | None:
        """Return the entries to publish; None when this server is not to publish."""
        choice = self._view.choice
        if choice.publisher != self._id:
            self._note(None)
            return None
        # What the log has not shown us yet may name another one: only what we have taken in renews the lease.
        if self._clock() - self._reporter.seen_at(self._view.applied) > LEASE_SECONDS:
            self._note(f"nothing of ours was committed for {LEASE_SECONDS:.0f} s: the farm may have another publisher")
            return None
        if choice.branches:
            self._note("the farm has more leaves than one set has room for, and this version publishes no tree of sets")
            return None
        if not choice.entries:
            self._note("no leaf is up: a set without entries would make the service unreachable")
            return None
        return choice.entries

    def _is_time(self, entries: tuple[Entry, ...]) -> bool:
        """Whether a set is to be sent now."""
        last = self.published
        if last is None or self.trouble is not None:
            return True
        lost = self._bridge.publication_trouble(self._keys.destination.hash)
        if lost is not None:
            self._lost = True
            self._note(lost)
            return True
        age = self._clock() - last.at
        if age < HURRIED_SECONDS:
            return False
        changed = {(each.hash, each.type, each.cost) for each in last.lease_set.entries} != {
            (each.hash, each.type, each.cost) for each in entries
        }
        return changed or last.sent < HURRIED_SETS or age >= FRESH_SECONDS

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

    async def _publish(self, entries: tuple[Entry, ...]) -> None:
        now = int(time.time())
        published = next_version(self._view.state, now * 1000)
        leases = [MetaLease(each.hash, published + ENTRY_SECONDS, each.cost, LeaseType(each.type)) for each in entries]
        lease_set = MetaLeaseSet.build(self._keys, published=published, entries=leases)
        objection = lease_set.objection(now)
        if objection is not None:
            raise PostError(f"no router would take the set: {objection}")
        await self._view.reaches(await self._reporter.announce(lease_set))
        if self._due() is None or self._view.state.last_published_ms > published * 1000:
            return  # another one has the office, or has had it meanwhile
        self._given = True
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                await self._bridge.publish_meta_lease_set(
                    Publication(lease_set, session_config(self._keys, int(time.time() * 1000)))
                )
        except TimeoutError as error:
            raise RouterError(f"the router has not taken the set within {PUBLISH_SECONDS:.0f} s") from error
        sent = 1 + (0 if self.published is None or self._lost else self.published.sent)
        self._lost = False
        self.published = Published(lease_set, sent, self._clock())
        self._reporter.publishing = True
        self._note(None)
        self._log.info("published", published=published, leaves=len(entries), expires=lease_set.expires_at, sent=sent)

    async def _stop(self) -> float:
        """Have the router forget what it was given, if it was given anything; return as `_step` does."""
        if self.published is not None:
            self._log.info("no longer the publisher")
        self.published = None
        self._reporter.publishing = False
        if not self._given:
            return _POLL_SECONDS
        why = None
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._bridge.stop_publishing_meta_lease_set(self._keys.destination.hash)
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
