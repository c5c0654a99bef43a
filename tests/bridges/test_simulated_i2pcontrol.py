"""The simulated router is as strict as i2pd, so that the tests see a polite client."""

import asyncio
import json

import pytest

from tests.bridges.simulated_i2pcontrol import I2PD, JAVA, Recording, SimulatedRouter

HEAD = "POST / HTTP/1.1\r\nHost: x\r\nConnection: {}\r\nContent-Length: {}\r\n\r\n{}"


async def ask(router: SimulatedRouter, request: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(router.url.rpartition(":")[2].strip("/")))
    writer.write(request.encode())
    reply = await reader.read()
    writer.close()
    return reply


def call(params: object, number: object = 1) -> str:
    return json.dumps({"id": number, "jsonrpc": "2.0", "method": "Echo", "params": params})


GOOD = call({"Echo": "gf", "Token": "x"})


async def test_a_polite_request_is_answered_as_recorded() -> None:
    async with SimulatedRouter(Recording.load(I2PD), None) as router:
        assert b'"result":{"Result":"gf"}' in await ask(router, HEAD.format("close", len(GOOD), GOOD))
        assert router.complaints == []


@pytest.mark.parametrize(
    "request_",
    [
        HEAD.format("close", len(GOOD), GOOD)[:40],
        HEAD.format("close", len(GOOD), ""),
        HEAD.format("keep-alive", len(GOOD), GOOD),
        HEAD.format("close", len(GOOD) + 2000, GOOD + " " * 2000),
        HEAD.format("close", 1, "{"),
        *(
            HEAD.format("close", len(body), body)
            for body in (call({"Token": "x", "Echo": "gf"}), call({"Echo": "gf"}), call({"Token": "x"}, "1"))
        ),
        HEAD.format("close", len(GOOD), GOOD.replace("Echo", "Ohce")),
    ],
)
async def test_what_i2pd_takes_badly(request_: str) -> None:
    async with SimulatedRouter(Recording.load(I2PD), None) as router:
        assert await ask(router, request_) == b""
        assert len(router.complaints) == 1


@pytest.mark.parametrize("name", [I2PD, JAVA])
def test_recordings_say_where_they_are_from(name: str) -> None:
    recording = Recording.load(name)
    assert recording.how.startswith("recorded from" if name == I2PD else "not recorded:")
    for exchange in recording.exchanges:
        assert exchange.reply.startswith(b"HTTP/1.1 200 OK\r\n")
        head, _, content = exchange.reply.partition(b"\r\n\r\n")
        assert b"Content-Length: %d" % len(content) in head
