"""The contents of a disk after a kill or a power cut.

strace records a process's calls on files, with the bytes. From this record the module makes disks as a cut at any time
may leave them. Such a disk has all synced data. Of the unsynced data it has a random choice of sectors and file names.
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
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
SECTOR: Final = 512
_CALL: Final = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)")
_UNFINISHED: Final = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>")
_RESUMED: Final = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)")
_TARGET: Final = re.compile(r"\d+<([^>]*)>")
_STRING: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_NAMING: Final = {
    "openat": "openat",
    "unlink": "unlink",
    "unlinkat": "unlink",
    "rename": "rename",
    "renameat": "rename",
    "renameat2": "rename",
}
"""Calls that make and remove names, on several processors."""


@cache
def why_no_strace() -> str | None:
    if shutil.which("strace") is None:
        return "strace is not installed, so nobody sees what is synced when (Debian: apt-get install strace)"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"strace may not be used here: {tried.stderr.strip()}"


class Call(NamedTuple):
    """One finished system call: name, file name, written bytes, other arguments, result.

    In a `rename`, the bytes are the new name. An `openat` is here only if the call may create the file.
    """

    name: str
    file: str
    data: bytes
    numbers: list[int]
    result: int


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _base(text: str) -> str:
    return Path(unhex(text).decode() if "\\x" in text else text).name


def calls(trace: Path) -> Iterator[Call]:
    """Give system calls in the order of their ends."""
    begun: dict[str, str] = {}
    for line in trace.read_text().splitlines():
        if unfinished := _UNFINISHED.fullmatch(line):
            begun[unfinished[1]] = unfinished[2]
            continue
        if resumed := _RESUMED.fullmatch(line):
            line = f"{resumed[1]} {begun.pop(resumed[1])}{resumed[2]}"  # noqa: PLW2901
        # An addition of strace to a result ("(INJECTED)", an error's name) does not matter here.
        if (call := _CALL.match(line)) is None:
            continue
        name, arguments, result = _NAMING.get(call[2], call[2]), call[3], int(call[4])
        if call[2] in _NAMING:
            file, *new = [_base(string) for string in _STRING.findall(arguments)]
            if name != "openat" or "O_CREAT" in arguments:
                yield Call(name, file, "".join(new).encode(), [], result)
        elif target := _TARGET.match(arguments):
            string = _STRING.search(arguments)
            rest = arguments[(string or target).end() :]
            numbers = [int(number) for number in re.findall(r"(?<= )\d+", rest)]
            yield Call(name, _base(target[1]), unhex(string[1]) if string else b"", numbers, result)


def start(path: Path, *arguments: int) -> "subprocess.Popen[str]":
    """Run the writing child."""
    # -S: the child needs no installed package, and starts faster without looking for any.
    command = [sys.executable, "-S", "-m", "tests.storage.writing_child", str(path), *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def traced(directory: Path, path: Path, *arguments: int, inject: str | None = None) -> tuple[list[Call], list[str]]:
    """Run the writing child to the end; return the child's system calls on files and printed lines."""
    trace = directory / "trace"
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-o", str(trace)]
    command += ["-e", "trace=write,pwrite64,ftruncate,fsync,fdatasync," + ",".join(f"?{name}" for name in _NAMING)]
    if inject is not None:
        command += ["-e", f"inject={inject}"]
    command += [sys.executable, "-S", "-m", "tests.storage.writing_child", str(path), *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            said, errors = process.communicate(timeout=300)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # strace alone would leave the child behind
            raise
    assert "Traceback" not in errors, errors
    return list(calls(trace)), said.splitlines()


@dataclass
class File:
    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes since the last sync: offset and bytes; None: the file was cut off at the offset."""

    def sync(self) -> None:
        for offset, data in self.pending:
            put(self.synced, offset, data)
        self.pending.clear()

    @property
    def size(self) -> int:
        return len(self.written())

    def written(self) -> bytearray:
        """The content that other processes see."""
        content = bytearray(self.synced)
        for offset, data in self.pending:
            put(content, offset, data)
        return content

    def after_a_cut(self, rng: random.Random) -> bytearray:
        """Give the bytes with all, none or some of the sectors that were written after the last sync.

        Some: a random share, the first ones, the last ones, or all except one.
        """
        content = bytearray(self.synced)
        pieces: list[tuple[int, bytes | None]] = []
        for offset, data in self.pending:
            if data is None:
                pieces.append((offset, None))
            else:
                pieces += [(offset + start, data[start : start + SECTOR]) for start in range(0, len(data), SECTOR)]
        for offset, piece in _chosen(pieces, rng):
            put(content, offset, piece)
        return content


def _chosen(pieces: list[tuple[int, bytes | None]], rng: random.Random) -> list[tuple[int, bytes | None]]:
    """Choose the changes that reach the disk, in their order."""
    at = rng.randrange(len(pieces)) if pieces else 0
    match rng.choice(("share", "share", "first", "last", "all except one")):
        case "share":
            share = rng.choice((0.0, 0.5, 0.9, 1.0))
            return [piece for piece in pieces if rng.random() < share]
        case "first":
            return pieces[:at]
        case "last":
            return pieces[at:]
        case _:
            return pieces[:at] + pieces[at + 1 :]


def put(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


class Disk:
    """The files of `directory` whose names begin with "log.db", as they are now, without the lock and the index."""

    def __init__(self, directory: Path, *, empty: bool = False) -> None:
        """`empty`: begin without files."""
        self._directory = directory.name
        paths = [] if empty else [path for path in directory.glob("log.db*") if _kept(path.name)]
        self.files = {path.name: File(bytearray(path.read_bytes())) for path in paths}
        self._synced_names = self.files.copy()

    def take(self, call: Call) -> bool:
        """Repeat this system call; return whether the call changed anything."""
        if call.result < 0:
            return False
        if call.name == "fsync" and call.file == self._directory:
            self._synced_names = self.files.copy()
            return True
        if not _kept(call.file) or (call.name != "openat" and call.file not in self.files):
            return False
        file = self.files.get(call.file, File())
        match call.name:
            case "pwrite64":
                file.pending.append((call.numbers[1], call.data[: call.result]))
            case "write":  # the zeros of a WAL, each piece at the end of the zeros
                file.pending.append((file.size, call.data[: call.result]))
            case "fsync" | "fdatasync":
                file.sync()
            case "ftruncate":
                file.pending.append((call.numbers[0], None))
            case "openat":
                if call.file in self.files:
                    return False
                self.files[call.file] = file
            case "unlink":
                del self.files[call.file]
            case "rename":
                self.files[call.data.decode()] = self.files.pop(call.file)
            case _:
                raise AssertionError(f"what does {call.name} do to {call.file}?")
        return True

    def killed(self, directory: Path) -> Path:
        """Make `directory` as a kill of the process now would leave the files; return the path of the database."""
        return _made(directory, {name: file.written() for name, file in self.files.items()})

    def cut(self, directory: Path, rng: random.Random) -> Path:
        """Make `directory` as a power cut now may leave the files."""
        names = {
            name: file
            for name in sorted(self.files.keys() | self._synced_names.keys())
            if (file := rng.choice((self.files, self._synced_names)).get(name)) is not None
        }
        return _made(directory, {name: file.after_a_cut(rng) for name, file in names.items()})


def start_over(wal: Path) -> None:
    """Leave `wal`, which has just begun anew, as a power cut may between its header and its first frame."""
    content = bytearray(wal.read_bytes())
    content[32 : 32 + 24] = bytes(24)
    wal.write_bytes(content)


def _kept(name: str) -> bool:
    return name.startswith("log.db") and not name.endswith(("-lock", "-shm"))


def _made(directory: Path, files: dict[str, bytearray]) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory / "log.db"
