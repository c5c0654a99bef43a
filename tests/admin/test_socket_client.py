"""The client of the node's Unix socket, against aiohttp's server and against servers that end too early."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from gf_i2p.admin.socket_client import NoListenerError, SocketClosedError, open_response


@asynccontextmanager
async def serving(path: Path, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application(client_max_size=1 << 16)
    app.router.add_route("*", "/{any:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(path)).start()
    try:
        yield str(path)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def answering(path: Path, answer: bytes) -> AsyncIterator[str]:
    """Serve the same bytes to each request, and then the end of the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_unix_server(serve, str(path))
    async with server:
        yield str(path)


async def test_a_request_and_its_answer(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        return web.json_response({"asked": f"{request.method} {request.path_qs}", "body": body}, status=409)

    async with serving(tmp_path / "socket", handler) as address:
        async with open_response(address, "GET", "/v1/entries?first=2") as response:
            assert response.status == 409
            assert await response.json() == {"asked": "GET /v1/entries?first=2", "body": None}
        async with open_response(address, "POST", "/v1/reload", {"ä": [1]}) as response:
            assert await response.json() == {"asked": "POST /v1/reload", "body": {"ä": [1]}}


async def test_a_long_answer_comes_in_pieces(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(8):
            await response.write(bytes([number]) * 100_000)
        return response

    async with serving(tmp_path / "socket", handler) as address, open_response(address, "GET", "/x") as response:
        pieces = [piece async for piece in response.pieces()]
    assert b"".join(pieces) == b"".join(bytes([number]) * 100_000 for number in range(8))
    assert len(pieces) > 1


async def test_the_answer_to_a_body_that_is_too_long_arrives(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        await request.read()  # raises HTTPRequestEntityTooLarge
        return web.Response()

    body = ["x" * 5_000_000]
    async with serving(tmp_path / "socket", handler) as address, open_response(address, "POST", "/x", body) as response:
        assert response.status == 413


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="half of a head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1", id="half of a body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[1", id="a body that is too short"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[x", id="no JSON"),
        pytest.param(b"RAFT\r\n\r\n", id="no HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", id="an endless head"),
    ],
)
async def test_a_connection_that_ends_early(tmp_path: Path, answer: bytes) -> None:
    async with answering(tmp_path / "socket", answer) as address:
        with pytest.raises(SocketClosedError):
            async with open_response(address, "GET", "/v1/status") as response:
                await response.json()


async def test_an_answer_before_the_end_of_the_request_arrives(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n[]"
    body = ["x" * 5_000_000]
    async with (
        answering(tmp_path / "socket", answer) as address,
        open_response(address, "POST", "/x", body) as response,
    ):
        assert response.status == 413
        assert await response.json() == []


async def test_a_node_that_reads_nothing_does_not_outlast_the_time_limit(tmp_path: Path) -> None:
    held, gone = asyncio.Event(), asyncio.Event()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()
        gone.set()

    async def ask() -> None:
        async with asyncio.timeout(0.05), open_response(str(tmp_path / "socket"), "POST", "/x", ["x" * 5_000_000]):
            pass

    server = await asyncio.start_unix_server(hold, str(tmp_path / "socket"))
    async with server:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asked := asyncio.ensure_future(ask())), 20)
        assert asked.done()
        held.set()
        await gone.wait()


async def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(NoListenerError, match="No such file"):
        async with open_response(str(tmp_path / "socket"), "GET", "/v1/status"):
            pass
