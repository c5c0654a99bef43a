"""Strangers at the served bridge's port, their requests and the answers: bridges/serving/http_server.py."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bridges.i2pcontrol.extension import MAX_REQUEST_BYTES, Method
from bridges.i2pcontrol.strict_json import MAX_DEPTH
from bridges.serving.http_server import HttpLimits, HttpServer, _source
from tests.bridges.serving.harness import PASSWORD, Served, about, serving
from tests.transport.harness import PATIENCE, soon, until

SHORT = HttpLimits(request_seconds=0.3)
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
BAD = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
ECHO = b'{"id":1,"jsonrpc":"2.0","method":"Echo","params":{}}'


@pytest_asyncio.fixture(params=["tls", "plain"])
async def served(request: pytest.FixtureRequest, tls: ssl.SSLContext) -> AsyncIterator[Served]:
    async with serving(tls=tls if request.param == "tls" else None) as running:
        yield running


@pytest_asyncio.fixture
async def plain() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running


def code(answer: bytes) -> int:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n"), answer
    return int(json.loads(body)["error"]["code"])


# Answers to strangers -------------------------------------------------------------------------------------------------


async def test_an_answer_has_these_headers_and_no_others(served: Served) -> None:
    answer = await served.post(ECHO)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        b"Connection: close",
    ]


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"HEAD / HTTP/1.0\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nHost: x\r\nOrigin: https://example.org\r\nContent-Length: %d\r\n\r\n" % len(ECHO) + ECHO,
    ],
)
async def test_who_does_not_post_and_who_comes_from_a_browser_finds_nothing(served: Served, request_: bytes) -> None:
    assert await served.raw(request_) == NOT_FOUND


@pytest.mark.parametrize("path", [b"/", b"/jsonrpc/", b"/any?x=1", b"http://127.0.0.1/"])
async def test_the_path_does_not_matter(plain: Served, path: bytes) -> None:
    answer = await plain.raw(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path, len(ECHO)) + ECHO)
    assert code(answer) == -32002


@pytest.mark.parametrize(
    "request_",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"POST\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nx",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 9000,
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    ],
)
async def test_what_is_no_http(served: Served, request_: bytes) -> None:
    assert await served.raw(request_) in {BAD, TOO_LARGE}


async def test_plain_http_at_a_tls_port_gets_no_word(tls: ssl.SSLContext) -> None:
    async with serving(tls=tls) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = await soon(reader.read())
        writer.close()
        assert b"HTTP" not in answer
        assert "result" in await served.call(Method.ROUTER_STATUS)


# Requests of strangers ------------------------------------------------------------------------------------------------


async def test_a_huge_body_is_refused_by_its_length_and_by_what_comes(served: Served) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\n"
    assert await served.raw(head + b"Content-Length: 1000000000\r\n\r\n") == TOO_LARGE
    assert await served.raw(head + b"Content-Length: %d\r\n\r\n" % (MAX_REQUEST_BYTES + 1)) == TOO_LARGE
    chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    assert await served.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 64) == TOO_LARGE


async def test_the_largest_body(served: Served) -> None:
    assert code(await served.post(ECHO.ljust(MAX_REQUEST_BYTES))) == -32002


async def test_a_body_in_pieces(plain: Served) -> None:
    reader, writer = await plain.connect()
    for byte in b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(ECHO) + ECHO:
        writer.write(bytes([byte]))
        await writer.drain()
    assert code(await soon(reader.read())) == -32002
    writer.close()


async def test_chunks_and_100_continue(plain: Served) -> None:
    reader, writer = await plain.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert await soon(reader.readuntil(b"\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(ECHO), ECHO))
    assert code(await soon(reader.read())) == -32002
    writer.close()


@pytest.mark.parametrize("sent", [b"", b"POST / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"])
async def test_a_slow_sender_is_hung_up_on(tls: ssl.SSLContext, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    # The short time-out counts from TLS on, because TLS takes long on a busy machine.
    timeout, request = asyncio.timeout, HttpServer._request
    running: list[asyncio.Timeout] = []

    def patient(seconds: float | None) -> asyncio.Timeout:
        if seconds != SHORT.request_seconds:
            return timeout(seconds)
        running.append(timeout(PATIENCE))
        return running[-1]

    async def slow(server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        running[-1].reschedule(asyncio.get_running_loop().time() + SHORT.request_seconds)
        return await request(server, reader, writer)

    monkeypatch.setattr(asyncio, "timeout", patient)
    monkeypatch.setattr(HttpServer, "_request", slow)
    for kind in (tls, None):
        async with serving(tls=kind, limits=SHORT) as served:
            assert await served.raw(sent) == b""


async def test_who_connects_and_says_nothing_at_all(tls: ssl.SSLContext) -> None:
    async with serving(tls=tls, limits=SHORT) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        await until(lambda: served.server.http.connections == 1)
        assert await soon(reader.read()) == b""
        writer.close()
        await until(lambda: served.server.http.connections == 0)


async def test_who_does_not_take_the_answer(plain: Served) -> None:
    """The answer is small: the system takes the answer for the caller, and the server is done."""
    _, writer = await plain.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(ECHO) + ECHO)
    await until(lambda: plain.server.http.connections == 0)
    writer.transport.abort()


async def test_strangers_make_room_for_each_other_and_never_push_out_a_caller() -> None:
    async with serving(limits=HttpLimits(connections=3)) as served:
        await served.call(Method.ROUTER_STATUS)
        served.bridge.go_on.clear()
        caller = asyncio.create_task(served.call(Method.ROUTER_STATUS))
        await until(lambda: any(each.authenticated for each in served.server.http._connections.values()))
        idle = []
        for _ in range(20):
            idle.append(await served.connect())
            await until(lambda: served.server.http.connections <= 3)
        assert await soon(idle[0][0].read()) == b"", "the oldest stranger has gone"
        assert code(await served.post(ECHO)) == -32002, "and a newcomer is heard"
        served.bridge.go_on.set()
        assert "result" in await soon(caller)
        for _, writer in idle:
            writer.transport.abort()


async def test_callers_who_fill_all_places_leave_none() -> None:
    async with serving(limits=HttpLimits(connections=2)) as served:
        await served.call(Method.ROUTER_STATUS)
        served.bridge.go_on.clear()
        calls = [asyncio.create_task(served.call(Method.ROUTER_STATUS)) for _ in range(2)]
        await until(lambda: [each.authenticated for each in served.server.http._connections.values()] == [True, True])
        assert await served.raw(b"") == b""
        served.bridge.go_on.set()
        assert all("result" in answer for answer in await asyncio.gather(*calls))


async def test_stopping_breaks_what_is_under_way() -> None:
    async with serving() as served:
        await served.call(Method.ROUTER_STATUS)
        served.bridge.go_on.clear()
        call = asyncio.create_task(served.post(ECHO.replace(b"Echo", b"Authenticate")))
        reader, writer = await served.connect()
        await soon(call)
        await until(lambda: served.server.http.connections == 1)
        await soon(served.server.stop())
        assert await soon(reader.read()) == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await served.connect()


# JSON-RPC -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"id":1,"id":2,"jsonrpc":"2.0","method":"Echo","params":{}}', -32700),
        (b'{"id":1,"jsonrpc":"2.0","method":"Echo","params":{"Token":"a","Token":"b"}}', -32700),
        (b'{"id":NaN}', -32700),
        (b'{"id":1' + b"0" * 100 + b"}", -32700),
        (b"[" * 10_000, -32700),
        (b'{"params":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), -32700),
        (b"[]", -32600),
        (b"[" + ECHO + b"," + ECHO + b"]", -32600),
        (b"1", -32600),
        (b'"x"', -32600),
        (b"{}", -32600),
        (ECHO.replace(b'"id":1,', b""), -32600),
        (ECHO.replace(b'"id":1', b'"id":true'), -32600),
        (ECHO.replace(b'"id":1', b'"id":[1]'), -32600),
        (ECHO.replace(b'"id":1', b'"id":"' + b"x" * 65 + b'"'), -32600),
        (ECHO.replace(b'"2.0"', b"2.0"), -32600),
        (ECHO.replace(b'"2.0"', b'"1.0"'), -32600),
        (ECHO.replace(b'"Echo"', b"1"), -32600),
        (ECHO.replace(b'"Echo"', b'""'), -32600),
        (ECHO.replace(b'"Echo"', b'"' + b"x" * 65 + b'"'), -32600),
        (ECHO.replace(b'"Echo"', b'"E\\u0000cho"'), -32600),
        (ECHO.replace(b"{}}", b"[]}"), -32602),
        (ECHO.replace(b"{}}", b"null}"), -32602),
        (ECHO.replace(b',"params":{}', b""), -32002),
        (ECHO, -32002),
    ],
)
async def test_requests_that_are_none(plain: Served, body: bytes, expected: int) -> None:
    assert code(await plain.post(body)) == expected


@pytest.mark.parametrize("call_id", [0, -1, 1.5, "", "x" * 64, "\u20ac\ud800", None, 10**30])
async def test_the_id_comes_back(plain: Served, call_id: object) -> None:
    request = {"id": call_id, "jsonrpc": "2.0", "method": "Echo"}
    assert (await plain.send(request))["id"] == call_id
    answer = await plain.send({**request, "method": "Authenticate", "params": {"API": 1, "Password": PASSWORD}})
    assert answer["id"] == call_id
    assert "result" in await plain.send(
        {**request, "method": Method.PUBLICATION, "params": {**about(), "Token": answer["result"]["Token"]}}
    )


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::/64"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_for_whom_wrong_passwords_count(address: str, source: str) -> None:
    assert _source((address, 1)) == source
