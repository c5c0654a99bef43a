"""The server's side of upgraded connections: takes requests, and sends responses in the order of the requests.

JRaft's rule: on one connection, responses follow the order of the requests (docs/design/jraft.md). The handler may
complete requests in any order; a response waits here until the earlier responses are sent.

Memory per connection is bounded. The server does not read a connection with `max_in_flight` unanswered requests, or
with a peer that does not take the responses. Requests beyond the limit that came in the same piece of data wait,
decoded.
"""

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from typing import Final, cast

import structlog

from gf_i2p.transport.connection_counters import ConnectionRefusal, Counters
from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.interface import Listener, Transport
from gf_i2p.transport.request_slices import RequestSlices
from gf_i2p.transport.served import AuthenticatedConnection, OnRequest, OnStay, Replier, Served
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.digest import Authenticator
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.limits import (
    MAX_BYTES_IN_FLIGHT,
    MAX_CONNECTIONS_PER_USER,
    MAX_REQUESTS_IN_FLIGHT,
    MAX_SKIPPED_BYTES_PER_SECOND,
    MAX_UNFINISHED_BYTES,
)
from gf_i2p.wire.message_stream import RequestDecoder
from gf_i2p.wire.messages import Request
from gf_i2p.wire.upgrade import HandshakeAnswer, HandshakeOutcome, ServerHandshake, ToldConfiguration

# Bytes of responses (26 bytes each) that the peer may leave untaken before the server stops reading requests.
_OUTPUT_BYTES: Final = 64 * 1024

_REST_SECONDS: Final = 0.25
"""Seconds for which the server does not read a connection that has sent too many bytes of oversized requests."""

_DECODED_BYTES: Final = 32 << 10
"""Bytes of small requests that are decoded between two looks at the clock: about 700 requests, in less than 1 ms."""

STAY_SECONDS: Final = 5.0
"""Seconds after which a connection counts as one that stays. `gf-i2p doctor` only tests the credentials, and leaves."""


class Server:
    """Serves farms on one transport. The cluster in the request's path selects the farm. Farms may come and go."""

    def __init__(
        self,
        transport: Transport,
        farms: Mapping[str, Served] | None = None,
        *,
        gate: Gate | None = None,
        max_in_flight: int = MAX_REQUESTS_IN_FLIGHT,
        max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT,
        max_per_user: int = MAX_CONNECTIONS_PER_USER,
        max_unfinished_bytes: int = MAX_UNFINISHED_BYTES,
        entropy: Callable[[int], bytes] = os.urandom,
        slices: RequestSlices | None = None,
    ) -> None:
        """Prepare; `start` listens.

        Args:
            transport: accepts the connections.
            farms: the served farms, by cluster. `serve` adds farms later.
            gate: deadline and limits for unauthenticated connections of all farms.
            max_in_flight: most unanswered requests of one connection.
            max_bytes_in_flight: bytes of entries in unanswered requests of one connection. At this number no further
                request is handled.
            max_per_user: most connections of one user of one farm.
            max_unfinished_bytes: most bytes of incomplete requests on all connections of one user of one farm.
            entropy: returns the given number of random bytes.
            slices: the share of each user in a turn of the event loop.
        """
        self.farms: dict[str, Served] = {}
        """Farms that are served now, by cluster."""
        self.authenticators: dict[str, Authenticator] = {}
        self.configurations: dict[str, ToldConfiguration] = {}
        """By cluster, `Served.configuration` of each served farm.

        Handshakes under way read this and `authenticators`, so these handshakes no longer find a withdrawn farm.
        """
        self.max_in_flight = max_in_flight
        self.max_bytes_in_flight = max_bytes_in_flight
        self.entropy = entropy
        self.slices = slices or RequestSlices()
        self._transport = transport
        self._gate = gate or Gate()
        self._max_per_user = max_per_user
        self._max_unfinished_bytes = max_unfinished_bytes
        self._unfinished_bytes: Counter[tuple[str, str]] = Counter()
        self._listener: Listener | None = None
        self._connections: set[_InboundConnection] = set()
        self._connections_per_user: Counter[tuple[str, str]] = Counter()
        self._no_connections = asyncio.Event()
        self._no_connections.set()
        self._withdrawing: dict[str, asyncio.Event] = {}
        self.log = structlog.get_logger(__name__)
        for cluster, farm in (farms or {}).items():
            self.serve(cluster, farm)

    @property
    def counters(self) -> Counters:
        """Counts of incoming connections so far."""
        return self._gate.counters

    @property
    def listener(self) -> Listener | None:
        """The listener; None before `start`."""
        return self._listener

    async def start(self) -> Listener:
        """Listen. Raises `TransportError` when that is not possible."""
        self._listener = await self._transport.listen(lambda admission: _InboundConnection(self, admission), self._gate)
        return self._listener

    def serve(self, cluster: str, farm: Served) -> None:
        """Serve a farm from now on. Raises `ValueError` when a farm of this name is served or being withdrawn."""
        if cluster in self.farms or cluster in self._withdrawing:
            raise ValueError(f"a farm {cluster} is served here already")
        self.farms[cluster] = farm
        self.authenticators[cluster] = farm.authenticator
        if farm.configuration is not None:
            self.configurations[cluster] = farm.configuration

    async def withdraw(self, cluster: str, grace: float) -> None:
        """Serve a farm no more. Other farms are not affected.

        From this moment the farm does not exist for new connections. Requests under way are answered, for at most
        `grace` seconds. Returns when the farm's connections are closed; at once when the farm is not served.
        """
        if self.farms.pop(cluster, None) is None:
            return
        del self.authenticators[cluster]
        self.configurations.pop(cluster, None)
        if not self._connections_of(cluster):
            return
        all_closed = self._withdrawing[cluster] = asyncio.Event()
        try:
            for connection in self._connections_of(cluster):
                connection.finish()
            try:
                async with asyncio.timeout(grace):
                    await all_closed.wait()
            except TimeoutError:
                for connection in self._connections_of(cluster):
                    connection.drop("the farm is no longer served here")
                await all_closed.wait()
        finally:
            del self._withdrawing[cluster]

    def _connections_of(self, cluster: str) -> list["_InboundConnection"]:
        return [each for each in self._connections if each.caller is not None and each.caller.cluster == cluster]

    def disconnect(self, cluster: str, users: Collection[str]) -> None:
        """Close the connections of these users: their credentials were withdrawn or changed."""
        for connection in list(self._connections):
            caller = connection.caller
            if caller is not None and caller.cluster == cluster and caller.user in users:
                connection.drop("its credentials were withdrawn")

    async def close(self, grace: float) -> None:
        """Accept nothing more, let requests under way be answered, then close everything.

        `grace`: seconds for the answers; later answers are dropped. Returns when all connections are closed.
        """
        if self._listener is not None:
            self._listener.close()
        self._gate.close()
        for connection in list(self._connections):
            connection.finish()
        try:
            async with asyncio.timeout(grace):
                await self._no_connections.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.drop("the node stops")
            await self._no_connections.wait()

    # --- Called by connections ----------------------------------------------------------------------------

    def opened(self, connection: "_InboundConnection") -> None:
        """Note a new connection, which has not authenticated yet."""
        self._connections.add(connection)
        self._no_connections.clear()

    def admit(self, caller: AuthenticatedConnection) -> bool:
        """Return whether this user may have one more connection, and count that connection."""
        key = (caller.cluster, caller.user)
        if self._connections_per_user[key] >= self._max_per_user:
            return False
        self._connections_per_user[key] += 1
        self.counters.current += 1
        return True

    def lost(self, connection: "_InboundConnection") -> None:
        """Forget a connection that has ended."""
        self._connections.discard(connection)
        if not self._connections:
            self._no_connections.set()
        caller = connection.caller
        if caller is not None:
            self.counters.current -= 1
            self.unfinished(caller, -connection.unfinished)
            key = (caller.cluster, caller.user)
            self._connections_per_user[key] -= 1
            if not self._connections_per_user[key]:
                del self._connections_per_user[key], self._unfinished_bytes[key]
            all_closed = self._withdrawing.get(caller.cluster)
            if all_closed is not None and not self._connections_of(caller.cluster):
                all_closed.set()

    def unfinished(self, caller: AuthenticatedConnection, change: int) -> bool:
        """Add `change` to the bytes of the user's incomplete requests; return whether the sum is within the limit."""
        key = (caller.cluster, caller.user)
        self._unfinished_bytes[key] += change
        return self._unfinished_bytes[key] <= self._max_unfinished_bytes

    def illegal(self, caller: AuthenticatedConnection, error: Exception | str) -> None:
        """Count and log an illegal message of an authenticated peer. The connection itself then ends."""
        self._gate.record(ConnectionRefusal.MESSAGE, caller.remote, f"{caller.user} of {caller.cluster}: {error}")


class _InboundConnection(StreamProtocol):
    """One incoming connection, from the open transport to the end: handshake, requests, responses."""

    __slots__ = (
        "_admission",
        "_authenticated_at",
        "_bytes_in_flight",
        "_corked",
        "_decoder",
        "_finishing",
        "_handshake",
        "_is_illegal",
        "_loop",
        "_on_request",
        "_output_full",
        "_put_off",
        "_reading",
        "_replies",
        "_resting",
        "_server",
        "_skipped",
        "_stay",
        "_transport",
        "_undecoded",
        "_user",
        "_waiting",
        "_wrote_this_turn",
        "caller",
        "unfinished",
    )

    def __init__(self, server: Server, admission: Admission) -> None:
        self._server = server
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._handshake = ServerHandshake(
            server.authenticators, entropy=server.entropy, configurations=server.configurations
        )
        self._decoder = RequestDecoder()
        self._replies: deque[Replier] = deque()  # one per request under way, in order
        self._bytes_in_flight = 0  # bytes of the entries in these requests
        self._user = "", ""  # farm and user, after authentication
        self._undecoded: list[bytes] = []  # data that came after the user's slice of the turn
        self._put_off = False  # goes on in a later turn
        self._waiting: deque[Request] = deque()  # decoded requests that are not handled yet
        self._is_illegal = False  # an illegal message came: the connection ends when the requests before are handled
        self._reading = True
        self._resting = False  # too many bytes of oversized requests came: not read for a moment
        self._skipped = 0  # bytes of such requests since the last rest
        self._output_full = False
        self._finishing = False  # no further request is handled; the connection closes when all requests are answered
        self._corked = False  # responses are gathered, and written together a little later
        self._wrote_this_turn = False  # something was written in this turn of the loop
        self._on_request: OnRequest | None = None  # the farm's callback; None before authentication
        self._authenticated_at = 0.0  # time of the authentication
        self._stay: tuple[OnStay, asyncio.TimerHandle] | None = None  # callback and timer, until `on_stay` is called
        self.caller: AuthenticatedConnection | None = None
        self.unfinished = 0  # bytes of an incomplete request

    # --- Events -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(_OUTPUT_BYTES)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        caller = self.caller
        if caller is not None:
            self._server.log.debug("disconnected", user=caller.user, remote=caller.remote, error=exc and str(exc))
        self._transport = None
        if self._stay is not None:
            self._stay[1].cancel()
        self._replies.clear()
        self._forget_waiting()
        self._admission.closed()
        self._server.lost(self)

    def data_received(self, data: bytes) -> None:
        if self.caller is None:
            self._receive_handshake(data)
        else:
            self._receive_requests(data)

    def pause_writing(self) -> None:
        self._output_full = True
        self._set_reading()

    def resume_writing(self) -> None:
        self._output_full = False
        self._handle_waiting()

    # --- Handshake ----------------------------------------------------------------------------------------

    def _receive_handshake(self, data: bytes) -> None:
        transport, admission = self._transport, self._admission
        assert transport is not None
        if transport.is_closing():
            return  # asyncio's TLS may deliver data after close()
        try:
            answer = self._handshake.receive(data, self._loop.time())
        except RemoteProtocolError as error:
            admission.refuse(ConnectionRefusal.NOT_HTTP, str(error))
            transport.abort()
            return
        if answer is None:
            return
        user = answer.user
        if user is None:
            self._refuse_handshake(answer)
            return
        caller = AuthenticatedConnection(user.cluster, user.user, admission.remote)
        if not self._server.admit(caller):
            admission.refuse(
                ConnectionRefusal.USER, f"{caller.user} of {caller.cluster} has too many connections already"
            )
            transport.abort()
            return
        self.caller = caller
        self._user = caller.cluster, caller.user
        if answer.outcome is HandshakeOutcome.TOLD:
            self._send_configuration(answer)
            return
        farm = self._server.farms[caller.cluster]
        self._on_request = farm.on_request
        admission.authenticated()
        transport.write(answer.data)
        if farm.on_caller is not None:
            farm.on_caller(caller)
        self._authenticated_at = self._loop.time()
        if farm.on_stay is not None:
            self._stay = farm.on_stay, self._loop.call_later(STAY_SECONDS, self._report_stay)
        if answer.rest:
            self._receive_requests(answer.rest)

    def _report_stay(self) -> None:
        if self._stay is None or self.caller is None:
            return
        (on_stay, timer), self._stay = self._stay, None
        timer.cancel()
        on_stay(self.caller, self._loop.time() - self._authenticated_at)

    def _send_configuration(self, answer: HandshakeAnswer) -> None:
        """Answer a question for the Configuration, and close."""
        transport = self._transport
        assert transport is not None
        self._admission.answered()
        self._server.counters.told += 1
        transport.write(answer.data)
        transport.close()

    def _refuse_handshake(self, answer: HandshakeAnswer) -> None:
        transport, admission = self._transport, self._admission
        assert transport is not None
        match answer.outcome:
            case HandshakeOutcome.CHALLENGED:
                admission.challenged()
            case HandshakeOutcome.REFUSED:
                admission.refuse(ConnectionRefusal.CREDENTIALS, "unknown user, or wrong key or password")
            case HandshakeOutcome.NOT_UPGRADED:
                admission.refuse(
                    ConnectionRefusal.UPGRADE,
                    "right credentials, but no upgrade: a proxy on the way removed the request for the upgrade",
                )
            case _:
                admission.refuse(ConnectionRefusal.NOT_FOUND, "not the path of a farm that is served here")
        transport.write(answer.data)
        transport.close()

    # --- Requests -----------------------------------------------------------------------------------------

    def _receive_requests(self, data: bytes) -> None:
        if self._finishing or self._is_illegal:
            return
        if self._undecoded or not self._server.slices.has_time(self._user):
            self._undecoded.append(data)
            self._go_on_later()
            self._set_reading()
        else:
            self._decode(data)

    def _go_on_later(self) -> None:
        if not self._put_off:
            self._put_off = True
            self._server.slices.put_off(self._user, self._go_on)

    def _go_on(self) -> None:
        """Decode and handle the data that came after an earlier slice."""
        self._put_off = False
        data = b"".join(self._undecoded)
        self._undecoded.clear()
        if data:
            self._decode(data)
        else:
            self._handle_waiting()

    def _forget_waiting(self) -> None:
        self._waiting.clear()
        self._undecoded.clear()

    def _decode(self, data: bytes) -> None:
        decoder = self._decoder
        if decoder.to_skip:
            self._count_skipped(min(decoder.to_skip, len(data)))
        try:
            self._waiting.extend(decoder.feed(data, _DECODED_BYTES))
            while decoder.rest and self._server.slices.has_time(self._user):
                self._waiting.extend(decoder.feed(decoder.rest, _DECODED_BYTES))
            if decoder.rest:
                self._undecoded.append(decoder.rest)
                self._go_on_later()
        except RemoteProtocolError as error:
            assert self.caller is not None
            self._server.illegal(self.caller, error)
            # Requests before the illegal one are handled as if they had come alone; then the connection ends.
            self._waiting.extend(decoder.before_error)
            self._is_illegal = True
        else:
            self._count_unfinished()
        self._handle_waiting()

    def _count_skipped(self, size: int) -> None:
        """Count bytes of an oversized request. When these bytes are too many, read nothing for `_REST_SECONDS`."""
        self._skipped += size
        if self._skipped >= MAX_SKIPPED_BYTES_PER_SECOND * _REST_SECONDS:
            self._skipped = 0
            self._resting = True
            self._loop.call_later(_REST_SECONDS, self._end_rest)

    def _end_rest(self) -> None:
        self._resting = False
        self._set_reading()

    def _count_unfinished(self) -> None:
        unfinished = self._decoder.buffered
        change, self.unfinished = unfinished - self.unfinished, unfinished
        caller = self.caller
        if change and caller is not None and not self._server.unfinished(caller, change) and change > 0:
            self._server.illegal(caller, "too many bytes of incomplete requests")
            self.drop("too many bytes of incomplete requests")

    def _handle_waiting(self) -> None:
        """Handle waiting requests, as many as may be in flight. Only the event loop calls this."""
        server, waiting, replies, caller = self._server, self._waiting, self._replies, self.caller
        limit, on_request, slices, user = server.max_in_flight, self._on_request, server.slices, self._user
        try:
            while (
                waiting and caller is not None and on_request is not None and not self._output_full and self._has_room()
            ):
                if not slices.has_time(user):
                    self._go_on_later()
                    break
                self._corked = True
                self._report_stay()
                while (
                    waiting
                    and len(replies) < limit
                    and self._bytes_in_flight < server.max_bytes_in_flight
                    and slices.has_time(user)
                ):
                    request = waiting.popleft()
                    reply = Replier(self, request)
                    replies.append(reply)
                    self._bytes_in_flight += reply.size
                    on_request(caller, request, reply)
                self._corked = False
                self._write()
        except BaseException:
            # A defect of this program. The loop reports the defect; the peer learns that the outcome is unknown.
            if self._transport is not None:
                self._transport.abort()
            raise
        if self._is_illegal and not waiting:
            self.finish()
        self._set_reading()

    def _has_room(self) -> bool:
        """Whether one more request may be handled."""
        server = self._server
        return len(self._replies) < server.max_in_flight and self._bytes_in_flight < server.max_bytes_in_flight

    def answered(self, reply: Replier) -> None:
        """Note that a `Replier` was called, and write the responses whose turn has come."""
        if not reply.data:
            self._forget_waiting()  # no answer could be sent for these requests, so they are not begun
            self._finishing = True
        if self._corked or not self._replies or self._replies[0] is not reply:
            return
        if not self._wrote_this_turn:
            # The first response in a turn of the loop leaves at once, later responses together at the end of the turn.
            # Waiting requests also begin at the end of the turn: here, the caller of a reply is in the middle of its
            # work.
            self._wrote_this_turn = True
            self._loop.call_soon(self._uncork)
            self._write()

    def _uncork(self) -> None:
        self._wrote_this_turn = False
        self._write()
        if self._waiting or not self._reading:
            self._handle_waiting()

    def _write(self) -> None:
        """Write the responses whose turn has come, and close after the last response."""
        replies, transport = self._replies, self._transport
        if transport is None or transport.is_closing():
            return
        ready: list[bytes] = []
        while replies:
            data = replies[0].data
            if data is None:
                break
            self._bytes_in_flight -= replies.popleft().size
            if not data:
                replies.clear()
                break
            ready.append(data)
        if ready:
            transport.write(ready[0] if len(ready) == 1 else b"".join(ready))
        if self._finishing and not replies:
            transport.close()

    def _set_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        stopped = self._finishing or self._is_illegal or self._output_full or self._resting
        reading = not (stopped or self._waiting or self._undecoded) and self._has_room()
        if reading != self._reading:
            self._reading = reading
            if reading:
                transport.resume_reading()
            else:
                transport.pause_reading()

    # --- End ----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Handle no further request; close when every request under way is answered."""
        self._finishing = True
        self._forget_waiting()
        if self._transport is not None and not self._corked:
            self._write()
            self._set_reading()

    def drop(self, reason: str) -> None:
        """Close now; open requests get no answer."""
        if self._transport is not None:
            caller = self.caller
            if caller is not None:
                log = self._server.log
                log.info("connection closed", user=caller.user, remote=caller.remote, reason=reason)
            self._transport.abort()
