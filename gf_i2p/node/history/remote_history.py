"""The history as the node sees the history: the files are written by a process of their own (`process.py`).

So no work for the history holds Python's lock in the process that does consensus. The node sends one request at a time
and waits for the answer. When the process ends, `check_process` and each request raise. The caller then opens the
history again, which starts another process.
"""

import asyncio
import contextlib
import os
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, Protocol

import gf_i2p
from gf_i2p.node.history.frames import (
    LENGTHS,
    Frame,
    FrameError,
    Head,
    encode_frame,
    error_of,
    frame_head,
    frame_lengths,
)
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_reader import HistoryError
from gf_i2p.storage.history_writer import Rotation
from gf_i2p.wire.entries import Entry, encode_entries

ANSWER_SECONDS: Final = 120.0
"""Most seconds for an answer, and for the end. A disk that has trouble can take half a minute for a write."""
OPEN_SECONDS: Final = 1800.0
"""Most seconds for the answer to "open", which reads large files that are not packed."""


class Process(Protocol):
    """A running history process."""

    answers: StreamReader
    requests: StreamWriter

    async def wait(self) -> str:
        """Wait until the process has ended; return how, in words that follow "the history process"."""

    def kill(self) -> None:
        """End the process at once, if the process still runs."""


StartProcess = Callable[[], Awaitable[Process]]


class HistoryProcess:
    """A history process of the operating system. Raises `OSError` when the system starts no more processes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.requests, self.answers = process.stdin, process.stdout
        self.pid = process.pid
        self._process = process

    @classmethod
    async def start(cls) -> Process:
        """Start a history process."""
        paths = [str(Path(gf_i2p.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the operator's working directory is no place for modules
                "-m",
                "gf_i2p.node.history.process",
                stdin=PIPE,
                stdout=PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},  # the process is this program, from this place
            )
        )

    async def wait(self) -> str:
        """See `Process`."""
        code = await self._process.wait()
        return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"

    def kill(self) -> None:
        """See `Process`."""
        if self._process.returncode is None:
            self._process.kill()


class RemoteHistory:
    """The history of one server, which a process of its own writes.

    `on_change` is called when the process has ended, and when `packing_error` has changed. Each method that writes
    raises `HistoryError` and `OSError` as the same method of `History` does, and `HistoryError` when the process has
    ended or does not answer. Close the history then, and open another one later.
    """

    def __init__(self, process: Process, directory: Path, on_change: Callable[[], None]) -> None:
        self.directory = directory
        self.durable_index = 0
        """All entries up to this one are in the history, on the disk; 0 until the history is open."""
        self.is_due = False
        """Whether `rotate` has something to do, by the last answer."""
        self.last_term: tuple[int, int] | None = None
        """See `History`."""
        self.cut_bytes = 0
        """See `History`."""
        self.packing_error: StorageError | OSError | None = None
        """Why the last attempt to pack failed; None after a success, or before the first attempt."""
        self._process = process
        self._on_change = on_change
        self._answer: asyncio.Future[Head] | None = None
        self._failure: HistoryError | None = None
        self._receiving = asyncio.create_task(self._receive())

    # Life -----------------------------------------------------------------------------------------------------------

    async def open(self, cluster: str, server_id: int, rotation: Rotation) -> None:
        """Open the history's files. See `History.open`."""
        request = {
            "do": "open",
            "directory": str(self.directory.absolute()),
            "cluster": cluster,
            "server": server_id,
            "rotation": asdict(rotation),
        }
        answer = await self._ask(request, most_seconds=OPEN_SECONDS)
        if answer["last_term"] is not None:
            index, term = answer["last_term"]
            self.last_term = index, term
        self.cut_bytes = answer["cut_bytes"]

    def check_process(self) -> None:
        """Raise `HistoryError` when the process has ended."""
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Let the process finish the present write, and wait for the process's end."""
        self._process.requests.close()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await asyncio.wait([self._receiving])

    # Requests -------------------------------------------------------------------------------------------------------

    async def append(self, entries: Sequence[Entry], led: tuple[int, int] | None, *, urgent: bool = False) -> None:
        """See `History.append`. Entries that are not `urgent` wait until nobody else wants the processor."""
        await self._ask({"do": "append", "led": led, "urgent": urgent}, encode_entries(entries))

    async def gap(self, last: int, servers: Collection[int] | None) -> None:
        """See `History.gap`."""
        await self._ask({"do": "gap", "last": last, "servers": servers})

    async def rotate(self) -> None:
        """See `History.rotate`."""
        await self._ask({"do": "rotate"})

    async def check_place(self) -> None:
        """See `History.check_place`."""
        await self._ask({"do": "check"})

    async def _ask(self, head: Head, body: bytes = b"", *, most_seconds: float | None = None) -> Head:
        self.check_process()
        seconds = ANSWER_SECONDS if most_seconds is None else most_seconds
        assert self._answer is None, "one request at a time"
        answer = self._answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                # The pipe may be closed a moment before `_receive` knows of the process's end, and says so.
                with contextlib.suppress(RuntimeError, ConnectionError):
                    self._process.requests.writelines(encode_frame(head, body))
                head = await answer
        except TimeoutError:
            self._process.kill()
            self._failure = HistoryError(f"the history process gave no answer for {seconds:.0f} s: {_GOES_ON}")
            raise self._failure from None
        finally:
            self._answer = None
        self.durable_index, self.is_due = head["durable"], head["due"]
        if "error" in head:
            raise error_of(head["error"])
        return head

    async def _receive(self) -> None:
        """Take answers and reports until the process has ended."""
        try:
            while (frame := await _receive_frame(self._process.answers)) is not None:
                head, _ = frame
                if "packing" in head:
                    self.packing_error = head["packing"] and error_of(head["packing"])
                    self._on_change()
                elif self._answer is not None and not self._answer.done():
                    self._answer.set_result(head)
        except FrameError as error:
            self._process.kill()
            self._failure = HistoryError(f"the history process answered {error}: {_GOES_ON}")
        how = await self._process.wait()
        if self._failure is None:
            self._failure = HistoryError(f"the history process {how}: {_GOES_ON}")
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._failure)
        self._on_change()


async def _receive_frame(stream: StreamReader) -> Frame | None:
    """Read a frame as `read_frame` does, from a stream."""
    try:
        head_bytes, body_bytes = frame_lengths(await stream.readexactly(LENGTHS.size))
        return frame_head(await stream.readexactly(head_bytes)), await stream.readexactly(body_bytes)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


_GOES_ON: Final = (
    "the node starts another one, and the history then goes on by itself. When this happens again and again, look for "
    "the reason in the node's output and in the system's log"
)
