"""The stricter network: every message travels alone, and may be lost, doubled, or overtaken by any other.

No transport of this project is so unreliable. Raft must be safe all the same (Raft 2: "network delays, partitions, and
packet loss, duplication, and reordering").
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from gf_i2p.raft import inputs
from gf_i2p.raft.effects import Send
from gf_i2p.simulator.cluster.network import SimulatedNetwork
from gf_i2p.wire.messages import MessageType, Response, decode_request, decode_response, encode_request, encode_response

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.server import SimulatedServer


class _PendingDatagram:
    """A request that has arrived, and that waits for the peer's answer."""

    __slots__ = ("_link", "_tag", "asks")

    def __init__(self, link: "DatagramLink", tag: int, *, asks: bool) -> None:
        self.asks = asks
        self._link = link
        self._tag = tag

    def answer(self, response: Response) -> None:
        self._link.carry_back(self._tag, encode_response(response))

    def drop(self) -> None:
        """Send nothing: the sender's patience ends the request."""


class DatagramLink:
    """A `SimulatedLink` to one peer, without a connection: a message travels alone, so `connected` is always true."""

    connected = True

    def __init__(
        self, net: SimulatedNetwork, server: "SimulatedServer", peer: "SimulatedServer", *, patience: float
    ) -> None:
        """`patience`: seconds to wait for one answer; then the request has failed, and a later answer is ignored."""
        self.server = server
        self.life = server.life
        self._net = net
        self._peer = peer
        self._patience = patience
        self._flights: dict[int, float] = {}  # tag: time of sending
        self._watching = False
        self._sent = [0, 0]  # number of requests, number of answers
        self._arrived = [0, 0]  # highest number of an arrived request, of an arrived answer

    def start(self) -> None:
        """Do nothing: there is no connection to make."""

    def send(self, send: Send) -> None:
        """Send a request to the peer."""
        self._flights[send.tag] = self._net.events.now
        self._carry(0, self.server.id, self._peer.id, self._request_arrives, send.tag, encode_request(send.request))
        if not self._watching:
            self._watching = True
            self._net.events.after(self._patience, self.server.enter, self.life, self._watch)

    def _carry(
        self, direction: int, sender: int, receiver: int, take: Callable[[int, bytes], None], tag: int, data: bytes
    ) -> None:
        net = self._net
        copies = 1
        # A cut stops a message only as the message leaves. A message that left before the cut may arrive at any time.
        if net.is_cut(sender, receiver) or net.rng.random() < net.drop_chance:
            net.counts["messages dropped"] += 1
            return
        if net.rng.random() < net.duplicate_chance:
            net.counts["messages duplicated"] += 1
            copies = 2
        self._sent[direction] += 1
        for _ in range(copies):
            seconds = net.seconds(sender, receiver)
            if net.rng.random() < net.straggle_chance:
                net.counts["messages delayed"] += 1
                seconds += net.patience * 2 * net.rng.random()
            net.events.after(seconds, self._arrive, direction, self._sent[direction], take, tag, data)

    def _arrive(
        self,
        direction: int,
        number: int,
        take: Callable[[int, bytes], None],
        tag: int,
        data: bytes,
    ) -> None:
        if number < self._arrived[direction]:
            self._net.counts["messages reordered"] += 1
        else:
            self._arrived[direction] = number
        take(tag, data)

    def _request_arrives(self, tag: int, data: bytes) -> None:
        if self._peer.up:
            self._peer.enter(self._peer.life, self._take, tag, data)

    def _take(self, tag: int, data: bytes) -> None:
        request = decode_request(data)
        pending = _PendingDatagram(self, tag, asks=request.type is MessageType.CLIENT_REQUEST)
        self._peer.step(inputs.Incoming(pending, request))

    def carry_back(self, tag: int, data: bytes) -> None:
        """Send the peer's answer to the request `tag` back."""
        self._carry(1, self._peer.id, self.server.id, self._answer_arrives, tag, data)

    def _answer_arrives(self, tag: int, data: bytes) -> None:
        self.server.enter(self.life, self._heard, tag, data)

    def _heard(self, tag: int, data: bytes) -> None:
        if self._flights.pop(tag, None) is not None:
            self.server.answered(self._peer.id, tag, decode_response(data))

    def _watch(self) -> None:
        self._watching = False
        now = self._net.events.now
        overdue = [tag for tag, sent_at in self._flights.items() if sent_at + self._patience <= now]
        for tag in overdue:
            del self._flights[tag]
        for tag in overdue:
            self.server.failed(self._peer.id, tag)
        if self._flights and not self._watching:
            self._watching = True
            oldest = next(iter(self._flights.values()))
            self._net.events.after(oldest + self._patience - now, self.server.enter, self.life, self._watch)

    def reset(self, *, lose: bool) -> None:  # noqa: ARG002 -- `SimulatedNetwork` draws whether a message is lost
        """Report all requests on the way as failed; each request may still arrive."""
        flights, self._flights = self._flights, {}
        late = self._net.late(self._patience)
        for tag in flights:
            self._net.events.after(late, self.server.enter, self.life, self.server.failed, self._peer.id, tag)
        self._net.events.after(0.0, self.server.enter, self.life, self.server.step, inputs.Reachable(self._peer.id))

    def stall(self, seconds: float) -> None:
        """Do nothing: single messages do not stall."""

    def stop(self, *, silently: bool) -> None:  # noqa: ARG002 -- no peer hears of the end anyway
        """Forget the requests on the way, because the server ends."""
        self._flights = {}
