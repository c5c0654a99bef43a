"""A farm whose servers have a network namespace each, joined by a router that drops packets on demand.

Only the first process inside fresh namespaces can use this module (`integration.testnet.namespace`). A cut loses
packets silently, as on a real network: no host is told, and connections hang.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from gf_i2p.wire.endpoint import Endpoint
from integration.harness.local_farm import PROGRAM, LocalFarm
from integration.harness.network_namespaces import enter, ip, new_namespace, run_inside
from integration.harness.processes import Processes

CLIENTS: Final = 100
"""Host number of this process, which runs the clients."""
PORT: Final = 4150
NEEDED: Final = {"unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux", "ip": "iproute2"}
_FORWARD: Final = Path("/proc/sys/net/ipv4/ip_forward")


def address(host: int) -> str:
    """Return the address of a host."""
    return f"10.99.{host}.2"


class FarmNet:
    """Hosts by number, and ways between them; each way can be cut.

    A process sleeps in each namespace; the namespaces end with `processes`.
    """

    def __init__(self, hosts: Iterable[int], processes: Processes, log: Path) -> None:
        self._hosts = tuple(hosts)
        self._processes = processes
        self._log = log
        self._pids: dict[int, int] = {}
        self._router = 0
        self._cuts: Counter[tuple[int, int]] = Counter()

    async def start(self) -> None:
        """Make the hosts, and ways between all of them, this process included. Raises `OSError`."""
        self._router = await new_namespace(self._processes, "router", self._log)
        await run_inside(self._router, ["sh", "-c", f"echo 1 > {_FORWARD}"])
        ip(os.getpid(), ["link set lo up"])
        self._join(CLIENTS, os.getpid())
        for host in self._hosts:
            self._pids[host] = await new_namespace(self._processes, f"host {host}", self._log)
            self._join(host, self._pids[host])

    def where(self, host: int) -> list[str]:
        """Return the prefix that runs a command on a host."""
        return enter(self._pids[host])

    def cut(self, ways: Sequence[tuple[int, int]]) -> None:
        """Drop packets from the first to the second host of each way. A way that was cut twice needs two `mend`."""
        new = [way for way in ways if not self._cuts[way]]
        self._cuts.update(ways)
        self._rules("add", new)

    def mend(self, ways: Sequence[tuple[int, int]]) -> None:
        """Undo one cut of each of these ways; a way that was cut twice stays cut."""
        self._cuts.subtract(ways)
        self._rules("del", [way for way in ways if not self._cuts[way]])

    def _rules(self, what: str, ways: Iterable[tuple[int, int]]) -> None:
        rules = [f"rule {what} from {address(one)} to {address(other)} blackhole" for one, other in ways]
        if rules:
            ip(self._router, rules)

    def _join(self, host: int, pid: int) -> None:
        """Connect the router and a namespace by a pair of virtual interfaces."""
        gateway = f"10.99.{host}.1"
        ip(
            self._router,
            [
                f"link add name host{host} type veth peer name up{host}",
                f"link set dev up{host} netns {pid}",
                f"address add {gateway}/30 dev host{host}",
                f"link set dev host{host} up",
            ],
        )
        ip(
            pid,
            [
                f"address add {address(host)}/30 dev up{host}",
                f"link set dev up{host} up",
                f"route add default via {gateway}",
            ],
        )


class NetFarm(LocalFarm):
    """Servers 1 to n, each on its host of a network that has started."""

    def __init__(self, directory: Path, net: FarmNet, *, servers: int, program: Sequence[str] = PROGRAM) -> None:
        self._net = net
        super().__init__(directory, servers=servers, program=program)

    def endpoints(self) -> dict[int, Endpoint]:
        """Give each server an address of its own."""
        return {server: Endpoint(address(server), PORT) for server in self.ids}

    def where(self, server_id: int) -> list[str]:
        """See `LocalFarm.where`."""
        return self._net.where(server_id)
