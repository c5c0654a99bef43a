"""An Ethernet bridge of this namespace, for routers that have a network namespace of their own."""

import contextlib
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from integration.harness.network_namespaces import ip, new_namespace
from integration.harness.processes import Processes

ADDRESS: Final = "198.18.0.1"
"""Address of this namespace's programs, for the routers behind the bridge."""
_BITS: Final = 16
"""Length of the network's prefix: all routers are neighbours."""
_BRIDGE: Final = "routers"


class Bridge:
    """The bridge, and the namespaces behind the bridge. A context manager, whose end ends the namespaces.

    The addresses of this namespace's loopback are neighbours of the routers behind the bridge, too.
    """

    def __init__(self, log: Path) -> None:
        self._processes = Processes()
        self._log = log
        self._pids: dict[str, int] = {}
        self._is_made = False

    def __enter__(self) -> Self:
        self._processes.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, trace)
        if self._is_made:
            with contextlib.suppress(OSError, subprocess.CalledProcessError) if error else contextlib.nullcontext():
                ip(os.getpid(), [f"link delete dev {_BRIDGE}"])

    async def join(self, address: str) -> int:
        """Make a namespace that has this address; return the id of the process that keeps it. Raises `OSError`."""
        ours = os.getpid()
        if not self._is_made:
            self._is_made = True
            ip(
                ours,
                [
                    f"link add name {_BRIDGE} type bridge",
                    f"address add {ADDRESS}/{_BITS} dev {_BRIDGE}",
                    f"link set dev {_BRIDGE} up",
                ],
            )
        port = f"port{len(self._pids)}"
        pid = self._pids[address] = await new_namespace(self._processes, address, self._log)
        ip(
            ours,
            [
                f"link add name {port} type veth peer name eth0 netns {pid}",
                f"link set dev {port} master {_BRIDGE} up",
            ],
        )
        ip(pid, [f"address add {address}/{_BITS} dev eth0", "link set dev eth0 up"])
        return pid
