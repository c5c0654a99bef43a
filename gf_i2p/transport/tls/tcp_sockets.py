"""TCP sockets: name resolution, options, listening and accepting."""

import asyncio
import errno
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, ip_address
from typing import Any, Final

import structlog

from gf_i2p.transport.errors import DialError, TransportError
from gf_i2p.wire.endpoint import Endpoint

# In the form of the socket module: host, port, and for IPv6 two more numbers.
Address = tuple[Any, ...]

# Connections that the kernel completes and keeps while the loop is busy.
_BACKLOG: Final = 256
# Connections accepted in one callback, so that a flood leaves time for other callbacks.
_ACCEPTS_PER_TURN: Final = 16
# Out of file descriptors or memory: then accepting pauses for a time.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_EXHAUSTED_SECONDS: Final = 0.2
_EXHAUSTED_LOG_SECONDS: Final = 10.0

# A peer that has lost power is noticed after half a minute, both while this side waits (keepalive, in s) and while
# acknowledgements are due (user timeout, in ms).
_TCP_OPTIONS: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))


def tune(sock: socket.socket) -> None:
    """Set the options of a connection: send small messages without delay, and notice vanished peers."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_OPTIONS:
        option = getattr(socket, name, None)  # some systems lack some options
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def check_address(host: str, purpose: str) -> None:
    """Raise `TransportError` unless `host` is an IP address, which needs no look-up."""
    try:
        ip_address(host)
    except ValueError:
        raise TransportError(f"{host[:80]!r} is no IP address, which {purpose} needs, as in 127.0.0.1.") from None


async def resolve(endpoint: Endpoint) -> list[tuple[int, Address]]:
    """Return the endpoint's addresses with their families. Only a name is looked up. Raises `DialError`."""
    try:
        ip = ip_address(endpoint.host)
    except ValueError:
        pass
    else:
        family = socket.AF_INET if isinstance(ip, IPv4Address) else socket.AF_INET6
        return [(family, (endpoint.host, endpoint.port))]
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DialError(
            f"The name of {endpoint} cannot be resolved ({error.strerror or error}): check the name."
        ) from error
    return list(dict.fromkeys((family, address) for family, _, _, _, address in addresses))


async def bind(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets on every address of `host`, all on one port. Raises `TransportError`."""
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise TransportError(f"{host} is no address of this machine ({error.strerror or error}).") from error
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, address in dict.fromkeys((family, address) for family, _, _, _, address in addresses):
        sock: socket.socket | None = None
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port, *address[2:]))
            sock.listen(_BACKLOG)
        except OSError as error:
            if sock is not None:
                sock.close()
            # A name may have an IPv6 address on a machine without IPv6; a taken port is a real error.
            if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                for opened in sockets:
                    opened.close()
                raise TransportError(
                    f"Cannot listen on {host}:{port} ({error.strerror}): stop what listens there, or configure another "
                    "address."
                ) from error
            failure = error
        else:
            sockets.append(sock)
            port = sock.getsockname()[1]
    if not sockets:
        assert failure is not None
        raise TransportError(f"{host} is no address of this machine ({failure.strerror}).") from failure
    return sockets


def host_port(address: Address) -> str:
    """Write an address as "host:port", an IPv6 host in brackets."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class TcpListener:
    """Accepts on one or more sockets until `close`."""

    def __init__(self, sockets: list[socket.socket], accept: Callable[[socket.socket, Address], None]) -> None:
        """`sockets`: the listening sockets that `bind` returned.

        `accept` is called for each new connection, with a non-blocking socket whose options are set, and with the
        peer's address.
        """
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._accept = accept
        self._pause: asyncio.TimerHandle | None = None
        self._complained = float("-inf")
        self._log = structlog.get_logger(__name__)
        self.addresses = [host_port(sock.getsockname()) for sock in sockets]
        self.port: int = sockets[0].getsockname()[1]
        self._watch_sockets()

    def close(self) -> None:
        """See `Listener.close`."""
        self._unwatch_sockets()
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        for sock in self._sockets:
            sock.close()
        self._sockets = []

    def _watch_sockets(self) -> None:
        self._pause = None
        for sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._accept_waiting, sock)

    def _unwatch_sockets(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())

    def _accept_waiting(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause_accepting(error)
                    return
                continue  # that connection broke before it was accepted (accept(2))
            try:
                sock.setblocking(False)
                tune(sock)
            except OSError:
                sock.close()  # the peer has gone already
                continue
            self._accept(sock, address)

    def _pause_accepting(self, error: OSError) -> None:
        """Stop accepting for a moment: otherwise the waiting connection would wake the loop again and again in vain."""
        if self._pause is None:
            self._unwatch_sockets()
            self._pause = self._loop.call_later(_EXHAUSTED_SECONDS, self._watch_sockets)
        now = self._loop.time()
        if now - self._complained >= _EXHAUSTED_LOG_SECONDS:
            self._complained = now
            self._log.warning(
                "cannot accept connections for now; raise the limit of open files (ulimit -n) if this lasts",
                error=error.strerror,
            )
