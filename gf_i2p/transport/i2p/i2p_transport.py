"""Connections through I2P: dialled through the router's proxy, accepted as streams that come to a loopback port.

I2P encrypts from end to end, and a destination's address is the hash of its keys, so there is no TLS here. Only the way
between this node and its own router is plain. A name in .i2p goes to the proxy as a name, and is never looked up in
DNS.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from python_socks import ProxyConnectionError, ProxyError, ProxyType
from python_socks.async_.asyncio import Proxy

from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.errors import (
    DialError,
    ProxyAccessError,
    TransportError,
    UnreachableError,
    challenged_again,
    error_text,
)
from gf_i2p.transport.i2p.http_tunnel import HttpTunnel, TunnelChallenged, TunnelRefused
from gf_i2p.transport.i2p.i2p_listener import I2pListener, Inbound
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.transport.tls.tcp_sockets import check_address
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.http_get import Challenges, Retry
from gf_i2p.wire.proxy_login import ProxyLogin, ProxyLoginError, check_proxy_login


class ProxyMethod(StrEnum):
    """The protocol with the router's proxy."""

    GET = "get"
    """The upgrade request itself, with an absolute URI (RFC 2616, 5.1.2): proposal 150's way."""
    CONNECT = "connect"
    """CONNECT (RFC 9110, 9.3.6): the proxy sees bytes only. A Java router allows only some ports."""
    SOCKS5 = "socks5"
    """SOCKS 5 (RFC 1928). The proxy gets the peer's name, and no address."""


I2P_HANDSHAKE_SECONDS: Final = 120.0
"""Most seconds for a handshake: streams through tunnels are slow, and the first stream may wait for new tunnels."""
I2P_REQUEST_SECONDS: Final = 20.0
"""Least time limit for an answer through tunnels, in seconds.

A shorter limit would not help: when tunnels stall, a new stream would stall as well.
"""
SOCKS_GREETING_SECONDS: Final = 5.0
"""Most seconds to wait for the answer to a SOCKS greeting: the proxy answers without asking any peer."""
_SOCKS_GREETING: Final = b"\x05\x01\x00"
"""RFC 1928, 3: version 5, one method, no authentication."""
_SOCKS_LOGIN_WANTED: Final = "No acceptable authentication methods were offered"
_SOCKS_LOGIN_REFUSED: Final = "Username and password authentication failure"
"""Texts of python-socks for a proxy that wants a login (RFC 1928, 3), or that refuses the login (RFC 1929, 2)."""
_SETTINGS: Final = {
    ProxyMethod.GET: "i2pd: [httpproxy] enabled = true; Java: the tunnel 'I2P HTTP Proxy' started",
    ProxyMethod.CONNECT: "i2pd: [httpproxy] enabled = true; Java: the tunnel 'I2P HTTP Proxy' started",
    ProxyMethod.SOCKS5: "i2pd: [socksproxy] enabled = true; Java: a SOCKS 4/4a/5 client tunnel started",
}


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The address of the router's proxy: an IP address, so that nothing is ever looked up, and a port.

    Raises `TransportError` for a name, and for a login that no proxy takes or that would be sent in the clear.
    """

    host: str = "127.0.0.1"
    port: int = 4444
    way: ProxyMethod = ProxyMethod.GET
    user: str | None = None
    """The user name for a proxy that asks for a login. A proxy that does not ask gets neither user nor password."""
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_address(self.host, "the router's proxy")
        if (self.user is None) != (self.password is None):
            raise TransportError("The proxy's user name and password belong together: set both or neither.")
        if self.user is None or self.password is None:
            return
        try:
            check_proxy_login(self.user, self.password)
        except ValueError as error:
            raise TransportError(f"{error}.") from error
        if self.way is ProxyMethod.SOCKS5 and not self.is_local:
            raise TransportError(
                f"The proxy's password would go to {self.host} in the clear, because SOCKS5 has nothing better: choose "
                "the HTTP proxy with Digest, or run the router on this machine."
            )

    @property
    def is_local(self) -> bool:
        """Whether the proxy is on this machine, so that nobody else sees the connection."""
        return ip_address(self.host).is_loopback

    @property
    def http_login(self) -> ProxyLogin | None:
        """A new login at the HTTP proxy; None without a user, and with SOCKS5."""
        if self.user is None or self.password is None or self.way is ProxyMethod.SOCKS5:
            return None
        return ProxyLogin(self.user, self.password, in_clear=self.is_local)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class I2pTransport:
    """Dials and listens through one router.

    `inbound` brings the streams to `host`:`port`, which only the router uses: loopback as a rule. Without `inbound`
    nothing listens.
    """

    def __init__(
        self, proxy: ProxySettings, *, inbound: Inbound | None = None, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._proxy = proxy
        self._login = proxy.http_login
        self._inbound = inbound
        self._host = host
        self._port = port

    # --- Dialling -----------------------------------------------------------------------------------------

    def proxied(self, endpoint: Endpoint, attempt: int = 0) -> bool:  # noqa: ARG002
        """See `Transport.proxied`."""
        return self._proxy.way is ProxyMethod.GET

    def proxy_login(self, endpoint: Endpoint, attempt: int = 0) -> ProxyLogin | None:  # noqa: ARG002
        """See `Transport.proxy_login`."""
        return self._login if self._proxy.way is ProxyMethod.GET else None

    def patience(self, endpoint: Endpoint) -> float:  # noqa: ARG002
        """See `Transport.patience`."""
        return math.inf

    async def dial(
        self,
        endpoint: Endpoint,
        factory: Callable[[], StreamProtocol],
        *,
        deadline: float,
        attempt: int = 0,  # noqa: ARG002
    ) -> asyncio.Transport:
        """See `Transport.dial`.

        With `ProxyMethod.GET` this returns when the proxy is connected. Only the answer to the handshake shows whether
        the proxy reaches the peer.
        """
        if not endpoint.is_i2p:
            raise DialError(
                f"{endpoint} is no address inside I2P: the router's proxy would hand it to a stranger. Give the peer "
                "an address in .i2p, or its certificate's fingerprint to be dialled by TLS."
            )
        # i2pd hands names with capital letters to its outproxy, too: for i2pd only a lower-case .i2p is inside I2P.
        peer = Endpoint(endpoint.host.lower(), endpoint.port)
        try:
            async with asyncio.timeout(deadline):
                match self._proxy.way:
                    case ProxyMethod.GET:
                        return await self._to_proxy(factory)
                    case ProxyMethod.CONNECT:
                        return await self._through_tunnel(peer, factory)
                    case ProxyMethod.SOCKS5:
                        return await self._through_socks(peer, factory)
        except TimeoutError:
            raise UnreachableError(
                f"{endpoint} was not reached through I2P within {deadline:g} s: check that its router is up and has "
                "tunnels."
            ) from None

    async def _to_proxy(self, factory: Callable[[], StreamProtocol]) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_connection(factory, self._proxy.host, self._proxy.port)
        except OSError as error:
            raise self._no_proxy_error(error) from error
        return transport

    async def _through_tunnel(self, peer: Endpoint, factory: Callable[[], StreamProtocol]) -> asyncio.Transport:
        challenges = Challenges()
        while True:
            tunnel = HttpTunnel(peer, factory, self._login)
            transport = await self._to_proxy(lambda tunnel=tunnel: tunnel)  # type: ignore[misc]
            try:
                error = await tunnel.opened
            except BaseException:
                transport.abort()
                raise
            if error is None:
                return transport
            transport.abort()
            if isinstance(error, TunnelRefused):
                raise self._refusal_error(peer, error) from error
            if isinstance(error, ProxyLoginError):
                raise ProxyAccessError(f"{peer} cannot be reached through the proxy {self._proxy}: {error}.") from error
            if not isinstance(error, TunnelChallenged):
                raise self._wrong_proxy_error(peer, "an HTTP proxy", error) from error
            if not challenges.admit(retry := Retry(by_proxy=True)):
                raise challenged_again(retry, str(peer), "")

    async def _through_socks(self, peer: Endpoint, factory: Callable[[], StreamProtocol]) -> asyncio.Transport:
        """Have the proxy open a stream. The proxy gets the name, never an address."""
        await self._greet()
        place = self._proxy
        proxy = Proxy.create(ProxyType.SOCKS5, place.host, place.port, place.user, place.password, rdns=True)
        try:
            # python-socks gets no deadline of its own: the deadline of the whole dial cancels the call.
            sock = await proxy.connect(peer.host, peer.port, timeout=3600.0)
        except ProxyConnectionError as error:
            raise self._no_proxy_error(error) from error
        except ProxyError as error:
            if str(error) in {_SOCKS_LOGIN_WANTED, _SOCKS_LOGIN_REFUSED}:
                raise self._socks_login_error(peer, str(error)) from error
            if error.error_code is None:  # the proxy did not refuse, but answered senselessly, or not at all
                raise self._wrong_proxy_error(peer, "a SOCKS5 proxy", error) from error
            raise self._refusal_error(peer, error) from error
        except (OSError, ValueError) as error:
            raise self._wrong_proxy_error(peer, "a SOCKS5 proxy", error) from error
        try:
            transport, _ = await asyncio.get_running_loop().create_connection(factory, sock=sock)
        except OSError as error:
            sock.close()
            raise self._wrong_proxy_error(peer, "a SOCKS5 proxy", error) from error
        return transport

    async def _greet(self) -> None:
        """Raise `DialError` when the proxy's port does not answer a SOCKS greeting.

        An HTTP proxy does not answer, because the greeting is no complete HTTP request.
        The greeting has a connection of its own: python-socks has one time limit for both the greeting, which takes
        milliseconds, and the peer, which takes minutes.
        """
        try:
            async with asyncio.timeout(SOCKS_GREETING_SECONDS):
                reader, writer = await asyncio.open_connection(self._proxy.host, self._proxy.port)
                try:
                    writer.write(_SOCKS_GREETING)
                    await reader.read(1)
                finally:
                    writer.close()
        except TimeoutError:
            raise DialError(
                f"The router's SOCKS proxy at {self._proxy} does not speak SOCKS5 (no answer to a greeting within "
                f"{SOCKS_GREETING_SECONDS:g} s): check that the port is not the HTTP proxy's, and that the SOCKS proxy "
                f"is on ({_SETTINGS[ProxyMethod.SOCKS5]})."
            ) from None
        except OSError:
            pass  # python-socks dials next, and reports an error that lasts

    def _no_proxy_error(self, error: OSError) -> DialError:
        return DialError(
            f"The router's proxy at {self._proxy} does not answer ({error_text(error)}): check that the router runs "
            f"and its proxy is on ({_SETTINGS[self._proxy.way]})."
        )

    def _refusal_error(self, peer: Endpoint, error: Exception) -> DialError:
        reason = "".join(letter for letter in str(error)[:80] if letter.isprintable())
        return UnreachableError(
            f"{peer} cannot be reached: the proxy {self._proxy} says {reason!r}. Check the address, and that the "
            "peer's router is up and has tunnels, then wait or try again."
        )

    def _socks_login_error(self, peer: Endpoint, reason: str) -> DialError:
        user = self._proxy.user
        fault = (
            "asks for a user and a password: set proxy_user and proxy_password, or let the proxy serve this node "
            "without a password"
            if user is None
            else f"refuses user {user} or its password: check proxy_user and proxy_password, here and in the router"
        )
        return ProxyAccessError(
            f"{peer} cannot be reached: the router's SOCKS proxy at {self._proxy} {fault} ({reason})."
        )

    def _wrong_proxy_error(self, peer: Endpoint, expected: str, error: Exception) -> DialError:
        reason = error_text(error) if isinstance(error, OSError) else str(error)
        return DialError(
            f"{peer} cannot be reached: what listens at {self._proxy} does not answer as {expected} does "
            f"({reason[:80]}): check the port, and that the router is not just stopping."
        )

    # --- Listening ----------------------------------------------------------------------------------------

    async def listen(self, factory: Callable[[Admission], StreamProtocol], gate: Gate) -> I2pListener:
        """See `Transport.listen`. This returns at once: the router may come, go and come back meanwhile."""
        if self._inbound is None:
            raise TransportError(
                "Nothing brings I2P streams to this node: configure a SAM session or a server tunnel in the router."
            )
        return await I2pListener.open(self._inbound, self._host, self._port, factory, gate)
