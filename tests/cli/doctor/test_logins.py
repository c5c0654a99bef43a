"""`gf-i2p doctor` beside a Java router that asks for logins: the missing or refused login and its setting are named."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.doctor.checks import CheckState
from gf_i2p.cli.doctor.proxy import ProxyAuthorisationError, ProxyError, ask_http, ask_socks
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.wire.proxy_login import ProxyLogin
from tests.cli.doctor.test_command import only
from tests.cli.doctor.test_proxy import answering
from tests.cli.routers import JAVA_UNKNOWN, Place, RunningNode, ScriptedRouter, having, remedy
from tests.transport.harness import Identity
from tests.transport.i2p.i2p_harness import listening
from tests.transport.i2p.locked_router import PASSWORD, USER, LockedRouter

I2CP_LOGIN = {"i2cp.password": "hush", "i2cp.username": "node"}
BEHIND_PROXY = {"server 2", "server 3", "time-outs"}
BEHIND_I2CP = {"clock", "own address", "leaf"}


def lock(router: ScriptedRouter, name: str) -> tuple[str, str]:
    """Have this interface ask for a login; give user and password."""
    if name == "proxy":
        router.locked = LockedRouter(schemes=("SHA-256", "MD5"))
        return USER, PASSWORD
    if name == "sam":
        router.sam_login = ("node", "hush")
    else:
        router.i2cp.login = I2CP_LOGIN
    return "node", "hush"


def set_login(place: Place, name: str, user: str, password: str) -> None:
    place.change(CONFIG_FILE, (f'# {name}_user = "..."', f'{name}_user = "{user}"'))
    place.change(SECRETS_FILE, (f'# {name}_password = "..."', f'{name}_password = "{password}"'))


CASES = pytest.mark.parametrize(
    ("name", "check", "skipped"),
    [("proxy", "proxy", BEHIND_PROXY), ("sam", "SAM", set()), ("i2cp", "I2CP", BEHIND_I2CP)],
)


async def look(place: Place) -> dict[str, Any]:
    async with RunningNode(place.directory):
        return await place.look()


async def test_with_all_logins_all_is_well(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity, java=True, i2cp_tls=True) as router:
        place = Place(tmp_path, router)
        place.change(CONFIG_FILE, ('# i2cp_fingerprint = "sha256:..."', f'i2cp_fingerprint = "{identity.fingerprint}"'))
        for name in ("proxy", "sam", "i2cp"):
            set_login(place, name, *lock(router, name))
        results = await look(place)
    assert having(CheckState.OK, results).keys() == results.keys(), results
    assert results["logins"].text == f"I2CP: user node, SAM: user node, proxy: user {USER}"
    assert all(secret not in str(results) for secret in (PASSWORD, "hush"))


@CASES
async def test_a_missing_login_is_named_with_the_settings(
    tmp_path: Path, identity: Identity, name: str, check: str, skipped: set[str]
) -> None:
    async with ScriptedRouter(identity, java=True) as router:
        place = Place(tmp_path, router)
        lock(router, name)
        result = only(await look(place), check, skipped)
    assert result.remedy is not None
    settings = f'set {name}_user = "…" in gf-i2p.toml, [router], and {name}_password = "…" in secrets.toml'
    assert settings in result.remedy.java
    assert "i2pd asks for no login here" in result.remedy.i2pd


@CASES
async def test_a_refused_login_is_named(
    tmp_path: Path, identity: Identity, name: str, check: str, skipped: set[str]
) -> None:
    async with ScriptedRouter(identity, java=True) as router:
        place = Place(tmp_path, router)
        user, _ = lock(router, name)
        set_login(place, name, user, "not-this")
        result = only(await look(place), check, skipped)
    assert result.remedy is not None
    assert f'correct {name}_user = "…" in gf-i2p.toml' in result.remedy.java
    assert "not-this" not in str(result)


@pytest.mark.parametrize("name", ["proxy", "sam", "i2cp"])
async def test_half_a_login_is_one_fault(tmp_path: Path, identity: Identity, name: str) -> None:
    async with ScriptedRouter(identity, java=True) as router:
        place = Place(tmp_path, router)
        place.change(CONFIG_FILE, (f'# {name}_user = "..."', f'{name}_user = "u"'))
        result = only(await look(place), "logins", {"proxy", "SAM", "I2CP"} | BEHIND_PROXY | BEHIND_I2CP)
        assert result.text == f"secrets.toml: {name}_password: is missing, and router.{name}_user needs it"
        assert f'in secrets.toml, set {name}_password = "…"' in remedy(result)
        place.change(CONFIG_FILE, (f'{name}_user = "u"', ""))
        place.change(SECRETS_FILE, (f'# {name}_password = "..."', f'{name}_password = "hidden"'))
        result = (await look(place))["logins"]
    assert f'in gf-i2p.toml, [router], set {name}_user = "…"' in remedy(result)
    assert "hidden" not in str(result)


@pytest.mark.parametrize("pinned", [False, True])
async def test_i2cp_by_tls_shows_the_fingerprint_to_compare(tmp_path: Path, identity: Identity, pinned: bool) -> None:
    async with ScriptedRouter(identity, java=True, i2cp_tls=True) as router:
        place = Place(tmp_path, router)
        if pinned:
            other = f'i2cp_fingerprint = "sha256:{"0" * 64}"'
            place.change(CONFIG_FILE, ('# i2cp_fingerprint = "sha256:..."', other))
        result = only(await look(place), "I2CP", BEHIND_I2CP)
        assert router.i2cp.log == []
    assert result.text.endswith(f"the certificate's fingerprint: {identity.fingerprint}")
    assert ("not the configured one" if pinned else "speaks TLS, and no TLS is configured") in result.text
    assert result.remedy is not None
    assert f'[router]: i2cp_fingerprint = "{identity.fingerprint}"' in result.remedy.java
    assert "openssl x509 -noout -fingerprint -sha256 -in certificates/i2cp/i2cp.local.crt" in result.remedy.java


# The proxy's answers ------------------------------------------------------------------------------------------------

ASKS = b'HTTP/1.1 407 No\r\nProxy-Authenticate: Digest realm="r", nonce="n", qop="auth"\r\n\r\n'


def login() -> ProxyLogin:
    return ProxyLogin("u", "secret", in_clear=True)


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (ASKS, ProxyAuthorisationError, "the router's HTTP proxy refuses user u or its password"),
        (b"HTTP/1.1 407 No\r\n\r\n", ProxyAuthorisationError, "the proxy offers nothing readable"),
        (b"HTTP/1.1 407 No\r\nhalf", ProxyError, "the answer 407 is not whole"),
        (b"HTTP/1.1 407 No\r\nno colon\r\n\r\n", ProxyError, "the answer 407 cannot be read"),
    ],
)
async def test_a_proxy_that_goes_on_asking(answer: bytes, error: type[Exception], text: str) -> None:
    async def locked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with listening(locked) as port:
        with pytest.raises(error, match=text) as caught:
            await ask_http("127.0.0.1", port, login())
    assert "secret" not in str(caught.value)


async def test_a_login_that_a_socks_proxy_takes_or_refuses() -> None:
    unknown = b"\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00"
    async with answering(b"\x05\x02", b"\x01\x00", unknown) as port:
        await ask_socks("127.0.0.1", port, ("u", "secret"))
    async with answering(b"\x05\x00", unknown) as port:
        await ask_socks("127.0.0.1", port, ("u", "secret"))
    async with answering(b"\x05\x02", b"\x01\x01") as port:
        with pytest.raises(ProxyAuthorisationError, match="the proxy refuses user u or its password"):
            await ask_socks("127.0.0.1", port, ("u", "secret"))


async def test_a_proxy_that_asks_nothing_hears_nothing() -> None:
    async with answering(JAVA_UNKNOWN) as port:
        assert await ask_http("127.0.0.1", port, login()) is not None
