"""The client's side of one GET to a farm node: the request, Digest, and the head of the answer.

Subclasses choose the resource and read the data after the head: `upgrade` asks for the Raft stream, `configuration_get`
for the Configuration.

    client                                              server
    GET /GarlicFarm/CLUSTER/1/RESOURCE       ------->
                                             <-------   401 with challenges; both close
    GET the same with Authorization          ------->
                                             <-------   the resource

A client that remembers a challenge begins with the second request. A connection carries one request. The limits are
those of `http_head` and `http_auth`; the caller limits the time.

An HTTP proxy that the client dials may ask for a login of its own before the proxy passes the request on: see
`proxy_login`. That login stands in another header than the login at the farm node. The proxy removes that header.

A proxy on the way may change the path form of the target to the absolute form or back, rewrite Host and User-Agent, add
headers, and add a second CR to a line end (i2p-facts 6). `http_head` cleans the bytes before h11 parses them.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

import h11

from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.errors import LocalProtocolError, RemoteProtocolError
from gf_i2p.wire.http_head import HeadReader
from gf_i2p.wire.limits import MAX_INTERIM_RESPONSES, MAX_PEER_CHALLENGES, MAX_PROXY_CHALLENGES
from gf_i2p.wire.names import check_name
from gf_i2p.wire.proxy_login import AUTHENTICATE, AUTHORIZATION, ProxyAuthorization, ProxyLogin, no_login

VERSION: Final = 1
"""Version of the protocol in the path."""

ADMINISTRATION: Final = "admin"
"""The word of the path under which a node serves its administration API (this project's addition)."""

AnyResponse = h11.InformationalResponse | h11.Response

_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+", re.ASCII)


class Resource(StrEnum):
    """A resource of a farm node: the last word of its path."""

    WEBSOCKET = "websocket"
    """The Raft stream: proposal 150, "Implementation"."""
    CONFIG = "config"
    """The farm's Configuration (this project's addition): a client that knows one server finds the others."""


class HandshakeRefused(RemoteProtocolError):  # noqa: N818 -- reads as what happened, like its siblings Retry, Upgraded
    """The peer, or a proxy on the way, refused the resource. The text tells the operator what to check."""


class NotFound(HandshakeRefused):
    """The peer answers 404: it has no such farm, or no such resource of the farm."""


class UserRefused(HandshakeRefused):
    """The peer refuses the user, or the user's key or password: another try with the same credentials cannot help."""


class PeerNotReached(HandshakeRefused):
    """The answer comes from a proxy, which could not reach the peer."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A challenge came, and is stored now: close, dial again, and make a new request with the same credentials."""

    by_proxy: bool = False
    """Whether the proxy sent the challenge, and not the peer."""


class Challenges:
    """Counts the challenges of one attempt to reach a peer, so that no peer and no proxy can ask for ever."""

    def __init__(self, others: int = 0) -> None:
        """`others`: the further proofs of the client, see `Credentials.others`."""
        self._of_peer = self._of_proxy = 0
        self._most_of_peer = MAX_PEER_CHALLENGES + others

    def admit(self, retry: Retry) -> bool:
        """Count a challenge; return whether another request is worthwhile."""
        if retry.by_proxy:
            self._of_proxy += 1
        else:
            self._of_peer += 1
        return self._of_peer <= self._most_of_peer and self._of_proxy <= MAX_PROXY_CHALLENGES


OutcomeT = TypeVar("OutcomeT")


class ClientGet(ABC, Generic[OutcomeT]):
    """The client's side of one connection, common to all resources.

    Args:
        host: the value of the Host header for the peer, "host:port" or "host".
        cluster: the farm's name.
        credentials: this client's credentials for the peer, shared by all connections to the peer.
        now: monotonic seconds, for the age of the remembered challenge.
        entropy: `entropy(n)` returns n random bytes.
        proxied: whether the connection goes to an HTTP proxy. The target is then absolute (RFC 7230, 5.3.2).
        proxy_login: the login at that proxy, if one is set.

    Raises:
        ValueError: `host` or `cluster` has illegal characters.
    """

    resource: Resource
    success: int
    """HTTP status of a successful answer: 101 or 200."""

    def __init__(
        self,
        *,
        host: str,
        cluster: str,
        credentials: Credentials,
        now: float,
        entropy: Callable[[int], bytes],
        proxied: bool = False,
        proxy_login: ProxyLogin | None = None,
    ) -> None:
        if _HOST.fullmatch(host) is None:
            raise ValueError(f"{host!r} cannot stand in an HTTP Host header: check the endpoint")
        self._host = host
        self._path = f"/GarlicFarm/{check_name('cluster name', cluster)}/{VERSION}/{self.resource}"
        self._cluster = cluster
        self._credentials = credentials
        self._now = now
        self._entropy = entropy
        self._proxied = proxied
        self._proxy_login = proxy_login if proxied else None  # only a proxy may ever see the login
        self._proxy_authorization: ProxyAuthorization | None = None
        self._connection = h11.Connection(h11.CLIENT)
        self._reader = HeadReader()
        self._interim = 0
        self._request: bytes | None = None
        self._welcome = False  # the head of a successful answer has come
        self._over = False
        self._first_try = False
        self._turn = 0  # number of the proof in the request, see `Credentials.turn`

    # --- For subclasses -----------------------------------------------------------------------------------

    @abstractmethod
    def _headers(self) -> list[tuple[str, str]]:
        """Return the headers between Cache-Control and Authorization in a request with credentials."""

    @abstractmethod
    def _begin(self, response: AnyResponse) -> None:
        """Check the head of a successful answer. Raises `HandshakeRefused`."""

    @abstractmethod
    def _take(self, data: bytes) -> OutcomeT | None:
        """Take the data after the head of a successful answer; return the outcome, or None while data is missing.

        Raises `HandshakeRefused`.
        """

    # --- For callers --------------------------------------------------------------------------------------

    def request(self, channel: str = "") -> bytes:
        """Return the bytes of the request, with an Authorization header if a challenge is remembered.

        `channel`: what was checked when the peer was dialled (see `Dialled`); needed for a login by a key.
        """
        if self._request is not None:
            return self._request
        untried, self._turn = self._credentials.untried, self._credentials.turn
        authorization = self._credentials.authorize_at(channel, "GET", self._path, self._now, self._entropy)
        self._first_try = untried and authorization is not None
        # i2pd's proxy knows these names only in this spelling, and only with a space after the colon.
        headers = [("Host", self._host), ("Cache-Control", "no-cache")]
        if authorization is None:
            headers.append(("Connection", "close"))
        else:
            headers += [*self._headers(), ("Authorization", authorization)]
        target = f"http://{self._host}{self._path}" if self._proxied else self._path
        if self._proxy_login is not None:
            self._proxy_authorization = self._proxy_login.authorize("GET", target, self._now, self._entropy)
        if self._proxy_authorization is not None:
            headers.append((AUTHORIZATION, self._proxy_authorization.value))
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

    def receive(self, data: bytes, now: float) -> Retry | OutcomeT | None:
        """Take the next bytes of the answer; return the outcome, or None while the answer is incomplete.

        `now`: monotonic seconds.

        Raises:
            HandshakeRefused: the peer, or a proxy, refused the resource; the text says what to check.
            NotFound: the same, because the peer answers 404.
            PeerNotReached: the same, because a proxy could not reach the peer.
            ProxyLoginError: the proxy wants a login that is not set, or refuses the login.
            LocalProtocolError: `request` was not called yet, or the outcome has been given already.
        """
        if self._request is None or self._over:
            raise LocalProtocolError("`receive` was called before `request`, or after the outcome")
        self._over = True  # also after an error; False again below while data is missing
        if not self._welcome:
            try:
                final = self._final_response(data)
            except (h11.RemoteProtocolError, RemoteProtocolError) as error:
                raise HandshakeRefused(
                    f"the peer's answer is not the HTTP/1.1 of a farm node ({str(error)[:100]}): check that the "
                    "endpoint's port is a farm node's"
                ) from error
            if final is None:
                self._over = False
                return None
            response, data = final
            if response.status_code == 401:
                return self._challenged(response, now)
            if response.status_code == 407 and self._proxied:
                return self._challenged_by_proxy(response, now)
            if response.status_code != self.success:
                raise self._refusal(response)
            self._begin(response)
            self._welcome = True
        outcome = self._take(data)
        self._over = outcome is not None
        return outcome

    def _final_response(self, data: bytes) -> tuple[AnyResponse, bytes] | None:
        """Return the final response (101, or 200 and above) and the data after its head; None: no whole head yet."""
        while (head := self._reader.feed(data)) is not None:
            self._connection.receive_data(head.text)
            response = self._connection.next_event()
            assert isinstance(response, AnyResponse)
            if response.status_code >= 200 or response.status_code == 101:
                return response, head.rest
            self._interim += 1
            if self._interim > MAX_INTERIM_RESPONSES:
                raise RemoteProtocolError(f"more than {MAX_INTERIM_RESPONSES} answers 1xx in a row")
            self._reader = HeadReader()
            data = head.rest
        return None

    def _challenged(self, response: AnyResponse, now: float) -> Retry:
        try:
            stale = self._credentials.challenged(values_of(response, b"www-authenticate"), now)
        except RemoteProtocolError as error:
            raise HandshakeRefused(f"this node cannot log in to the peer: {error}") from error
        if self._first_try and stale:
            raise HandshakeRefused(
                "the peer calls its own new nonce stale: the peer restarted, or another machine answers; "
                "if this goes on, check that the endpoint is one farm node's, not a load balancer's"
            )
        if self._first_try and not self._credentials.next_proof(self._turn):
            raise UserRefused(
                f"the peer refuses user {self._credentials.user} or its {self._credentials.kind}: check both here and "
                f"in the peer's secrets, for cluster {self._cluster}"
            )
        return Retry()

    def _challenged_by_proxy(self, response: AnyResponse, now: float) -> Retry:
        if self._proxy_login is None:
            raise no_login(answer_text(response))
        self._proxy_login.challenged(values_of(response, AUTHENTICATE), now, self._proxy_authorization)
        return Retry(by_proxy=True)

    def _refusal(self, response: AnyResponse) -> HandshakeRefused:
        status, answer = response.status_code, answer_text(response)
        if status == 404:
            return NotFound(
                f"{answer}: the peer has no farm named {self._cluster} that speaks version {VERSION}: check the "
                "cluster name here and there, and that the endpoint is a farm node's"
            )
        if status == 426:
            return HandshakeRefused(
                f"{answer}: the peer let this node in, but the header 'Connection: Upgrade' did not arrive: a server "
                "tunnel must be of the plain type (i2pd: server, Java: standard), not http"
            )
        if not self._proxied:
            return HandshakeRefused(
                f"{answer}, which no farm node sends: check that the endpoint is a farm node's, and that no proxy "
                "or other web server answers in the node's place"
            )
        # Java I2P's proxy answers 503 while the proxy itself has no tunnels. Any other status is about the peer.
        kind = HandshakeRefused if status == 503 else PeerNotReached
        return kind(
            f"{answer}: the HTTP proxy could not reach {self._host}: check the address, and that the peer's router is "
            "up and has tunnels; then wait or try again"
        )


def response_of(head: bytes) -> h11.Response:
    """Parse the head of a final response, as `HeadReader` returns the head. Raises `RemoteProtocolError`."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "-")]))
    connection.send(h11.EndOfMessage())
    try:
        connection.receive_data(head)
        response = connection.next_event()
    except h11.RemoteProtocolError as error:
        raise RemoteProtocolError(f"no answer of HTTP/1.1 ({str(error)[:100]})") from error
    if not isinstance(response, h11.Response):
        raise RemoteProtocolError("no final answer of HTTP/1.1")
    return response


def answer_text(response: AnyResponse) -> str:
    """Return status and reason of a response for an error's sentence; the reason has at most 60 characters."""
    reason = "".join(letter for letter in response.reason.decode("latin-1") if letter.isprintable())[:60]
    return f"the answer is {response.status_code} {reason}".rstrip()


def values_of(message: h11.Request | AnyResponse, name: bytes) -> list[str]:
    """Return the values of all headers of this name (in lower case), each as Latin-1."""
    return [value.decode("latin-1") for key, value in message.headers if key == name]
