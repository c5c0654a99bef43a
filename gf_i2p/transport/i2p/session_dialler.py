"""Dialling from the session by which others reach this node: the second way to a peer inside I2P.

A router keeps a lease set that it has found until the lease set expires, separately for each local destination. When a
peer has come back with new tunnels, the peer's old lease set leads nowhere, and through the proxy the peer stays
unreachable for up to ten minutes (seen on i2pd 2.45.1). A stream brings the sender's lease set to the peer's router. So
a node with a new session opens a stream to every peer once. Peers that the proxy cannot reach are dialled from that
session.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Final, Protocol

from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.errors import DialError, UnreachableError, error_text
from gf_i2p.transport.interface import Listener, Transport
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.proxy_login import ProxyLogin
from gf_i2p.wire.upgrade import ClientHandshake

PATIENCE_SECONDS: Final = 20.0
"""Most seconds for a dial by one way, before the other way is tried. A stream usually opens within 5 s. The first
stream through a Java router's proxy takes up to 20 s."""
GREETINGS: Final = 5
"""Most tries to greet a peer from a new session: a peer's i2pd takes no new keys of a destination for two minutes."""


class Streams(Protocol):
    """Opens streams from this node's own destination."""

    on_open: Callable[[], None] | None
    """Called when a new session is open; `TwoWayTransport` sets this."""

    on_close: Callable[[], None] | None
    """Called when the session has ended, or could not be opened; `TwoWayTransport` sets this."""

    @property
    def failure(self) -> type[Exception]:
        """The exception that `connect` raises when no stream can be opened. Its text says what to check."""
        ...

    async def connect(self, host: str) -> socket.socket:
        """Open a stream to this .i2p host; return the socket, non-blocking, before any byte of the stream is read."""
        ...


class TwoWayTransport:
    """Dials through the proxy first, then from this node's own session, and so on in turn until one way works."""

    def __init__(self, proxy: Transport, streams: Streams, cluster: str, *, patience: float = PATIENCE_SECONDS) -> None:
        """`cluster`: the farm's name.

        `patience`: seconds for a dial by one way, before the other way is tried. An introduction may also take so many
        seconds, and so many seconds pass before the next try.
        """
        self._proxy = proxy
        self._streams = streams
        self._cluster = cluster
        self._patience = patience
        streams.on_open = self._introduce
        streams.on_close = self._stop_introductions
        self._peers: dict[str, None] = {}  # hosts that this node was asked to dial
        self._introductions: set[asyncio.Task[None]] = set()

    async def dial(
        self, endpoint: Endpoint, factory: Callable[[], StreamProtocol], *, deadline: float, attempt: int = 0
    ) -> asyncio.Transport:
        """See `Transport.dial`."""
        host = endpoint.host.lower()
        if endpoint.is_i2p:
            self._peers[host] = None
        if attempt % 2 == 0 or not endpoint.is_i2p:  # the proxy's transport refuses endpoints outside I2P
            return await self._proxy.dial(endpoint, factory, deadline=deadline)
        try:
            async with asyncio.timeout(deadline):
                sock = await self._streams.connect(host)
        except TimeoutError:
            raise UnreachableError(f"{endpoint} was not reached by the own session within {deadline:.0f} s.") from None
        except self._streams.failure as error:
            raise DialError(f"{endpoint} was not reached by the own session: {error}.") from error
        try:
            transport, _ = await asyncio.get_running_loop().create_connection(factory, sock=sock)
        except OSError as error:
            sock.close()
            raise DialError(f"The router broke the stream to {endpoint} ({error_text(error)}).") from error
        return transport

    def proxied(self, endpoint: Endpoint, attempt: int = 0) -> bool:
        """See `Transport.proxied`."""
        return attempt % 2 == 0 and self._proxy.proxied(endpoint)

    def proxy_login(self, endpoint: Endpoint, attempt: int = 0) -> ProxyLogin | None:
        """See `Transport.proxy_login`."""
        return self._proxy.proxy_login(endpoint) if attempt % 2 == 0 else None

    def patience(self, endpoint: Endpoint) -> float:
        """See `Transport.patience`."""
        return min(self._patience, self._proxy.patience(endpoint))

    async def listen(self, factory: Callable[[Admission], StreamProtocol], gate: Gate) -> Listener:
        """See `Transport.listen`."""
        return await self._proxy.listen(factory, gate)

    # --- Introductions ------------------------------------------------------------------------------------

    def _introduce(self) -> None:
        """Bring the new lease set to every peer's router."""
        for host in self._peers:
            task = asyncio.get_running_loop().create_task(self._greet(host), name=f"introduction to {host}")
            self._introductions.add(task)
            task.add_done_callback(self._introductions.discard)

    def _stop_introductions(self) -> None:
        """Stop the introductions: the session has ended, so its lease set is of no use to any peer."""
        for task in self._introductions:
            task.cancel()

    async def _greet(self, host: str) -> None:
        for _ in range(GREETINGS):
            with contextlib.suppress(TimeoutError, OSError, self._streams.failure):
                async with asyncio.timeout(self._patience):
                    if await self._is_answered(host):
                        return
            await asyncio.sleep(self._patience)

    async def _is_answered(self, host: str) -> bool:
        """Open a stream and begin a handshake. An answer shows that the peer's router can now reach this node."""
        loop = asyncio.get_running_loop()
        handshake = ClientHandshake(
            host=host,
            cluster=self._cluster,
            credentials=Credentials("introduction", "-"),  # a first request names no user
            now=loop.time(),
            entropy=os.urandom,
        )
        sock = await self._streams.connect(host)
        try:
            await loop.sock_sendall(sock, handshake.request())
            return bool(await loop.sock_recv(sock, 1))
        finally:
            sock.close()
