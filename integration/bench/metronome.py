"""The unit of the guard: a fixed piece of work, the beat, which a process of its own times all along beside the load.

A virtual machine's speed may change by a factor of two from one second to the next. A process that has just woken up
finds its caches cold, so the same work costs it twice as much. The beat sees both as the nodes do: it runs in the same
moments, and sleeps between. The beat does what a node does: interpreted code, JSON, a hash, the cipher of TLS, system
calls on a socket, and objects that lie all over a memory larger than a processor's nearer caches.

`python -m integration.bench.metronome` prints a line for each beat until a signal ends it: the time (seconds of
`time.perf_counter`) and the processor seconds.
"""

import hashlib
import json
import socket
import statistics
import struct
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from integration.bench.systems.system import BenchError
from integration.bench.workloads import VALUE_BYTES
from integration.harness.processes import Processes

GAP: Final = 0.01
"""Seconds between two beats: a beat takes some 0.5 ms, so the metronome takes a twentieth of a core."""
_PIECE: Final = 0.1
"""Seconds of which the median beat counts: within such a time a machine seldom changes its speed."""
_PARTS: Final = 4
_OBJECTS: Final = 60_000
_PACK: Final = struct.Struct(">BIIQQQQI")


class Beat:
    """The fixed work. Each call does the same. When the work changes, the guard needs a new `BASE`."""

    def __init__(self) -> None:
        self._value = bytes(range(256)) * (VALUE_BYTES // 256)
        leaves = [{"hash": "a" * 44, "up": True}] * 3
        self._text = json.dumps({"date": 1_790_000_000_000, "id": 3, "leaves": leaves})
        self._sender, self._receiver = socket.socketpair()
        self._cipher = AESGCM(bytes(16))
        self._objects = {number: _object(number) for number in range(_OBJECTS)}
        self._place = 0

    def __call__(self) -> float:
        """Do the work once; return the processor seconds of this thread."""
        began = time.thread_time()
        self._interpret()
        for _ in range(_PARTS):
            self._sender.send(self._value)
            sealed = self._cipher.encrypt(bytes(12), self._receiver.recv(VALUE_BYTES), None)
            assert self._cipher.decrypt(bytes(12), sealed, None) == self._value
            self._remember()
        return time.thread_time() - began

    def close(self) -> None:
        """Close the sockets."""
        self._sender.close()
        self._receiver.close()

    def _interpret(self) -> None:
        kept: dict[int, bytes] = {}
        for index in range(40):
            kept[index] = _PACK.pack(1, index, index, index, index, index, index, index)
        total = sum(_PACK.unpack(each)[2] for each in kept.values())
        joined = b"".join([self._value, *kept.values(), hashlib.sha256(self._value).digest()])
        assert total + len(joined) > len(json.loads(self._text)["leaves"])

    def _remember(self) -> None:
        for _ in range(10):
            self._place = (self._place * 1_103_515_245 + 12_345) % _OBJECTS
            assert self._objects[self._place][2] == [self._place]
            self._objects[self._place] = _object(self._place)


def _object(number: int) -> tuple[int, str, list[int]]:
    return number, str(number), [number]


class Metronome:
    """The beats of a process that runs as long as the `with` block."""

    def __init__(self, directory: Path) -> None:
        """`directory`: an existing one, for the process's output."""
        self._output = directory / "metronome"
        self._processes = Processes()

    def __enter__(self) -> Self:
        self._processes.start("metronome", [sys.executable, "-m", __name__], self._output)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, trace)

    def unit(self, begin: float, end: float) -> float:
        """Return the processor seconds of a beat between two times (seconds of `time.perf_counter`)."""
        self._processes.check()
        lines = self._output.read_text().splitlines(keepends=True)
        beats = [tuple(map(float, line.split())) for line in lines if line.endswith("\n")]
        return unit([(at, seconds) for at, seconds in beats], begin, end)


def unit(beats: Sequence[tuple[float, float]], begin: float, end: float) -> float:
    """Return the seconds of a beat in a time: the mean over short pieces of the time, of each piece's median beat.

    `beats`: time and processor seconds of each. The medians leave out a beat that an interrupt fell into. The mean
    follows a machine that changes its speed, as the cost of the load does. Raises BenchError when pieces have no beat.
    """
    edges = [begin + number * _PIECE for number in range(round((end - begin) / _PIECE) + 1)]
    pieces = [[seconds for at, seconds in beats if first <= at < last] for first, last in pairwise(edges)]
    found = [statistics.median(piece) for piece in pieces if piece]
    if len(found) < max(1, len(pieces) // 2):
        raise BenchError(
            "The metronome was held up for more than half of the load. Stop other programs, and start the guard again."
        )
    return statistics.mean(found)


def main() -> None:
    """Beat until a signal ends the process."""
    beat = Beat()
    while True:
        print(time.perf_counter(), beat(), flush=True)
        time.sleep(GAP)


if __name__ == "__main__":
    main()
