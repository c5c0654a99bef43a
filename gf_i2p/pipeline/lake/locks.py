"""Locks that keep two jobs from writing the same tables of one lake, when the lake is a directory of this machine.

Spark has no such lock. When two jobs add to one table, the job that ends first deletes the other job's unfinished
files. A lock is an flock on the file `LAKE/_locks/TABLE`, and ends with the process that holds the lock. Spark ignores
names that begin with _.
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
    "backtest": ("backtest", "backtest_days", "decisions"),
    "run": (
        *("anomalies", "backtest", "backtest_days", "decisions", "destination_hours", "entries", "files"),
        *("quarantine", "server_hours"),
    ),
    "floodfills": ("closest", "quarantine", "routers"),
    "compact": ("alerts", "anomalies", "backtest", "entries", "files", "quarantine"),
    "stream": ("alerts", "anomalies", "destination_hours", "entries", "files", "quarantine", "server_hours"),
}
"""Tables that each job locks, in the order of locking: all tables that the job writes.

`compact` locks a table of each job that reads `entries`, too: the job would find rows twice while files are moved.
"""
_NEED_A_LAKE: Final = frozenset({"health", "backtest", "compact"})
_OF_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_BYTES: Final = 256


@contextmanager
def tables_locked(lake: Lake, job: str, remote: str | None = None) -> Iterator[None]:
    """Lock the tables of a job (`WRITES`) until the end of the block. A job that writes no table locks nothing.

    `remote`: the address of the Connect server that runs the job, if any; the lake is then a directory of that server.
    A lake at an address or on another machine is not locked. Raises `PipelineError`, without waiting, when another job
    holds a lock.
    """
    root = directory(lake, remote)
    tables = WRITES.get(job, ())
    if root is None or not tables or (job in _NEED_A_LAKE and not root.is_dir()):
        yield
        return
    with ExitStack() as locks:
        for table in tables:
            locks.enter_context(table_locked(root, table, job))
        yield


def directory(lake: Lake, remote: str | None = None) -> Path | None:
    """Return the directory of a lake on this machine; None: the lake is elsewhere, or an address is malformed.

    A malformed address raises no error here: Spark raises the error later.
    """
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
def table_locked(root: Path, table: str, job: str, *, waits: bool = False) -> Iterator[None]:
    """Lock the file `LAKE/_locks/TABLE` until the end of the block. `waits`: wait while another job holds the lock.

    Raises `PipelineError` when the file cannot be locked, and without `waits` when another job holds the lock.
    """
    path = root / DIRECTORY / table
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise PipelineError(
            f"{path} cannot be opened ({error.strerror}): run all jobs on this lake as one user that can write there."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            raise PipelineError(
                f"{_holder(descriptor)} has locked the table {table} of {root}: wait until that job ends, or stop that "
                "job. Then run this job again."
            ) from None
        except OSError as error:
            raise PipelineError(
                f"{path} cannot be locked ({error.strerror}): keep the lake on a file system that has locks."
            ) from error
        _write(descriptor, json.dumps({"job": job, "process": os.getpid()}).encode() + b"\n")
        try:
            yield
        finally:
            _write(descriptor, b"")  # the next holder must not pass for this job before its own note is written
    finally:
        os.close(descriptor)


def _write(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def _holder(descriptor: int) -> str:
    """Return a text that names the holder of a file's lock: the subject of a sentence."""
    try:
        note: Any = json.loads(os.pread(descriptor, _MAX_BYTES, 0))
        job, process = note["job"], int(note["process"])
    except (OSError, ValueError, KeyError, TypeError):  # the holder has not written a note yet
        return "Another job"
    if job not in WRITES:
        return f"Process {process}"
    return f"`gf-i2p pipeline {job}` (process {process})"
