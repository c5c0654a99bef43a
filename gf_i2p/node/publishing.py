"""Publishes the Meta lease set while the farm's log says that this server is to.

What is published is written into the log first, and sent only when that entry is committed and the log still names
this server: so `published` rises strictly from one publisher to the next, and who has lost the farm publishes nothing.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import structlog

from bridges.errors import RouterError
from bridges.protocol import Publication, RouterBridge
from gf_i2p.farm.record import Leaf
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.keys import DestinationKeys
from gf_i2p.netdb.meta_lease_set import MetaLease, MetaLeaseSet
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
_LEAF_COST: Final = 1
_POLL_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 5.0
"""After the router, or the log, has refused."""


@dataclass(frozen=True, slots=True)
class Published:
    """What this node has last given to its router."""

    lease_set: MetaLeaseSet
    sent: int
    """How many sets it has given since it was chosen."""
    at: float
    """When (monotonic seconds)."""


class Publisher:
    """One server's office, when it has it. `run` takes it up and lays it down."""

    def __init__(
        self, server_id: int, view: FarmView, reporter: Reporter, bridge: RouterBridge, keys: DestinationKeys
    ) -> None:
        """`keys`: the master's, or delegated by it."""
        self.published: Published | None = None
        """None while this node publishes nothing."""
        self.trouble: str | None = None
        """Why what should be published is not, None when all is well."""
        self._id = server_id
        self._view = view
        self._reporter = reporter
        self._bridge = bridge
        self._keys = keys
        self._log = logger.bind(server=server_id, master=keys.destination.b32)

    async def run(self) -> None:
        """Publish when chosen, stop when not, for ever."""
        while True:
            pause = _POLL_SECONDS
            leaves = self._due()
            if leaves is None:
                await self._stop()
            elif leaves and self._is_time(leaves):
                try:
                    await self._publish(leaves)
                    self._note(None)
                except (RouterError, NetDbError, PostError, PostOutcomeUnknownError) as error:
                    self._note(str(error))
                    pause = _AGAIN_SECONDS
            await asyncio.sleep(pause)

    def _due(self) -> tuple[Leaf, ...] | None:
        """Return the leaves to publish; None when this server is not to publish."""
        choice = self._view.choice
        if choice.publisher != self._id:
            return None
        if time.monotonic() - self._reporter.committed_at > LEASE_SECONDS:
            self._note(f"nothing of ours was committed for {LEASE_SECONDS:.0f} s: the farm may have another publisher")
            return None
        if not choice.leaves:
            self._note("no leaf is up: a set without entries would make the service unreachable")
            return None
        return choice.leaves

    def _is_time(self, leaves: tuple[Leaf, ...]) -> bool:
        """Whether a set is to be sent now."""
        last = self.published
        if last is None or self.trouble is not None:
            return True
        lost = self._bridge.publication_trouble(self._keys.destination.hash)
        if lost is not None:
            self._note(lost)
            return True
        age = time.monotonic() - last.at
        if age < HURRIED_SECONDS:
            return False
        changed = {entry.hash for entry in last.lease_set.entries} != {leaf.hash for leaf in leaves}
        return changed or last.sent < HURRIED_SETS or age >= FRESH_SECONDS

    async def _publish(self, leaves: tuple[Leaf, ...]) -> None:
        now = int(time.time())
        published = max(now, self._view.state.last_published_ms // 1000 + 1)
        entries = [MetaLease(leaf.hash, published + ENTRY_SECONDS, _LEAF_COST) for leaf in leaves]
        lease_set = MetaLeaseSet.build(self._keys, published=published, entries=entries)
        objection = lease_set.objection(now)
        if objection is not None:
            raise PostError(f"no router would take the set: {objection}")
        await self._view.reaches(await self._reporter.announce(lease_set))
        if self._view.choice.publisher != self._id:
            return
        await self._bridge.publish_meta_lease_set(
            Publication(lease_set, session_config(self._keys, int(time.time() * 1000)))
        )
        sent = 1 + (0 if self.published is None else self.published.sent)
        self.published = Published(lease_set, sent, time.monotonic())
        self._reporter.publishing = True
        self._log.info("published", published=published, leaves=len(leaves), expires=lease_set.expires_at, sent=sent)

    async def _stop(self) -> None:
        if self.published is None:
            return
        self.published = None
        self._reporter.publishing = False
        self._log.info("no longer the publisher")
        try:
            await self._bridge.stop_publishing_meta_lease_set(self._keys.destination.hash)
        except RouterError as error:
            self._log.warning("the router was not told to stop; it forgets the set by itself", reason=str(error))

    def _note(self, trouble: str | None) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            if trouble is not None:
                self._log.warning("not published", reason=trouble)
