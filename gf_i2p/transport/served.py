"""A served farm: the callers, the callbacks for their requests, and the answers that the callbacks give."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gf_i2p.wire.digest import Authenticator
from gf_i2p.wire.errors import LocalProtocolError
from gf_i2p.wire.messages import RESPONSE_TYPE, Request, Response, encode_response
from gf_i2p.wire.upgrade import ToldConfiguration


class Answered(Protocol):
    """The connection of a request."""

    def answered(self, reply: "Replier") -> None:
        """Note that a `Replier` was called."""
        ...


@dataclass(frozen=True, slots=True)
class AuthenticatedConnection:
    """An authenticated connection: farm, user ("server-1", "client-NAME"), and the peer's address for the log."""

    cluster: str
    user: str
    remote: str


class Replier:
    """Answers one request: call this exactly once, at any time, with a response or with None.

    None closes the connection when the request's turn comes: the outcome is unknown, and earlier requests still get
    their responses. After the end of the connection a call does nothing. Raises `LocalProtocolError` when the
    response's type does not fit the request, or a number is out of range.
    """

    __slots__ = ("_connection", "_due", "data", "size")

    def __init__(self, connection: Answered, request: Request) -> None:
        self._connection: Answered | None = connection
        self.size = sum([len(entry.value) for entry in request.entries])
        self._due = RESPONSE_TYPE[request.type]
        self.data: bytes | None = None  # encoded; b"" stands for None

    def __call__(self, response: Response | None) -> None:
        """Answer the request with a response, or with None; see the class."""
        connection = self._connection
        if connection is None:
            raise LocalProtocolError("a request was answered twice")
        if response is None:
            self.data = b""
        elif response.type is not self._due:
            raise LocalProtocolError(f"a response of type {response.type.name} where {self._due.name} is expected")
        else:
            self.data = encode_response(response)
        self._connection = None
        connection.answered(self)


OnStay = Callable[[AuthenticatedConnection, float], None]
OnRequest = Callable[[AuthenticatedConnection, Request, Replier], None]


@dataclass(frozen=True, slots=True)
class Served:
    """One farm with the callbacks for its connections."""

    authenticator: Authenticator
    on_request: OnRequest
    """Called for every request of an authenticated connection, straight from the event loop, and so must not block. The
    callback calls the `Replier` now or later."""
    on_caller: Callable[[AuthenticatedConnection], None] | None = None
    """Called when a connection has authenticated."""
    on_stay: OnStay | None = None
    """Called once for a connection that stays: at the first request, or `STAY_SECONDS` after authentication. The number
    is the seconds since authentication."""
    configuration: ToldConfiguration | None = None
    """Returns the Configuration for an authenticated peer that asks by HTTP. The callback must not block. None: the
    path of this question does not exist."""
    on_administration: Callable[[AuthenticatedConnection], asyncio.Protocol | None] | None = None
    """Returns the protocol that answers one HTTP request of an authenticated peer to the administration API. The server
    gives the protocol the request and the transport. The callback returns None for a user who may not use the API.
    None: the API does not exist."""
