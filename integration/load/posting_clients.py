"""Clients that post without pause, and remember the answers."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from integration.harness.local_farm import becomes

VALUE_BYTES: Final = 1024


def value_of(key: str, size: int = VALUE_BYTES) -> bytes:
    """Make an entry of `size` bytes that begins with its key."""
    head = f'{{"key":"{key}","pad":"'.encode()
    return head + b"x" * (size - len(head) - 2) + b'"}'


@dataclass(frozen=True, slots=True)
class Pause:
    """A time without any acknowledgement."""

    began: float
    """Monotonic seconds."""
    seconds: float


@dataclass
class PostingRecord:
    """The posts that the clients know to be committed, and the pauses without an acknowledgement."""

    acknowledged: list[str] = field(default_factory=list)
    retried: Counter[str] = field(default_factory=Counter)
    """By key: posts with unknown outcome, which were therefore repeated."""
    refused: int = 0
    """Posts that surely were not taken, and were repeated."""
    last: float = field(default_factory=time.monotonic)
    longest: Pause = Pause(0.0, 0.0)
    """Longest pause since `begin_stretch`."""

    def begin_stretch(self) -> Pause:
        """Return the longest pause of the stretch that ends here, a pause that still lasts included."""
        longest = max(self.longest, Pause(self.last, time.monotonic() - self.last), key=lambda pause: pause.seconds)
        self.longest = Pause(self.last, 0.0)
        return longest

    def acknowledge(self, key: str) -> None:
        """Note that an entry is committed."""
        now = time.monotonic()
        if now - self.last > self.longest.seconds:
            self.longest = Pause(self.last, now - self.last)
        self.last = now
        self.acknowledged.append(key)


class Writers:
    """Clients with connections of their own that post one entry after the other until `finish`."""

    def __init__(self, client_file: Path, count: int) -> None:
        """Start no client yet. `client_file`: the credentials, read again at each `renew`."""
        self.record = PostingRecord()
        self._file = client_file
        self._generation = 0
        self._stopping = False
        self._count = count
        self._tasks: list[asyncio.Task[None]] = []

    def renew(self) -> None:
        """Let each client begin anew with the present content of its file, after its present post."""
        self._generation += 1

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.ensure_future(self._write(number)) for number in range(self._count)]
        return self

    def check(self) -> None:
        """Raise the error that has ended a client."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def go_on(self, seconds: float, patience: float) -> None:
        """Let the clients post for `seconds`, and at least ten entries.

        Raises `NotSeenError` when the ten entries take over `patience` seconds more.
        """
        count = len(self.record.acknowledged)
        await asyncio.sleep(seconds)
        await becomes("posts go on", lambda: len(self.record.acknowledged) >= count + 10, patience)
        self.check()

    async def finish(self) -> None:
        """Return when every begun post is acknowledged."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _write(self, number: int) -> None:
        position = 0
        while not self._stopping:
            generation = self._generation
            async with ClientFile.load(self._file).open() as client:
                while generation == self._generation and not self._stopping:
                    key = f"{number}:{position}"
                    try:
                        await client.post([value_of(key)])
                    except NotCommittedError:
                        self.record.refused += 1
                    except OutcomeUnknownError:
                        self.record.retried[key] += 1
                    else:
                        self.record.acknowledge(key)
                        position += 1
