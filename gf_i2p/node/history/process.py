"""The history process of a node: `python -m gf_i2p.node.history.process`, which `HistoryProcess` starts.

The process takes requests from its standard input, one after another, and answers on its standard output (`frames`).
The process ends when its input ends. So the process ends with its node, also when somebody kills the node. Then the
process finishes the present write first; the next history process waits for that (`History.open`).

An undeclared error ends the process, with the traceback on standard error. The node starts another one.

Entries are written by a thread that runs when no other program wants the processor (`run_when_idle`). So consensus has
the processors to itself. On a busy machine that thread hardly runs, and the log grows, because the log keeps the
entries until they are in the history. So the main thread, which has only a low priority, does three things itself:
a request that is urgent, a request with a large value, and the rest of a request that takes too long.
"""

import math
import os
import queue
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import FileIO, RawIOBase
from pathlib import Path
from typing import Any, Final

from gf_i2p.node.clock import now_ms
from gf_i2p.node.history.frames import Frame, Head, describe_error, encode_frame, read_frame
from gf_i2p.node.history.packing import Packing
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_writer import History, Rotation
from gf_i2p.wire.entries import decode_entries

NICENESS: Final = 10
"""The log and the farm come first."""
MEMORY_BYTES: Final = 512 << 20
"""Most bytes of data. A value of 1 MiB that is all nested lists takes some 50 MiB while the process reads the value."""


PATIENT_SECONDS: Final = 5.0
"""After this time the main thread does the rest of a request."""
PATIENT_VALUE_BYTES: Final = 1 << 16
"""Largest value for the thread that hardly runs on a busy machine. The thread must finish a value that it has begun.

With four programs that wanted two cores, two values of 1 MiB took that thread 94 seconds.
"""


class HistoryService:
    """Answers the requests of one node.

    `clock`: see `History.open`. `on_patient_thread` is called in the thread that does what is not urgent, when that
    thread begins.
    """

    def __init__(
        self,
        requests: RawIOBase,
        answers: RawIOBase,
        clock: Callable[[], int] = now_ms,
        *,
        on_patient_thread: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_patient_thread = on_patient_thread
        self._requests = requests
        self._answers = answers
        self._clock = clock
        self._ending = threading.Event()
        self._waiting: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self.receiver = threading.Thread(target=self._receive, name="requests", daemon=True)
        """Reads the requests until the input ends. Close the input only then."""

    def run(self) -> None:
        """Open the history, and answer requests until the input ends."""
        self.receiver.start()
        first = self._waiting.get()
        history = None if first is None else self._open(first[0])
        if history is None:
            return
        packing = Packing(history, self._tell)
        patient = ThreadPoolExecutor(1, "patient", self._on_patient_thread)
        try:
            packing.wake()
            while (request := self._waiting.get()) is not None:
                head, body = request
                if head["do"] == "append":
                    packing.note_entries()
                self._answer(history, head, body, patient)
                packing.wake()
        finally:
            patient.shutdown()
            packing.stop()
            history.close()

    def _receive(self) -> None:
        """Take requests also while one is worked on, because the end of the input breaks off a long opening."""
        try:
            with suppress(ConnectionError):  # the node is gone
                while (frame := read_frame(self._requests)) is not None:
                    self._waiting.put(frame)
        finally:
            self._ending.set()
            self._waiting.put(None)

    def _open(self, request: Head) -> History | None:
        """Open the history, and answer. None: the node has the reason, or is gone."""
        assert request["do"] == "open"
        try:
            history = History.open(
                Path(request["directory"]),
                cluster=request["cluster"],
                server_id=request["server"],
                rotation=Rotation(**request["rotation"]),
                clock=self._clock,
                interrupted=self._ending.is_set,
            )
        except InterruptedError:
            return None
        except (StorageError, OSError) as error:
            self._send({"durable": 0, "due": False, "error": describe_error(error)})
            return None
        self._send({"last_term": history.last_term, "cut_bytes": history.cut_bytes} | _state(history))
        return history

    def _answer(self, history: History, request: Head, body: bytes, patient: ThreadPoolExecutor) -> None:
        error: Head = {}
        try:
            match request["do"]:
                case "append":
                    entries = decode_entries(body)
                    led = request["led"] and (request["led"][0], request["led"][1])
                    if request["urgent"] or any(len(entry.value) > PATIENT_VALUE_BYTES for entry in entries):
                        history.append(entries, led)
                    else:
                        steps = history.append_in_steps(entries, led)
                        patient.submit(_go_on, steps, time.monotonic() + PATIENT_SECONDS).result()
                        _go_on(steps)
                case "gap":
                    history.gap(request["last"], request["servers"])
                case "rotate":
                    history.rotate()
                case "check":
                    history.check_place()
                case other:
                    raise ValueError(f"a request without a meaning: {other!r}")
        except (StorageError, OSError) as failure:
            error = {"error": describe_error(failure)}
        self._send(_state(history) | error)

    def _tell(self, error: OSError | None) -> None:
        self._send({"packing": None if error is None else describe_error(error)})

    def _send(self, head: Head) -> None:
        with self._sending, suppress(ConnectionError):  # the node is gone, and the input ends, too
            frame = memoryview(b"".join(encode_frame(head)))
            while frame:
                frame = frame[self._answers.write(frame) :]


def _go_on(steps: Iterator[None], until: float = math.inf) -> None:
    """Take the next steps, until none is left, or until the clock (`time.monotonic`) shows `until`."""
    for _ in steps:
        if time.monotonic() >= until:
            return


def _state(history: History) -> dict[str, Any]:
    return {"durable": history.durable_index, "due": history.due()}


def run_when_idle() -> None:
    """Let the calling thread run only while no other thread of the machine wants the processor; see sched(7).

    A low priority is not enough: a thread of consensus that wakes up waits until the slice of the history's thread
    ends. The measurement is in `docs/design/history.md`.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid the call: the low priority stays
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> None:
    """Serve standard input and output. The end of the input stops the process, and no signal for the whole group."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    requests = FileIO(sys.stdin.fileno(), "r", closefd=False)
    answers = FileIO(sys.stdout.fileno(), "w", closefd=False)
    HistoryService(requests, answers, on_patient_thread=run_when_idle).run()


if __name__ == "__main__":
    main()
