"""Callers from outside: each request has a connection of its own, which may break before the answer."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gf_i2p.raft import inputs
from gf_i2p.simulator.cluster.network import CLIENTS
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import (
    NOBODY,
    MessageType,
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.farm import SimulatedFarm
    from gf_i2p.simulator.cluster.server import SimulatedServer


class Post:
    """A ClientRequest on its way to a server and back. The core gets the `Post` as the token of the proposal.

    `done(response, swapped)` is called at most once, and not at all when the answer is lost: then the caller's time-out
    ends the wait. `response` None: the outcome is unknown. `swapped`: whether the last entry is a register's command
    whose condition held.
    """

    __slots__ = ("_done", "_farm", "_server", "_values")

    def __init__(
        self,
        farm: "SimulatedFarm",
        server: "SimulatedServer",
        values: Sequence[bytes],
        done: Callable[[Response | None, bool], None],
    ) -> None:
        self._farm = farm
        self._server = server
        self._values = values
        self._done = done
        entries = tuple(Entry(0, ValueType.APPLICATION, value) for value in values)
        data = encode_request(Request(MessageType.CLIENT_REQUEST, CLIENTS, server.id, 0, 0, 0, 0, entries))
        farm.events.after(farm.net.seconds(CLIENTS, server.id), self._arrives, data)

    def _arrives(self, data: bytes) -> None:
        if self._server.up:
            self._server.enter(self._server.life, self._server.propose, self, decode_request(data).entries)
        elif self._server.has_power:
            # The machine refuses the connection: surely no entry was appended.
            refusal = Response(MessageType.APPEND_ENTRIES_RESPONSE, self._server.id, NOBODY, 0, 0, accepted=False)
            self._farm.events.after(self._farm.net.seconds(self._server.id, CLIENTS), self._done, refusal, False)

    def answer(self, response: Response) -> None:
        """Carry the server's answer back. An accepted answer leaves when the server has applied the last entry."""
        if not response.accepted:
            self._farm.checker.refused(self._values)
            self._carry_back(response)
            return
        index = response.next_index - 1
        self._farm.checker.acknowledged(self._values, index)
        self._server.when_applied(index, self._carry_back, response)

    def _carry_back(self, response: Response) -> None:
        farm = self._farm
        swapped = response.accepted and self._server.swapped(response.next_index - 1)
        if swapped is None:
            self.drop()
        elif farm.rng.random() < farm.answers_lost:
            farm.counts["answers to clients lost"] += 1
        else:
            seconds = farm.net.seconds(self._server.id, CLIENTS)
            farm.events.after(seconds, self._deliver_answer, encode_response(response), swapped)

    def _deliver_answer(self, data: bytes, swapped: bool) -> None:
        response = decode_response(data)
        if response.accepted:
            self._farm.checker.heard(response.next_index - 1)
        self._done(response, swapped)

    def drop(self) -> None:
        """Note that the server closes the connection: the caller learns that the outcome is unknown."""
        self._farm.events.after(self._farm.net.seconds(self._server.id, CLIENTS), self._done, None, False)


class Order:
    """An AddServerRequest or RemoveServerRequest on its way to a server and back.

    `done(accepted)` is called at most once, when the answer has come.
    """

    __slots__ = ("_done", "_farm", "_server")

    def __init__(
        self,
        farm: "SimulatedFarm",
        server: "SimulatedServer",
        message_type: MessageType,
        value: bytes,
        done: Callable[[bool], None],
    ) -> None:
        self._farm = farm
        self._server = server
        self._done = done
        entry = Entry(0, ValueType.CLUSTER_SERVER, value)
        data = encode_request(Request(message_type, CLIENTS, server.id, 0, 0, 0, 0, (entry,)))
        farm.events.after(farm.net.seconds(CLIENTS, server.id), self._arrives, data)

    def _arrives(self, data: bytes) -> None:
        if self._server.up:
            incoming = inputs.Incoming(self, decode_request(data))
            self._server.enter(self._server.life, self._server.step, incoming)

    def answer(self, response: Response) -> None:
        """Carry the server's answer back."""
        seconds = self._farm.net.seconds(self._server.id, CLIENTS)
        self._farm.events.after(seconds, self._deliver_answer, encode_response(response))

    def _deliver_answer(self, data: bytes) -> None:
        self._done(decode_response(data).accepted)

    def drop(self) -> None:
        """Do nothing when the server closes the connection: the operator does not wait for the outcome."""


class Query:
    """A linearizable read of one register. The core gets the `Query` as the token of a `Read`.

    `done(value)` is called at most once; `value` None: the read was refused.
    """

    __slots__ = ("_done", "_farm", "_key", "_owed", "_server")

    def __init__(
        self, farm: "SimulatedFarm", server: "SimulatedServer", key: int, done: Callable[[int | None], None]
    ) -> None:
        self._farm = farm
        self._server = server
        self._key = key
        self._done = done
        self._owed = farm.checker.acknowledged_index
        farm.events.after(farm.net.seconds(CLIENTS, server.id), self._arrives)

    def _arrives(self) -> None:
        if self._server.up:
            self._server.enter(self._server.life, self._server.step, inputs.Read(self))

    def served(self, server: "SimulatedServer") -> None:
        """Read the register, and carry the value back. Called when the server may serve the read."""
        self._farm.checker.read(server.id, server.applied, self._owed)
        self._farm.events.after(
            self._farm.net.seconds(server.id, CLIENTS), self._done, server.registers.read(self._key)
        )

    def refused(self) -> None:
        """Tell the caller that the read is refused: this server does not lead."""
        self._farm.events.after(self._farm.net.seconds(self._server.id, CLIENTS), self._done, None)
