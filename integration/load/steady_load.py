"""A load without pause: at a fixed rate, or as fast as some writers get answers."""

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, Self

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from integration.load.posting_clients import value_of

MOST_OPEN: Final = 512
"""Most posts of a fixed rate that wait for answers. At this limit the load pauses, and the throughput falls."""
_TICK_SECONDS: Final = 0.005


class SteadyLoad:
    """Clients that post entries of 1 KiB through one connection, until the `async with` block ends."""

    def __init__(self, client_file: Path) -> None:
        self.unanswered = 0
        """Posts that were refused or have an unknown outcome: in a change of leaders."""
        self._file = client_file
        self._latencies: list[float] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    def mark(self) -> int:
        """Give a mark for `since`."""
        return len(self._latencies)

    def since(self, mark: int) -> list[float]:
        """Return the seconds of each post that was acknowledged since a mark."""
        return self._latencies[mark:]

    def check(self) -> None:
        """Raise the error that has ended a client."""
        if self._failure is not None:
            raise self._failure

    async def __aenter__(self) -> Self:
        self._client = ClientFile.load(self._file).open()
        self.begin(self._client)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._client.close()

    def begin(self, client: FarmClient) -> None:
        """Start the posting."""
        raise NotImplementedError

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()

    async def _post(self, client: FarmClient, key: str) -> None:
        began = time.perf_counter()
        try:
            await client.post([value_of(key)])
        except (NotCommittedError, OutcomeUnknownError):
            self.unanswered += 1
        else:
            self._latencies.append(time.perf_counter() - began)


class Saturating(SteadyLoad):
    """A number of writers, each of which posts again after an answer."""

    def __init__(self, client_file: Path, writers: int) -> None:
        super().__init__(client_file)
        self._writers = writers

    def begin(self, client: FarmClient) -> None:
        """Start the writers."""
        for number in range(self._writers):
            self._start(self._write(client, number))

    async def _write(self, client: FarmClient, number: int) -> None:
        position = 0
        while True:
            await self._post(client, f"{number}:{position}")
            position += 1


class Paced(SteadyLoad):
    """A fixed number of posts a second, however long each takes."""

    def __init__(self, client_file: Path, rate: float) -> None:
        super().__init__(client_file)
        self._rate = rate

    @property
    def unfinished(self) -> int:
        """Number of posts that wait for their answers."""
        return len(self._tasks) - 1  # without the clock

    def begin(self, client: FarmClient) -> None:
        """Start the clock."""
        self._start(self._tick(client))

    async def _tick(self, client: FarmClient) -> None:
        began, count = time.perf_counter(), 0
        while True:
            due = int((time.perf_counter() - began) * self._rate)
            while count < due:
                if len(self._tasks) < MOST_OPEN:
                    self._start(self._post(client, f"0:{count}"))
                count += 1
            await asyncio.sleep(_TICK_SECONDS)
