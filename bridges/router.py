"""One router with all its interfaces: the `RouterBridge` of a node."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from bridges.errors import RouterError, RouterRefusedError
from bridges.i2cp.host_lookup import find_destination, has_lease_set
from bridges.i2cp.router_kind import router_kind
from bridges.i2cp.settings import I2cpSettings, RouterKind
from bridges.i2pcontrol.router_status import I2pControl
from bridges.leaf_liveness import LeafLiveness
from bridges.router_protocol import ANY_MASTER, MetaPublishing, Publication
from bridges.sam.client import Sam
from bridges.sam.destination_sensing import measure
from gf_i2p.farm.record.router_facts import LeafStatus, MeasuredStatus, RouterStatus
from gf_i2p.netdb.encoding import from_b32_address, to_b32_address, to_base64
from gf_i2p.netdb.errors import StructureError
from gf_i2p.netdb.meta_lease_set import STORE_TYPE as META_STORE_TYPE

AGAIN_SECONDS: Final = 5.0
"""Seconds before a second look-up: a router without tunnels answers at once, and an immediate repeat would not help."""
NO_NAME: Final = (
    "the leaf is configured by its address, which shows no name: the name is known where publish.leaf is the name of a "
    "tunnel of i2pd"
)
NO_CONNECTIONS: Final = (
    "no router tells the connections of a tunnel: a node counts them where the tunnel leads to publish.leaf_forward"
)


@dataclass(frozen=True, slots=True)
class LocalRouter:
    """Status and tunnels by i2pcontrol, if configured; lease sets by I2CP; streams by SAM.

    `publisher`: I2CP (`MetaPublisher`), or the router's best interface (`PublisherChoice`).

    `leaves`: the local destinations that serve. Each is a b32 address, or the name of a server tunnel, whose address
    only i2pd tells, by i2pcontrol. Empty: this router has no leaf.

    `i2cp`: the interface that looks for lease sets, and that shows the kind of router.

    `master`: hash of the master that the leaves serve; None: not known.

    `liveness`: by leaf, the test whether the leaf still answers pings. For a leaf without a test, only the lease set
    counts. Each leaf has a session of its own for pings, because pings of a silent leaf open the session anew.

    `connections`: returns the number of the leaf's connections, or raises `RouterError`; None: nobody counts them.

    `again_seconds`: pause before the second look for a missing leaf; None: no second look.
    """

    sam: Sam
    publisher: MetaPublishing
    i2cp: I2cpSettings
    control: I2pControl | None = None
    leaves: tuple[str, ...] = ()
    master: bytes | None = None
    liveness: Mapping[str, LeafLiveness] = field(default_factory=dict)
    connections: Mapping[str, Callable[[], Awaitable[int]]] = field(default_factory=dict)
    again_seconds: float | None = AGAIN_SECONDS

    async def local_router_status(self) -> RouterStatus:
        """See `RouterBridge`. Without i2pcontrol only the router's presence is known."""
        if self.control is not None:
            return await self.control.local_router_status()
        await self.sam.probe()
        return RouterStatus()

    async def local_leaf_hash(self, master: bytes, place: int = 0) -> bytes | None:
        """See `RouterBridge`."""
        if place >= len(self.leaves):
            return None
        leaf = self.leaves[place]
        if master != ANY_MASTER:
            if self.master is None:
                raise RouterRefusedError(
                    f"this router's leaf is {leaf!r}, and the master that the leaf serves is not known here: set "
                    "publish.master to the master's address"
                )
            if master != self.master:
                return None
        return await self._hash_of(leaf)

    async def local_leaf_status(self, leaf: bytes) -> LeafStatus:
        """See `RouterBridge`. The leaf is up while its lease set is current and the leaf answers pings as before.

        A missing lease set is looked for twice. A question may be lost on its way, and a leaf may have just come up. A
        leaf that the farm takes for down must stay up for a minute to be listed again, and for longer each time.
        """
        name = await self._name_of(leaf)
        tunnel = None if _address(name) is not None else name
        found = await find_destination(self.i2cp, leaf)
        if found is None and self.again_seconds is not None:
            await asyncio.sleep(self.again_seconds)
            found = await find_destination(self.i2cp, leaf)
        liveness = self.liveness.get(name)
        up = found is not None and (liveness is None or not await liveness.is_silent(found))
        connections, no_connections = await self._count(name)
        return LeafStatus(
            up=up,
            destination=None if found is None else to_base64(found),
            name=tunnel,
            connections=connections,
            name_reason=NO_NAME if tunnel is None else None,
            connections_reason=no_connections,
        )

    async def _count(self, leaf: str) -> tuple[int | None, str | None]:
        """Return the number of a leaf's connections, or the reason why that number is not known."""
        count = self.connections.get(leaf)
        if count is None:
            return None, NO_CONNECTIONS
        try:
            return await count(), None
        except RouterError as error:
            return None, str(error)

    async def _hash_of(self, leaf: str) -> bytes:
        """Return the hash of a leaf. `leaf`: an address, or the name of a tunnel. Raises `RouterError`."""
        hash_ = _address(leaf)
        if hash_ is not None:
            return hash_
        if self.control is None:
            raise RouterRefusedError(
                f"the leaf {leaf!r} is no b32 address, and without i2pcontrol the address of a tunnel by this name is "
                "unknown: configure the address, or i2pcontrol"
            )
        return await self.control.local_leaf_hash(leaf)

    async def _name_of(self, hash_: bytes) -> str:
        """Return the leaf of this hash, as it is configured. Raises `RouterError` when no leaf has this hash."""
        error: RouterError = RouterRefusedError(
            f"{to_b32_address(hash_)} is not a leaf of this router: measure other destinations as remote ones"
        )
        for leaf in sorted(self.leaves, key=lambda each: _address(each) is None):  # addresses first: these cost nothing
            try:
                if await self._hash_of(leaf) == hash_:
                    return leaf
            except RouterError as unknown:
                error = unknown
        raise error

    async def remote_measured_status(self, target: bytes) -> MeasuredStatus:
        """See `RouterBridge`."""
        return await measure(self.sam, self.i2cp, target)

    async def find_set(self, master: bytes, store_type: int) -> float | None:
        """See `SetFinding`. i2pd ignores a set of type 7 that it finds; Java answers with the set's destination."""
        if store_type == META_STORE_TYPE and await router_kind(self.i2cp) is not RouterKind.JAVA:
            raise RouterRefusedError(
                "i2pd drops every Meta lease set that it finds, so i2pd does not show whether one is there; a Java "
                "router does"
            )
        began = time.monotonic()
        return time.monotonic() - began if await has_lease_set(self.i2cp, master) else None

    async def publish_meta_lease_set(self, publication: Publication) -> None:
        """See `RouterBridge`."""
        await self.publisher.publish_meta_lease_set(publication)

    async def stop_publishing_meta_lease_set(self, master: bytes) -> None:
        """See `RouterBridge`."""
        await self.publisher.stop_publishing_meta_lease_set(master)

    def publication_trouble(self, master: bytes) -> str | None:
        """See `RouterBridge`."""
        return self.publisher.publication_trouble(master)

    async def close(self) -> None:
        """See `RouterBridge`."""
        async with AsyncExitStack() as stack:
            for part in (self.control, *self.liveness.values(), self.publisher):
                if part is not None:
                    stack.push_async_callback(part.close)


def _address(leaf: str) -> bytes | None:
    """Return the hash of a b32 address; None for the name of a tunnel."""
    try:
        return from_b32_address(leaf)
    except StructureError:
        return None
