"""A SAM session that brings the streams for one destination to a port of this machine."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Final

from bridges.errors import RouterError, RouterUnreachableError
from bridges.i2cp.host_lookup import has_lease_set
from bridges.i2cp.settings import I2cpSettings
from bridges.sam.client import Sam, SamSession
from gf_i2p.netdb.private_keys import DestinationKeys

_SETTLE_SECONDS: Final = 8.0
"""Longer than the 5 s for which i2pd keeps a destination after a session. Then i2pd ends the destination, even if a
new session has the destination by then."""


class SamInbound:
    """Implements `gf_i2p.transport.i2p.i2p_listener.Inbound` by SESSION CREATE and STREAM FORWARD."""

    names_peers: Final = True
    failure: type[Exception] = RouterError

    def __init__(
        self,
        router: Sam,
        keys: DestinationKeys,
        options: Mapping[str, str] | None = None,
        *,
        i2cp: I2cpSettings | None = None,
        settle: float = _SETTLE_SECONDS,
    ) -> None:
        """`keys`: keys of the destination. `options`: I2CP options of the session's tunnels.

        `i2cp`: the router's I2CP, which tells whether the lease set is current. None: SAM's cache of names must do.

        `settle`: seconds that the first `open` waits if an earlier session with the same keys may still exist, as after
        the restart of a killed node.
        """
        self._router = router
        self._keys = keys
        self._options = options
        self._i2cp = i2cp
        self._settle = settle
        self._session: SamSession | None = None
        self.on_open: Callable[[], None] | None = None
        """Called after each opening of a session."""
        self.on_close: Callable[[], None] | None = None
        """Called after each closing of a session."""

    async def open(self, host: str, port: int) -> str:
        """See `Inbound.open`."""
        self.close()
        await self._await_old_session()
        self._session = await self._router.session(self._keys, self._options)
        await self._session.forward(host, port)
        if self.on_open is not None:
            self.on_open()
        return self._keys.destination.b32

    async def _await_old_session(self) -> None:
        """Wait `settle` seconds if the router finds this node's address: an old session may be about to end."""
        if not self._settle:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settle):
                if await self.published():
                    await asyncio.get_running_loop().create_future()
        self._settle = 0.0

    async def connect(self, host: str) -> socket.socket:
        """Open a stream from this destination; see `gf_i2p.transport.i2p.session_dialler.Streams`."""
        if self._session is None:
            raise RouterUnreachableError("there is no SAM session now; a new session is being made")
        return await self._session.connect_socket(host)

    async def published(self) -> bool:
        """See `Inbound.published`. The router asks the floodfills, as for any address.

        When I2CP does not answer, SAM's cache of names counts, although the cache may never forget a name. Otherwise a
        node without I2CP would make a new session again and again.
        """
        if self._i2cp is not None:
            with contextlib.suppress(RouterError):
                return await has_lease_set(self._i2cp, self._keys.destination.hash)
        return await self._router.lookup(self._keys.destination.b32) is not None

    async def ended(self) -> None:
        """See `Inbound.ended`."""
        assert self._session is not None
        await self._session.ended()

    def close(self) -> None:
        """See `Inbound.close`."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
            if self.on_close is not None:
                self.on_close()
