"""The handshake of proposal 150: one or two GETs, Digest, and an upgrade as WebSocket's (RFC 6455, 4).

    client                                              server
    GET /GarlicFarm/CLUSTER/1/websocket      ------->
                                             <-------   401 with challenges; both close
    GET the same, Upgrade and Authorization  ------->
                                             <-------   101; Raft follows on this connection

A client that remembers a challenge begins with the second request. What the server says otherwise:

    404  anything that looks like HTTP but is not a good GET of a path of ours: always the same bytes
    401  no or wrong credentials, or a stale nonce
    426  right credentials, but a proxy took the upgrade away
    (nothing, closed)  not HTTP, or beyond a limit

No answer has a Server or Date header or a body. One request is read per connection; the limits are those of
`http_head` and `http_auth`, and time is the caller's to limit (`HANDSHAKE_SECONDS`).

Proxies are tolerated as i2p-facts 6 describes them: they change between the path and the absolute form, rewrite
Host and User-Agent, add headers of their own and a CR. h11 parses what `http_head` has cleaned.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import h11

from gf_i2p.wire.digest import Authenticator, Credentials, Refused
from gf_i2p.wire.errors import LocalProtocolError, RemoteProtocolError
from gf_i2p.wire.http_head import HeadReader, path_of
from gf_i2p.wire.limits import MAX_INTERIM_RESPONSES
from gf_i2p.wire.names import check_name

VERSION: Final = 1

_AnyResponse = h11.InformationalResponse | h11.Response

_REQUEST_LINE = re.compile(rb"[!-~]++ .* HTTP/[0-9]\.[0-9]\r\n")
_PATH = re.compile(rf"/GarlicFarm/([^/]++)/{VERSION}/websocket")
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+", re.ASCII)
_WEBSOCKET_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3

_CLOSE: Final = b"Content-Length: 0\r\nConnection: close\r\n\r\n"
_NOT_FOUND: Final = b"HTTP/1.1 404 Not Found\r\n" + _CLOSE
_UPGRADE_REQUIRED: Final = (
    b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\nConnection: close, Upgrade\r\n\r\n"
)


class HandshakeRefused(RemoteProtocolError):  # noqa: N818 -- reads as what happened, like its siblings Retry, Upgraded
    """The peer, or a proxy on the way, did not let us in; the text says what to check."""


class PeerNotReached(HandshakeRefused):
    """The answer is a proxy's, which could not reach the peer."""


# --- Server -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Session:
    """Who is at the other end of an upgraded connection, and in which farm."""

    cluster: str
    user: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server sends. Without a session: send it and close.

    `rest` is what came after the request, the first bytes of the Raft stream; empty without a session.
    """

    data: bytes
    session: Session | None = None
    rest: bytes = b""


class ServerHandshake:
    """The server's side of one connection.

    Args:
        clusters: the farms that this process serves, by name; read when the request has come.
        entropy: returns that many random bytes.
    """

    def __init__(self, clusters: Mapping[str, Authenticator], *, entropy: Callable[[int], bytes]) -> None:
        self._clusters = clusters
        self._entropy = entropy
        self._reader = HeadReader()
        self._answered = False

    def receive(self, data: bytes, now: float) -> Answer | None:
        """Take the next bytes; None while the request is incomplete.

        Raises:
            RemoteProtocolError: this is not HTTP, or beyond a limit: close without an answer.
            LocalProtocolError: the answer has been given already.
        """
        if self._answered:
            raise LocalProtocolError("the handshake is over: these bytes belong to the session")
        head = self._reader.feed(data)
        if head is None:
            return None
        self._answered = True
        if _REQUEST_LINE.match(head.text) is None:
            raise RemoteProtocolError("the peer does not speak HTTP")
        request = _parse_request(head.text)
        path = None if request is None else _PATH.fullmatch(path_of(request.target.decode("ascii")))
        authenticator = None if path is None else self._clusters.get(path[1])
        if request is None or path is None or authenticator is None:
            return Answer(_NOT_FOUND)
        return self._authenticate(request, path[1], authenticator, head.rest, now)

    def _authenticate(
        self, request: h11.Request, cluster: str, authenticator: Authenticator, rest: bytes, now: float
    ) -> Answer:
        given = _values(request, b"authorization")
        outcome = (
            authenticator.verify(given[0], request.method.decode(), request.target.decode(), now)
            if len(given) == 1
            else Refused(stale=False)
        )
        if isinstance(outcome, Refused):
            challenges = authenticator.challenge(now, self._entropy, stale=outcome.stale)
            lines = "".join(f"WWW-Authenticate: {challenge}\r\n" for challenge in challenges)
            return Answer(b"HTTP/1.1 401 Unauthorized\r\n" + lines.encode() + _CLOSE)
        if not _asks_for_websocket(request):
            return Answer(_UPGRADE_REQUIRED)
        keys = _values(request, b"sec-websocket-key")
        accept = f"Sec-WebSocket-Accept: {_accept(keys[0])}\r\n" if keys else ""
        return Answer(
            f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{accept}\r\n".encode(),
            Session(cluster, outcome.user),
            rest,
        )


def _parse_request(text: bytes) -> h11.Request | None:
    """Return the request if it is one that we may answer: HTTP/1.1, GET, without a body."""
    connection = h11.Connection(h11.SERVER)
    try:
        connection.receive_data(text)
        request = connection.next_event()
        end = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(request, h11.Request) or not isinstance(end, h11.EndOfMessage):
        return None
    return request if request.method == b"GET" and request.http_version == b"1.1" else None


# --- Client -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Retry:
    """The challenge is stored: close, dial again and make a new handshake with the same credentials."""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """We are in. `rest` is what came after the answer, the first bytes of the Raft stream."""

    rest: bytes


class ClientHandshake:
    """The client's side of one connection.

    Args:
        host: the peer as in the Host header, "host:port" or "host".
        cluster: the farm's name.
        credentials: ours for this peer, shared by all connections to it.
        now: monotonic seconds, for the age of the remembered challenge.
        entropy: returns that many random bytes.
        proxied: through an HTTP proxy: the request target is the absolute form (RFC 7230, 5.3.2), and
            Sec-WebSocket headers go along because a proxy may want them.

    Raises:
        ValueError: `host` or `cluster` has characters that cannot stand there.
    """

    def __init__(
        self,
        *,
        host: str,
        cluster: str,
        credentials: Credentials,
        now: float,
        entropy: Callable[[int], bytes],
        proxied: bool = False,
    ) -> None:
        if _HOST.fullmatch(host) is None:
            raise ValueError(f"{host!r} cannot stand in an HTTP Host header: check the endpoint")
        self._host = host
        self._path = f"/GarlicFarm/{check_name('cluster name', cluster)}/{VERSION}/websocket"
        self._cluster = cluster
        self._credentials = credentials
        self._now = now
        self._entropy = entropy
        self._proxied = proxied
        self._connection = h11.Connection(h11.CLIENT)
        self._reader = HeadReader()
        self._interim = 0
        self._request: bytes | None = None
        self._over = False
        self._first_try = False
        self._key: str | None = None

    def request(self) -> bytes:
        """Return the bytes to send: request 2 if a challenge is remembered, else request 1."""
        if self._request is not None:
            return self._request
        untried = self._credentials.untried
        authorization = self._credentials.authorize("GET", self._path, self._now, self._entropy)
        self._first_try = untried and authorization is not None
        # i2pd's proxy knows these names only as they are written here, and only with a space after the colon.
        headers = [("Host", self._host), ("Cache-Control", "no-cache")]
        if authorization is None:
            headers.append(("Connection", "close"))
        else:
            headers += [("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket")]
            if self._proxied:
                self._key = base64.b64encode(self._entropy(16)).decode()
                headers += [("Sec-WebSocket-Key", self._key), ("Sec-WebSocket-Version", "13")]
            headers.append(("Authorization", authorization))
        target = f"http://{self._host}{self._path}" if self._proxied else self._path
        request = h11.Request(
            method="GET",
            target=target,
            headers=[(name.encode(), value.encode("latin-1")) for name, value in headers],
        )
        head = self._connection.send(request)
        self._connection.send(h11.EndOfMessage())
        assert head is not None
        self._request = head
        return head

    def receive(self, data: bytes, now: float) -> Retry | Upgraded | None:
        """Take the next bytes of the answer; None while it is incomplete.

        Raises:
            HandshakeRefused: we are not let in; the text says what to check.
            PeerNotReached: the same, because a proxy could not reach the peer.
            LocalProtocolError: nothing was sent yet, or the outcome has been given already.
        """
        if self._request is None or self._over:
            raise LocalProtocolError("a handshake takes bytes between its request and its outcome only")
        try:
            found = self._final(data)
        except (h11.RemoteProtocolError, RemoteProtocolError) as error:
            raise HandshakeRefused(
                f"the peer's answer is not the HTTP/1.1 of a farm node ({str(error)[:100]}): check that the "
                "endpoint's port is a farm node's"
            ) from error
        if found is None:
            return None
        self._over = True
        response, rest = found
        if response.status_code == 101:
            self._check_upgrade(response)
            return Upgraded(rest)
        if response.status_code == 401:
            return self._challenged(response, now)
        # Whatever else a proxy answers it answers for the peer; 503 is for itself, as Java's while it has no tunnels.
        own = {404, 407, 426, 503}
        kind = PeerNotReached if self._proxied and response.status_code not in own else HandshakeRefused
        raise kind(self._explain(response))

    def _final(self, data: bytes) -> tuple[_AnyResponse, bytes] | None:
        """Return the first response that is not interim, and what came after it."""
        while (head := self._reader.feed(data)) is not None:
            self._connection.receive_data(head.text)
            response = self._connection.next_event()
            assert isinstance(response, _AnyResponse)
            if response.status_code >= 200 or response.status_code == 101:
                return response, head.rest
            self._interim += 1
            if self._interim > MAX_INTERIM_RESPONSES:
                raise RemoteProtocolError("one 1xx answer after another")
            self._reader = HeadReader()
            data = head.rest
        return None

    def _check_upgrade(self, response: _AnyResponse) -> None:
        if not _asks_for_websocket(response):
            raise HandshakeRefused(
                "the answer 101 does not switch to websocket: check whether a proxy on the way changes its headers"
            )
        accepts = _values(response, b"sec-websocket-accept")
        if self._key is not None and accepts and accepts != [_accept(self._key)]:
            raise HandshakeRefused(
                "the answer 101 is to another request than ours (Sec-WebSocket-Accept differs): check whether a "
                "proxy on the way caches answers"
            )

    def _challenged(self, response: _AnyResponse, now: float) -> Retry:
        try:
            stale = self._credentials.challenged(_values(response, b"www-authenticate"), now)
        except RemoteProtocolError as error:
            raise HandshakeRefused(f"the peer asks for credentials in a way that we refuse: {error}") from error
        if self._first_try and stale:
            raise HandshakeRefused(
                "the peer calls the nonce stale that it has just given: it restarted, or another machine answers; "
                "if this goes on, check that the endpoint is one farm node's and no load balancer's"
            )
        if self._first_try:
            raise HandshakeRefused(
                f"the peer refuses user {self._credentials.user} or its password: check both here and in the "
                f"peer's secrets, for cluster {self._cluster}"
            )
        return Retry()

    def _explain(self, response: _AnyResponse) -> str:
        status = response.status_code
        reason = "".join(c for c in response.reason.decode("latin-1") if c.isprintable())[:60]
        said = f"the answer is {status} {reason}".rstrip()
        if status == 404:
            return (
                f"{said}: the peer has no farm named {self._cluster} that speaks version {VERSION}: check the "
                "cluster name here and there, and that the endpoint is a farm node's"
            )
        if status == 426:
            return (
                f"{said}: the peer let us in, but the header 'Connection: Upgrade' did not reach it: a server "
                "tunnel must be of the plain type (i2pd: server, Java: standard), not http"
            )
        if status == 407:
            return f"{said}: the HTTP proxy wants a user and a password of its own: allow this node to use it"
        if self._proxied:
            return (
                f"{said}: it comes from the HTTP proxy, which could not reach {self._host}: check the address, "
                "that the peer's router is up and its tunnels are ready, then wait or try again"
            )
        return f"{said}, which no farm node gives: check that the endpoint is a farm node's and nothing stands between"


# --- Both -------------------------------------------------------------------------------------------------


def _values(message: h11.Request | _AnyResponse, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in message.headers if key == name]


def _asks_for_websocket(message: h11.Request | _AnyResponse) -> bool:
    return _has_word(message, b"connection", "upgrade") and _has_word(message, b"upgrade", "websocket")


def _has_word(message: h11.Request | _AnyResponse, name: bytes, wanted: str) -> bool:
    return any(word.strip().lower() == wanted for value in _values(message, name) for word in value.split(","))


def _accept(key: str) -> str:
    """Answer a Sec-WebSocket-Key (RFC 6455, 4.2.2)."""
    digest = hashlib.sha1(key.encode("latin-1") + _WEBSOCKET_GUID, usedforsecurity=False)
    return base64.b64encode(digest.digest()).decode()
