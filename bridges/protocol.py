"""What the node asks of a router, whatever the router is and however it is asked.

Proposal 150, "Router Interface", with its six calls; where that leaves a question open ("Who signs?"), this is our
answer: the node signs, so that no private key ever crosses an interface. Hashes are the 32-byte SHA-256 of
destinations. Every call raises `RouterError` with a sentence for the operator.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from gf_i2p.farm.record.router_facts import LeafStatus, MeasuredStatus, RouterStatus
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Publication:
    """What is to be published, ready for the router."""

    lease_set: MetaLeaseSet
    session: bytes
    """The SessionConfig of I2CP, signed (I2CP specification, "SessionConfig"): see `gf_i2p.netdb.session_config`.

    It opens the session in which the set is published. Java takes one for 180 s after its date; i2pd at any time.
    """
    signed_session: bytes | None = None
    """Another one, that the destination's own key has signed once, when a transient key signs `session`.

    i2pd takes no session from a transient key, and never looks at a config's date; Java takes only a fresh one.
    """
    wanted: Callable[[], bool] = field(default=_always, compare=False)
    """Asked before the router gets the set, each time: another server may publish since this node stood still."""


class MetaPublishing(Protocol):
    """A way to publish through one router."""

    async def publish_meta_lease_set(self, publication: Publication) -> None:
        """Publish, or replace what is published for the same master (publishMetaLS).

        Returns when the router has been given the set. Call it again with a fresh set before the last is ten minutes
        old, and whenever it raises; between calls the bridge answers the router's requests with the last set.
        """
        ...

    async def stop_publishing_meta_lease_set(self, master: bytes) -> None:
        """Publish nothing for this master any more (stopPublishingMetaLS). Nothing happens if nothing is."""
        ...

    def publication_trouble(self, master: bytes) -> str | None:
        """Say why what was last given is not with the router any more, in a sentence; None while all is well."""
        ...

    async def close(self) -> None:
        """Stop publishing, and end all connections."""
        ...


@runtime_checkable
class SetFinding(Protocol):
    """What some routers can do besides: look for a master's set as a client would."""

    async def find_set(self, master: bytes, store_type: int) -> float | None:
        """Say how many seconds it took to find the set of this master; None: it was not found.

        `store_type`: 3 (LeaseSet2) or 7 (Meta). Which version it was, no router of today tells. Raises
        `RouterRefusedError` where this router cannot find sets of that type whether they are there or not.
        """
        ...


class RouterBridge(MetaPublishing, Protocol):
    """A way to one router."""

    async def local_router_status(self) -> RouterStatus:
        """Say how the router does (getLocalRouterStatus)."""
        ...

    async def local_leaf_hash(self, master: bytes) -> bytes | None:
        """Say which local destination serves this master's service (getLocalLeafHash); None: none does."""
        ...

    async def local_leaf_status(self, leaf: bytes) -> LeafStatus:
        """Say how that one does (getLocalLeafStatus).

        `up` means that its lease set was found, and no more: no stream was opened to it, and a lease set can be found
        for up to ten minutes after the service behind it has gone. `remote_measured_status` opens one.
        """
        ...

    async def remote_measured_status(self, target: bytes) -> MeasuredStatus:
        """Try to reach a master or a leaf through the network (getRemoteMeasuredStatus). May take minutes."""
        ...
