"""Publishes by the router's best interface: gf-i2p's extension of i2pcontrol, or else I2CP."""

import asyncio
import contextlib
from typing import Final

import structlog

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol.extension_publisher import ExtensionPublisher
from bridges.i2pcontrol.jsonrpc_client import UnknownMethodError
from bridges.i2pcontrol.router_status import I2pControl
from bridges.router_protocol import MetaPublishing, Publication

logger = structlog.get_logger()

_KINDS: Final = (RouterRefusedError, RouterUnreachableError)


class PublisherChoice:
    """Implements `MetaPublishing`: by the extension if the i2pcontrol endpoint has the extension, otherwise by I2CP.

    The endpoint is asked once, and again after each outage. While the endpoint cannot be asked, I2CP publishes: so a
    node with both interfaces goes on publishing.
    """

    def __init__(self, control: I2pControl, i2cp: MetaPublishing) -> None:
        """The caller makes and closes `control`, the client of the i2pcontrol endpoint."""
        self._control = control
        self._extension = ExtensionPublisher(control)
        self._i2cp = i2cp
        self._chosen: MetaPublishing | None = None
        self._outages = 0
        self._holders: dict[bytes, MetaPublishing] = {}

    async def publish_meta_lease_set(self, publication: Publication) -> None:
        """See `MetaPublishing`."""
        chosen, doubt = await self._choose()
        master = publication.lease_set.destination.hash
        holder = self._holders.get(master, chosen)
        if holder is not chosen:
            with contextlib.suppress(RouterError):  # a holder that is away needs no stop
                await holder.stop_publishing_meta_lease_set(master)  # a router gives a destination to one client only
        self._holders[master] = chosen
        try:
            await chosen.publish_meta_lease_set(publication)
        except UnknownMethodError:
            self._chosen = None
            raise
        except RouterError as error:
            if doubt is None:
                raise
            kind = next((each for each in _KINDS if isinstance(error, each)), RouterError)
            raise kind(f"{error}. I2CP was tried because i2pcontrol cannot be asked: {doubt}") from error

    async def stop_publishing_meta_lease_set(self, master: bytes) -> None:
        """See `MetaPublishing`."""
        holder = self._holders.pop(master, None)
        if holder is not None:
            await holder.stop_publishing_meta_lease_set(master)

    def publication_trouble(self, master: bytes) -> str | None:
        """See `MetaPublishing`."""
        return self._holders.get(master, self._i2cp).publication_trouble(master)

    async def close(self) -> None:
        """See `MetaPublishing`."""
        await asyncio.gather(self._extension.close(), self._i2cp.close())

    async def _choose(self) -> tuple[MetaPublishing, str | None]:
        """Return the publisher to use, and why that choice is in doubt; None: no doubt."""
        if self._chosen is not None and self._outages == self._control.outages:
            return self._chosen, None
        try:
            available = await self._extension.available()
        except RouterError as error:
            self._chosen = None
            return self._i2cp, str(error)
        self._outages = self._control.outages
        chosen: MetaPublishing = self._extension if available else self._i2cp
        if chosen is not self._chosen:
            logger.info("publishing", by="i2pcontrol" if available else "I2CP")
        self._chosen = chosen
        return chosen, None
