"""The node's protocol for routers of any kind, by any interface.

Proposal 150, "Router Interface", with its six calls. The proposal leaves the question "Who signs?" open. Here the node
signs, so that no private key ever crosses an interface. Hashes are the 32-byte SHA-256 of destinations. Every call
raises `RouterError` with a sentence for the operator.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from gf_i2p.farm.record.router_facts import LeafStatus, MeasuredStatus, RouterStatus
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet

ANY_MASTER: Final = bytes(32)
"""Stands for any master in a question for the local leaf. No destination has this hash."""


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Publication:
    """A set to publish, ready for the router."""

    lease_set: MetaLeaseSet
    session: bytes
    """The signed SessionConfig of I2CP (I2CP specification, "SessionConfig"): see `gf_i2p.netdb.session_config`.

    This config opens the session in which the set is published. Java takes a config only for 180 s after the config's
    date; i2pd never looks at the date.
    """
    signed_session: bytes | None = None
    """For a transient key in `session`: another config that the destination's own key has signed once.

    i2pd takes no session from a transient key, and never looks at a config's date. Java takes only a fresh config.
    """
    may_give: Callable[[], bool] = field(default=_always, compare=False)
    """Called each time before the router gets the set. Returns False when the router must get nothing.

    Another server may publish by now, for example when this node stood still for a while.
    """


class MetaPublishing(Protocol):
    """Access to one router that can publish."""

    async def publish_meta_lease_set(self, publication: Publication) -> None:
        """Publish a set, or replace the published set of the same master (publishMetaLS).

        Returns when the router has got the set. Call this again with a fresh set before the last set is ten minutes
        old, and after every error. Between calls the bridge answers the router's requests with the last set.
        """
        ...

    async def stop_publishing_meta_lease_set(self, master: bytes) -> None:
        """Publish nothing for this master any more (stopPublishingMetaLS). Without a publication nothing happens."""
        ...

    def publication_trouble(self, master: bytes) -> str | None:
        """Return a sentence that says why the router no longer has the last set; None while all is well."""
        ...

    async def close(self) -> None:
        """Stop publishing, and end all connections."""
        ...


@runtime_checkable
class SetFinding(Protocol):
    """An extra of some bridges: a look-up of a master's set, as a client would do."""

    async def find_set(self, master: bytes, store_type: int) -> float | None:
        """Return the seconds that the router took to find the master's set; None when the set was not found.

        `store_type`: 3 (LeaseSet2) or 7 (Meta). No router tells the version of the set that it found. Raises
        `RouterRefusedError` when this router can never find sets of that type.
        """
        ...


class RouterBridge(MetaPublishing, Protocol):
    """Access to one router."""

    async def local_router_status(self) -> RouterStatus:
        """Return the state of the router (getLocalRouterStatus)."""
        ...

    async def local_leaf_hash(self, master: bytes, place: int = 0) -> bytes | None:
        """Return the local destination that serves this master (getLocalLeafHash); None when no destination does.

        A router may have several leaves. `place` is the leaf's place among these leaves, from 0. None: no leaf has this
        place.

        `ANY_MASTER` asks for the leaf of the router's only master. Raises `RouterRefusedError` when the bridge does not
        know which master the local leaf serves.
        """
        ...

    async def local_leaf_status(self, leaf: bytes) -> LeafStatus:
        """Return the state of a local leaf (getLocalLeafStatus).

        `up` only means that the leaf's lease set is current. No stream was opened, and a lease set stays current for up
        to ten minutes after its service has gone. `remote_measured_status` opens a stream. Raises `RouterRefusedError`
        for a destination that is not a leaf of this router.
        """
        ...

    async def remote_measured_status(self, target: bytes) -> MeasuredStatus:
        """Try to reach a master or a leaf through the network (getRemoteMeasuredStatus). May take minutes."""
        ...
