"""One router, asked by all the interfaces that it has: the `RouterBridge` that a node runs with."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from bridges.errors import RouterRefusedError
from bridges.i2cp.router_kind import router_kind
from bridges.i2cp.settings import I2cpSettings, RouterKind
from bridges.i2pcontrol.router_status import I2pControl
from bridges.protocol import MetaPublishing, Publication
from bridges.sam.client import Sam
from bridges.sam.destination_sensing import measure
from gf_i2p.farm.record.router_facts import LeafStatus, MeasuredStatus, RouterStatus
from gf_i2p.netdb.encoding import from_b32_address, to_b32_address
from gf_i2p.netdb.errors import StructureError
from gf_i2p.netdb.meta_lease_set import STORE_TYPE as META_STORE_TYPE

AGAIN_SECONDS: Final = 5.0
"""A router without tunnels yet answers at once, and would say the same again."""


@dataclass(frozen=True, slots=True)
class LocalRouter:
    """Status and tunnels by i2pcontrol where there is one, leaves and sensing by SAM.

    `publisher`: by I2CP (`MetaPublisher`), or by whatever the router has (`PublisherChoice`).

    `leaf`: our router's destination that serves: its b32 address, or the name of its server tunnel, which only an i2pd
    tells, by i2pcontrol. None: this router has none.

    `i2cp`: where the router is asked which one it is; None: nobody needs to know.

    `again_seconds`: after which a leaf that was not found is looked for once more; None: that is the caller's business.
    """

    sam: Sam
    publisher: MetaPublishing
    control: I2pControl | None = None
    leaf: str | None = None
    i2cp: I2cpSettings | None = None
    again_seconds: float | None = AGAIN_SECONDS

    async def local_router_status(self) -> RouterStatus:
        """See `RouterBridge`. Without i2pcontrol nothing is known but that the router is there."""
        if self.control is not None:
            return await self.control.local_router_status()
        await self.sam.probe()
        return RouterStatus()

    async def local_leaf_hash(self, master: bytes) -> bytes | None:
        """See `RouterBridge`. It is the same for every master: who needs more runs a farm for each."""
        del master
        if self.leaf is None:
            return None
        try:
            return from_b32_address(self.leaf)
        except StructureError as error:
            if self.control is None:
                raise RouterRefusedError(
                    f"the leaf {self.leaf!r} is no b32 address, and without i2pcontrol nobody says which address a "
                    "tunnel of this name has: configure the address, or i2pcontrol"
                ) from error
            return await self.control.local_leaf_hash(self.leaf)

    async def local_leaf_status(self, leaf: bytes) -> LeafStatus:
        """See `RouterBridge`. The lease set is looked for as clients would look for it.

        Twice, if need be: a question that got lost on its way is no leaf that is down, and a leaf that has just come up
        is found by the second one. One that the farm takes for down has to stay up for a minute to be listed again, and
        for longer the more often this happens.
        """
        address = to_b32_address(leaf)
        if await self.sam.lookup(address) is not None:
            return LeafStatus(up=True)
        if self.again_seconds is None:
            return LeafStatus(up=False)
        await asyncio.sleep(self.again_seconds)
        return LeafStatus(up=await self.sam.lookup(address) is not None)

    async def remote_measured_status(self, target: bytes) -> MeasuredStatus:
        """See `RouterBridge`."""
        return await measure(self.sam, to_b32_address(target))

    async def find_set(self, master: bytes, store_type: int) -> float | None:
        """See `SetFinding`. i2pd takes what it finds of type 7 for nothing; Java tells its destination."""
        if store_type == META_STORE_TYPE:
            kind = None if self.i2cp is None else await router_kind(self.i2cp)
            if kind is not RouterKind.JAVA:
                raise RouterRefusedError(
                    "i2pd drops a Meta lease set that it finds, so whether one is there does not show through it; a "
                    "Java router tells"
                )
        began = time.monotonic()
        found = await self.sam.lookup(to_b32_address(master))
        return None if found is None else time.monotonic() - began

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
        try:
            await self.publisher.close()
        finally:
            if self.control is not None:
                await self.control.close()
