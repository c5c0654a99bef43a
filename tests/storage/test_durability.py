"""What a power cut leaves: less than a kill, because what was written and not synced may be gone.

strace notes every write and every sync of a run, with the bytes. From that, disks are made as they may look after a cut
at any moment: all that was synced is there, and of the rest some sectors are and some are not.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.storage.history import State, create, stored_state, writes

ROOT: Final = Path(__file__).parents[2]
SECTOR: Final = 512
_CALL: Final = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)")
_UNFINISHED: Final = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>")
_RESUMED: Final = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)")
_TARGET: Final = re.compile(r"\d+<([^>]*)>")
_STRING: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@cache
def why_no_strace() -> str | None:
    if shutil.which("strace") is None:
        return "strace is not installed, so nobody sees what is synced when (Debian: apt-get install strace)"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"strace may not be used here: {tried.stderr.strip()}"


@pytest.fixture(autouse=True)
def _strace() -> None:
    if (reason := why_no_strace()) is not None:
        pytest.skip(reason)


class Call(NamedTuple):
    """One finished system call: its name, the name of the file, the bytes written, the other arguments, the result."""

    name: str
    file: str
    data: bytes
    numbers: list[int]
    result: int


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def calls(trace: Path) -> Iterator[Call]:
    """System calls in the order in which they ended."""
    begun: dict[str, str] = {}
    for line in trace.read_text().splitlines():
        if unfinished := _UNFINISHED.fullmatch(line):
            begun[unfinished[1]] = unfinished[2]
            continue
        if resumed := _RESUMED.fullmatch(line):
            line = f"{resumed[1]} {begun.pop(resumed[1])}{resumed[2]}"  # noqa: PLW2901
        # What strace adds to a result ("(INJECTED)", an error's name) does not matter here.
        if (call := _CALL.match(line)) and (target := _TARGET.match(call[3])):
            string = _STRING.search(call[3])
            rest = call[3][string.end() :] if string else call[3][target.end() :]
            file = unhex(target[1]).decode() if "\\x" in target[1] else target[1]
            numbers = [int(number) for number in re.findall(r"(?<= )\d+", rest)]
            yield Call(call[2], Path(file).name, unhex(string[1]) if string else b"", numbers, int(call[4]))


def traced(directory: Path, path: Path, *arguments: int, inject: str | None = None) -> tuple[list[Call], list[str]]:
    """Run the writing child to its end; return its system calls on files and the lines that it said."""
    trace = directory / "trace"
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-o", str(trace)]
    command += ["-e", "trace=write,pwrite64,ftruncate,fsync,fdatasync"]
    if inject is not None:
        command += ["-e", f"inject={inject}"]
    command += [sys.executable, "-S", "-m", "tests.storage.child", str(path), *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            said, errors = process.communicate(timeout=60)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # strace alone would leave the child behind
            raise
    assert "Traceback" not in errors, errors
    return list(calls(trace)), said.splitlines()


@dataclass
class File:
    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes since the last sync: offset and bytes; None: the file was cut off there."""

    def sync(self) -> None:
        for offset, data in self.pending:
            put(self.synced, offset, data)
        self.pending.clear()

    @property
    def size(self) -> int:
        return max([len(self.synced), *(offset + len(data or b"") for offset, data in self.pending)])

    def after_a_cut(self, rng: random.Random) -> bytearray:
        """All, none or some of the sectors that were written after the last sync, in any combination."""
        content = bytearray(self.synced)
        share = rng.choice((0.0, 0.5, 0.9, 1.0))
        for offset, data in self.pending:
            for start in range(0, len(data or b""), SECTOR):
                if data and rng.random() < share:
                    put(content, offset + start, data[start : start + SECTOR])
            if data is None and rng.random() < share:
                put(content, offset, None)
        return content


def put(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


class Disk:
    """The database and its WAL."""

    def __init__(self, database: bytes) -> None:
        self.files = {"log.db": File(bytearray(database)), "log.db-wal": File()}

    def take(self, call: Call) -> None:
        file = self.files.get(call.file)
        if file is None or call.result < 0:
            return
        match call.name:
            case "pwrite64":
                file.pending.append((call.numbers[1], call.data[: call.result]))
            case "write":  # the zeros of a new WAL, one piece after the other
                file.pending.append((file.size, call.data[: call.result]))
            case "fsync" | "fdatasync":
                file.sync()
            case "ftruncate":
                file.pending.append((call.numbers[0], None))
            case _:
                raise AssertionError(f"what does {call.name} do to {call.file}?")

    def cut(self, directory: Path, rng: random.Random) -> Path:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for name, file in self.files.items():
            (directory / name).write_bytes(file.after_a_cut(rng))
        return directory / "log.db"


def history_states(seed: int, count: int) -> list[State]:
    states = [State()]
    for write in islice(writes(seed), count):
        states.append(states[-1].after(write))
    return states


@pytest.mark.parametrize("depth", [1, 8])
def test_a_power_cut_loses_nothing_acknowledged(tmp_path: Path, depth: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = create(tmp_path)
    disk = Disk(path.read_bytes())
    count = 120
    run, said = traced(tmp_path, path, seed, 0, count, depth)
    assert said[-1] == str(count)
    states = history_states(seed, count)

    acknowledged = synced = 0
    cuts = set(rng.sample(range(len(run)), min(len(run), 60)))
    for number, call in enumerate(run):
        disk.take(call)
        if call.name == "write" and (word := call.data.decode(errors="replace").strip()).isdigit():
            acknowledged = int(word)
        synced += call.name in ("fsync", "fdatasync") and call.file == "log.db"
        if number in cuts:
            found = stored_state(disk.cut(tmp_path / "cut", rng))
            matches = [number for number, state in enumerate(states) if state == found]
            assert matches, f"{found} is not what any write left"
            assert matches[-1] >= acknowledged
    assert acknowledged == count
    assert synced > 2, "there was no checkpoint to cut into"


def test_every_acknowledgement_follows_a_sync_of_all_that_was_written(tmp_path: Path) -> None:
    path = create(tmp_path)
    run, _ = traced(tmp_path, path, 1, 0, 30, 1)
    dirty = False
    acknowledged = syncs = 0
    for call in run:
        if call.file == "log.db-wal":
            dirty = call.name == "pwrite64" or (dirty and call.name not in ("fsync", "fdatasync"))
            syncs += call.name in ("fsync", "fdatasync")
        elif call.name == "write" and call.data.strip().isdigit():
            assert not dirty
            acknowledged += 1
    assert 2 < acknowledged <= syncs


def test_a_reader_sees_nothing_before_it_is_synced(tmp_path: Path) -> None:
    """The syncs are slowed down, and a reader looks for each entry all the time."""
    run, _ = traced(tmp_path, create(tmp_path), 3, 0, 25, 0, inject="fdatasync,fsync:delay_enter=3000")
    dirty = False
    seen = 0
    for call in run:
        if call.file == "log.db-wal":
            dirty = call.name == "pwrite64" or (dirty and call.name not in ("fsync", "fdatasync"))
        elif call.name == "write" and call.data.startswith(b"seen"):
            assert not dirty
            seen += 1
    assert seen > 10


def test_opening_syncs_what_a_killed_process_had_only_written(tmp_path: Path) -> None:
    """What is loaded will be built on: it must not vanish in a power cut later."""
    path = create(tmp_path)
    traced(tmp_path, path, 5, 0, 6, 1)
    states = history_states(5, 6)
    # Let none of it have been synced, as if the kill had come just before.
    disk = Disk(path.read_bytes())
    disk.files["log.db-wal"].pending.append((0, path.with_name("log.db-wal").read_bytes()))

    def survives(chance: int) -> bool:
        return stored_state(disk.cut(tmp_path / "cut", random.Random(chance))) == states[6]

    assert not all(map(survives, range(5)))
    run, _ = traced(tmp_path, path, 5, 6, 6, 1)
    opening = list(takewhile(lambda call: call.data != b"opened\n", run))
    assert ("fsync", tmp_path.name) in [(call.name, call.file) for call in opening], "the names of the files"
    for call in opening:
        disk.take(call)
    assert all(map(survives, range(5)))


@pytest.mark.parametrize(
    ("inject", "advice"),
    [
        ("fdatasync,fsync:error=EIO:when=12+", "look into the system log"),
        ("pwrite64:error=ENOSPC:when=40+", "free some space"),
        ("pwrite64:error=EIO:when=40+", "look into the system log"),
    ],
)
def test_a_disk_that_fails_ends_all_writing(tmp_path: Path, inject: str, advice: str) -> None:
    path = create(tmp_path)
    _, said = traced(tmp_path, path, 9, 0, 10_000, 1, inject=inject)
    assert said[0] == "opened"
    assert said[-1].startswith("failed: ")
    assert advice in said[-1]
    acknowledged = [int(line) for line in said[1:-1]]
    assert acknowledged
    assert stored_state(path) in history_states(9, acknowledged[-1] + 2)[acknowledged[-1] :]


def test_the_disk_of_these_tests_loses_what_was_not_synced(tmp_path: Path) -> None:
    disk = Disk(b"old")
    disk.take(Call("pwrite64", "log.db", b"new", [3, 0], 3))
    found = {disk.cut(tmp_path / "cut", random.Random(seed)).read_bytes() for seed in range(30)}
    assert found == {b"old", b"new"}
    disk.take(Call("fdatasync", "log.db", b"", [], 0))
    assert {disk.cut(tmp_path / "cut", random.Random(seed)).read_bytes() for seed in range(30)} == {b"new"}
    disk.take(Call("pwrite64", "log.db", bytes(3 * SECTOR), [3 * SECTOR, 8], 3 * SECTOR))
    lengths = {len(disk.cut(tmp_path / "cut", random.Random(seed)).read_bytes()) for seed in range(60)}
    assert {3, 8 + SECTOR, 8 + 3 * SECTOR} <= lengths
