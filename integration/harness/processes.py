"""Child processes: started with their output in a file, stopped by pid, never left behind."""

import asyncio
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIRST_PORT = 20_000
_PARTS = 12
_PART_PORTS = 1_000
_RANDOM = random.SystemRandom()
_given: dict[int, None] = {}
"""The ports that were returned, the oldest first."""


class ProcessEndedError(Exception):
    """A process that should run has stopped by itself; the text has the end of its log."""


def spawn(arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a program with its output appended to `log`."""
    # With setpriv, the kernel ends the child when this process is killed. The new session keeps Ctrl-C from the child.
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with log.open("ab") as output:
        return subprocess.Popen(
            [*guard, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


async def said_within(process: asyncio.subprocess.Process, seconds: float) -> tuple[bytes, bytes]:
    """Wait for the end of a process; return all that it wrote. At the limit: kill it, and raise TimeoutError."""
    try:
        async with asyncio.timeout(seconds):
            return await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Processes:
    """A group of children that ends with the `with` block, also after Ctrl-C and errors.

    Leaving the block blocks the event loop on purpose: a cancelled task must not leave a process running.
    """

    def __init__(self, stop_signal: signal.Signals = signal.SIGTERM, grace: float = 5.0) -> None:
        """`grace`: seconds between `stop_signal` and SIGKILL."""
        self._stop_signal = stop_signal
        self._grace = grace
        self._running: list[tuple[str, subprocess.Popen[bytes], Path]] = []

    def start(
        self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> int:
        """Start a program with its output in `log`; return its pid."""
        return self.spawn(name, arguments, log, environment).pid

    def spawn(
        self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program as `start` does; return its process."""
        process = spawn(arguments, log, environment)
        self._running.append((name, process, log))
        return process

    def check(self) -> None:
        """Raise `ProcessEndedError` with the end of the log when a process has stopped by itself."""
        for name, process, log in self._running:
            if (status := process.poll()) is not None:
                raise ProcessEndedError(f"{name} stopped by itself (status {status}). The end of its log:\n{tail(log)}")

    def kill(self, pid: int) -> None:
        """Send SIGKILL to one of the children and wait for its end, which `check` then takes for no surprise."""
        for each in self._running:
            if each[1].pid == pid:
                each[1].kill()
                each[1].wait()
                self._running.remove(each)
                return
        raise ValueError(f"no child has the process id {pid}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, process, _ in self._running:
            process.send_signal(self._stop_signal)
        deadline = time.monotonic() + self._grace
        try:
            for _, process, _ in self._running:
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
        finally:  # after a second Ctrl-C, too: no process stays
            for _, process, _ in self._running:
                process.kill()
                process.wait()


def tail(log: Path, size: int = 1000) -> str:
    """Return at most the last `size` bytes of a file, as text."""
    return log.read_bytes()[-size:].decode(errors="replace").strip() or "(nothing)"


def free_ports(count: int) -> list[int]:
    """Return loopback TCP ports without a listener.

    A port is returned again only when all others of this process were returned, and then the oldest first. Raises
    `RuntimeError` when too few ports are free.

    The ports lie below the range for outgoing connections (ip(7), ip_local_port_range): a server that is away for a
    moment finds the same port free afterwards. Programs that run side by side draw from different parts of the
    range, as long as there are no more than `_PARTS` programs.
    """
    first = _first_port()
    new = [port for port in range(first, first + _PART_PORTS) if port not in _given]
    _RANDOM.shuffle(new)
    found: list[int] = []
    for port in (*new, *_given):
        if len(found) == count:
            break
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.append(port)
    if len(found) < count:
        raise RuntimeError(f"only {len(found)} of {count} ports from {first} to {first + _PART_PORTS - 1} are free")
    for port in found:
        _given.pop(port, None)
        _given[port] = None
    return found


@functools.cache
def _first_port() -> int:
    """Take a part of the ports for the life of this process; return its first port.

    A name in the abstract namespace (unix(7)) belongs to one process at a time, is free again after any end of that
    process, and belongs to a network namespace, like ports.
    """
    own = os.getpid() % _PARTS
    for part in sorted(range(_PARTS), key=lambda part: (part - own) % _PARTS):
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0gf-i2p ports {part}")
        except OSError:
            mark.close()
            continue
        mark.detach()  # the socket stays open until this process ends
        return _FIRST_PORT + part * _PART_PORTS
    return _FIRST_PORT + own * _PART_PORTS


async def listens(host: str, port: int) -> bool:
    """Return whether a program takes connections at this place."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a live process so far, user and system (proc(5), stat)."""
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a live process (proc(5), statm)."""
    return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES


def children(pid: int) -> list[int]:
    """Return the pids of a live process's children."""
    found = []
    for task in (_PROC / str(pid) / "task").iterdir():
        with suppress(FileNotFoundError):  # the thread has just ended
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def machine_cpu_seconds() -> float:
    """Return the processor time of the whole machine so far (proc(5), /proc/stat), without idle time.

    Time that a hypervisor gave to other machines counts as used: this machine did not have that time.
    """
    times = [int(ticks) for ticks in (_PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = times
    return (user + nice + system + interrupts + soft_interrupts + stolen) / CLOCK_TICKS


def session_niceness(pid: int) -> int:
    """Return the niceness of a process's session to other sessions, -20 to 19 (sched(7), autogroup).

    Each server is a separate session, so a server's own niceness means nothing to other sessions. 0 where
    sessions have no niceness: the file is missing, or empty, as in a control group with a separate scheduler.
    """
    try:
        words = _autogroup(pid).read_text().split()
    except FileNotFoundError:
        return 0
    return int(words[-1]) if words else 0


def set_share(pid: int, nice: int) -> None:
    """Set the value of `session_niceness`. Only root may set a value below 0, or below the present one."""
    if session_niceness(pid) != nice:
        _autogroup(pid).write_text(str(nice))


def _autogroup(pid: int) -> Path:
    return _PROC / str(pid) / "autogroup"
