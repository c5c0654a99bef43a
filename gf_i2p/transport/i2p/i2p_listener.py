"""Listening through I2P: a loopback port, and an `Inbound` that makes the router bring this node's streams there.

In the first line of each stream of a SAM session, the router names the peer. A peer cannot forge its destination, so
each destination is a source of its own at the gate. A session that ends is made again, and so is a session whose
address the router does not publish. If the inbound tunnels are ready before the outbound tunnels, i2pd does not publish
before the next inbound tunnel is ready. i2pd builds two (2.45) or three (2.58) tunnels at a time, so a session with
more tunnels is published in most cases.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self, cast

import structlog

from gf_i2p.netdb.destination import address_of
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Admission, Gate, source_of
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.transport.tls.tcp_sockets import bind, check_address, host_port

MAX_PEER_LINE_BYTES: Final = 1024
"""Most bytes of the line that names a peer: the destination in base64, 524 characters as a rule, and two ports."""
_UNNAMED: Final = "not named yet"


@dataclass(frozen=True, slots=True)
class SessionPauses:
    """Delays between sessions, and between checks of a session, in seconds."""

    retry_floor: float = 8.0
    """Least delay before a new session.

    i2pd ends a destination 5 s after the end of its session, even if a new session uses the destination.
    """
    retry_ceiling: float = 30.0
    check: float = 3.0
    """Seconds between two checks of the netDb, until the address is published."""
    check_again: float = 60.0
    """Seconds between two checks of the netDb after the address was found there, until a stream comes."""
    patience: float = 30.0
    """Seconds in which the address must be published; doubled after each failure, up to `max_patience`."""
    max_patience: float = 600.0


_PAUSES: Final = SessionPauses()


class Inbound(Protocol):
    """Makes the router bring the streams for this node's destination to a port of this machine."""

    @property
    def names_peers(self) -> bool:
        """Whether each connection begins with a line that names the peer's destination."""
        ...

    @property
    def failure(self) -> type[Exception]:
        """The exception that the methods raise when the router cannot be used now. Its text says what to check."""
        ...

    async def open(self, host: str, port: int) -> str:
        """Begin; when streams can come, return this node's address, for the log. This may take minutes."""
        ...

    async def published(self) -> bool:
        """Whether others can find the address in the netDb now."""
        ...

    async def ended(self) -> None:
        """Return when no more streams will come, because the session or the router is gone."""
        ...

    def close(self) -> None:
        """End the session; it may be opened again."""
        ...


class ConfiguredTunnel:
    """An `Inbound` that the operator has configured in the router: there is nothing to do or to ask."""

    names_peers = False
    failure: type[Exception] = TransportError

    async def open(self, host: str, port: int) -> str:
        """See `Inbound.open`."""
        return f"the router's server tunnel to {host}:{port}"

    async def published(self) -> bool:
        """See `Inbound.published`."""
        return True

    async def ended(self) -> None:
        """See `Inbound.ended`: this never returns."""
        await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """See `Inbound.close`."""


class I2pListener:
    """Accepts the streams that the router brings, and keeps a session for these streams."""

    def __init__(self, inbound: Inbound, server: asyncio.Server, pauses: SessionPauses) -> None:
        """Begin to keep a session for `server`. Only `open` calls this."""
        self._inbound = inbound
        self._server = server
        self._pauses = pauses
        self._patience = pauses.patience
        self._log = structlog.get_logger(__name__)
        self._complaint: str | None = None
        self.reached_at: str | None = None
        """The node's address inside I2P, while the netDb has the address or a stream has come; otherwise None."""
        self._arrived = asyncio.Event()
        host, port = server.sockets[0].getsockname()[:2]
        self.addresses: Sequence[str] = [host_port((host, port))]
        self._keeper = asyncio.get_running_loop().create_task(self._keep_session(host, port), name="I2P session")

    @classmethod
    async def open(
        cls,
        inbound: Inbound,
        host: str,
        port: int,
        factory: Callable[[Admission], StreamProtocol],
        gate: Gate,
        *,
        pauses: SessionPauses = _PAUSES,
    ) -> Self:
        """Listen on an IP address at once, and open the session in a task. Raises `TransportError` for a taken port."""
        check_address(host, "listening for the router")
        (sock,) = await bind(host, port)
        listener: I2pListener | None = None

        def accepted() -> StreamProtocol:
            assert listener is not None
            return _Stream(listener, gate, factory, names_peer=inbound.names_peers)

        server = await asyncio.get_running_loop().create_server(accepted, sock=sock, start_serving=False)
        listener = new_listener = cls(inbound, server, pauses)
        await server.start_serving()
        return new_listener

    def close(self) -> None:
        """See `Listener.close`."""
        self._server.close()
        self._keeper.cancel()
        self._inbound.close()

    def arrived(self) -> None:
        """Note that a stream has come: the session is published, whatever the router reports."""
        self._arrived.set()

    # --- The session --------------------------------------------------------------------------------------

    async def _keep_session(self, host: str, port: int) -> None:
        backoff = Backoff(floor=self._pauses.retry_floor, ceiling=self._pauses.retry_ceiling)
        while True:
            try:
                self._arrived.clear()
                self.reached_at = None
                address = await self._inbound.open(host, port)
                backoff.reset()
                await self._watch_session(address)
            except self._inbound.failure as error:
                self._complain(str(error))
            except Exception:  # noqa: BLE001 - otherwise no peer would reach this node again, and no log would say so
                self._complaint = None
                self._log.exception("a defect ended the I2P session")
            finally:
                self._inbound.close()
            await asyncio.sleep(backoff.next())

    async def _watch_session(self, address: str) -> None:
        """Return when the session is of no use any more."""
        ended = asyncio.ensure_future(self._inbound.ended())
        unpublished = asyncio.ensure_future(self._until_unpublished(address))
        arrived = asyncio.ensure_future(self._arrived.wait())
        tasks = (ended, unpublished, arrived)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if arrived.done():
                self._note_reachable(address)
                unpublished.cancel()
            elif unpublished.done() and not ended.done():
                unpublished.result()
                patience, self._patience = self._patience, min(2 * self._patience, self._pauses.max_patience)
                self._complain(f"the router has not published the address within {patience:g} s: a new session is made")
                return
            await ended
            self._complain("the router has ended the node's session: a new one is made")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # the result of one task was used already

    async def _until_unpublished(self, address: str) -> None:
        """Check again and again whether the netDb has the address; return when it was missing for `_patience` seconds.

        A check may take a minute. So the last check is the first check that begins when those seconds are over. A check
        that finds the address does not end the checks: an earlier session may have left the address in the netDb, for
        up to ten minutes. The caller ends the checks when a stream arrives.
        """
        loop = asyncio.get_running_loop()
        since = loop.time()
        while True:
            began = loop.time()
            if await self._inbound.published():
                self._note_reachable(address)
                await asyncio.sleep(self._pauses.check_again)
                since = loop.time()
            elif began - since >= self._patience:
                return
            else:
                await asyncio.sleep(self._pauses.check)

    def _note_reachable(self, address: str) -> None:
        """Note that others can reach this node."""
        self.reached_at = address
        self._patience = self._pauses.patience
        if self._complaint != "":
            self._complaint = ""
            self._log.info("reachable through I2P", address=address)

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:  # once per reason, not once per attempt
            self._complaint = reason
            self._log.warning("not reachable through I2P", reason=reason)


class _Stream(StreamProtocol):
    """One connection until its peer is known; then the protocol proper takes over."""

    def __init__(
        self, listener: I2pListener, gate: Gate, factory: Callable[[Admission], StreamProtocol], *, names_peer: bool
    ) -> None:
        self._listener = listener
        self._gate = gate
        self._factory = factory
        self._names_peer = names_peer
        self._line = bytearray()
        self._transport: asyncio.Transport | None = None
        self._admission: Admission | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername") or ("", 0)
        source = _UNNAMED if self._names_peer else source_of(address[0])
        self._admission = self._gate.admit(source, host_port(address))
        self._admission.bind(self._transport.abort)
        if not self._names_peer:
            self._hand_over(b"")

    def data_received(self, data: bytes) -> None:
        assert self._admission is not None
        assert self._transport is not None
        line, newline, rest = data.partition(b"\n")
        self._line += line
        if not newline and len(self._line) <= MAX_PEER_LINE_BYTES:
            return
        try:
            peer = address_of(self._line.split(b" ", 1)[0].decode("ascii")) if newline else None
        except (NetDbError, UnicodeDecodeError):
            peer = None
        if peer is None:
            self._admission.refuse(
                ConnectionRefusal.NOT_HTTP,
                "the router did not name the stream's sender: check that SAM forwards to this port",
            )
            self._transport.abort()
            return
        self._admission.identify(peer, peer)
        self._hand_over(rest)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        assert self._admission is not None
        self._admission.closed()

    def _hand_over(self, rest: bytes) -> None:
        assert self._admission is not None
        assert self._transport is not None
        self._listener.arrived()
        protocol = self._factory(self._admission)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if rest and not self._transport.is_closing():
            protocol.data_received(rest)
