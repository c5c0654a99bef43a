"""One PySyncObj node with the client inside: `python -m …pysyncobj_node NUMBER DIRECTORY PORT...`.

The node does what a line on its Unix socket says, in JSON, and answers with a line: see `Node.obey`. PySyncObj answers
a caller in the thread that turns its wheel, so the writers are callbacks there: no other thread waits for the lock.
"""

import json
import os
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated

from integration.bench.workloads import PATIENCE, VALUE_BYTES

WHEEL_SECONDS: Final = 0.001
"""How long a turn of PySyncObj's wheel waits for messages, and how often the leader sends what it has gathered."""

BATCH_BYTES: Final = 1 << 16
"""Bytes of one message: PySyncObj's own default, at which 64 writers store the most."""
BULK_BYTES: Final = 1 << 17
"""Room for 100 values: an entry in several messages ended a node by an error in PySyncObj's own pickle."""


class Store(SyncObj):  # type: ignore[misc]
    """A replicated object that keeps the newest values and counts all."""

    def __init__(self, own: str, others: list[str], settings: SyncObjConf) -> None:
        self.count = 0
        self.newest: list[bytes] = []
        super().__init__(own, others, conf=settings)

    @replicated  # type: ignore[untyped-decorator]
    def put(self, values: list[bytes]) -> int:
        """Keep the values; return how many values were kept ever."""
        self.newest = values
        self.count += len(values)
        return self.count


class Node:
    """A node and its socket."""

    def __init__(self, number: int, directory: Path, ports: list[int]) -> None:
        name = f"pysyncobj-{number}"
        others = [f"127.0.0.1:{port}" for port in ports]
        own = others.pop(number - 1)
        self._settings = SyncObjConf(
            autoTick=False,
            journalFile=str(directory / f"{name}.journal"),
            fullDumpFile=str(directory / f"{name}.dump"),
            appendEntriesPeriod=WHEEL_SECONDS,
            appendEntriesUseBatch=False,
            appendEntriesBatchSizeBytes=BATCH_BYTES,
        )
        self._store = Store(own, others, self._settings)
        path = directory / f"{name}.sock"
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()

    def serve(self) -> None:
        """Turn the wheel; obey each line that arrives; never return."""
        connections: dict[socket.socket, bytes] = {}
        while True:
            self._turn()
            ready, _, _ = select.select([self._listener, *connections], [], [], 0)
            for each in ready:
                if each is self._listener:
                    connections[each.accept()[0]] = b""
                    continue
                data = each.recv(1 << 16)
                lines = (connections.pop(each) + data).split(b"\n")
                if data:
                    connections[each] = lines[-1]
                for line in lines[:-1]:
                    each.sendall(json.dumps(self.obey(json.loads(line))).encode() + b"\n")

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what an order says.

        `{"do": "status"}` answers {"leader": …, "applied": …}. `{"do": "put", "count": …, "seconds": …}` stores values
        and answers {"position": …}, null when PySyncObj did not store in time. `{"do": "load", …}` answers
        {"latencies": […]}.
        """
        match order["do"]:
            case "status":
                status = self._store.getStatus()
                return {"leader": status["leader"] == status["self"], "applied": status["last_applied"]}
            case "put":
                return {"position": self._put(order["count"], order["seconds"])}
            case "load":
                return {"latencies": self._load(order["batch"], order["writers"], order["warmup"], order["seconds"])}
            case other:
                raise ValueError(f"unknown order {other}")

    def _turn(self) -> None:
        self._store.doTick(WHEEL_SECONDS)

    def _make_room(self, values: int) -> None:
        self._settings.appendEntriesBatchSizeBytes = BATCH_BYTES if values == 1 else BULK_BYTES

    def _put(self, count: int, seconds: float) -> int | None:
        self._make_room(count)
        done: list[int | None] = []
        values = [os.urandom(VALUE_BYTES) for _ in range(count)]
        self._store.put(values, callback=lambda position, error: done.append(None if error else position))
        deadline = time.perf_counter() + seconds
        while not done and time.perf_counter() < deadline:
            self._turn()
        return done[0] if done else None

    def _load(self, batch: int, writers: int, warmup: float, seconds: float) -> list[float]:
        """Run writers that each store, wait for the answer and store again; return the latencies in seconds."""
        # A lone writer would wait a turn of the wheel for a message with gathered entries; 64 writers store more by it.
        self._settings.appendEntriesUseBatch = writers > 1 and batch == 1
        self._make_room(batch)
        values = [os.urandom(VALUE_BYTES) for _ in range(1024)]
        begin = time.perf_counter() + warmup
        end = begin + seconds
        latencies: list[float] = []
        active = writers

        def post(offset: int, position: int) -> None:
            started = time.perf_counter()

            def answered(answer: int | None, error: int) -> None:
                nonlocal active
                if error != FAIL_REASON.SUCCESS or answer is None or answer <= position:
                    raise RuntimeError(f"PySyncObj answers {answer} after {position}, error {error}")
                now = time.perf_counter()
                if begin <= now < end:
                    latencies.append(now - started)
                if now < end:
                    post((offset + batch) % (len(values) - batch), answer)
                else:
                    active -= 1

            self._store.put(values[offset : offset + batch], callback=answered)

        for number in range(writers):
            post(number * 7 % 512, 0)
        while active:
            if time.perf_counter() > end + PATIENCE:
                raise RuntimeError("PySyncObj did not answer in time")
            self._turn()
        return latencies


if __name__ == "__main__":
    Node(int(sys.argv[1]), Path(sys.argv[2]), [int(port) for port in sys.argv[3:]]).serve()
