"""The login at the router's HTTP proxy: Proxy-Authenticate and Proxy-Authorization (RFC 9110, 11.7).

    client                                   proxy
    GET http://... or CONNECT ...  ------->
                                   <-------  407 with challenges; both close
    the same, Proxy-Authorization  ------->
                                             the proxy takes the header off and passes the request on

Digest (RFC 7616, `qop=auth`) is answered before Basic (RFC 7617). Basic shows the password to everybody who sees the
connection: so Basic is answered only on this machine, and never to a proxy that has offered Digest. Nothing is sent
before the proxy asks, so a proxy that wants no password never learns one.

Java's I2P HTTP Proxy asks for Digest with MD5, and newer versions with SHA-256, too; i2pd's proxy never asks. The
parameter `uri` has the target of the request line (RFC 7616, 3.4); Java does not check `uri`. A peer behind the proxy
cannot ask in the proxy's place: Java removes Proxy-Authenticate from a peer's answer, and no 407 that comes through
a tunnel of CONNECT is answered.
"""

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gf_i2p.wire.digest import DigestClient
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_auth import names_of, offered_schemes

AUTHENTICATE: Final = b"proxy-authenticate"
"""The challenge's header, in h11's lower case."""
AUTHORIZATION: Final = "Proxy-Authorization"
"""The answer's header. Only a proxy may get it."""
MAX_TEXT: Final = 255
"""Most characters of a user name or a password: SOCKS5 has one byte for the length (RFC 1929)."""
_TEXT = re.compile(rf"[ -~]{{1,{MAX_TEXT}}}", re.ASCII)
_BASIC: Final = "basic"


class ProxyLoginError(RemoteProtocolError):
    """The proxy refuses the login, or asks in a way that is not answered; the text says what to set or to check."""


def no_login(answer: str) -> ProxyLoginError:
    """Return the error for a proxy that asks for a login, where none is set. `answer`: status and reason."""
    return ProxyLoginError(
        f"{answer}: the router's HTTP proxy asks for a user and a password: set proxy_user and proxy_password, or let "
        "the proxy serve this node without a password"
    )


def check_proxy_login(user: str, password: str) -> None:
    """Raise `ValueError` for a user name or password that no proxy can take (RFC 7617, 2; RFC 1929, 2)."""
    if _TEXT.fullmatch(user) is None or ":" in user:
        raise ValueError(
            f"the proxy's user name must have 1 to {MAX_TEXT} printable ASCII characters and no colon: choose another "
            "one, here and in the router"
        )
    if _TEXT.fullmatch(password) is None:
        raise ValueError(
            f"the proxy's password must have 1 to {MAX_TEXT} printable ASCII characters: choose another one, here and "
            "in the router"
        )


@dataclass(frozen=True, slots=True)
class ProxyAuthorization:
    """The value of one request's Proxy-Authorization header. `repr` hides the value."""

    value: str = field(repr=False)
    first: bool
    """Whether this is the first request with a challenge: a refusal then means that user or password is wrong."""


class ProxyLogin:
    """The node's login at one proxy, shared by all connections to that proxy.

    Args:
        user: the user's name at the proxy.
        password: the user's password there.
        in_clear: whether Basic may be answered: only when the proxy is on this machine.

    Raises:
        ValueError: see `check_proxy_login`.
    """

    def __init__(self, user: str, password: str, *, in_clear: bool) -> None:
        check_proxy_login(user, password)
        self.user: Final = user
        self._in_clear = in_clear
        self._basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._digest = DigestClient(user, password, peer="the proxy")
        self._wants_basic = False

    def authorize(
        self, method: str, target: str, now: float, entropy: Callable[[int], bytes]
    ) -> ProxyAuthorization | None:
        """Return the header for a request; None while the proxy has not asked yet, or its challenge is too old.

        Args:
            method: the request's method.
            target: the target on the request line: an absolute URI, or the authority of a CONNECT.
            now: monotonic seconds.
            entropy: `entropy(n)` returns n random bytes.
        """
        if self._wants_basic:
            return ProxyAuthorization(f"Basic {self._basic}", first=True)
        first = self._digest.untried
        value = self._digest.authorize(method, target, now, entropy)
        return None if value is None else ProxyAuthorization(value, first=first)

    def challenged(self, header_values: Sequence[str], now: float, sent: ProxyAuthorization | None) -> None:
        """Take a 407; afterwards make the request again on a new connection.

        Args:
            header_values: the values of the answer's Proxy-Authenticate headers.
            now: monotonic seconds.
            sent: the header of the request that was answered.

        Raises:
            ProxyLoginError: the proxy refuses user or password, or offers nothing that may be answered.
        """
        schemes = offered_schemes(header_values)
        try:
            stale = self._digest.take(schemes, now)
        except RemoteProtocolError as error:
            raise ProxyLoginError(f"this node cannot log in to the proxy: {error}") from error
        if stale is None:
            self._take_basic(any(scheme.name == _BASIC for scheme in schemes), names_of(schemes))
        else:
            self._wants_basic = False
        if sent is not None and sent.first and not stale:
            raise ProxyLoginError(
                f"the router's HTTP proxy refuses user {self.user} or its password: check proxy_user and "
                "proxy_password, here and in the router"
            )

    def _take_basic(self, offered: bool, names: str) -> None:
        if not offered:
            raise ProxyLoginError(
                f"this node cannot log in to the proxy: the proxy offers {names}, but neither Digest with qop=auth and "
                "SHA-256 or MD5, nor Basic: check that the port is the HTTP proxy of an I2P router"
            )
        if self._digest.has_challenge:
            raise ProxyLoginError(
                "this node cannot log in to the proxy: the proxy offered Digest earlier and now only Basic, as if "
                "another program had taken its port: if the proxy was changed on purpose, restart this node"
            )
        if not self._in_clear:
            raise ProxyLoginError(
                "this node cannot log in to the proxy: the proxy offers only Basic, and the password would go to "
                "another machine in the clear: turn on Digest in the proxy, or run the router on this machine"
            )
        self._wants_basic = True
