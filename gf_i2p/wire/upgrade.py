"""The handshake of proposal 150: one or two GETs, Digest, and an upgrade like WebSocket's (RFC 6455, 4).

The server's side also answers a request for the Configuration. The client's side of that request is in
`configuration_get`. A request to the administration API is passed on when its sender has authenticated.

    client                                              server
    GET /GarlicFarm/CLUSTER/1/websocket      ------->
                                             <-------   401 with challenges; both close
    GET the same, Upgrade and Authorization  ------->
                                             <-------   101; Raft follows on this connection

Authorization is by Digest, or by a key (`key_proof`). A client that remembers a challenge begins with the second
request. The server's other answers:

    200  right credentials, and a request for .../config: the Configuration value; both close
    ...  right credentials, and a request for .../admin/...: the administration API's answer; both close
    404  anything that looks like HTTP but is not a legal GET of a farm's path: always the same bytes
    401  no or wrong credentials, or a stale nonce
    426  right credentials, but a proxy removed the upgrade
    (nothing, closed)  not HTTP, or beyond a limit

No answer has a Server or Date header, and only the 200 has a body. A connection carries one request. The limits are
those of `http_head` and `http_auth`; the caller limits the time (`HANDSHAKE_SECONDS`). The client's side, and the
effect of proxies, are in `http_get`.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import h11

from gf_i2p.wire.digest import Authenticator, Refused, Verified
from gf_i2p.wire.errors import LocalProtocolError, RemoteProtocolError
from gf_i2p.wire.http_get import (
    ADMINISTRATION,
    VERSION,
    AnyResponse,
    ClientGet,
    HandshakeRefused,
    Resource,
    values_of,
)
from gf_i2p.wire.http_head import HeadReader, path_of_target

_REQUEST_LINE = re.compile(rb"[!-~]++ .* HTTP/[0-9]\.[0-9]\r\n")
_PATH = re.compile(rf"/GarlicFarm/([^/]++)/{VERSION}/({'|'.join(Resource)})")
_ADMINISTRATION = re.compile(rf"/GarlicFarm/([^/]++)/{VERSION}/{ADMINISTRATION}(/.*)")
_WEBSOCKET_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3

_CLOSE: Final = b"Content-Length: 0\r\nConnection: close\r\n\r\n"
_NOT_FOUND: Final = b"HTTP/1.1 404 Not Found\r\n" + _CLOSE
_UPGRADE_REQUIRED: Final = (
    b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\nConnection: close, Upgrade\r\n\r\n"
)


# --- Server -----------------------------------------------------------------------------------------------


ToldConfiguration = Callable[[str], bytes | None]
"""Takes the name of an authenticated user; returns an encoded Configuration, or None if the user may not read it."""


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """The user at the other end of an authenticated connection, and the farm."""

    cluster: str
    user: str


class HandshakeOutcome(Enum):
    """The outcome of a handshake, on the server's side."""

    UPGRADED = auto()
    """Raft follows on this connection; after every other outcome the server closes the connection."""
    TOLD = auto()
    """The client has authenticated and asked for the Configuration. The answer carries the Configuration, or is 404."""
    ADMINISTRATION = auto()
    """The client has authenticated and sent a request to the administration API."""
    NOT_FOUND = auto()
    CHALLENGED = auto()
    """The client sent no credentials, or right credentials with a stale nonce."""
    REFUSED = auto()
    """The client sent credentials with a wrong user or password."""
    NOT_UPGRADED = auto()
    """The credentials are right, but the request asks for no upgrade."""


@dataclass(frozen=True, slots=True)
class HandshakeAnswer:
    """The server's answer.

    `data`: the bytes to send. `user`: the authenticated user, if the outcome is `UPGRADED`, `TOLD` or
    `ADMINISTRATION`. `rest`: the bytes after an upgraded request, which begin the Raft stream.

    With `ADMINISTRATION`, `rest` begins with the head of the request: the API's own path, "Connection: close", and no
    credentials. `data` is then the answer for a user who may not use the API.
    """

    outcome: HandshakeOutcome
    data: bytes
    user: AuthenticatedUser | None = None
    rest: bytes = b""


class ServerHandshake:
    """The server's side of one connection.

    Args:
        clusters: by name, the farms that this process serves. Read only when the request is complete.
        entropy: `entropy(n)` returns n random bytes.
        configurations: by farm, a function that returns its Configuration, called only after authentication. For any
            other farm, a request for the Configuration gets a 404.
        administered: the farms with an administration API. For any other farm, a request to it gets a 404.
    """

    def __init__(
        self,
        clusters: Mapping[str, Authenticator],
        *,
        entropy: Callable[[int], bytes],
        configurations: Mapping[str, ToldConfiguration] | None = None,
        administered: Container[str] = (),
    ) -> None:
        self._clusters = clusters
        self._entropy = entropy
        self._configurations = configurations or {}
        self._administered = administered
        self._reader = HeadReader()
        self._answered = False

    def receive(self, data: bytes, now: float) -> HandshakeAnswer | None:
        """Take the next bytes; return the answer, or None while the request is incomplete. `now`: monotonic seconds.

        Raises:
            RemoteProtocolError: the bytes are not HTTP, or exceed a limit: close without an answer.
            LocalProtocolError: the answer has been given already.
        """
        if self._answered:
            raise LocalProtocolError("`receive` was called after the answer: these bytes belong to the session")
        head = self._reader.feed(data)
        if head is None:
            return None
        self._answered = True
        if _REQUEST_LINE.match(head.text) is None:
            raise RemoteProtocolError("the peer does not speak HTTP")
        found = self._find(head.text)
        if found is None:
            return HandshakeAnswer(HandshakeOutcome.NOT_FOUND, _NOT_FOUND)
        request, cluster, resource = found
        outcome = self._authenticate(request, self._clusters[cluster], now)
        if isinstance(outcome, HandshakeAnswer):
            return outcome
        user = AuthenticatedUser(cluster, outcome.user)
        match resource:
            case Resource.CONFIG:
                return self._configuration_answer(user)
            case Resource.WEBSOCKET:
                return _upgrade(request, user, head.rest)
            case path:
                passed_on = _passed_on(request, path) + head.rest
                return HandshakeAnswer(HandshakeOutcome.ADMINISTRATION, _NOT_FOUND, user, passed_on)

    def _find(self, head: bytes) -> tuple[h11.Request, str, str] | None:
        """Return the request, its farm and its resource, or the path in the administration API. None: nothing is found.

        A request for a resource is a GET without a body.
        """
        parsed = _parse_request(head)
        if parsed is None:
            return None
        request, is_plain_get = parsed
        target = path_of_target(request.target.decode("ascii"))
        if (path := _PATH.fullmatch(target)) is not None and is_plain_get:
            is_told = path[2] != Resource.CONFIG or path[1] in self._configurations
        elif (path := _ADMINISTRATION.fullmatch(target)) is not None:
            is_told = path[1] in self._administered
        else:
            return None
        return (request, path[1], path[2]) if is_told and path[1] in self._clusters else None

    def _authenticate(
        self, request: h11.Request, authenticator: Authenticator, now: float
    ) -> Verified | HandshakeAnswer:
        authorizations = values_of(request, b"authorization")
        checked = (
            authenticator.verify(authorizations[0], request.method.decode(), request.target.decode(), now)
            if len(authorizations) == 1
            else Refused(stale=False)
        )
        if isinstance(checked, Verified):
            return checked
        challenges = authenticator.challenge(now, self._entropy, stale=checked.stale)
        lines = "".join(f"WWW-Authenticate: {challenge}\r\n" for challenge in challenges)
        outcome = HandshakeOutcome.REFUSED if authorizations and not checked.stale else HandshakeOutcome.CHALLENGED
        return HandshakeAnswer(outcome, b"HTTP/1.1 401 Unauthorized\r\n" + lines.encode() + _CLOSE)

    def _configuration_answer(self, user: AuthenticatedUser) -> HandshakeAnswer:
        value = self._configurations[user.cluster](user.user)
        if value is None:
            return HandshakeAnswer(HandshakeOutcome.TOLD, _NOT_FOUND, user)
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
            f"Content-Length: {len(value)}\r\nConnection: close\r\n\r\n"
        )
        return HandshakeAnswer(HandshakeOutcome.TOLD, head.encode() + value, user)


def _upgrade(request: h11.Request, user: AuthenticatedUser, rest: bytes) -> HandshakeAnswer:
    if not _asks_for_websocket(request):
        return HandshakeAnswer(HandshakeOutcome.NOT_UPGRADED, _UPGRADE_REQUIRED)
    keys = values_of(request, b"sec-websocket-key")
    accept = f"Sec-WebSocket-Accept: {_accept(keys[0])}\r\n" if keys else ""
    return HandshakeAnswer(
        HandshakeOutcome.UPGRADED,
        f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{accept}\r\n".encode(),
        user,
        rest,
    )


def _parse_request(text: bytes) -> tuple[h11.Request, bool] | None:
    """Return a request of HTTP/1.1, and whether it is a GET without a body; None for anything else."""
    connection = h11.Connection(h11.SERVER)
    try:
        connection.receive_data(text)
        request = connection.next_event()
        end = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(request, h11.Request) or request.http_version != b"1.1":
        return None
    return request, request.method == b"GET" and isinstance(end, h11.EndOfMessage)


def _passed_on(request: h11.Request, path: str) -> bytes:
    """Return the head of a request for the administration API."""
    headers = [
        name + b": " + value
        for name, value in request.headers.raw_items()
        if name.lower() not in {b"authorization", b"connection"}
    ]
    line = request.method + b" " + path.encode("ascii") + b" HTTP/1.1"
    return b"\r\n".join([line, *headers, b"Connection: close", b"", b""])


# --- Client -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The server has switched to Raft. `rest`: the bytes after the answer, which begin the Raft stream."""

    rest: bytes


class ClientHandshake(ClientGet[Upgraded]):
    """The client's side of one handshake.

    Through an HTTP proxy, the request carries Sec-WebSocket headers, because a proxy may require them.
    """

    resource = Resource.WEBSOCKET
    success = 101
    _key: str | None = None

    def _headers(self) -> list[tuple[str, str]]:
        headers = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket")]
        if self._proxied:
            self._key = base64.b64encode(self._entropy(16)).decode()
            headers += [("Sec-WebSocket-Key", self._key), ("Sec-WebSocket-Version", "13")]
        return headers

    def _begin(self, response: AnyResponse) -> None:
        if not _asks_for_websocket(response):
            raise HandshakeRefused(
                "the answer 101 does not switch to websocket: check whether a proxy on the way changes its headers"
            )
        accepts = values_of(response, b"sec-websocket-accept")
        if self._key is not None and accepts and accepts != [_accept(self._key)]:
            raise HandshakeRefused(
                "the answer 101 belongs to another request (Sec-WebSocket-Accept differs): check whether a "
                "proxy on the way caches answers"
            )

    def _take(self, data: bytes) -> Upgraded:
        return Upgraded(data)


# --- Both -------------------------------------------------------------------------------------------------


def _asks_for_websocket(message: h11.Request | AnyResponse) -> bool:
    return _has_word(message, b"connection", "upgrade") and _has_word(message, b"upgrade", "websocket")


def _has_word(message: h11.Request | AnyResponse, name: bytes, token: str) -> bool:
    return any(word.strip().lower() == token for value in values_of(message, name) for word in value.split(","))


def _accept(key: str) -> str:
    """Return the answer to a Sec-WebSocket-Key (RFC 6455, 4.2.2)."""
    digest = hashlib.sha1(key.encode("latin-1") + _WEBSOCKET_GUID, usedforsecurity=False)
    return base64.b64encode(digest.digest()).decode()
