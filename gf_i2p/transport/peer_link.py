"""Keeps an outgoing connection to a peer, and dials anew after its end. Responses come in the requests' order."""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.errors import (
    DialError,
    NotListeningError,
    RejectedError,
    TransportError,
    UnreachableError,
    challenged_again,
    dial_error_of,
)
from gf_i2p.transport.interface import Transport
from gf_i2p.transport.library_log import library_logger
from gf_i2p.transport.login_channel import channel_to
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import ProtocolError, RemoteProtocolError
from gf_i2p.wire.http_get import Challenges, Retry
from gf_i2p.wire.limits import HANDSHAKE_SECONDS, MAX_BUFFERED_BYTES, MAX_REQUESTS_IN_FLIGHT
from gf_i2p.wire.message_stream import ResponseDecoder
from gf_i2p.wire.messages import RESPONSE_TYPE, MessageType, Request, Response, encode_request
from gf_i2p.wire.upgrade import ClientHandshake

# After a connection that lasted this long, dialling starts with the shortest delay.
_STABLE_SECONDS: Final = 5.0

DOUBT_SECONDS: Final = 10.0
"""Seconds of silence after which a doubtful connection is ended: the connection may lead to a dead process."""

# Logged reasons that are remembered, so that no reason is logged twice. The limit is for reasons that contain figures.
_MAX_REASONS: Final = 16

Done = Callable[[Response | None], None]


class PeerLink:
    """Keeps one connection to one peer and sends requests over it."""

    def __init__(
        self,
        transport: Transport,
        endpoint: Endpoint,
        cluster: str,
        credentials: Credentials,
        *,
        on_up: Callable[[], None] | None = None,
        on_down: Callable[[], None] | None = None,
        backoff: Backoff | None = None,
        request_seconds: float,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        max_buffered: int = MAX_BUFFERED_BYTES,
        max_in_flight: int = MAX_REQUESTS_IN_FLIGHT,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Prepare; `start` begins to dial.

        Args:
            transport: the way to the endpoint.
            endpoint: the peer.
            cluster: the farm's name.
            credentials: this side's credentials for the peer. Use the same object for the next link to the peer: the
                object keeps the peer's challenge, which saves a request.
            on_up: called when the connection has come up. A callback that raises is logged, and the link goes on.
            on_down: called when the connection has ended, and after a failed attempt; `last_error` has the reason.
            backoff: the delays between attempts.
            request_seconds: most seconds for one answer, from the sending of the request or from the answer before,
                whichever is later. So the link keeps a slow peer that goes on answering, and gives up a silent peer.
            handshake_seconds: most seconds for one attempt: look-up of the name, TCP, TLS and HTTP.
            max_buffered: bytes that the peer has not taken, beyond which the connection is given up.
            max_in_flight: unanswered requests, beyond which the connection is given up.
            entropy: returns the given number of random bytes.
        """
        self.endpoint = endpoint
        self.last_error: str | None = None
        """Why there is no connection: a sentence for the operator; None with a connection, or before the first try."""
        self.unreachable = False
        """Whether a connection that was up has ended, and the peer has not answered at all since."""
        self.refused = False
        """Whether, moreover, the peer's machine has answered that no process listens there."""
        self.rejected = False
        """Whether the last attempt has shown that no further attempt can help before somebody changes the settings."""
        self.round_trip: float | None = None
        """Seconds from the latest upgrade request to its answer: one round trip, and through an HTTP proxy inside I2P
        also the opening of a stream. None before the first answer."""
        self.request_seconds = request_seconds
        """See `__init__`; a change counts for requests sent later."""
        self.handshake_seconds = handshake_seconds
        """See `__init__`; a change counts for attempts begun later."""
        self.max_buffered = max_buffered
        self.max_in_flight = max_in_flight
        self._transport = transport
        self._cluster = cluster
        self._credentials = credentials
        self._on_up = on_up
        self._on_down = on_down
        self.backoff = backoff or Backoff()
        """The delays between attempts. The caller may replace this object at any time."""
        self._entropy = entropy
        self._connection: _OutboundConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudged = asyncio.Event()
        self.failed_attempts = 0
        """Number of failed attempts so far. The transport chooses the way by this number."""
        self._logged_reasons: set[str] = set()  # since the last connection: two ways may fail in turn
        self._log = library_logger(__name__).bind(peer=str(endpoint), cluster=cluster)

    @property
    def connected(self) -> bool:
        """Whether a request can be sent now."""
        return self._connection is not None

    def start(self) -> None:
        """Begin to dial, and dial again whenever the connection ends, until `stop`."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name=f"link to {self.endpoint}")

    async def stop(self) -> None:
        """End the connection now and stop dialling; requests in flight fail."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def nudge(self) -> None:
        """Dial now instead of after the present delay. Call this when the peer has shown that it runs."""
        self._nudged.set()

    def doubt(self, ago: float = 0.0) -> None:
        """Dial anew if the connection may lead to a process that is gone. Call this when the peer has dialled anew.

        `ago`: seconds since the peer has dialled; the peer may have restarted before that dial. The connection ends
        when no answer is due, and the last answer came `DOUBT_SECONDS` or more before the peer's dial. Silence after
        the dial does not count: dials through I2P take long, and two peers could otherwise doubt each other for ever.

        No event shows that a stream through I2P has ended, or that a machine has vanished. Without this method, a node
        with nothing to send would find out only from its next request, after the time-out.
        """
        connection = self._connection
        idle = None if connection is None else connection.idle_seconds
        if connection is not None and idle is not None and idle - ago >= DOUBT_SECONDS:
            connection.give_up("the peer has dialled this node anew, and has been silent on this connection")
        self.nudge()

    def reset(self, reason: str) -> None:
        """End the connection now, if there is one, and dial anew; requests in flight fail."""
        if self._connection is not None:
            self._connection.give_up(reason)

    def send(self, request: Request, done: Done, *, seconds: float | None = None) -> None:
        """Send a request; `done` is called exactly once, and never from within this call.

        `done` gets the response, or None. None means: there was no connection, or the connection has ended. The link
        itself ends a connection when an answer is overdue or of the wrong type, or when the peer does not read. Then
        all requests in flight fail. After None the outcome is unknown, unless `connected` was False at this call: then
        nothing was sent.

        `seconds`: most seconds for this request's answer, counted as `request_seconds`, and instead of that number. An
        overdue answer ends the connection for all requests. So `seconds` must not express how long one caller is
        willing to wait, and is seldom less than `request_seconds`. Answers come in order, so a request waits for slow
        requests before it.

        Raises `LocalProtocolError` when the request is illegal; then `done` is not called.
        """
        connection = self._connection
        if connection is not None:
            connection.send(request, done, self.request_seconds if seconds is None else seconds)
        else:
            (self._loop or asyncio.get_running_loop()).call_soon(self.call, done, None)

    # --- Dialling and keeping ----------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        was_connected = False  # whether there was a connection before
        while True:
            self._nudged.clear()
            try:
                connection = await self._connect()
                connected_at = loop.time()
                self.last_error = None
                self._logged_reasons.clear()
                self._log.info("connected")
                reason = await connection.ended
                was_connected = True
                if loop.time() - connected_at >= _STABLE_SECONDS:
                    self.backoff.reset()
            except (TransportError, ProtocolError) as error:
                reason = str(error)
                self.unreachable = was_connected and isinstance(error, UnreachableError)
                self.refused = was_connected and isinstance(error, NotListeningError)
                self.rejected = isinstance(error, RejectedError)
            except Exception as error:  # noqa: BLE001 - any defect of this program
                # Without this handler the link would be dead, and no log would say so before the node stops.
                reason = f"a defect in this program: {error!r}; its traceback is in this node's log"
                if reason not in self._logged_reasons:
                    self._log.exception("a defect ended an attempt or a connection")
            finally:
                # A connection is left here only by cancellation, which is stop(), or by a defect.
                if self._connection is not None:
                    self._connection.give_up("the link was stopped")
            self._note_down(reason)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.backoff.next()):
                    await self._nudged.wait()

    async def _connect(self) -> "_OutboundConnection":
        """Dial until the handshake is complete; a challenge leads to another attempt at once."""
        challenges = Challenges(self._credentials.others)
        while True:
            connection = _OutboundConnection(self, self._handshake())
            try:
                retry = await self._attempt(connection)
                if retry is None:
                    return connection
            except (TransportError, ProtocolError):
                self.failed_attempts += 1
                raise
            finally:
                if self._connection is not connection:
                    connection.give_up("the attempt is over")
            if not challenges.admit(retry):
                raise challenged_again(retry, str(self.endpoint), self._credentials.user)

    async def _attempt(self, connection: "_OutboundConnection") -> Retry | None:
        """Return None when the connection is up, or the challenge that came instead. Raises `DialError`."""
        seconds = min(self.handshake_seconds, self._transport.patience(self.endpoint))
        end = asyncio.get_running_loop().time() + seconds
        await self._transport.dial(self.endpoint, lambda: connection, deadline=seconds, attempt=self.failed_attempts)
        try:
            async with asyncio.timeout_at(end):
                outcome = await connection.outcome
        except TimeoutError:
            raise UnreachableError(
                f"{self.endpoint} did not answer the HTTP request within {seconds:g} s: {self.advice()}."
            ) from None
        if isinstance(outcome, DialError):
            raise outcome
        return outcome

    def advice(self) -> str:
        """Return advice for the operator about a peer that does not answer."""
        if self.endpoint.is_i2p:  # a router may accept a connection for an absent peer
            return "check that the peer runs, that its router is up and has tunnels, and that the port is a farm node's"
        return "check that the port is a farm node's"

    def _handshake(self) -> ClientHandshake:
        return ClientHandshake(
            host=self.endpoint.authority,
            cluster=self._cluster,
            credentials=self._credentials,
            now=asyncio.get_running_loop().time(),
            entropy=self._entropy,
            proxied=self._transport.proxied(self.endpoint, self.failed_attempts),
            proxy_login=self._transport.proxy_login(self.endpoint, self.failed_attempts),
        )

    def _note_down(self, reason: str) -> None:
        self.last_error = reason
        if reason not in self._logged_reasons:  # once per reason, not once per attempt
            if len(self._logged_reasons) >= _MAX_REASONS:
                self._logged_reasons.clear()
            self._logged_reasons.add(reason)
            self._log.warning("no connection", reason=reason)
        if self._on_down is not None:
            self.call(self._on_down)

    # --- Called by the connection -------------------------------------------------------------------------

    def call(self, callback: Callable[..., None], *arguments: Response | None) -> None:
        """Call a callback. An exception of the callback is logged, and the link goes on."""
        try:
            callback(*arguments)
        except Exception:  # noqa: BLE001 - the callback may raise anything
            self._log.exception("a callback failed")

    def up(self, connection: "_OutboundConnection") -> None:
        """Take over a connection whose handshake is complete."""
        self._connection = connection
        self.last_error = None
        self.unreachable = self.refused = self.rejected = False
        if self._on_up is not None:
            self.call(self._on_up)

    def lost(self, connection: "_OutboundConnection") -> None:
        """Note that this connection cannot send any more."""
        if self._connection is connection:
            self._connection = None


class _OutboundConnection(StreamProtocol):
    """One connection of a `PeerLink`, from the open transport to the end: handshake, requests, responses."""

    __slots__ = (
        "_answered_at",
        "_batch",
        "_decoder",
        "_handshake",
        "_heard_nothing",
        "_in_flight",
        "_is_up",
        "_link",
        "_loop",
        "_output_full",
        "_overdue",
        "_overdue_at",
        "_requested_at",
        "_transport",
        "_up_at",
        "_wrote_this_turn",
        "ended",
        "outcome",
    )

    def __init__(self, link: PeerLink, handshake: ClientHandshake) -> None:
        self._link = link
        self._handshake = handshake
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._decoder = ResponseDecoder()
        # Per request: the response's type, the callback, time of sending, seconds for the answer.
        self._in_flight: deque[tuple[MessageType, Done, float, float]] = deque()
        self._answered_at = 0.0  # when the last answer came
        self._up_at = 0.0  # when the handshake was complete
        self._overdue: asyncio.TimerHandle | None = None
        self._overdue_at = 0.0  # when the timer fires
        self._requested_at = 0.0  # when the HTTP request was written
        self._heard_nothing = True
        self._is_up = False
        self._output_full = False
        self._wrote_this_turn = False  # whether something was written in this turn of the loop
        self._batch: list[bytes] = []  # data to write at the end of the turn
        # None: the connection is up. `Retry`: dial again, with credentials. An error is a result and no exception of
        # the future, since no task awaits the future when dialling itself has failed.
        self.outcome: asyncio.Future[Retry | DialError | None] = self._loop.create_future()
        # Why the connection that was up has ended.
        self.ended: asyncio.Future[str] = self._loop.create_future()

    # --- Events -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(self._link.max_buffered, self._link.max_buffered)
        self._requested_at = self._loop.time()
        self._transport.write(self._handshake.request(channel_to(self._link.endpoint, transport)))

    def connection_lost(self, exc: Exception | None) -> None:
        # Inside I2P a router, at either end, accepts a stream and closes it when the peer is absent.
        unreachable = self._heard_nothing and self._link.endpoint.is_i2p
        reason = "the peer closed the connection" if exc is None else f"the connection broke: {exc}"
        self._fail(
            reason if self._is_up else f"{reason} before it had answered: {self._link.advice()}",
            UnreachableError if unreachable else DialError,
        )

    def data_received(self, data: bytes) -> None:
        self._heard_nothing = False
        if not self._is_up:
            self._receive_handshake(data)
        elif self._transport is not None:
            self._receive_responses(data)

    def pause_writing(self) -> None:
        self._output_full = True

    def resume_writing(self) -> None:
        self._output_full = False

    # --- Handshake ----------------------------------------------------------------------------------------

    def _receive_handshake(self, data: bytes) -> None:
        if self.outcome.done():
            return  # after a challenge or the deadline: the link is about to close the connection
        try:
            outcome = self._handshake.receive(data, self._loop.time())
        except RemoteProtocolError as error:
            self.give_up(str(error), dial_error_of(error))
            return
        if outcome is None:
            return
        if isinstance(outcome, Retry):
            self.outcome.set_result(outcome)
            return
        self._is_up = True
        self._up_at = self._loop.time()
        self._link.round_trip = self._loop.time() - self._requested_at
        self.outcome.set_result(None)
        self._link.up(self)
        if outcome.rest:
            self._receive_responses(outcome.rest)

    # --- Requests -----------------------------------------------------------------------------------------

    @property
    def idle_seconds(self) -> float | None:
        """Seconds without an answer; None before the connection is up, and while an answer is due."""
        heard_at = max(self._answered_at, self._up_at)
        return self._loop.time() - heard_at if self._is_up and not self._in_flight else None

    def send(self, request: Request, done: Done, seconds: float) -> None:
        """See `PeerLink.send`."""
        data = encode_request(request)
        transport, link = self._transport, self._link
        assert transport is not None
        if self._output_full or len(self._in_flight) >= link.max_in_flight:
            unread = "takes no more bytes" if self._output_full else f"owes {len(self._in_flight)} answers"
            self.give_up(f"the peer {unread}; all requests in flight are given up")
            self._loop.call_soon(link.call, done, None)
            return
        self._in_flight.append((RESPONSE_TYPE[request.type], done, self._loop.time(), seconds))
        if len(self._in_flight) == 1:
            self._watch()
        if self._wrote_this_turn:
            self._batch.append(data)
        else:
            # The first request in a turn of the loop leaves at once, later requests together at the end of the turn.
            self._wrote_this_turn = True
            self._loop.call_soon(self._uncork)
            transport.write(data)

    def _uncork(self) -> None:
        self._wrote_this_turn = False
        batch = self._batch
        if batch:
            self._batch = []
            if self._transport is not None:
                self._transport.write(batch[0] if len(batch) == 1 else b"".join(batch))

    def _receive_responses(self, data: bytes) -> None:
        in_flight, call = self._in_flight, self._link.call
        fault: str | None = None
        try:
            responses = self._decoder.feed(data)
        except RemoteProtocolError as error:
            responses = self._decoder.before_error
            fault = str(error)
        if responses:
            self._answered_at = self._loop.time()
        for response in responses:
            if not in_flight:
                fault = "it sent an answer without a request"
                break
            if response.type is not in_flight[0][0]:
                fault = f"it answered {response.type.name} where {in_flight[0][0].name} is expected"
                break
            call(in_flight.popleft()[1], response)
            if self._transport is None:
                return  # the callback has ended the connection, and all requests in flight have failed
        if fault is not None:
            self.give_up(f"the peer broke the protocol: {fault}")
        elif in_flight:
            self._watch()

    def _due_at(self) -> float:
        """Return the loop's time when the oldest request is overdue.

        The time for an answer does not run before the answer to the previous request: until then the peer has not begun
        this request.
        """
        _, _, sent_at, seconds = self._in_flight[0]
        return max(sent_at, self._answered_at) + seconds

    def _watch(self) -> None:
        """Set the timer for the time when the oldest request is overdue. An earlier timer is kept."""
        due_at = self._due_at()
        if self._overdue is not None:
            if self._overdue_at <= due_at:
                return
            self._overdue.cancel()
        self._overdue_at = due_at
        self._overdue = self._loop.call_at(due_at, self._check_overdue)

    def _check_overdue(self) -> None:
        self._overdue = None
        if not self._in_flight:
            return
        if self._due_at() <= self._loop.time():
            self.give_up(f"the peer did not answer within {self._in_flight[0][3]:g} s")
        else:
            self._watch()

    # --- End ----------------------------------------------------------------------------------------------

    def give_up(self, reason: str, kind: type[DialError] = DialError) -> None:
        """End the connection now. Requests in flight fail in the loop's next turn. `kind`: class of the error."""
        transport = self._transport
        self._fail(reason, kind)
        if transport is not None:
            transport.abort()

    def _fail(self, reason: str, kind: type[DialError]) -> None:
        self._transport = None
        self._link.lost(self)
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if not self.outcome.done():
            self.outcome.set_result(kind(f"{self._link.endpoint}: {reason}"))
        if not self.ended.done():
            self.ended.set_result(reason)
        in_flight, self._in_flight = self._in_flight, deque()
        for _, done, _, _ in in_flight:
            self._loop.call_soon(self._link.call, done, None)
