"""Reaching a router, and telling i2pd from Java: bridges/i2cp/connection.py, router_kind.py and settings.py."""

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bridges.errors import (
    CertificateRefusedError,
    LoginRefusedError,
    RouterError,
    RouterUnreachableError,
)
from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.messages import MalformedError
from bridges.i2cp.router_kind import router_kind
from bridges.i2cp.settings import I2cpSettings, RouterKind
from bridges.i2cp.tls import shown_fingerprint
from tests.bridges.i2cp.fake_router import PATIENT, FakeRouter, deadlines_after_the_greeting
from tests.transport.harness import Identity, soon
from tests.transport.i2p.i2p_harness import taken_port

KINDS = [RouterKind.I2PD, RouterKind.JAVA]
LOGIN = {"i2cp.password": "open sesame", "i2cp.username": "node"}


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    directory: Path = tmp_path_factory.mktemp("router")
    return Identity.make(directory, "router")


def server_context(identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


# Which router -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_the_probe_tells_them_apart(kind: RouterKind) -> None:
    async with FakeRouter(kind) as router:
        assert await soon(router_kind(router.settings())) is kind
        assert router.log == ["hello", "destroy"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_configured_is_not_asked(kind: RouterKind) -> None:
    async with FakeRouter(RouterKind.I2PD) as router:
        assert await soon(router_kind(router.settings(kind=kind))) is kind
        assert router.log == []


async def test_a_router_that_shows_nothing_must_be_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines_after_the_greeting(monkeypatch)
    async with FakeRouter(RouterKind.I2PD) as router:
        router.deaf = {3}
        with pytest.raises(RouterError, match="set `kind`"):
            await soon(router_kind(router.settings(deadlines=replace(PATIENT, answer=0.1))))


async def test_a_router_that_refuses_us_is_not_taken_for_java() -> None:
    async with FakeRouter(RouterKind.JAVA) as router:
        router.login = LOGIN
        with pytest.raises(LoginRefusedError, match="set the user name and password"):
            await soon(router_kind(router.settings()))


# A connection -------------------------------------------------------------------------------------------------------


async def test_i2cp_that_is_off_names_the_setting_of_both_routers() -> None:
    with taken_port() as sock, pytest.raises(RouterUnreachableError) as caught:
        await soon(I2cpConnection.open(I2cpSettings(port=sock.getsockname()[1])))
    assert "i2pd: [i2cp] enabled = true" in str(caught.value)
    assert "Java: i2cp.disableInterface=false" in str(caught.value)


async def test_the_clocks_are_compared() -> None:
    async with FakeRouter(RouterKind.JAVA) as router:
        connection = await soon(I2cpConnection.open(router.settings(), lambda: router.clock.now - 200))
        assert connection.ahead_ms == 200_000
        connection.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [-300.0, 300.0])
async def test_a_clock_that_is_set_makes_the_connection_ask_the_date_again(kind: RouterKind, step: float) -> None:
    steps = [0.0]
    async with FakeRouter(kind) as router:
        connection = await soon(I2cpConnection.open(router.settings(), lambda: router.clock.now + steps[0]))
        steps[0] = step
        receiving = asyncio.create_task(connection.receive())
        await soon(connection.follow_clock())
        assert abs(connection.router_ms() - router.clock.now * 1000) < 1_000
        await soon(receiving)
        assert router.log == ["hello", "hello"]
        connection.close()


async def test_a_date_that_the_router_tells_unasked_counts() -> None:
    async with FakeRouter(RouterKind.JAVA) as router:
        connection = await soon(I2cpConnection.open(router.settings(), router.clock))
        router.tell_date(int(router.clock.now * 1000) + 90_000)
        await soon(connection.receive())
        assert abs(connection.ahead_ms - 90_000) < 1_000
        connection.close()


async def test_a_router_that_tells_no_date_after_a_step_is_unreachable() -> None:
    steps = [0.0]
    async with FakeRouter(RouterKind.I2PD) as router:
        settings = router.settings(deadlines=replace(PATIENT, answer=0.1))
        connection = await soon(I2cpConnection.open(settings, lambda: router.clock.now + steps[0]))
        router.deaf, steps[0] = {32}, 60.0
        with pytest.raises(RouterUnreachableError, match="clock had been set"):
            await soon(connection.follow_clock())
        connection.close()


async def test_a_router_that_tells_no_date_is_not_waited_for_for_ever() -> None:
    async with FakeRouter(RouterKind.I2PD) as router:
        router.deaf = {32}
        with pytest.raises(RouterUnreachableError, match=r"did not tell its date within 0\.1 s"):
            await soon(I2cpConnection.open(router.settings(deadlines=replace(PATIENT, answer=0.1))))


@pytest.mark.parametrize(
    ("says", "error", "words"),
    [
        (b"", RouterUnreachableError, "hung up before it told its date"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", MalformedError, "check that the port is I2CP's"),
        (bytes.fromhex("0000000421") + b"date", MalformedError, "type 33 ends after 4 bytes"),
    ],
    ids=["nothing", "HTTP", "broken"],
)
async def test_something_else_listens_there(says: bytes, error: type[RouterError], words: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(13)
        writer.write(says)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        with pytest.raises(error) as caught:
            await soon(I2cpConnection.open(I2cpSettings(port=server.sockets[0].getsockname()[1])))
        assert words in str(caught.value)
    finally:
        server.close()


# Passwords and TLS --------------------------------------------------------------------------------------------------


async def test_java_may_want_a_password() -> None:
    async with FakeRouter(RouterKind.JAVA) as router:
        router.login = LOGIN
        right = router.settings(username="node", password="open sesame")
        (await soon(I2cpConnection.open(right))).close()
        with pytest.raises(LoginRefusedError, match=r"Authorization failed.*check user node") as caught:
            await soon(I2cpConnection.open(replace(right, password="close sesame")))
        assert "sesame" not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    settings = I2cpSettings(username="node", password="open sesame")
    assert "sesame" not in f"{settings} {settings!r}"


@pytest.mark.parametrize("password", ["", "a;secret", "a secret\n", "sécret", "secret" * 50])
def test_a_password_that_cannot_be_sent_is_refused_without_being_shown(password: str) -> None:
    with pytest.raises(ValueError, match="password must have 1 to 255 printable") as caught:
        I2cpSettings(username="node", password=password)
    assert "secret" not in str(caught.value)


async def test_the_right_certificate_is_spoken_to(identity: Identity) -> None:
    async with FakeRouter(RouterKind.JAVA, tls=server_context(identity)) as router:
        connection = await soon(I2cpConnection.open(router.settings(fingerprint=identity.fingerprint)))
        connection.close()
        assert router.log == ["hello"]


async def test_nothing_is_said_to_another_certificate(identity: Identity) -> None:
    async with FakeRouter(RouterKind.JAVA, tls=server_context(identity)) as router:
        with pytest.raises(CertificateRefusedError, match="Nothing was sent") as caught:
            await soon(I2cpConnection.open(router.settings(fingerprint="sha256:" + "0" * 64)))
        assert identity.fingerprint in str(caught.value)
        assert router.log == []


async def test_tls_where_the_router_has_none() -> None:
    async with FakeRouter(RouterKind.I2PD) as router:
        with pytest.raises(RouterUnreachableError):
            await soon(I2cpConnection.open(router.settings(fingerprint="sha256:" + "0" * 64)))


async def test_no_tls_where_the_router_has_it(identity: Identity, unhandled: list[dict[str, Any]]) -> None:
    async with FakeRouter(RouterKind.JAVA, tls=server_context(identity)) as router:
        with pytest.raises(RouterError, match=r"i2cp\.SSL|port is I2CP"):
            await soon(I2cpConnection.open(router.settings()))
    unhandled.clear()  # the fake router's


async def test_a_system_ca_vouches_for_the_address_or_for_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified = Identity.make(tmp_path, "certified", hosts=("127.0.0.1", "router.example"))
    monkeypatch.setenv("SSL_CERT_FILE", str(certified.certificate))
    async with FakeRouter(RouterKind.JAVA, tls=server_context(certified)) as router:
        for name in (None, "router.example"):
            (await soon(I2cpConnection.open(router.settings(system_ca=True, tls_name=name)))).close()
        assert router.log == ["hello"] * 2


@pytest.mark.parametrize("name", [None, "router.example"])
async def test_a_certificate_of_another_name_is_not_spoken_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None, unhandled: list[dict[str, Any]]
) -> None:
    certified = Identity.make(tmp_path, "certified", hosts=("other.example", "127.0.0.9"))
    monkeypatch.setenv("SSL_CERT_FILE", str(certified.certificate))
    async with FakeRouter(RouterKind.JAVA, tls=server_context(certified)) as router:
        with pytest.raises(CertificateRefusedError, match=f"does not trust for {name or '127.0.0.1'} .*Nothing was"):
            await soon(I2cpConnection.open(router.settings(system_ca=True, tls_name=name)))
        assert router.log == []
    unhandled.clear()  # the fake router's


async def test_a_certificate_of_no_system_ca_is_not_spoken_to(
    identity: Identity, unhandled: list[dict[str, Any]]
) -> None:
    async with FakeRouter(RouterKind.JAVA, tls=server_context(identity)) as router:
        router.login = LOGIN
        settings = router.settings(system_ca=True, username="node", password="open sesame")
        with pytest.raises(CertificateRefusedError, match="check the CA and the name in the certificate") as caught:
            await soon(I2cpConnection.open(settings))
        assert "sesame" not in str(caught.value)
        assert router.log == []
    unhandled.clear()  # the fake router's


async def test_the_shown_certificate_can_be_compared_before_anything_is_sent(identity: Identity) -> None:
    async with FakeRouter(RouterKind.JAVA, tls=server_context(identity)) as router:
        assert await soon(shown_fingerprint(router.settings())) == identity.fingerprint
        assert router.log == []
    async with FakeRouter(RouterKind.I2PD) as plain:
        assert await soon(shown_fingerprint(plain.settings())) is None
    assert await soon(shown_fingerprint(plain.settings())) is None, "nobody is there"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"fingerprint": "sha256:" + "0" * 64, "system_ca": True}, "choose one of the two"),
        ({"tls_name": "router.example"}, "counts only with the system's CAs"),
        ({"tls_name": "", "system_ca": True}, "is no name of a certificate"),
        ({"tls_name": "a b", "system_ca": True}, "is no name of a certificate"),
        ({"tls_name": "a" * 64, "system_ca": True}, "is no name of a certificate"),
        ({"tls_name": ".".join(["a" * 60] * 5), "system_ca": True}, "is no name of a certificate"),
    ],
)
def test_settings_of_tls_that_contradict_each_other(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        I2cpSettings(**settings)


# Which addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_no_tls(host: str) -> None:
    assert I2cpSettings(host).host == host


@pytest.mark.parametrize(
    "host", ["198.18.0.10", "10.0.0.1", "::", "0.0.0.0", "router", "localhost.example", "2001:db8::1"]
)
def test_another_machine_needs_tls_or_permission(host: str) -> None:
    with pytest.raises(ValueError, match=r"has no protection.*i2cp\.SSL=true.*allow_plain"):
        I2cpSettings(host)
    I2cpSettings(host, allow_plain=True)
    I2cpSettings(host, fingerprint="sha256:" + "0" * 64)
    I2cpSettings(host, system_ca=True)


def test_a_password_never_goes_to_another_machine_in_the_clear() -> None:
    with pytest.raises(ValueError, match="in the clear"):
        I2cpSettings("198.18.0.10", username="node", password="secret", allow_plain=True)
    for tls in ({"fingerprint": "sha256:" + "0" * 64}, {"system_ca": True}):
        assert I2cpSettings("198.18.0.10", username="node", password="secret", **tls).is_encrypted


@pytest.mark.parametrize("host", ["router.i2p", "ROUTER.B32.I2P."])
def test_an_i2p_address_is_never_resolved(host: str) -> None:
    with pytest.raises(ValueError, match="lies inside I2P"):
        I2cpSettings(host, allow_plain=True)


@pytest.mark.parametrize("login", [{"username": "node"}, {"password": "secret"}])
def test_half_a_login_is_none(login: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="together"):
        I2cpSettings(**login)  # type: ignore[arg-type]


def test_an_address_reads_well() -> None:
    assert [str(I2cpSettings(host)) for host in ("127.0.0.1", "::1")] == [
        "I2CP at 127.0.0.1:7654",
        "I2CP at [::1]:7654",
    ]
