"""Network namespaces below the one of this process, each kept by a process that sleeps.

Only a process with rights over its own namespace can use this module (`integration.testnet.namespace`).
"""

import asyncio
import ctypes
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration.harness.local_farm import becomes
from integration.harness.processes import Processes

_CLONE_NEWNET: Final = 0x40000000
"""Kind of a network namespace (setns(2))."""


async def new_namespace(processes: Processes, name: str, log: Path) -> int:
    """Make a namespace, whose loopback is up; return the id of the process that keeps it and that `processes` ends."""
    pid = processes.start(name, ["unshare", "--net", "sleep", "infinity"], log)
    ours = os.readlink("/proc/self/ns/net")  # noqa: PTH115 -- the link's text is no path

    def elsewhere() -> bool:
        processes.check()
        return os.readlink(f"/proc/{pid}/ns/net") != ours  # noqa: PTH115

    await becomes(f"a network namespace for {name}", elsewhere)
    ip(pid, ["link set lo up"])
    return pid


def enter(pid: int) -> list[str]:
    """Return the prefix that runs a command in the network namespace of a process."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]


def socket_inside(pid: int) -> socket.socket:
    """Return a TCP socket of the network namespace of a process. Raises `OSError`.

    A socket stays in the namespace in which the socket was made, so this thread enters that namespace for a moment.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open("rb") as ours, Path(f"/proc/{pid}/ns/net").open("rb") as theirs:
        _enter(libc, theirs.fileno())
        try:
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            _enter(libc, ours.fileno())
    made.setblocking(False)
    return made


def _enter(libc: ctypes.CDLL, namespace: int) -> None:
    if libc.setns(namespace, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


async def run_inside(pid: int, command: Sequence[str]) -> None:
    """Run a command in the network namespace of a process. Raises `CalledProcessError`."""
    await asyncio.to_thread(subprocess.run, [*enter(pid), *command], check=True)


def ip(pid: int, commands: Sequence[str]) -> None:
    """Run commands of `ip` in the network namespace of a process. Raises `OSError` with the program's message."""
    prefix = [] if pid == os.getpid() else enter(pid)
    text = "".join(f"{command}\n" for command in commands)
    done = subprocess.run([*prefix, "ip", "-batch", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip could not do this: {'; '.join(commands)}: {done.stderr.strip()}")


def ip_output(pid: int, command: str) -> str:
    """Return what a command of `ip` shows in the network namespace of a process. Raises `CalledProcessError`."""
    done = subprocess.run([*enter(pid), "ip", *command.split()], capture_output=True, text=True, check=True)
    return done.stdout
