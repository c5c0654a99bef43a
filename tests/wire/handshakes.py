"""A farm node's server half in memory, and a client that dials in the way of a link."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from gf_i2p.wire.digest import Authenticator, Credentials, Secret
from gf_i2p.wire.http_get import Retry
from gf_i2p.wire.upgrade import AuthenticatedUser, ClientHandshake, HandshakeAnswer, ServerHandshake, Upgraded

HOUR = 3600.0
USER = "server-1"
PASSWORD = "correct horse – Batterie"
PATH = "/GarlicFarm/farm/1/websocket"
CONFIG_PATH = "/GarlicFarm/farm/1/config"
KEY = bytes(range(32))


class Entropy:
    """Reproducible random bytes, different at every call."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._calls = 0

    def __call__(self, count: int) -> bytes:
        self._calls += 1
        return hashlib.shake_128(f"{self._seed}/{self._calls}".encode()).digest(count)


def authenticator(key: bytes = KEY, nonce_seconds: float = 2 * HOUR) -> Authenticator:
    users = {user: Secret.derive(user, "farm", PASSWORD) for user in (USER, "client-a")}
    return Authenticator("farm", users, key=key, nonce_seconds=nonce_seconds)


def unchanged(data: bytes) -> bytes:
    return data


@dataclass
class Node:
    """A server; `requests` are the received heads, `users` the users that got in."""

    authenticator: Authenticator = field(default_factory=authenticator)
    entropy: Entropy = field(default_factory=Entropy)
    requests: list[bytes] = field(default_factory=list)
    users: list[AuthenticatedUser] = field(default_factory=list)

    def answer(self, request: bytes, now: float) -> HandshakeAnswer:
        self.requests.append(request)
        handshake = ServerHandshake({"farm": self.authenticator}, entropy=self.entropy)
        answer = handshake.receive(request, now)
        assert answer is not None
        if answer.user is not None:
            self.users.append(answer.user)
        return answer

    def dial(
        self,
        credentials: Credentials,
        now: float,
        *,
        proxied: bool = False,
        there: Callable[[bytes], bytes] = unchanged,
        back: Callable[[bytes], bytes] = unchanged,
    ) -> int:
        """Connect until upgraded, through a proxy with changes to each message; return the number of requests."""
        for requests in (1, 2):
            client = handshake(credentials, now, proxied=proxied)
            answer = self.answer(there(client.request()), now)
            outcome = client.receive(back(answer.data), now)
            if isinstance(outcome, Upgraded):
                assert outcome.rest == b""
                return requests
            assert outcome == Retry()
        raise AssertionError("a third request would be needed")


def handshake(credentials: Credentials, now: float, *, proxied: bool = False) -> ClientHandshake:
    return ClientHandshake(
        host="abcd.b32.i2p:9001" if proxied else "127.0.0.1:9001",
        cluster="farm",
        credentials=credentials,
        now=now,
        entropy=Entropy("client"),
        proxied=proxied,
    )


NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
REQUEST_1 = (
    f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1:9001\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n".encode()
)


def credentials(user: str = USER, password: str = PASSWORD) -> Credentials:
    return Credentials(user, password)


def known(node: Node, user: str = USER, password: str = PASSWORD) -> Credentials:
    """Make credentials that `node` has challenged."""
    mine = credentials(user, password)
    client = handshake(mine, 0.0)
    assert client.receive(node.answer(client.request(), 0.0).data, 0.0) == Retry()
    return mine


def request_2(node: Node, user: str = USER, password: str = PASSWORD) -> bytes:
    return handshake(known(node, user, password), 0.0).request()


def i2pd_answer(answer: bytes) -> bytes:
    """Change an answer as i2pd does on the way: a CR too many after Upgrade, Proxy-Connection: close."""
    if b"Connection: Upgrade" in answer:
        answer = answer.replace(b"Connection: Upgrade\r\n", b"Connection: Upgrade\r\r\n")
    return answer.replace(b"\r\n\r\n", b"\r\nProxy-Connection: close\r\n\r\n", 1)
