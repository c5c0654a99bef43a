"""Publishes Meta lease sets through a router's I2CP, for any number of masters."""

import asyncio
import time
from collections.abc import Callable

from bridges.errors import RouterError
from bridges.i2cp.master_publication import MasterPublication
from bridges.i2cp.publication_status import PublicationStatus
from bridges.i2cp.settings import I2cpSettings
from bridges.router_protocol import Publication


class I2cpPublisher:
    """Implements `MetaPublishing` by I2CP. `MetaPublishing` describes the calls.

    The caller decides when to publish: a fresh set every seven to eight minutes, because Java drops a set that is ten
    minutes old. i2pd does not repeat a failed try, so with i2pd a fresh set is due every 20 to 30 s until floodfills
    have a set. Java passes on at most one set a minute. When the router asks for a set in between, this class answers
    with the last set, within the 10 s for which i2pd waits.
    """

    def __init__(self, settings: I2cpSettings, *, clock: Callable[[], float] = time.time) -> None:
        """`clock`: returns seconds since the epoch."""
        self._settings = settings
        self._clock = clock
        self._masters: dict[bytes, MasterPublication] = {}
        self._closed = False

    async def publish_meta_lease_set(self, publication: Publication) -> None:
        """Open a session and wait until the router has asked for the set; in an open session, send the set at once.

        Opening may take minutes, see `Deadlines`. Raises `RouterError`; `published` then returns the same reason.
        """
        if self._closed:
            raise RouterError("nothing is published any more: this bridge was closed")
        destination = publication.lease_set.destination
        master = self._masters.get(destination.hash)
        if master is None:
            master = self._masters[destination.hash] = MasterPublication(destination.b32, self._settings, self._clock)
        await master.publish(publication)

    async def stop_publishing_meta_lease_set(self, master: bytes) -> None:
        """End the master's session. Floodfills keep the last set until the set expires."""
        publication = self._masters.get(master)
        if publication is not None:
            await publication.stop()

    async def close(self) -> None:
        """End all sessions."""
        self._closed = True
        await asyncio.gather(*(master.stop() for master in self._masters.values()))

    def published(self, master: bytes) -> PublicationStatus:
        """Return the status of a master's publication."""
        publication = self._masters.get(master)
        return PublicationStatus() if publication is None else publication.status

    def publication_trouble(self, master: bytes) -> str | None:
        """See `MetaPublishing`. `published` returns more details."""
        status = self.published(master)
        return None if status.is_active else status.reason or "nothing is published"
