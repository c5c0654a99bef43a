"""Calls over TLS: tokens, certificates, limits, and all faults on the way."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.jsonrpc_client import (
    CALL_SECONDS,
    MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES,
    CertificateError,
    JsonRpc,
    RpcError,
    UnknownMethodError,
)
from tests.bridges.simulated_i2pcontrol import (
    I2PD,
    JAVA,
    PASSWORD,
    Recording,
    SimulatedRouter,
    body,
    error,
    http,
    result,
)
from tests.transport.harness import Identity, until

ECHO = {"Echo": "gf"}
TOKEN = Recording.load(I2PD).result("Authenticate", "API", "Password")["Token"]
SHORT = 0.2


@asynccontextmanager
async def reaching(access: I2pControlAccess) -> AsyncIterator[JsonRpc]:
    rpc = JsonRpc(access)
    try:
        yield rpc
    finally:
        await rpc.close()


def client(
    router: SimulatedRouter, identity: Identity, password: str = PASSWORD
) -> AbstractAsyncContextManager[JsonRpc]:
    return reaching(I2pControlAccess(router.url, password, fingerprint=identity.fingerprint))


# Calls and tokens -----------------------------------------------------------------------------------------------------


async def test_a_call_gets_a_token_first_and_keeps_it(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        assert await rpc.call("Echo", ECHO) == {"Result": "gf"}
        assert await rpc.call("Echo", ECHO) == {"Result": "gf"}
    assert i2pd.methods == ["Authenticate", "Echo", "Echo"]
    assert [body(request)["params"].get("Token") for request in i2pd.requests] == [None, TOKEN, TOKEN]


async def test_the_token_comes_last_whatever_the_parameters_are(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        i2pd.order(result(), "Echo")
        await rpc.call("Echo", {"Token": "mine", "Z": 1, "A": None})
    assert list(body(i2pd.requests[-1])["params"].items()) == [("Z", 1), ("A", None), ("Token", TOKEN)]


async def test_a_wrong_password_on_i2pd(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity, "wrong") as rpc:
        with pytest.raises(
            RouterRefusedError, match=r"refuses the password.*\[i2pcontrol\] password.*/password"
        ) as caught:
            await rpc.call("Echo", ECHO)
    assert "wrong" not in str(caught.value)
    assert i2pd.methods == ["Authenticate"]


async def test_a_wrong_password_on_java(java: SimulatedRouter, identity: Identity) -> None:
    async with client(java, identity, "wrong") as rpc:
        with pytest.raises(RouterRefusedError, match="refuses the password"):
            await rpc.call("Echo", ECHO)
    assert java.methods == ["Authenticate"]


async def test_a_forgotten_token_is_renewed_within_the_call(java: SimulatedRouter, identity: Identity) -> None:
    async with client(java, identity) as rpc:
        await rpc.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": 60_000})
        java.forget_tokens()
        assert await rpc.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": 60_000}) == {"Result": 0.469}
    assert java.methods == ["Authenticate", "GetRate", "GetRate", "Authenticate", "GetRate"]


@pytest.mark.parametrize("code", [-32002, -32003, -32004])
async def test_a_token_is_renewed_once_a_call(i2pd: SimulatedRouter, identity: Identity, code: int) -> None:
    async with client(i2pd, identity) as rpc:
        for _ in range(2):
            i2pd.order(error(code), "Echo")
        with pytest.raises(RpcError) as caught:
            await rpc.call("Echo", ECHO)
        assert caught.value.code == code
        assert i2pd.methods == ["Authenticate", "Echo", "Authenticate", "Echo"]
        i2pd.order(error(code), "Echo")
        assert await rpc.call("Echo", ECHO) == {"Result": "gf"}


async def test_calls_at_once_share_a_token(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        assert await asyncio.gather(*(rpc.call("Echo", ECHO) for _ in range(5))) == [{"Result": "gf"}] * 5
    assert i2pd.methods == ["Authenticate"] + ["Echo"] * 5


@pytest.mark.parametrize("token", [7, "", "x" * 129, ["x"]])
async def test_an_odd_token_is_not_used(i2pd: SimulatedRouter, identity: Identity, token: object) -> None:
    async with client(i2pd, identity) as rpc:
        i2pd.order(result(Token=token), "Authenticate")
        with pytest.raises(RouterError, match="no usable token"):
            await rpc.call("Echo", ECHO)


async def test_plain_http_on_loopback() -> None:
    async with (
        SimulatedRouter(Recording.load(JAVA), None) as router,
        reaching(I2pControlAccess(router.url, PASSWORD)) as rpc,
    ):
        assert await rpc.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": 60_000}) == {"Result": 0.469}
    assert router.complaints == []


# Certificates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("configured", [None, "00" * 31 + "01"])
async def test_a_stranger_is_told_nothing(i2pd: SimulatedRouter, identity: Identity, configured: str | None) -> None:
    async with reaching(I2pControlAccess(i2pd.url, PASSWORD, fingerprint=configured)) as rpc:
        with pytest.raises(CertificateError, match=r"i2pcontrol\.crt\.pem.*i2pcontrol\.ks.*Nothing was sent") as caught:
            await rpc.call("Echo", ECHO)
        await until(lambda: i2pd.strays)  # the router saw the connection come and go
    assert i2pd.requests == []
    assert f"sha256:{caught.value.fingerprint.replace(':', '').lower()}" == identity.fingerprint
    assert caught.value.fingerprint in str(caught.value)
    async with reaching(I2pControlAccess(i2pd.url, PASSWORD, fingerprint=caught.value.fingerprint)) as rpc:
        assert await rpc.call("Echo", ECHO) == {"Result": "gf"}


async def test_any_certificate_when_the_operator_says_so(i2pd: SimulatedRouter) -> None:
    async with reaching(I2pControlAccess(i2pd.url, PASSWORD, any_certificate=True)) as rpc:
        assert await rpc.call("Echo", ECHO) == {"Result": "gf"}


async def test_a_redirection_is_not_followed(i2pd: SimulatedRouter, java: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        i2pd.order(http("", "307 Temporary Redirect", f"Location: {java.url}"))
        with pytest.raises(RouterRefusedError, match="status 307"):
            await rpc.call("Echo", ECHO)
    assert java.requests == []


# Routers that are away ------------------------------------------------------------------------------------------------


async def test_a_router_that_is_away_and_comes_back(java: SimulatedRouter, identity: Identity) -> None:
    async with client(java, identity) as rpc:
        rate = await rpc.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": 60_000})
        await java.stop()
        with pytest.raises(RouterUnreachableError, match=r"\[i2pcontrol\] enabled = true.*I2PControl"):
            await rpc.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": 60_000})
        await java.start()
        assert await rpc.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": 60_000}) == rate


async def test_a_router_that_hangs_up(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        i2pd.order(b"", "Echo")
        with pytest.raises(RouterUnreachableError, match="hung up at Echo"):
            await rpc.call("Echo", ECHO)
        i2pd.order(http("{}")[:-1], "Echo")
        with pytest.raises(RouterUnreachableError, match="hung up at Echo"):
            await rpc.call("Echo", ECHO)
        i2pd.order(http("{}")[:20], "Echo")
        with pytest.raises(RouterError):
            await rpc.call("Echo", ECHO)
        assert await rpc.call("Echo", ECHO) == {"Result": "gf"}


async def test_a_router_that_says_nothing(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        i2pd.order(None, "Echo")
        with pytest.raises(RouterUnreachableError, match=f"did not answer Echo within {SHORT:g} s"):
            await rpc.call("Echo", ECHO, seconds=SHORT)
        i2pd.speak()  # on a busy machine the call may end before the router has the request
        assert await rpc.call("Echo", ECHO) == {"Result": "gf"}


async def test_a_port_that_takes_connections_and_no_more(identity: Identity) -> None:
    """The deadline counts from the start, so the deadline includes the TLS handshake."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        async with reaching(I2pControlAccess(url, PASSWORD, fingerprint=identity.fingerprint)) as rpc:
            with pytest.raises(RouterUnreachableError, match="within"):
                await rpc.call("Echo", ECHO, seconds=SHORT)


async def test_a_call_can_be_cancelled(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        i2pd.order(None, "Echo")
        call = asyncio.create_task(rpc.call("Echo", ECHO))
        await until(lambda: "Echo" in i2pd.methods)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await rpc.call("Echo", ECHO) == {"Result": "gf"}


# Answers without a result ---------------------------------------------------------------------------------------------


async def test_error_objects(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        with pytest.raises(UnknownMethodError, match="no such method"):
            await rpc.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": 60_000})
        i2pd.order(error(-32603, "\x1b[2J" + "x" * 1000), "Echo")
        with pytest.raises(RpcError, match="refused Echo") as caught:
            await rpc.call("Echo", ECHO)
        assert not isinstance(caught.value, UnknownMethodError)
        assert caught.value.code == -32603
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 300
        for odd in ('"no"', "[]", '{"code":"x"}', '{"message":[1]}', "7"):
            i2pd.order(http(f'{{"id":1,"error":{odd}}}'), "Echo")
            with pytest.raises(RpcError):
                await rpc.call("Echo", ECHO)


async def test_what_i2pd_prints_for_an_unknown_first_parameter(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        with pytest.raises(RouterError, match="does not know a parameter"):
            await rpc.call("ClientServicesInfo", {"Unknown": None, "I2PTunnel": None})


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (http(""), "with nothing"),
        (http("<html>"), "answered Echo unreadably"),
        (http(b'{"result":{"a":"\xff"}}'), "no UTF-8"),
        (http('{"result":{"a":1,"a":2}}'), "twice"),
        (http('{"result":' + "[" * 1000 + "]" * 1000 + "}"), "nested"),
        (http('{"result":{"a":' + "9" * 5000 + "}}"), "digits"),
        (http("[]"), "no object"),
        (http("{}"), "without a result"),
        (http('{"result":7}'), "without a result"),
        (http(" " * (MAX_REPLY_BYTES + 1)), "more than"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b" " * (MAX_REPLY_BYTES + 1), "more than"),
        (http("x", "403 Forbidden"), "refuses the host name.*allowedhosts"),
        (http("", "302 Found"), "status 302.*/jsonrpc/, with the slash at the end"),  # Java: /jsonrpc
        (http("x", "404 Not Found"), "status 404.*only while its web application jsonrpc runs"),
        (http("x", "500 Oops"), "status 500"),
        (b"220 mail.example ESMTP\r\n", "answered Echo without HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", "answered Echo without HTTP"),
        (http(b"\x1f\x8b\x08", "200 OK", "Content-Encoding: gzip"), "no UTF-8"),
    ],
)
async def test_garbage(i2pd: SimulatedRouter, identity: Identity, reply: bytes, why: str) -> None:
    async with client(i2pd, identity) as rpc:
        i2pd.order(reply, "Echo")
        with pytest.raises(RouterError, match=why) as caught:
            await rpc.call("Echo", ECHO)
        assert not isinstance(caught.value, RouterUnreachableError)
        assert await rpc.call("Echo", ECHO) == {"Result": "gf"}


async def test_a_plain_port_instead_of_tls(identity: Identity) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        access = I2pControlAccess(f"https://127.0.0.1:{port}/", PASSWORD, fingerprint=identity.fingerprint)
        async with reaching(access) as rpc:
            with pytest.raises(RouterError, match="does not speak the same TLS"):
                await rpc.call("Echo", ECHO)


# Requests that i2pd can read ------------------------------------------------------------------------------------------


async def test_the_longest_request_arrives_at_once(tls: ssl.SSLContext, identity: Identity) -> None:
    """i2pd reads one TLS record into 1,024 bytes: a request in two records has no answer."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError), tls.wrap_socket(listener.accept()[0], server_side=True) as connection:
                listener.close()
                received.append(connection.recv(1 << 16))  # at most one record
                connection.sendall(result(Token="x"))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        longest = "x" * (MAX_REQUEST_BYTES - len(url) - 160 - 81)
        async with reaching(I2pControlAccess(url, longest, fingerprint=identity.fingerprint)) as rpc:
            with pytest.raises(RouterUnreachableError):  # the router gave a token, and was gone before the call
                await rpc.call("Echo", ECHO)
        await asyncio.to_thread(thread.join, 5)
        assert body(received[0])["params"]["Password"] == longest
        assert MAX_REQUEST_BYTES - 100 < len(received[0]) <= MAX_REQUEST_BYTES
        async with reaching(I2pControlAccess(url, longest + "x", fingerprint=identity.fingerprint)) as rpc:
            with pytest.raises(RouterError, match="more than the 1024 that the router reads"):
                await rpc.call("Echo", ECHO)


def test_a_router_has_time_to_answer() -> None:
    assert CALL_SECONDS >= 10


async def test_secrets_are_not_shown(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with client(i2pd, identity) as rpc:
        await rpc.call("Echo", ECHO)
        assert PASSWORD not in f"{rpc} {rpc!r}"
        assert TOKEN not in f"{rpc} {rpc!r}"
