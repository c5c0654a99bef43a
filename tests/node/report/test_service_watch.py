"""Whether the operator's local service answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gf_i2p.node.report import service_watch
from gf_i2p.node.report.service_watch import MISSED, ServiceWatch
from integration.harness.processes import free_ports
from tests.transport.harness import until


@asynccontextmanager
async def service(port: int) -> AsyncIterator[list[None]]:
    """Run a listener; yield a list that gets an entry for each connection that has ended."""
    seen: list[None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b"", "it says nothing"
        writer.close()
        seen.append(None)

    async with await asyncio.start_server(serve, "127.0.0.1", port):
        yield seen


class Watched:
    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.changes: list[bool] = []
        self.watch = ServiceWatch(("127.0.0.1", self.port), on_change=self._changed)

    def _changed(self) -> None:
        self.changes.append(self.watch.up)


async def test_one_that_answers() -> None:
    made = Watched()
    async with service(made.port) as seen:
        for _ in range(3):
            await made.watch.check()
        await until(lambda: len(seen) == 3)
    assert (made.watch.up, made.watch.trouble, made.changes) == (True, None, [])


async def test_one_that_was_there_is_missed_when_it_is_gone_for_longer_than_a_restart() -> None:
    made = Watched()
    for _ in range(2):
        async with service(made.port):
            await made.watch.check()
            assert made.watch.up
        for _ in range(MISSED - 1):
            await made.watch.check()
            assert made.watch.up
    await made.watch.check()
    assert not made.watch.up
    trouble = made.watch.trouble or ""
    assert f"the service at 127.0.0.1:{made.port} does not answer (Connection refused)" in trouble
    assert "start the service, or correct target in [publish.service]" in trouble
    await made.watch.check()
    async with service(made.port):
        await made.watch.check()
    assert (made.watch.trouble, made.changes) == (None, [False, True])


async def test_one_that_never_answered_is_not_waited_for() -> None:
    made = Watched()
    await made.watch.check()
    assert made.changes == [False]


async def test_one_that_takes_no_connection_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(service_watch, "CONNECT_SECONDS", 0.01)
    monkeypatch.setattr(asyncio, "open_connection", never)
    made = Watched()
    await made.watch.check()
    assert "(no answer in time)" in (made.watch.trouble or "")


async def test_it_looks_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_watch, "CHECK_SECONDS", 0.005)
    made = Watched()
    run = asyncio.create_task(made.watch.run())
    try:
        await until(lambda: made.changes == [False])
        async with service(made.port):
            await until(lambda: made.changes == [False, True])
        await until(lambda: made.changes == [False, True, False])
    finally:
        run.cancel()
        await asyncio.wait([run])


def test_its_name() -> None:
    assert ServiceWatch(("127.0.0.1", 80)).name == "127.0.0.1:80"
    assert ServiceWatch(("::1", 80)).name == "[::1]:80"
