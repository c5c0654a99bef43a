"""Targets of the handshake: HTTP heads, the upgrade, Digest, a proxy's login, the request for the Configuration."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from gf_i2p.cli.doctor.proxy import ProxyError, read_answer
from gf_i2p.netdb.destination import address_of
from gf_i2p.netdb.errors import StructureError
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.i2p.http_tunnel import HttpTunnel
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.transport.tls.certificates import parse_fingerprint
from gf_i2p.wire.configuration_get import ConfigurationGet
from gf_i2p.wire.digest import Authenticator, Credentials, DigestClient, Secret, Verified
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_auth import offered_schemes, parse_schemes
from gf_i2p.wire.http_get import HandshakeRefused, response_of
from gf_i2p.wire.http_head import HeadReader
from gf_i2p.wire.limits import MAX_INTERIM_RESPONSES
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.names import check_name
from gf_i2p.wire.proxy_login import ProxyLogin, ProxyLoginError
from gf_i2p.wire.upgrade import ClientHandshake, ServerHandshake
from integration.fuzz import samples
from integration.fuzz.target import Target

_USER: Final = "server-1"
_PASSWORD: Final = "correct horse"
_HOST: Final = "127.0.0.1:9001"
_TOKENS: Final = (
    b"HTTP/1.1 ", b"\r\n", b"\r\n\r\n", b"\r\r\n", b"\n", b": ", b"Digest ", b"Basic ", b'realm="farm"', b"qop=auth",
    b"nonce=", b"nc=00000001", b"algorithm=SHA-256", b"stale=true", b"Upgrade: websocket", b"Connection: Upgrade",
    b"100", b"101", b"200", b"401", b"407", b"503", b"Transfer-Encoding: chunked", b"Content-Length: ",
    b"WWW-Authenticate: ", b"Proxy-Authenticate: ", b"Authorization: ", b"charset=UTF-8", b"\\", b'"', b",", b"\t",
    b" " * 600,
)  # fmt: skip


def _authenticator() -> Authenticator:
    return Authenticator(
        "farm", {_USER: Secret.derive(_USER, "farm", _PASSWORD)}, key=bytes(range(32)), without_qop=True
    )


_AUTHENTICATOR: Final = _authenticator()


def _server() -> ServerHandshake:
    return ServerHandshake(
        {"farm": _authenticator()},
        entropy=samples.Entropy("server"),
        configurations={"farm": lambda _user: _configuration()},
    )


def _configuration() -> bytes:
    return Configuration(17, 1, (ClusterServer(1, "tcp://a.example:1"),)).encode()


Kind = type[ClientHandshake] | type[ConfigurationGet]


def _client(kind: Kind, credentials: Credentials, *, proxied: bool = False) -> ClientHandshake | ConfigurationGet:
    return kind(
        host=_HOST,
        cluster="farm",
        credentials=credentials,
        now=0.0,
        entropy=samples.Entropy("client"),
        proxied=proxied,
        proxy_login=ProxyLogin("me", "secret", in_clear=True),
    )


def _exchanges() -> Iterator[tuple[Kind, bytes, bytes]]:
    """Give the requests and answers of both resources: first the challenge, then the success."""
    for kind in (ClientHandshake, ConfigurationGet):
        credentials = Credentials(_USER, _PASSWORD)
        for _ in range(2):  # the second server is as the first: it knows the nonce, and no count was used
            client = _client(kind, credentials)
            request = client.request()
            answer = _server().receive(request, 0.0)
            assert answer is not None
            yield kind, request, answer.data
            client.receive(answer.data, 0.0)


def _serve(data: bytes) -> None:
    """Feed a request whole and in two pieces: the answers must be the same, but for the nonces."""
    whole = _server().receive(data, 0.0)
    cut = _server()
    first = cut.receive(data[: len(data) // 2], 0.0)
    second = cut.receive(data[len(data) // 2 :], 0.0) if first is None else first
    assert (whole is None) == (second is None)


def _asked(kind: Kind, credentials: Credentials, data: bytes, *, proxied: bool) -> None:
    client = _client(kind, credentials, proxied=proxied)
    client.request()
    client.receive(data, 0.0)
    _client(kind, credentials, proxied=proxied).request().decode("latin-1")


def _ask(kind: Kind, *, proxied: bool) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        credentials = Credentials(_USER, _PASSWORD)
        with suppress(RemoteProtocolError):  # a client without a challenge takes one, or refuses
            _asked(kind, credentials, data, proxied=proxied)
        credentials.challenged(_AUTHENTICATOR.challenge(0.0, samples.Entropy("nonce")), 0.0)
        _asked(kind, credentials, data, proxied=proxied)

    return run


def _answers() -> Iterator[bytes]:
    for _, _, answer in _exchanges():
        yield answer
    yield b'HTTP/1.1 407 No\r\nProxy-Authenticate: Digest realm="i2p", nonce="n", qop="auth", algorithm=MD5\r\n\r\n'
    yield b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=i2p\r\n\r\n"
    yield b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    yield b"HTTP/1.1 503 Busy\r\n\r\n"
    yield b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\n\r\n"
    yield b'HTTP/1.1 401 No\r\nWWW-Authenticate: Digest realm="\xff", nonce="n", qop="auth"\r\n\r\n'


def _requests() -> Iterator[bytes]:
    yield from (request for _, request, _ in _exchanges())


def _head(data: bytes) -> None:
    """Read heads from the bytes, and each head as an answer."""
    for _ in range(MAX_INTERIM_RESPONSES + 1):
        head = HeadReader().feed(data)
        if head is None:
            return
        data = head.rest
        response_of(head.text)


def _authorization(data: bytes) -> None:
    """A password that is right can only be in the seeds: the seed's own header is the proof."""
    _authenticator().verify(data.decode("latin-1"), "GET", "/GarlicFarm/farm/1/websocket", 0.0)


def _authorizations() -> Iterator[bytes]:
    client = DigestClient(_USER, _PASSWORD, peer="the peer")
    client.take(offered_schemes(_AUTHENTICATOR.challenge(0.0, samples.Entropy("nonce"))), 0.0)
    header = client.authorize("GET", "/GarlicFarm/farm/1/websocket", 0.0, samples.Entropy("cnonce"))
    assert header is not None
    assert isinstance(_authenticator().verify(header, "GET", "/GarlicFarm/farm/1/websocket", 0.0), Verified)
    yield header.encode("latin-1")
    yield (
        b'Digest username="a", realm="farm", nonce="n", uri="/GarlicFarm/farm/1/websocket", response="'
        + b"0" * 32
        + b'"'
    )


def _challenge(data: bytes) -> None:
    values = [line.decode("latin-1") for line in data.split(b"\n")]
    client = Credentials(_USER, _PASSWORD)
    client.challenged(values, 0.0)
    header = client.authorize("GET", "/", 0.0, samples.Entropy("cnonce"))
    assert header is not None
    header.encode("latin-1")
    assert len(parse_schemes(header)) == 1


def _proxy_challenge(data: bytes) -> None:
    values = [line.decode("latin-1") for line in data.split(b"\n")]
    login = ProxyLogin("me", "secret", in_clear=True)
    login.challenged(values, 0.0, None)
    sent = login.authorize("GET", "http://a/", 0.0, samples.Entropy("cnonce"))
    assert sent is not None
    sent.value.encode("latin-1")


def _challenges() -> Iterator[bytes]:
    yield "\n".join(_AUTHENTICATOR.challenge(0.0, samples.Entropy("nonce"), stale=True)).encode()
    yield b'Basic realm="x"'
    yield b'Digest realm="a\\"b", nonce="n", qop="auth,auth-int", opaque="o", algorithm=MD5, Negotiate abcd=='


class _Nothing(StreamProtocol):
    """A protocol that drops all bytes."""


_LOOP: Final = asyncio.new_event_loop()


def _tunnel(data: bytes) -> None:
    """A tunnel never raises: errors are its result."""

    async def run() -> None:
        tunnel = HttpTunnel(Endpoint("a.i2p", 1), _Nothing, ProxyLogin("me", "secret", in_clear=True))
        tunnel.connection_made(_Transport())
        tunnel.data_received(data[:10])
        tunnel.data_received(data[10:])
        tunnel.connection_lost(None)
        assert tunnel.opened.done()

    _LOOP.run_until_complete(run())


class _Transport(asyncio.Transport):
    """A transport that sends nothing."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Drop the bytes."""

    def is_closing(self) -> bool:
        """Return False: the peer is there."""
        return False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Keep nothing."""


def _text(call: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: call(data.decode("utf-8", "surrogateescape"))


_HEADER_ERRORS: Final = (HandshakeRefused, ProxyLoginError)
TARGETS: Final = (
    Target(
        "upgrade-request",
        _serve,
        (RemoteProtocolError,),
        _requests,
        _TOKENS,
    ),
    Target(
        "upgrade-answer",
        _ask(ClientHandshake, proxied=False),
        _HEADER_ERRORS,
        _answers,
        _TOKENS,
    ),
    Target(
        "upgrade-answer-by-proxy",
        _ask(ClientHandshake, proxied=True),
        _HEADER_ERRORS,
        _answers,
        _TOKENS,
    ),
    Target(
        "configuration-answer",
        _ask(ConfigurationGet, proxied=False),
        _HEADER_ERRORS,
        _answers,
        _TOKENS,
    ),
    Target(
        "http-head",
        _head,
        (RemoteProtocolError,),
        _answers,
        _TOKENS,
    ),
    Target(
        "auth-schemes",
        lambda data: parse_schemes(data.decode("latin-1")),
        (RemoteProtocolError,),
        _challenges,
        _TOKENS,
    ),
    Target(
        "digest-authorization",
        _authorization,
        (),
        _authorizations,
        _TOKENS,
    ),
    Target(
        "digest-challenge",
        _challenge,
        (RemoteProtocolError,),
        _challenges,
        _TOKENS,
    ),
    Target(
        "proxy-challenge",
        _proxy_challenge,
        (ProxyLoginError,),
        _challenges,
        _TOKENS,
    ),
    Target(
        "tunnel-answer",
        _tunnel,
        (),
        lambda: (b"HTTP/1.1 200 OK\r\n\r\nrest", *_answers()),
        _TOKENS,
    ),
    Target(
        "doctor-proxy-answer",
        read_answer,
        (ProxyError,),
        lambda: (b"HTTP/1.1 500 Error\r\n\r\n<title>I2Pd HTTP proxy</title>", b"HTTP/1.1 503 x\r\n\r\nproxy.i2p"),
        _TOKENS,
    ),
    Target(
        "peer-line",
        _text(address_of),
        (StructureError,),
        lambda: (samples.keys().destination.base64.encode(),),
    ),
    Target(
        "fingerprint",
        _text(parse_fingerprint),
        (TransportError,),
        lambda: (b"sha256:" + b"0a" * 32, b":".join([b"AB"] * 32)),
    ),
    Target(
        "name",
        _text(lambda text: check_name("cluster name", text)),
        (ValueError,),
        lambda: (b"farm-1",),
    ),
)
