"""Keeps two jobs that write the same tables of one lake apart, when the lake is a directory of this machine.

Spark does not: of two that add to one table the first to end takes the other's files away with its own drafts.
A lock is a file, `LAKE/_locks/TABLE`, and gone when the process dies that has it. Spark leaves such names out.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.paths import Lake

DIRECTORY: Final = "_locks"
WRITES: Final[Mapping[str, tuple[str, ...]]] = {
    "ingest": ("entries", "files", "quarantine"),
    "health": ("anomalies", "destination_hours", "server_hours"),
    "backtest": ("backtest", "decisions"),
    "floodfills": ("closest", "quarantine", "routers"),
    "stream": ("alerts", "anomalies", "destination_hours", "entries", "files", "quarantine", "server_hours"),
}
"""What jobs write, in the order in which it is locked. `stream` writes no `files`, but `ingest` relies on theirs."""
_NEED_A_LAKE: Final = frozenset({"health", "backtest"})
_OF_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_BYTES: Final = 256


@contextmanager
def held(lake: Lake, job: str, remote: str | None = None) -> Iterator[None]:
    """Have all tables that a job writes, or none, until the end. A job that writes none is not kept from anything.

    `remote`: the address of the Connect server on which it runs, if there is one; a directory is the server's. Of a
    lake at an address, or on another machine, nothing is locked. Raises `PipelineError` when another job has a table.
    """
    root = directory(lake, remote)
    tables = WRITES.get(job, ())
    if root is None or not tables or (job in _NEED_A_LAKE and not root.is_dir()):
        yield
        return
    with ExitStack() as all_of_them:
        for table in tables:
            all_of_them.enter_context(_held(root, table, job))
        yield


def directory(lake: Lake, remote: str | None = None) -> Path | None:
    """Return where on this machine a lake is; None: not here, or an address is none, which who uses it will say."""
    try:
        if remote is not None and urlsplit(remote).hostname not in _OF_THIS_MACHINE:
            return None
        if "://" not in lake.root:
            return Path(lake.root)
        address = urlsplit(lake.root)
    except ValueError:
        return None
    if address.scheme != "file" or address.netloc not in {"", "localhost"}:
        return None
    return Path(address.path)


@contextmanager
def _held(root: Path, table: str, job: str) -> Iterator[None]:
    path = root / DIRECTORY / table
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise PipelineError(
            f"{path} cannot be opened ({error.strerror}): run jobs on this lake as one user, who can write to it."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(
                f"{_holder(descriptor)} has the table {table} of {root}: wait for its end, or end it, and run this "
                "again."
            ) from None
        except OSError as error:
            raise PipelineError(
                f"{path} cannot be locked ({error.strerror}): keep the lake on a file system that has locks."
            ) from error
        _write(descriptor, json.dumps({"job": job, "process": os.getpid()}).encode() + b"\n")
        try:
            yield
        finally:
            _write(descriptor, b"")  # or the next one would be taken for us, before it has said who it is
    finally:
        os.close(descriptor)


def _write(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def _holder(descriptor: int) -> str:
    """Say who has the lock of a file."""
    try:
        said: Any = json.loads(os.pread(descriptor, _MAX_BYTES, 0))
        job, process = said["job"], int(said["process"])
    except (OSError, ValueError, KeyError, TypeError):  # it has just begun
        return "Another job"
    if job not in WRITES:
        return f"Process {process}"
    return f"`gf-i2p pipeline {job}` (process {process})"
