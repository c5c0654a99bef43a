"""Machines of an operator: each is a network namespace with its own i2pd, as Debian's package runs i2pd.

On a machine, /etc/i2pd and /var/lib/i2pd are the machine's own, and the router's interfaces are at their usual places
on 127.0.0.1. The router has Debian's own i2pd.conf; only the lines of `_PRIVATE` tell the router that its network is a
private one. A web server of the machine answers at 127.0.0.1:8080. The machines see one another, and the routers of the
network that runs already, by the routers' addresses only.

Small programs stand in for what such a machine has besides: `systemctl restart i2pd` and `systemctl reload i2pd`,
`sudo`, and `ssh` and `scp` to the other machines, by their names.
"""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from integration.harness.local_farm import becomes, until
from integration.harness.network_namespaces import enter, socket_inside
from integration.harness.processes import Processes
from integration.testnet.bridge import Bridge
from integration.testnet.network import MIN_TUNNELS, START_SECONDS
from integration.testnet.router import HTTP_PORT, RouterProcess
from integration.testnet.router_console import parse_summary
from integration.testnet.router_network import RouterNetwork

ETC: Final = Path("/etc/i2pd")
LIB: Final = Path("/var/lib/i2pd")
SERVICE_PORT: Final = 8080
LOOPBACK: Final = "127.0.0.1"
_STOP_SECONDS: Final = 10.0
_PRIVATE: Final = """\
netid = 77
host = {address}
address4 = {address}
port = {port}
nat = false
reservedrange = false
"""
"""Lines before all others in i2pd.conf. The rest is said on the command line."""
_OPTIONS: Final = (
    "--reseed.threshold=0 --reseed.urls=http://127.0.0.1:1/ --reseed.yggurls=http://127.0.0.1:1/ --nettime.enabled=0 "
    "--addressbook.defaulturl=http://127.0.0.1:1/ --addressbook.subscriptions=http://127.0.0.1:1/ --persist.profiles=0"
)
_INIT: Final = """\
mount --bind {directory}/etc {etc} && mount --bind {directory}/lib {lib} || exit
cd {directory}
end() {{ kill $router $web; wait; exit; }}
trap end TERM
{python} -m http.server {port} --bind 127.0.0.1 --directory www >web.log 2>&1 & web=$!
while :; do
  # The words of Debian's unit, without those for a daemon.
  i2pd --conf={etc}/i2pd.conf --tunconf={etc}/tunnels.conf --tunnelsdir={etc}/tunnels.conf.d --service \\
    --log=file --logfile={directory}/i2pd.log --loglevel=warn {options} >>output.log 2>&1 & router=$!
  echo $router >pid.new; mv pid.new pid
  wait $router
  echo "i2pd $router has ended: $?" >>ends.log
done
"""
"""Runs the machine. A router that ends, by a crash or by `systemctl restart`, starts again."""
_SYSTEMCTL: Final = """\
#!/bin/sh
[ "$2" = i2pd ] || exit 1
pid=$(cat {directory}/pid)
case $1 in
  reload) kill -HUP $pid ;;
  restart)
    kill -TERM $pid
    for _ in $(seq 300); do [ "$(cat {directory}/pid)" != $pid ] && exit; sleep 0.1; done
    kill -KILL $pid ;;
  *) exit 1 ;;
esac
"""
_SUDO: Final = '#!/bin/sh\nexec "$@"\n'
_SSH: Final = """\
#!/bin/sh
place={machines}/$1; shift
[ -d $place ] || exit 255
. $place/variables
exec $(cat $place/enter) sh -c "cd $place/home && $*"
"""
_SCP: Final = """\
#!/bin/sh
# scp -p FILE MACHINE:PATH, or scp -rp DIRECTORY MACHINE:
[ "$1" = -p ] || [ "$1" = -rp ] || exit 1
shift
for last; do :; done
place={machines}/${{last%%:*}}
[ -d $place ] || exit 255
cp -Rp "$1" "$place/home/${{last#*:}}"
"""


class Machine:
    """One machine: its namespaces, its files, and the router."""

    def __init__(self, name: str, number: int, directory: Path) -> None:
        """`number`: of the router, which no other router has. `directory`: new, for the files of the machine."""
        self.name = name
        self.directory = directory
        self.router = RouterProcess(number, directory / "lib", floodfill=False, password="")
        self.where: list[str] = []
        """The prefix that runs a command on the machine."""
        self._net = 0

    @property
    def home(self) -> Path:
        """The directory of the machine's user, the same path on all machines' views."""
        return self.directory / "home"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the machine's user."""
        path = f"{self.directory}/bin:{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        return {"HOME": str(self.home), "PATH": path}

    def write(self, network: RouterNetwork) -> None:
        """Write the files, as the package i2pd has brought them, and what the router must know of the network."""
        for each in (self.home, self.directory / "bin", self.directory / "www"):
            each.mkdir(parents=True)
        (self.directory / "www" / "index.html").write_text(f"hello from {self.name}\n")
        shutil.copytree(ETC, self.directory / "etc", symlinks=True)
        shutil.copytree(LIB, self.directory / "lib", symlinks=True)
        config = self.directory / "etc" / "i2pd.conf"
        private = _PRIVATE.format(address=self.router.network_address, port=self.router.i2np_port)
        config.write_text(private + config.read_text())
        for other in network.routers:
            self.router.learn((other.directory / "router.info").read_bytes())
        variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self.environment.items())
        (self.directory / "variables").write_text(variables)
        for name, text in {"systemctl": _SYSTEMCTL, "sudo": _SUDO, "ssh": _SSH, "scp": _SCP}.items():
            program = self.directory / "bin" / name
            program.write_text(text.format(directory=self.directory, machines=self.directory.parent))
            program.chmod(0o755)

    async def start(self, net: int, processes: Processes) -> None:
        """Start the router and the web server in the network namespace of the process `net`."""
        self._net = net
        init = _INIT.format(
            directory=self.directory, etc=ETC, lib=LIB, python=sys.executable, port=SERVICE_PORT, options=_OPTIONS
        )
        # The shell, not `unshare`, must get the signal of the end: `unshare` becomes the shell.
        pid = processes.start(
            self.name, [*enter(net), "unshare", "--mount", "sh", "-c", init], self.directory / "init.log"
        )

        def runs() -> bool:
            processes.check()
            return (self.directory / "pid").exists()

        await becomes(f"{self.name} runs", runs)
        self.where = ["nsenter", f"--net=/proc/{net}/ns/net", f"--mount=/proc/{pid}/ns/mnt", "--"]
        (self.directory / "enter").write_text(shlex.join(self.where))

    def web(self, **options: Any) -> aiohttp.ClientSession:
        """Return an HTTP client on the machine, for 127.0.0.1. `options`: see `aiohttp.ClientSession`."""
        # A connection for each request, as each new visitor would make one.
        connector = aiohttp.TCPConnector(force_close=True, limit=0, socket_factory=lambda _: socket_inside(self._net))
        return aiohttp.ClientSession(connector=connector, **options)

    async def has_tunnels(self) -> bool:
        """Whether the router has built tunnels for clients."""
        try:
            async with (
                self.web(timeout=aiohttp.ClientTimeout(total=5)) as web,
                web.get(f"http://{LOOPBACK}:{HTTP_PORT}/") as response,
            ):
                return parse_summary(await response.text()).client_tunnels >= MIN_TUNNELS
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False


class Machines:
    """The machines by name, as an asynchronous context manager. Entering ends when all routers have tunnels."""

    def __init__(self, network: RouterNetwork, directory: Path, names: Sequence[str]) -> None:
        """`network`: without Java routers, which are behind a bridge of the same name. `directory`: a new one."""
        self._network = network
        self._directory = directory
        first = len(network.routers)
        self.by_name = {name: Machine(name, first + n, directory / name) for n, name in enumerate(names)}
        self._open = ExitStack()

    async def __aenter__(self) -> Self:
        self._directory.mkdir(mode=0o700)
        try:
            bridge = self._open.enter_context(Bridge(self._directory / "bridge.log"))
            processes = self._open.enter_context(Processes(grace=_STOP_SECONDS))
            for machine in self.by_name.values():
                machine.write(self._network)
                await machine.start(await bridge.join(machine.router.network_address), processes)
            for machine in self.by_name.values():
                await until(f"{machine.name}: tunnels", START_SECONDS, machine.has_tunnels, poll=0.5)
        except BaseException:
            await asyncio.to_thread(self._open.close)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._open.close)
