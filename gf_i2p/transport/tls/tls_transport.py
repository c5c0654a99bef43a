"""TLS 1.3 over TCP: identity, trust, dialling and listening.

A dialled peer shows a certificate. The certificate must have the endpoint's configured fingerprint, or must be vouched
for by the CA file and have the peer's host name. Before this check, nothing but the TLS hello is sent. With a
fingerprint, dates and names in the certificate do not count: a fingerprint names one key exactly, and a node with a
wrong clock still finds its farm. A dialling peer shows no certificate: the Digest that follows authenticates the peer.
"""

import asyncio
import math
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Admission, Gate, source_of
from gf_i2p.transport.errors import (
    DialError,
    NotListeningError,
    PeerRefusedError,
    TransportError,
    UnreachableError,
    error_text,
)
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.transport.tls.certificates import fingerprint, parse_fingerprint
from gf_i2p.transport.tls.tcp_sockets import Address, TcpListener, bind, host_port, resolve, tune
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.proxy_login import ProxyLogin

# Seconds after close(), for sending the rest and for the peer's end of TLS.
_LINGER_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The node's own certificate and key, and the certificates of trusted peers.

    `certificate`, `key`: the node's PEM files, the key unencrypted; needed to listen. `fingerprints`: the allowed
    fingerprints of each endpoint's certificate (several while a certificate is being replaced), in any form that
    `parse_fingerprint` takes. `ca_file`: PEM certificates that vouch for endpoints without a fingerprint.
    """

    certificate: Path | None = None
    key: Path | None = None
    fingerprints: Mapping[Endpoint, Collection[str]] = field(default_factory=dict)
    ca_file: Path | None = None


class TlsTransport:
    """Dials and listens by TLS over TCP."""

    def __init__(self, settings: TlsSettings, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """`host`, `port`: address for `listen`; port 0 takes a free port. Raises `TransportError` as `reload` does."""
        self._host = host
        self._port = port
        self._accepting: set[asyncio.Task[None]] = set()
        self.reload(settings)

    def reload(self, settings: TlsSettings) -> None:
        """Use these settings, and the present content of the files, for connections from now on.

        Raises `TransportError` when a file cannot be used; then nothing has changed.
        """
        server = _server_context(settings)
        pins = {
            endpoint: frozenset(parse_fingerprint(text) for text in texts)
            for endpoint, texts in settings.fingerprints.items()
        }
        authority = None if settings.ca_file is None else _authority_context(settings.ca_file)
        self._server = server
        self._pins = pins
        self._authority = authority
        self._pinned = _context(ssl.PROTOCOL_TLS_CLIENT)
        self._pinned.check_hostname = False
        # OpenSSL still makes the peer prove that it holds the certificate's key (RFC 8446, 4.4.3).
        self._pinned.verify_mode = ssl.CERT_NONE

    # --- Dialling -----------------------------------------------------------------------------------------

    async def dial(
        self,
        endpoint: Endpoint,
        factory: Callable[[], StreamProtocol],
        *,
        deadline: float,
        attempt: int = 0,  # noqa: ARG002
    ) -> asyncio.Transport:
        """See `Transport.dial`."""
        if endpoint.is_i2p:
            raise DialError(
                f"{endpoint} lies inside I2P. It is never looked up in DNS nor dialled by TCP: give the node an I2P "
                "router, or the peer an address outside I2P."
            )
        pins = self._pins.get(endpoint)
        if not pins and self._authority is None:
            raise DialError(f"Nothing says which certificate {endpoint} has: configure its fingerprint, or a CA file.")
        try:
            async with asyncio.timeout(deadline):
                return await self._dial(endpoint, pins, factory, deadline)
        except TimeoutError:
            raise UnreachableError(
                f"{endpoint} did not complete TCP and TLS within {deadline:.1f} s: check that it runs and that no "
                "firewall drops its packets."
            ) from None

    async def _dial(
        self,
        endpoint: Endpoint,
        pins: frozenset[str] | None,
        factory: Callable[[], StreamProtocol],
        deadline: float,
    ) -> asyncio.Transport:
        addresses = await resolve(endpoint)
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        failure: DialError | None = None
        for position, (family, address) in enumerate(addresses):
            # An address that does not answer leaves a share of the time for the next addresses.
            share = (end - loop.time()) / (len(addresses) - position)
            try:
                async with asyncio.timeout(share):
                    return await self._dial_address(endpoint, pins, factory, family, address)
            except TimeoutError:
                failure = UnreachableError(
                    f"{endpoint} at {address[0]} did not complete TCP and TLS within {share:.1f} s."
                )
            except NotListeningError as error:
                failure = failure or error  # another address may have kept silent, and the peer may listen there
            except DialError as error:
                failure = error
        assert failure is not None
        raise failure

    async def _dial_address(
        self,
        endpoint: Endpoint,
        pins: frozenset[str] | None,
        factory: Callable[[], StreamProtocol],
        family: int,
        address: Address,
    ) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            raise DialError(f"No socket for {endpoint}: {error.strerror}.") from error
        try:
            tune(sock)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            raise (NotListeningError if isinstance(error, ConnectionRefusedError) else UnreachableError)(
                f"{endpoint} at {address[0]} cannot be reached ({error_text(error)}): check that it runs."
            ) from error
        except BaseException:
            sock.close()
            raise
        context = self._pinned if pins else self._authority
        assert context is not None

        def make_protocol(transport: asyncio.Transport) -> StreamProtocol:
            if pins:
                _check_pin(endpoint, pins, transport.get_extra_info("ssl_object").getpeercert(binary_form=True))
            return factory()

        handshake = _TlsHandshake(make_protocol)
        try:
            transport, _ = await loop.create_connection(
                lambda: handshake,
                sock=sock,
                ssl=context,
                # A peer with a fingerprint needs no name, and an observer should not learn the name.
                server_hostname="" if pins else endpoint.host,
                ssl_shutdown_timeout=_LINGER_SECONDS,
            )
        except OSError as error:
            raise _dial_error(endpoint, error) from error
        except BaseException:
            # asyncio closes the transport, and TLS then waits for the peer's end: no caller is left that would wait.
            if handshake.transport is not None:
                handshake.transport.abort()
            raise
        if handshake.error is not None:
            raise handshake.error
        return transport

    def proxied(self, endpoint: Endpoint, attempt: int = 0) -> bool:  # noqa: ARG002
        """See `Transport.proxied`."""
        return False

    def proxy_login(self, endpoint: Endpoint, attempt: int = 0) -> ProxyLogin | None:  # noqa: ARG002
        """See `Transport.proxy_login`."""
        return None

    def patience(self, endpoint: Endpoint) -> float:  # noqa: ARG002
        """See `Transport.patience`."""
        return math.inf

    # --- Listening ----------------------------------------------------------------------------------------

    async def listen(self, factory: Callable[[Admission], StreamProtocol], gate: Gate) -> "TcpListener":
        """See `Transport.listen`."""
        listen_address = f"{self._host}:{self._port}"
        if self._server is None:
            raise TransportError(
                f"Listening on {listen_address} needs a certificate and a key: set both in the configuration."
            )
        if self._host.lower().rstrip(".").endswith(".i2p"):
            raise TransportError(
                f"{listen_address} is no address of this machine: to be reached by I2P, use an I2P listener."
            )
        sockets = await bind(self._host, self._port)
        return TcpListener(sockets, lambda sock, address: self._accept(sock, address, factory, gate))

    def _accept(
        self,
        sock: socket.socket,
        address: Address,
        factory: Callable[[Admission], StreamProtocol],
        gate: Gate,
    ) -> None:
        context = self._server
        assert context is not None
        admission = gate.admit(source_of(address[0]), host_port(address))

        def make_protocol(transport: asyncio.Transport) -> StreamProtocol:
            admission.bind(transport.abort)
            return factory(admission)

        handshake = _TlsHandshake(make_protocol)

        def ended(task: asyncio.Task[None]) -> None:
            self._accepting.discard(task)
            if not handshake.handed_over:
                sock.close()  # the task has not closed the socket if it was cancelled before its first step
                admission.closed()

        accepting = asyncio.get_running_loop().create_task(_shake_hands(sock, context, handshake, admission))
        self._accepting.add(accepting)
        accepting.add_done_callback(ended)
        admission.bind(accepting.cancel)


async def _shake_hands(
    sock: socket.socket, context: ssl.SSLContext, handshake: "_TlsHandshake", admission: Admission
) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: handshake, sock, ssl=context, ssl_shutdown_timeout=_LINGER_SECONDS
        )
    except OSError as error:
        if isinstance(error, ssl.SSLError):
            admission.refuse(ConnectionRefusal.TLS, _tls_reason(error))
    if handshake.error is not None:
        raise handshake.error


class _TlsHandshake(StreamProtocol):
    """The protocol of a connection during the TLS handshake.

    When the handshake is complete, `make` judges the peer and returns the protocol that takes over. If `make` raises,
    the connection ends, and this node has sent nothing but the TLS hello.
    """

    def __init__(self, make: Callable[[asyncio.Transport], StreamProtocol]) -> None:
        self._make = make
        self.transport: asyncio.Transport | None = None
        """The connection, once the handshake is complete."""
        self.error: Exception | None = None
        self.handed_over = False
        """Whether the protocol that `make` returned has taken over the connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = channel = cast("asyncio.Transport", transport)
        try:
            protocol = self._make(channel)
        except Exception as error:  # noqa: BLE001 - the waiting caller raises this error
            self.error = error
            channel.abort()
            return
        self.handed_over = True
        channel.set_protocol(protocol)
        protocol.connection_made(channel)


# --- Contexts ---------------------------------------------------------------------------------------------


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _server_context(settings: TlsSettings) -> ssl.SSLContext | None:
    certificate, key = settings.certificate, settings.key
    if certificate is None or key is None:
        if certificate is not key:
            raise TransportError("A certificate needs a key, and a key needs a certificate: set both or neither.")
        return None

    def encrypted() -> str:
        raise TransportError(f"The key {key} is encrypted, and a node that starts by itself cannot ask for a password.")

    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # no client resumes: a connection lasts
    try:
        context.load_cert_chain(certificate, key, password=encrypted)
    except ssl.SSLError as error:
        raise TransportError(
            f"{certificate} and {key} are no PEM certificate with its key ({error.reason or error}): restore the pair, "
            "or make a new one and give its fingerprint to the other servers."
        ) from error
    except OSError as error:
        unreadable = next((path for path in (certificate, key) if not _readable(path)), certificate)
        raise TransportError(f"{unreadable} cannot be read: {error.strerror}.") from error
    return context


def _readable(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False


def _authority_context(ca_file: Path) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise TransportError(f"The CA file {ca_file} holds no PEM certificate ({error.reason or error}).") from error
    except OSError as error:
        raise TransportError(f"The CA file {ca_file} cannot be read: {error.strerror}.") from error
    return context


# --- Reasons ----------------------------------------------------------------------------------------------


def _check_pin(endpoint: Endpoint, pins: frozenset[str], certificate: bytes | None) -> None:
    actual = "none" if certificate is None else fingerprint(certificate)
    if actual not in pins:
        raise PeerRefusedError(
            f"{endpoint} shows another certificate than configured: {actual}, not {' or '.join(sorted(pins))}. Nothing "
            "was sent. If the peer has renewed its certificate, configure the new fingerprint; otherwise a stranger "
            "answers."
        )


def _dial_error(endpoint: Endpoint, error: Exception | None) -> DialError:
    if isinstance(error, DialError):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return PeerRefusedError(
            f"The certificate of {endpoint} is not accepted: {error.verify_message.rstrip('.')}. Nothing was sent. "
            "Check the CA file, and that certificate's names and dates."
        )
    if isinstance(error, ssl.SSLError):
        return DialError(f"{endpoint} does not speak TLS 1.3 ({_tls_reason(error)}): check the port.")
    reason = error_text(error) if isinstance(error, OSError) else "closed"
    return DialError(
        f"{endpoint} broke the connection during the TLS handshake ({reason}): check the port, and that it speaks "
        "TLS 1.3."
    )


def _tls_reason(error: ssl.SSLError) -> str:
    return error.reason.replace("_", " ").lower() if error.reason else str(error)
