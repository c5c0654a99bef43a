"""Publishes the branches of a tree of Meta lease sets. The first set, which lists the branches, follows afterwards.

All sets of the tree have the same version. The log makes the first set's version rise from publisher to publisher. So
the branches' versions rise, too.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bridges.errors import RouterError
from bridges.router_protocol import MetaPublishing, Publication
from gf_i2p.farm.choice.publisher import Branch, SetEntry
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease, MetaLeaseSet
from gf_i2p.netdb.session_config import session_config
from gf_i2p.node.publish.branch_keys import BranchKeys

ENTRY_SECONDS: Final = 1800
"""Seconds until an entry of a published set expires."""
AT_ONCE: Final = 4
"""Branches given to the router side by side. The tunnels of a new branch take 10 s and more: one after the other, the
branches would need minutes; all sixteen together would have the router build a hundred tunnels."""


def leases(entries: Sequence[SetEntry], published: int, ends: int | None = None) -> list[MetaLease]:
    """Return the entries as leases of a set. `published`: its version. `ends`: end of the signing key; None: never.

    Both are in seconds since the epoch.
    """
    end = published + ENTRY_SECONDS if ends is None else min(published + ENTRY_SECONDS, ends)
    return [MetaLease(entry.hash, end, entry.cost, LeaseType(entry.type)) for entry in entries]


class Branches:
    """The branches that one server publishes."""

    def __init__(self, bridge: MetaPublishing, keys: BranchKeys) -> None:
        self._bridge = bridge
        self._keys = keys
        self._published_masters: set[bytes] = set()

    def lacking(self, branches: Sequence[Branch]) -> str | None:
        """Say which keys are missing to publish these branches; None when all are here."""
        try:
            for branch in branches:
                self._keys(branch.number)
        except NetDbError as error:
            return str(error)
        return None

    def entries(self, branches: Sequence[Branch], owner: int) -> tuple[SetEntry, ...]:
        """Return the first set's entries for the branches. `owner`: id of this server. Raises `NetDbError`."""
        return tuple(
            SetEntry(self._keys(branch.number).destination.hash, int(LeaseType.META), branch.cost, owner)
            for branch in branches
        )

    def build(self, branches: Sequence[Branch], published: int) -> list[MetaLeaseSet]:
        """Make and sign the branches' sets. `published`: version, seconds since the epoch. Raises `NetDbError`."""
        lease_sets = []
        for branch in branches:
            keys = self._keys(branch.number)
            entries = leases(branch.entries, published, None if keys.offline is None else keys.offline.expires)
            lease_sets.append(MetaLeaseSet.build(keys, published=published, entries=entries))
        return lease_sets

    async def publish(
        self, branches: Sequence[Branch], published: int, *, now_ms: int, may_give: Callable[[], bool]
    ) -> None:
        """Give all branches to the router, and end those no longer wanted. Raises `RouterError` or `NetDbError`.

        When the router refuses one branch, the others are still given. `published`: version of the sets, in seconds
        since the epoch. `may_give`: whether the sets may still be given; asked just before.
        """
        sets = self.build(branches, published)
        masters = {lease_set.destination.hash for lease_set in sets}
        for gone in self._published_masters - masters:
            await self._stop(gone)
        turns = asyncio.Semaphore(AT_ONCE)

        async def give(branch: Branch, lease_set: MetaLeaseSet) -> None:
            async with turns:
                self._published_masters.add(lease_set.destination.hash)
                config = session_config(self._keys(branch.number), now_ms)
                await self._bridge.publish_meta_lease_set(Publication(lease_set, config, may_give=may_give))

        outcomes = await asyncio.gather(*map(give, branches, sets), return_exceptions=True)
        error = next((outcome for outcome in outcomes if outcome is not None), None)
        if error is not None:
            raise error

    @property
    def trouble(self) -> str | None:
        """Why the router has lost a branch that this node gave. None: the router has every branch."""
        troubles = (self._bridge.publication_trouble(master) for master in self._published_masters)
        return next((trouble for trouble in troubles if trouble is not None), None)

    async def stop(self) -> None:
        """Have the router drop all branches. Raises `RouterError`; then call `stop` again."""
        for master in tuple(self._published_masters):
            await self._stop(master)

    async def _stop(self, master: bytes) -> None:
        try:
            await self._bridge.stop_publishing_meta_lease_set(master)
        except RouterError:
            self._published_masters.add(master)
            raise
        self._published_masters.discard(master)
