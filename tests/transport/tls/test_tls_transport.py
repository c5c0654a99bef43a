import asyncio
import contextlib
import errno
import re
import select
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Admission, Gate
from gf_i2p.transport.errors import (
    DialError,
    NotListeningError,
    PeerRefusedError,
    TransportError,
    UnreachableError,
)
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.transport.tls import tcp_sockets, tls_transport
from gf_i2p.transport.tls.tcp_sockets import TcpListener
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from tests.transport.harness import PATIENCE, Identity, foreign_client_context, hang_up, soon, until

pytestmark = pytest.mark.usefixtures("unhandled")


class Talker(StreamProtocol):
    """A client that speaks first."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(b"request")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


class Visited(StreamProtocol):
    """A server that notes the received bytes."""

    def __init__(self, admission: Admission, received: bytearray) -> None:
        self.admission = admission
        self.received = received

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.admission.closed()


class Site:
    """A listener of `TlsTransport` on loopback, and its connections."""

    def __init__(self, listener: TcpListener, gate: Gate, received: bytearray) -> None:
        self.listener = listener
        self.gate = gate
        self.received = received
        self.endpoint = Endpoint("127.0.0.1", listener.port)


@contextlib.asynccontextmanager
async def site(identity: Identity, gate: Gate | None = None) -> AsyncIterator[Site]:
    gate = gate or Gate()
    received = bytearray()
    transport = TlsTransport(TlsSettings(identity.certificate, identity.key))
    listener = await transport.listen(lambda admission: Visited(admission, received), gate)
    try:
        yield Site(listener, gate, received)
    finally:
        listener.close()
        gate.close()
        await until(lambda: not gate.counters.unauthenticated)


@contextlib.asynccontextmanager
async def foreign_site(context: ssl.SSLContext) -> AsyncIterator[tuple[Endpoint, bytearray]]:
    """A TLS server of another program, and the received bytes."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1000):
                received.extend(data)
        await hang_up(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield Endpoint("127.0.0.1", server.sockets[0].getsockname()[1]), received
    finally:
        server.close()


def server_context(identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


async def dial(endpoint: Endpoint, deadline: float = PATIENCE, **settings: Any) -> Talker:
    """Dial with these settings and hang up again; return the connected protocol."""
    talker = Talker()
    transport = await TlsTransport(TlsSettings(**settings)).dial(endpoint, lambda: talker, deadline=deadline)
    transport.close()
    await soon(talker.lost.wait())
    return talker


# --- The peers that are dialled ----------------------------------------------------------------------------


async def test_a_pinned_peer_is_reached(node: Identity, identities: dict[str, Identity]) -> None:
    async with site(node) as peer:
        pins = [identities["other"].fingerprint.upper(), node.fingerprint]
        await dial(peer.endpoint, fingerprints={peer.endpoint: pins})
        await until(lambda: peer.received == b"request")


async def test_a_peer_with_another_certificate_gets_nothing_of_ours(
    node: Identity, identities: dict[str, Identity]
) -> None:
    # With another program's TLS at the other end, which would show the received bytes.
    async with foreign_site(server_context(node)) as (endpoint, received):
        expected = identities["other"].fingerprint
        with pytest.raises(PeerRefusedError, match=f"{node.fingerprint}, not {expected}. Nothing was sent"):
            await dial(endpoint, fingerprints={endpoint: [expected]})
        await dial(endpoint, fingerprints={endpoint: [node.fingerprint]})
        await until(lambda: received)
        assert received == b"request"


async def test_a_pin_does_not_look_at_the_dates(identities: dict[str, Identity]) -> None:
    async with site(identities["expired"]) as peer:
        await dial(peer.endpoint, fingerprints={peer.endpoint: [identities["expired"].fingerprint]})


async def test_a_ca_file_vouches_for_a_name_and_an_address(identities: dict[str, Identity]) -> None:
    named_identity = identities["named"]
    async with site(named_identity) as peer:
        for host in ("localhost", "127.0.0.1"):
            await dial(Endpoint(host, peer.listener.port), ca_file=named_identity.certificate)
        await until(lambda: peer.received == b"requestrequest")


@pytest.mark.parametrize(
    ("shown", "trusted", "host", "reason"),
    [
        ("named", "other", "localhost", "self-signed certificate"),
        ("expired", "expired", "localhost", "certificate has expired"),
        ("node", "node", "localhost", "Hostname mismatch, certificate is not valid for 'localhost'"),
        ("node", "node", "127.0.0.1", "IP address mismatch, certificate is not valid for '127.0.0.1'"),
    ],
)
async def test_a_ca_file_does_not_vouch_for_others(
    identities: dict[str, Identity], shown: str, trusted: str, host: str, reason: str
) -> None:
    async with foreign_site(server_context(identities[shown])) as (endpoint, received):
        with pytest.raises(PeerRefusedError, match=f"not accepted: {reason}"):
            await dial(Endpoint(host, endpoint.port), ca_file=identities[trusted].certificate)
        assert received == b""


async def test_a_pin_goes_before_the_ca_file(identities: dict[str, Identity]) -> None:
    named_identity, other = identities["named"], identities["other"]
    async with site(named_identity) as peer:
        with pytest.raises(PeerRefusedError, match="another certificate than configured"):
            await dial(
                peer.endpoint, fingerprints={peer.endpoint: [other.fingerprint]}, ca_file=named_identity.certificate
            )


async def test_an_endpoint_that_nothing_is_known_of_is_not_dialled(node: Identity) -> None:
    async with site(node) as peer:
        with pytest.raises(DialError, match="Nothing says which certificate"):
            await dial(peer.endpoint, fingerprints={Endpoint("127.0.0.1", 1): [node.fingerprint]})
        assert peer.gate.counters.accepted == 0


@pytest.mark.parametrize("host", ["farm.i2p", "FARM.I2P", "a" * 52 + ".b32.i2p"])
async def test_an_i2p_host_is_neither_resolved_nor_dialled(
    node: Identity, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    def leak(*_: object, **__: object) -> None:
        raise AssertionError("a name was looked up or dialled outside I2P")

    monkeypatch.setattr(tls_transport, "resolve", leak)
    monkeypatch.setattr(socket, "getaddrinfo", leak)
    endpoint = Endpoint(host, 80)
    for settings in ({"fingerprints": {endpoint: [node.fingerprint]}}, {"ca_file": node.certificate}):
        with pytest.raises(DialError, match=r"lies inside I2P\. It is never looked up in DNS"):
            await dial(endpoint, **settings)
    listening = TlsTransport(TlsSettings(node.certificate, node.key), host=host)
    with pytest.raises(TransportError, match="use an I2P listener"):
        await listening.listen(lambda _: Talker(), Gate())


async def test_an_older_tls_is_refused_on_both_sides(node: Identity) -> None:
    old = server_context(node)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with foreign_site(old) as (endpoint, _):
        with pytest.raises(DialError, match=r"does not speak TLS 1\.3|and that it speaks TLS 1\.3"):
            await dial(endpoint, fingerprints={endpoint: [node.fingerprint]})
    old = foreign_client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with site(node) as peer:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await soon(asyncio.open_connection("127.0.0.1", peer.listener.port, ssl=old))
        await until(lambda: peer.gate.counters.refused == {ConnectionRefusal.TLS: 1})


async def test_a_pinned_peer_is_not_told_a_name(node: Identity) -> None:
    names: list[str | None] = []
    context = server_context(node)
    context.sni_callback = lambda _, name, __: names.append(name)
    async with foreign_site(context) as (endpoint, _):
        named_endpoint = Endpoint("localhost", endpoint.port)
        await dial(named_endpoint, fingerprints={named_endpoint: [node.fingerprint]})
    assert names == [None]


# --- Failures ---------------------------------------------------------------------------------------------


async def test_nobody_listens(node: Identity) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        endpoint = Endpoint("127.0.0.1", bound.getsockname()[1])
        with pytest.raises(NotListeningError, match=r"cannot be reached \(Connection refused\): check that it runs"):
            await dial(endpoint, fingerprints={endpoint: [node.fingerprint]})


async def test_a_peer_that_says_nothing_is_given_up_at_the_deadline(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    timeout = asyncio.timeout
    deadlines: list[asyncio.Timeout] = []

    def note(delay: float | None) -> asyncio.Timeout:
        deadlines.append(timeout(delay))
        return deadlines[-1]

    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        endpoint = Endpoint("127.0.0.1", silent.getsockname()[1])
        monkeypatch.setattr(asyncio, "timeout", note)
        dialling = asyncio.create_task(dial(endpoint, 1000.0, fingerprints={endpoint: [node.fingerprint]}))
        accepted, _ = await loop.sock_accept(silent)
        monkeypatch.undo()
        with accepted:
            deadlines[0].reschedule(loop.time())  # the time is over now
            with pytest.raises(DialError, match=r"did not complete TCP and TLS within 1000\.0 s"):
                await dialling
            accepted.settimeout(PATIENCE)
            while accepted.recv(10_000):  # the hello, and then the end: the socket was not left open
                pass


async def test_a_peer_that_speaks_no_tls_is_named(node: Identity) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ready\r\n")
        await hang_up(writer)

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hang_up(writer)

    for serve, expected in (
        (greet, r"does not speak TLS 1.3|broke the connection during the TLS handshake"),
        (close, "broke the connection during the TLS handshake"),
    ):
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        endpoint = Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(DialError, match=expected):
            await dial(endpoint, fingerprints={endpoint: [node.fingerprint]})
        server.close()
        await soon(server.wait_closed())


async def test_a_name_that_does_not_exist_is_named(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", missing)
    monkeypatch.setattr(asyncio.get_running_loop().__class__, "getaddrinfo", missing, raising=False)
    endpoint = Endpoint("nowhere.example", 1)
    with pytest.raises(DialError, match=r"The name of tcp://nowhere.example:1 cannot be resolved"):
        await dial(endpoint, fingerprints={endpoint: [node.fingerprint]})


async def test_the_next_address_of_a_name_gets_its_share_of_the_time(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(node) as peer:
        with socket.create_server(("127.0.0.1", 0)) as silent:

            async def resolve(_: Endpoint) -> list[tuple[int, tcp_sockets.Address]]:
                return [(socket.AF_INET, silent.getsockname()), (socket.AF_INET, ("127.0.0.1", peer.listener.port))]

            monkeypatch.setattr(tls_transport, "resolve", resolve)
            endpoint = Endpoint("farm.example", 1)
            seconds: list[float | None] = []
            timeout = asyncio.timeout

            def note(delay: float | None) -> asyncio.Timeout:
                seconds.append(delay)
                return timeout(0.1 if len(seconds) == 2 else delay)  # the silent address costs no time

            with monkeypatch.context() as patch:
                patch.setattr(asyncio, "timeout", note)
                await dial(endpoint, PATIENCE, fingerprints={endpoint: [node.fingerprint]})
            in_all, first, rest = seconds[:3]
            assert in_all == PATIENCE
            assert first == pytest.approx(PATIENCE / 2, rel=0.1)
            assert rest is not None
            assert rest > PATIENCE / 2


@pytest.mark.parametrize("silent_first", [True, False])
async def test_a_name_with_a_silent_address_is_not_refused(
    node: Identity, monkeypatch: pytest.MonkeyPatch, silent_first: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        addresses: list[tuple[int, tcp_sockets.Address]]
        addresses = [(socket.AF_INET, each.getsockname()) for each in (silent, bound)]

        async def resolve(_: Endpoint) -> list[tuple[int, tcp_sockets.Address]]:
            return addresses if silent_first else addresses[::-1]

        monkeypatch.setattr(tls_transport, "resolve", resolve)
        endpoint = Endpoint("farm.example", 1)
        with pytest.raises(UnreachableError) as caught:
            await dial(endpoint, 0.2, fingerprints={endpoint: [node.fingerprint]})
        assert not isinstance(caught.value, NotListeningError)


async def test_a_cancelled_dial_leaves_no_socket_behind(node: Identity) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint("127.0.0.1", silent.getsockname()[1])
        task = asyncio.create_task(dial(endpoint, fingerprints={endpoint: [node.fingerprint]}))
        silent.setblocking(False)
        accepted, _ = await asyncio.get_running_loop().sock_accept(silent)
        with accepted:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            accepted.settimeout(PATIENCE)
            while accepted.recv(10_000):
                pass


async def test_a_dial_that_is_cancelled_as_the_handshake_completes_waits_for_no_goodbye(
    node: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "_LINGER_SECONDS", 1000 * PATIENCE)
    ended: list[tuple[int, int]] = []

    def serve() -> None:
        accepted, _ = server.accept()
        with accepted:
            # The peer reads nothing more, so the peer never answers the end of TLS.
            waiting = select.poll()
            waiting.register(accepted, select.POLLRDHUP)
            ended.extend(waiting.poll(PATIENCE * 1000))

    with server_context(node).wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True) as server:
        endpoint = Endpoint("127.0.0.1", server.getsockname()[1])
        transport = TlsTransport(TlsSettings(fingerprints={endpoint: [node.fingerprint]}))

        def cancel() -> Talker:
            dialling.cancel()
            return Talker()

        serving = asyncio.create_task(asyncio.to_thread(serve))
        dialling = asyncio.create_task(transport.dial(endpoint, cancel, deadline=PATIENCE))
        with pytest.raises(asyncio.CancelledError):
            await dialling
        await serving
    assert ended, "the connection has not ended"


# --- Listening --------------------------------------------------------------------------------------------


async def test_connections_have_the_socket_options_that_matter(node: Identity) -> None:
    sockets: list[socket.socket] = []
    tune = tcp_sockets.tune

    def note(sock: socket.socket) -> None:
        tune(sock)
        sockets.append(open_sockets.enter_context(sock.dup()))  # uvloop takes the socket itself

    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as open_sockets:
        patch.setattr(tcp_sockets, "tune", note)
        patch.setattr(tls_transport, "tune", note)
        async with site(node) as peer:
            transport = TlsTransport(TlsSettings(fingerprints={peer.endpoint: [node.fingerprint]}))
            talker = Talker()
            channel = await transport.dial(peer.endpoint, lambda: talker, deadline=PATIENCE)
            await until(lambda: peer.received)
            assert len(sockets) == 2
            for sock in sockets:
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15
                assert not sock.getblocking()
            channel.close()
            await soon(talker.lost.wait())


async def test_it_listens_on_every_address_of_a_name(identities: dict[str, Identity]) -> None:
    named_identity = identities["named"]
    transport = TlsTransport(TlsSettings(named_identity.certificate, named_identity.key), host="localhost")
    gate = Gate()
    listener = await transport.listen(lambda admission: Visited(admission, bytearray()), gate)
    assert all(re.fullmatch(rf"(127\.0\.0\.1|\[::1\]):{listener.port}", each) for each in listener.addresses)
    await dial(Endpoint("localhost", listener.port), ca_file=named_identity.certificate)
    listener.close()
    listener.close()
    gate.close()


@pytest.mark.parametrize(("second", "problem"), [("127.0.0.1", None), ("203.0.113.8", "is no address of this machine")])
async def test_an_address_that_this_machine_lacks_is_left_out(
    node: Identity, monkeypatch: pytest.MonkeyPatch, second: str, problem: str | None
) -> None:
    async def resolved(*_: object, **__: object) -> list[Any]:
        # As "localhost" is on a machine whose /etc/hosts has IPv6 and whose kernel has not.
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("203.0.113.7", second)]

    monkeypatch.setattr(tcp_sockets.asyncio, "get_running_loop", lambda: SimpleNamespace(getaddrinfo=resolved))  # type: ignore[attr-defined]
    binding = tcp_sockets.bind("node.example", 0)
    if problem is None:
        sockets = await binding
        assert [sock.getsockname()[0] for sock in sockets] == [second]
        for sock in sockets:
            sock.close()
    else:
        with pytest.raises(TransportError, match=problem):
            await binding


async def test_a_listening_name_that_does_not_exist_is_named(node: Identity) -> None:
    with pytest.raises(TransportError, match="is no address of this machine"):
        await tcp_sockets.bind("no such name", 0)


async def test_a_port_that_is_taken_is_named(node: Identity) -> None:
    async with site(node) as peer:
        second = TlsTransport(TlsSettings(node.certificate, node.key), port=peer.listener.port)
        with pytest.raises(TransportError, match=rf"Cannot listen on 127.0.0.1:{peer.listener.port} \(Address already"):
            await second.listen(lambda _: Talker(), Gate())


async def test_an_address_of_another_machine_is_named(node: Identity) -> None:
    second = TlsTransport(TlsSettings(node.certificate, node.key), host="203.0.113.7")
    with pytest.raises(TransportError, match=r"203\.0\.113\.7 is no address of this machine"):
        await second.listen(lambda _: Talker(), Gate())


async def test_without_a_certificate_nothing_listens() -> None:
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(TransportError, match="needs a certificate and a key"):
            await TlsTransport(TlsSettings(), host=host).listen(lambda _: Talker(), Gate())


async def test_running_out_of_files_pauses_accepting(node: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    accepts = 0
    exhausted = True

    class Poor(socket.socket):
        """A socket without free file descriptors, until the test says otherwise."""

        def accept(self) -> tuple[socket.socket, Any]:
            nonlocal accepts
            accepts += 1
            if exhausted:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(socket, "socket", Poor)
    monkeypatch.setattr(tcp_sockets, "_EXHAUSTED_SECONDS", 0.02)
    async with site(node) as peer:
        monkeypatch.undo()
        monkeypatch.setattr(tcp_sockets, "_EXHAUSTED_SECONDS", 0.02)
        loop = asyncio.get_running_loop()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            if accepts < 4:
                loop.call_later(0.001, turn)

        loop.call_soon(turn)
        talking = asyncio.create_task(dial(peer.endpoint, fingerprints={peer.endpoint: [node.fingerprint]}))
        await until(lambda: accepts >= 4)
        # The server did not spin: the loop turned between the attempts.
        assert turns >= 4
        assert peer.gate.counters.accepted == 0
        exhausted = False
        await soon(talking)
        assert peer.gate.counters.accepted == 1


async def test_a_connection_that_is_refused_is_closed(node: Identity) -> None:
    async with site(node, Gate(max_per_source=1)) as peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", peer.listener.port)
        await until(lambda: peer.gate.counters.accepted == 1)
        # Another source has a separate share.
        with socket.create_connection(("127.0.0.1", peer.listener.port), source_address=("127.0.0.2", 0)):
            await until(lambda: peer.gate.counters.unauthenticated == 2)
            assert peer.gate.counters.refused == {}
            with socket.create_connection(("127.0.0.1", peer.listener.port)):
                assert await soon(reader.read()) == b""
                assert peer.gate.counters.unauthenticated == 2
        await hang_up(writer)
        assert peer.gate.counters.refused[ConnectionRefusal.SOURCE] == 1


# --- Settings ---------------------------------------------------------------------------------------------


def settings_error(**settings: Any) -> str:
    with pytest.raises(TransportError) as caught:
        TlsTransport(TlsSettings(**settings))
    return str(caught.value)


def test_files_that_cannot_be_used_are_named(tmp_path: Path, identities: dict[str, Identity]) -> None:
    node, other = identities["node"], identities["other"]
    missing, garbage = tmp_path / "missing", tmp_path / "garbage"
    garbage.write_text("garbage")
    assert f"{missing} cannot be read: No such file" in settings_error(certificate=missing, key=node.key)
    assert f"{missing} cannot be read: No such file" in settings_error(certificate=node.certificate, key=missing)
    assert f"{node.certificate} and {other.key} are no PEM certificate with its key" in settings_error(
        certificate=node.certificate, key=other.key
    )
    assert "are no PEM certificate" in settings_error(certificate=garbage, key=node.key)
    assert "set both or neither" in settings_error(certificate=node.certificate)
    assert f"CA file {missing} cannot be read" in settings_error(ca_file=missing)
    assert f"CA file {garbage} holds no PEM certificate" in settings_error(ca_file=garbage)
    assert "is no certificate fingerprint" in settings_error(fingerprints={Endpoint("a", 1): ["abc"]})


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(tmp_path: Path, node: Identity) -> None:
    encrypted = tmp_path / "encrypted.key"
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", node.key, "-out", encrypted, "-passout", "pass:secret"], check=True
    )
    assert f"The key {encrypted} is encrypted" in settings_error(certificate=node.certificate, key=encrypted)


async def test_a_reload_takes_effect_for_new_connections(node: Identity, identities: dict[str, Identity]) -> None:
    other = identities["other"]
    async with site(node) as peer:
        transport = TlsTransport(TlsSettings(fingerprints={peer.endpoint: [other.fingerprint]}))
        talkers: list[Talker] = []

        def factory() -> Talker:
            talkers.append(Talker())
            return talkers[-1]

        attempt: Callable[[], Any] = lambda: transport.dial(peer.endpoint, factory, deadline=PATIENCE)  # noqa: E731
        with pytest.raises(PeerRefusedError):
            await attempt()
        with pytest.raises(TransportError):
            transport.reload(TlsSettings(fingerprints={peer.endpoint: ["nonsense"]}))
        with pytest.raises(PeerRefusedError):
            await attempt()
        transport.reload(TlsSettings(fingerprints={peer.endpoint: [node.fingerprint]}))
        (await attempt()).close()
        await soon(talkers[-1].lost.wait())
        assert len(talkers) == 1
