"""Connections between servers, as in TCP: whole messages in order until the connection breaks. Then the server redials.

So one connection loses, doubles or reorders nothing until its end. But with a second connection, a message of the first
one may arrive after a message of the second one. And a message whose answer was lost is sent again.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from gf_i2p.raft import inputs
from gf_i2p.raft.effects import Send
from gf_i2p.simulator.cluster.network import SimulatedNetwork
from gf_i2p.wire.messages import (
    MessageType,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.server import SimulatedServer

HANDSHAKE_TRIPS: Final = 3
"""Round trips for the handshakes of TCP, TLS and HTTP."""

_END: Final = b""
"""The data that arrive when the other end has closed the connection."""


class Requester(Protocol):
    """A request that waits for its answer. The core gets the `Requester` as the token of the request."""

    asks: bool
    """Whether the request only asks for the leader. The answer to it promises nothing, like an answer to a client."""

    def answer(self, response: Response) -> None:
        """Send the answer back to the sender of the request."""
        ...

    def drop(self) -> None:
        """Give the request up, because no answer will come."""
        ...


class SimulatedLink(Protocol):
    """One server's way to send requests to another server, and to get the answers."""

    @property
    def connected(self) -> bool:
        """Whether a request can be sent now."""
        ...

    def start(self) -> None:
        """Begin to work. Called when the server starts, or when the peer becomes a contact of the server."""
        ...

    def send(self, send: Send) -> None:
        """Send a request. The server gets `Answered` or `Failed` once."""
        ...

    def reset(self, *, lose: bool) -> None:
        """Break the connection. `lose`: whether messages on the way are lost; otherwise these may still arrive."""
        ...

    def stall(self, seconds: float) -> None:
        """Let nothing pass for `seconds`."""
        ...

    def stop(self, *, silently: bool) -> None:
        """End the link for good. `silently`: the other side is not told."""
        ...


class _Channel:
    """One direction of a connection, which delivers the messages in order."""

    __slots__ = ("_backlog", "_deliver", "_last", "_net", "_receiver", "_sender", "free_at", "lost", "stalled_until")

    def __init__(self, net: SimulatedNetwork, sender: int, receiver: int, deliver: Callable[[bytes], None]) -> None:
        self._net = net
        self._sender = sender
        self._receiver = receiver
        self._deliver = deliver
        self._last = 0.0
        self._backlog: deque[bytes] = deque()
        self.lost = False
        """Whether messages on the way never arrive."""
        self.stalled_until = 0.0

    def send(self, data: bytes) -> None:
        now = self._net.events.now
        self._last = max(self._last, now + self._net.seconds(self._sender, self._receiver))
        self._net.events.after(self._last - now, self._arrive, data)

    @property
    def _blocked(self) -> bool:
        return self._net.is_cut(self._sender, self._receiver) or self.stalled_until > self._net.events.now

    def _arrive(self, data: bytes) -> None:
        if self.lost:
            self._net.counts["messages dropped"] += data != _END
        elif self._backlog:
            self._backlog.append(data)
        elif self._blocked:
            self._backlog.append(data)
            self._net.events.after(self._net.retry, self._retry)
        else:
            self._deliver(data)

    def _retry(self) -> None:
        if self.lost:
            self._net.counts["messages dropped"] += len(self._backlog)
            self._backlog.clear()
        elif self._blocked:
            self._net.events.after(self._net.retry, self._retry)
        else:
            self._net.counts["messages delayed"] += len(self._backlog)
            backlog, self._backlog = self._backlog, deque()
            for data in backlog:
                self._deliver(data)


class _PendingRequest:
    """A request that waits for its answer at the server that accepted the connection."""

    __slots__ = ("_connection", "asks", "data")

    def __init__(self, connection: "Connection", *, asks: bool) -> None:
        self.asks = asks
        self._connection = connection
        self.data: bytes | None = None

    def answer(self, response: Response) -> None:
        self.data = encode_response(response)
        self._connection.send_answers()

    def drop(self) -> None:
        self._connection.close_accepted(silently=False)


class Connection:
    """One connection: requests from the dialler, and answers to the dialler in the order of the requests."""

    def __init__(self, net: SimulatedNetwork, link: "ConnectedLink", acceptor: "SimulatedServer") -> None:
        self.number = net.next_connection()
        self._net = net
        self._link = link
        self._acceptor = acceptor
        self._acceptor_life = acceptor.life
        dialler = link.server.id
        self.requests = _Channel(net, dialler, acceptor.id, self._request_arrives)
        self.answers = _Channel(net, acceptor.id, dialler, self._answer_arrives)
        self._dialled = True
        self._accepted = True
        self._waiting: deque[_PendingRequest] = deque()
        acceptor.accepted[self.number] = self

    def close_dialled(self, *, silently: bool) -> None:
        """Close the dialler's end. `silently`: the acceptor is not told."""
        self._dialled = False
        if not silently:
            self.requests.send(_END)

    def close_accepted(self, *, silently: bool) -> None:
        """Close the acceptor's end. `silently`: the dialler is not told."""
        if self._accepted:
            self._accepted = False
            self._acceptor.accepted.pop(self.number, None)
            self._waiting.clear()
            if not silently:
                self.answers.send(_END)

    def _request_arrives(self, data: bytes) -> None:
        acceptor = self._acceptor
        if acceptor.life != self._acceptor_life or not self._accepted:
            self._accepted = False
            if acceptor.has_power and self._dialled:
                self.answers.send(_END)  # TCP's reset: the server has no such connection
        else:
            acceptor.enter(self._acceptor_life, self._take, data)

    def _take(self, data: bytes) -> None:
        if not self._accepted:
            return
        if data == _END:
            self.close_accepted(silently=True)
            return
        if not self._dialled:
            self._net.counts["requests of a dead connection"] += 1
        newest = self._acceptor.newest_connection
        dialler = self._link.server.id
        if newest.get(dialler, 0) > self.number:
            self._net.counts["messages reordered"] += 1
        newest[dialler] = max(newest.get(dialler, 0), self.number)
        request = decode_request(data)
        pending = _PendingRequest(self, asks=request.type is MessageType.CLIENT_REQUEST)
        self._waiting.append(pending)
        self._acceptor.step(inputs.Incoming(pending, request))

    def send_answers(self) -> None:
        """Send the answers that are ready, in the order of the requests, up to the first answer that is missing."""
        while self._waiting and self._waiting[0].data is not None:
            data = self._waiting.popleft().data
            assert data is not None
            if self._accepted:
                self.answers.send(data)

    def _answer_arrives(self, data: bytes) -> None:
        if self._dialled:
            self._link.server.enter(self._link.life, self._link.take, self, data)


class ConnectedLink:
    """A `SimulatedLink` that keeps one connection to one peer, as `transport.peer_link` does."""

    def __init__(
        self, net: SimulatedNetwork, server: "SimulatedServer", peer: "SimulatedServer", *, redial: tuple[float, float]
    ) -> None:
        """`redial`: shortest and longest pause between two attempts, in seconds."""
        self.server = server
        self.life = server.life
        self._net = net
        self._peer = peer
        self._redial = redial
        self._pause = redial[0]
        self._connection: Connection | None = None
        self._broken = False
        self._flights: deque[tuple[int, float]] = deque()  # tag, time of sending
        self._heard_at = 0.0
        self._watching = False

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    def start(self) -> None:
        """Dial the peer."""
        net, own_id, peer_id = self._net, self.server.id, self._peer.id
        trip = net.seconds(own_id, peer_id) + net.seconds(peer_id, own_id)
        if self._is_silent():
            net.events.after(net.patience, self.server.enter, self.life, self._dial_failed, False)
        elif not self._peer.up:
            net.events.after(trip, self.server.enter, self.life, self._dial_failed, True)
        else:
            hidden = net.hidden(own_id, peer_id)
            net.events.after(hidden + HANDSHAKE_TRIPS * trip, self.server.enter, self.life, self._dial_succeeded)

    def _is_silent(self) -> bool:
        net, own_id, peer_id = self._net, self.server.id, self._peer.id
        return (
            net.is_cut(own_id, peer_id) or net.is_cut(peer_id, own_id) or self._peer.paused or not self._peer.has_power
        )

    def _dial_succeeded(self) -> None:
        silent = self._is_silent()
        if silent or not self._peer.up:
            self._dial_failed(not silent)
            return
        self._pause = self._redial[0]
        self._broken = False
        self._connection = Connection(self._net, self, self._peer)
        self.server.step(inputs.Reachable(self._peer.id))

    def _dial_failed(self, refused: bool) -> None:
        self._dial_later()
        if self._broken and any(link.connected for link in self.server.links.values()):
            self.server.step(inputs.Unreachable(self._peer.id, refused))

    def _dial_later(self) -> None:
        rng: Random = self._net.rng
        self._pause = min(2 * self._pause, self._redial[1])
        self._net.events.after(self._pause * rng.random(), self.server.enter, self.life, self.start)

    def send(self, send: Send) -> None:
        """Send a request. Without a connection, the request fails at once."""
        if self._connection is None:
            self._net.events.after(0.0, self.server.enter, self.life, self.server.failed, self._peer.id, send.tag)
            return
        self._flights.append((send.tag, self._net.events.now))
        self._connection.requests.send(encode_request(send.request))
        if not self._watching:
            self._watching = True
            self._net.events.after(self._net.patience, self.server.enter, self.life, self._watch)

    def _watch(self) -> None:
        self._watching = False
        if not self._flights:
            return
        overdue_at = max(self._flights[0][1], self._heard_at) + self._net.patience
        if overdue_at <= self._net.events.now:
            self._net.counts["connections given up"] += 1
            self.reset(lose=False)
        else:
            self._watching = True
            self._net.events.after(overdue_at - self._net.events.now, self.server.enter, self.life, self._watch)

    def take(self, connection: Connection, data: bytes) -> None:
        """Take data that have arrived on this connection."""
        if connection is not self._connection:
            return
        if data == _END:
            connection.close_dialled(silently=True)
            self._disconnected()
            return
        self._heard_at = self._net.events.now
        tag, _ = self._flights.popleft()
        self.server.answered(self._peer.id, tag, decode_response(data))

    def reset(self, *, lose: bool) -> None:
        """Break the connection from the dialler's end, and dial again."""
        if self._connection is not None:
            self._connection.close_dialled(silently=lose)
            if lose:
                self._connection.requests.lost = self._connection.answers.lost = True
            self._disconnected()

    def _disconnected(self) -> None:
        self._connection = None
        self._broken = True
        flights, self._flights = self._flights, deque()
        late = self._net.late(self._redial[1])
        for tag, _ in flights:
            self._net.events.after(late, self.server.enter, self.life, self.server.failed, self._peer.id, tag)
        self._dial_later()

    def stall(self, seconds: float) -> None:
        """Let nothing pass for `seconds`, in one direction or both."""
        if self._connection is not None:
            until = self._net.events.now + seconds
            both = (self._connection.requests, self._connection.answers)
            for channel in self._net.rng.choice((both, both[:1], both[1:])):
                channel.stalled_until = until

    def stop(self, *, silently: bool) -> None:
        """End the link for good. `silently`: the other side is not told."""
        if self._connection is not None:
            self._connection.close_dialled(silently=silently)
            self._connection = None
