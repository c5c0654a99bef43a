"""Clients that set and read registers in a farm, and the check whether their answers can be true.

An entry says {"key": K, "value": V}: register K holds V from then on. No two entries have the same value, and none is
posted twice. A read is a linearizable read of the local interface: it tells the commit index at the time of the
question, and the entries up to there. The log shows afterwards which value a register held at that index, and so do
the pages.
"""

import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.simulator.cluster.linearizability import Operation, OperationKind, Undecided, linearizable
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from integration.harness.local_farm import LocalFarm
from integration.load.log_comparison import MOST_TOLD

MOST_OPERATIONS: Final = 120
"""Operations on one register: the time of a check grows much faster. Then another register takes its place."""
MOST_UNKNOWN: Final = 20
"""Most writes with unknown outcome among the operations on one register."""
REGISTERS: Final = 4
"""Registers in use at a time: few, so that many operations on each run side by side."""
WRITE_SECONDS: Final = 3.0
READ_SECONDS: Final = 2.0
_PAGE: Final = 1000
_BEHIND: Final = "the log begins at"
_SHOWN_CHARACTERS: Final = 300


@dataclass(slots=True)
class RegisterAccess:
    """One operation of a client on a register, from its call to its answer."""

    key: int
    kind: OperationKind
    called: int
    """Moment of the call. Moments rise, and no two are the same."""
    value: int = 0
    """The written value; a read's value is known in the end."""
    returned: int | None = None
    index: int = 0
    """Index of the entry, or index up to which the log was read; 0: unknown."""
    refused: bool = False
    """Whether the operation surely was not done."""


class AccessHistory:
    """The answers to all clients."""

    def __init__(self) -> None:
        self.accesses: list[RegisterAccess] = []
        self.seen: dict[int, tuple[int, str | None]] = {}
        """Entries that reads have shown, by index: term and value; None: no Application entry."""
        self.wrong: list[str] = []
        self.longest_pause = 0.0
        """Seconds between two acknowledged writes, so far."""
        self.commit = 0
        """The highest commit index that a read has told."""
        self._last = time.monotonic()
        self._moments = 0
        self._values = 0
        self._keys = list(range(REGISTERS))
        self._operations: dict[int, int] = defaultdict(int)
        self._unknown: dict[int, int] = defaultdict(int)

    def moment(self) -> int:
        """Return a number greater than all numbers before."""
        self._moments += 1
        return self._moments

    def begin(self, rng: random.Random, kind: OperationKind) -> RegisterAccess:
        """Note an operation on one of the registers in use."""
        place = rng.randrange(REGISTERS)
        key = self._keys[place]
        if self._operations[key] >= MOST_OPERATIONS or self._unknown[key] >= MOST_UNKNOWN:
            key = self._keys[place] = max(self._keys) + 1
        self._operations[key] += 1
        if kind is OperationKind.WRITE:
            self._values += 1
            self._unknown[key] += 1  # until the outcome is known
        access = RegisterAccess(key, kind, self.moment(), self._values if kind is OperationKind.WRITE else 0)
        self.accesses.append(access)
        return access

    def done(self, access: RegisterAccess, index: int) -> None:
        """Note that an operation was done, and its index in the log."""
        access.index, access.returned = index, self.moment()
        if access.kind is OperationKind.WRITE:
            self._unknown[access.key] -= 1
            now = time.monotonic()
            self.longest_pause, self._last = max(self.longest_pause, now - self._last), now

    def refused(self, access: RegisterAccess) -> None:
        """Note that an operation surely was not done, and never will be."""
        access.refused = True
        if access.kind is OperationKind.WRITE:
            self._unknown[access.key] -= 1

    def count(self, kind: OperationKind, *, done: bool) -> int:
        """Count the operations that were done, or those with unknown outcome."""
        return sum(
            access.kind is kind and not access.refused and (access.returned is not None) == done
            for access in self.accesses
        )


def encode(access: RegisterAccess) -> str:
    """Give the entry of a write."""
    return json.dumps({"key": access.key, "value": access.value}, separators=(",", ":"))


class RegisterClient:
    """A client that writes and reads, one operation at a time, with short pauses, until `stop`."""

    def __init__(
        self, farm: LocalFarm, client_file: Path, history: AccessHistory, rng: random.Random, think: float
    ) -> None:
        """`think`: mean seconds between two operations."""
        self._farm = farm
        self._file = client_file
        self._history = history
        self._rng = rng
        self._think = think
        self._server = rng.choice(farm.ids)
        self._stopping = False

    def stop(self) -> None:
        """End after the present operation."""
        self._stopping = True

    async def run(self) -> None:
        """Read and write registers until `stop`."""
        rng = self._rng
        async with ClientFile.load(self._file).open() as farm:
            while not self._stopping:
                await asyncio.sleep(rng.expovariate(1 / self._think))
                dice = rng.random()
                if dice < 0.4:
                    await self._read()
                elif dice < 0.5:
                    await self._write_here()
                else:
                    access = self._history.begin(rng, OperationKind.WRITE)
                    try:
                        index = await farm.post([encode(access).encode()], timeout=WRITE_SECONDS)
                    except NotCommittedError:
                        self._history.refused(access)
                    except OutcomeUnknownError:
                        pass
                    else:
                        self._history.done(access, index)

    async def _write_here(self) -> None:
        """Write through a server's local interface, which asks the leader."""
        access = self._history.begin(self._rng, OperationKind.WRITE)
        server, body = self._rng.choice(self._farm.ids), {"values": [encode(access)]}
        path = f"/v1/entries?timeout={WRITE_SECONDS:g}"
        try:
            answer = await local_client.request(
                self._farm.node(server), "POST", path, seconds=2 * WRITE_SECONDS, body=body
            )
        except CommandError as error:
            if error.outcome == "no":
                self._history.refused(access)
        else:
            self._history.done(access, answer["index"])

    async def _read(self) -> None:
        """Ask the server of the last answer, or any; a server that leads no more must not answer."""
        history = self._history
        access = history.begin(self._rng, OperationKind.READ)
        first = history.commit + 1
        answer = await self._page(first)
        if answer is None:
            history.refused(access)
            self._server = self._rng.choice(self._farm.ids)
            return
        if "commit" not in answer:
            history.wrong.append(f"server {self._server} answered a read with {str(answer)[:_SHOWN_CHARACTERS]}")
            history.refused(access)
            return
        history.done(access, answer["commit"])
        history.commit = max(history.commit, answer["commit"])
        for entry in answer["entries"]:
            found = entry["term"], entry.get("value")
            if history.seen.setdefault(entry["index"], found) != found:
                history.wrong.append(f"two reads show two entries at {entry['index']}, both committed")

    async def _page(self, first: int) -> Any:
        path = f"/v1/entries?first={first}&limit={_PAGE}&stale=0"
        try:
            return await local_client.request(self._farm.node(self._server), "GET", path, seconds=READ_SECONDS)
        except CommandError as error:
            if _BEHIND in str(error):  # nobody has read for so long that the log was shortened beyond `first`
                answer = await self._farm.status(self._server, seconds=READ_SECONDS)
                if answer is not None:
                    self._history.commit = max(self._history.commit, answer["log"]["commit"])
            return None


# Judgement ------------------------------------------------------------------------------------------------------------


def judge_accesses(history: AccessHistory, log: Mapping[int, tuple[int, Any]], last: int) -> tuple[list[str], int]:
    """Compare the answers with the log, Application entries by index, which ends at `last`.

    Return the errors, and the number of registers whose check was given up.
    """
    wrong = [*history.wrong, *_entries(history, log), *_order(history, last)]
    _fill_in_reads(history, log)
    by_key: dict[int, list[RegisterAccess]] = defaultdict(list)
    for access in history.accesses:
        if not access.refused and (access.returned is not None or access.kind is OperationKind.WRITE):
            by_key[access.key].append(access)
    undecided = 0
    for key, accesses in by_key.items():
        operations = [Operation(each.kind, each.called, each.returned, each.value) for each in accesses]
        try:
            if not linearizable(operations):
                shown = "; ".join(f"{each.called}-{each.returned} {each.kind.value} {each.value}" for each in accesses)
                wrong.append(f"register {key} cannot have behaved so: {shown}")
        except Undecided:
            undecided += 1
    return wrong, undecided


def _entries(history: AccessHistory, log: Mapping[int, tuple[int, Any]]) -> list[str]:
    """Check acknowledged, refused and double entries against the log, and the entries that reads have shown."""
    wrong: list[str] = []
    places: dict[int, list[int]] = defaultdict(list)
    for index, (_, value) in log.items():
        places[value["value"]].append(index)
    wrong += [f"value {value} was posted once and stands at {where}" for value, where in places.items() if where[1:]]
    for access in history.accesses:
        if access.kind is not OperationKind.WRITE:
            continue
        where = places.pop(access.value, [])
        if access.refused and where:
            wrong.append(f"value {access.value} was refused and stands at {where[0]}")
        elif access.returned is not None and access.index not in where:
            wrong.append(f"value {access.value} was acknowledged at {access.index} and stands at {where or 'no place'}")
        elif where and log[where[0]][1]["key"] != access.key:
            wrong.append(f"the entry {where[0]} is not what was posted")
    wrong += [f"value {value} stands at {where} and nobody posted it" for value, where in places.items()]
    for index, (term, text) in history.seen.items():
        shown = None if text is None else (term, json.loads(text))
        if shown != log.get(index):
            wrong.append(f"a read showed another entry at {index} than the log has: {shown}, {log.get(index)}")
    return wrong[:MOST_TOLD]


def _order(history: AccessHistory, last: int) -> list[str]:
    """Check the order of the log: each operation comes after, and each read sees, all operations that ended before."""
    moments: list[tuple[int, bool, RegisterAccess]] = []
    for access in history.accesses:
        if access.returned is not None:
            moments += [(access.called, False, access), (access.returned, True, access)]
    wrong: list[str] = []
    known = 0  # the highest committed index that a client has been told by now
    began: dict[int, int] = {}
    for _, ends, access in sorted(moments, key=lambda moment: moment[0]):
        if not ends:
            began[id(access)] = known
            continue
        before = began.pop(id(access))
        if access.index < before + (access.kind is OperationKind.WRITE) or access.index > last:
            wrong.append(f"a {access.kind.value} that began when {before} was committed was told {access.index}")
        known = max(known, access.index)
    return wrong[:MOST_TOLD]


def _fill_in_reads(history: AccessHistory, log: Mapping[int, tuple[int, Any]]) -> None:
    """Set the value of each read: the register's value at the read's index."""
    held: dict[int, int] = {}
    reads = sorted(
        (access for access in history.accesses if access.kind is OperationKind.READ and access.returned is not None),
        key=lambda access: access.index,
    )
    entries = iter(sorted(log.items()))
    entry = next(entries, None)
    for access in reads:
        while entry is not None and entry[0] <= access.index:
            held[entry[1][1]["key"]] = entry[1][1]["value"]
            entry = next(entries, None)
        access.value = held.get(access.key, 0)
