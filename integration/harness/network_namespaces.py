"""Network namespaces below the one of this process, each kept by a process that sleeps.

Only a process with rights over its own namespace can use this module (`integration.testnet.namespace`).
"""

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from integration.harness.local_farm import becomes
from integration.harness.processes import Processes


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
