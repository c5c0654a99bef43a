"""One incoming connection: the handshake, and then requests and responses, or one request to the administration API.

JRaft's rule: on one connection, responses follow the order of the requests (docs/design/jraft.md). The handler may
complete requests in any order; a response waits here until the earlier responses are sent.

Memory per connection is bounded. The server does not read a connection with `max_in_flight` unanswered requests, or
with a peer that does not take the responses. Requests beyond the limit that came in the same piece of data wait,
decoded.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Admission
from gf_i2p.transport.served import AuthenticatedConnection, OnRequest, OnStay, Replier, Served
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.limits import MAX_SKIPPED_BYTES_PER_SECOND
from gf_i2p.wire.message_stream import RequestDecoder
from gf_i2p.wire.messages import Request
from gf_i2p.wire.upgrade import HandshakeAnswer, HandshakeOutcome, ServerHandshake

if TYPE_CHECKING:
    from gf_i2p.transport.server import Server

# Bytes of responses (26 bytes each) that the peer may leave untaken before the server stops reading requests.
_OUTPUT_BYTES: Final = 64 * 1024

_REST_SECONDS: Final = 0.25
"""Seconds for which the server does not read a connection that has sent too many bytes of oversized requests."""

_DECODED_BYTES: Final = 32 << 10
"""Bytes of small requests that are decoded between two looks at the clock: about 700 requests, in less than 1 ms."""

STAY_SECONDS: Final = 5.0
"""Seconds after which a connection counts as one that stays. `gf-i2p doctor` only tests the credentials, and leaves."""


class InboundConnection(StreamProtocol):
    """One incoming connection, from the open transport to the end: handshake, requests, responses."""

    __slots__ = (
        "_admission",
        "_authenticated_at",
        "_bytes_in_flight",
        "_corked",
        "_decoder",
        "_finishing",
        "_handshake",
        "_http",
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

    def __init__(self, server: "Server", admission: Admission) -> None:
        self._server = server
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._handshake = ServerHandshake(
            server.authenticators,
            entropy=server.entropy,
            configurations=server.configurations,
            administered=server.administered,
        )
        self._http: asyncio.Protocol | None = None  # answers a request to the administration API
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
        """See `asyncio.BaseProtocol`."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(_OUTPUT_BYTES)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BaseProtocol`."""
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
        if self._http is not None:
            self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `StreamProtocol`."""
        if self.caller is None:
            self._receive_handshake(data)
        elif self._http is not None:
            self._http.data_received(data)
        else:
            self._receive_requests(data)

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        if self._http is not None:
            self._http.pause_writing()
            return
        self._output_full = True
        self._set_reading()

    def resume_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        if self._http is not None:
            self._http.resume_writing()
            return
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
        if answer.outcome is HandshakeOutcome.ADMINISTRATION:
            self._administer(farm, answer)
            return
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

    def _administer(self, farm: Served, answer: HandshakeAnswer) -> None:
        """Let the administration API answer a request. The API closes the connection."""
        caller, transport = self.caller, self._transport
        assert caller is not None
        assert transport is not None
        assert farm.on_administration is not None
        http = farm.on_administration(caller)
        if http is None:
            self._admission.answered()
            transport.write(answer.data)
            transport.close()
            return
        self._admission.authenticated()
        self._http = http
        http.connection_made(transport)
        http.data_received(answer.rest)

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
        """Handle no further request; close when every request under way is answered.

        A request to the administration API goes on: its answer closes the connection.
        """
        if self._http is not None:
            return
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
