"""One compose project: builds and starts the containers, makes single containers fail, and removes everything."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from integration.containers.engine import COMMAND_SECONDS, Engine, EngineError, run
from integration.harness.waiting import wait_for

UP_SECONDS: Final = 300.0
BUILD_SECONDS: Final = 1200.0
ASK_SECONDS: Final = 5.0
"""Pause between two questions that are commands in containers: each command costs a second of processor time."""
# Both compose programs write these.
_PROJECT_LABEL: Final = "com.docker.compose.project"
_SERVICE_LABEL: Final = "com.docker.compose.service"
PODMAN_BUILD: Final = ("--network=host", "--format=docker")
"""Podman's build options: this machine's network, and a format with health checks, which podman's own lacks."""
HELPER_IMAGE: Final = "gf-i2p-testnet"
"""An image with Python. The image is present whenever a farm runs."""
_SET_LINKS: Final = """
import fcntl, socket, struct, sys
request, up = struct.Struct("16sH22x"), 1  # ifreq and IFF_UP, netdevice(7)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    for _, name in socket.if_nameindex():
        if name != "lo":
            _, flags = request.unpack(fcntl.ioctl(any_socket, 0x8913, request.pack(name.encode(), 0)))
            flags = flags | up if sys.argv[1] == "up" else flags & ~up
            fcntl.ioctl(any_socket, 0x8914, request.pack(name.encode(), flags))
"""
"""Sets every interface "up" or "down", without iproute2. SIOCGIFFLAGS and SIOCSIFFLAGS are the numbers."""


class Project:
    """The containers, networks and volumes of a compose file under a name; the `with` block removes them at its end."""

    def __init__(self, engine: Engine, name: str, file: Path, variables: Mapping[str, str] | None = None) -> None:
        """`variables`: values of the environment variables that the compose file names."""
        self.engine = engine
        self.name = name
        self._compose = [*engine.compose, "-p", name, "-f", str(file)]
        self._environment = {**engine.environment, **(variables or {})}
        self._file = file

    def __enter__(self) -> Self:
        if not self.engine.private:  # a killed run may have left containers in the machine's engine
            self.down()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def compose(self, *arguments: str, seconds: float = COMMAND_SECONDS, options: Sequence[str] = ()) -> str:
        """Run a command of compose; `options` are the program's own and precede the command."""
        return run([*self._compose, *options, *arguments], self._environment, seconds=seconds, cwd=self._file.parent)

    def build(self, *, fresh: bool = False) -> None:
        """Build the images, on this machine's network; `fresh`: repeat every step."""
        options = [f"--podman-build-args={' '.join(PODMAN_BUILD)}"] if self.engine.private else []
        self.compose("build", *(["--no-cache"] if fresh else []), seconds=BUILD_SECONDS, options=options)

    def up(self) -> None:
        """Start everything, detached, from existing images."""
        self.compose("up", "-d", "--no-build", seconds=UP_SECONDS)

    def down(self) -> None:
        """Remove containers, networks and volumes."""
        self.compose("down", "--volumes", "--timeout", "2", seconds=UP_SECONDS)

    def left(self) -> list[str]:
        """Return the project's remaining containers, networks and volumes."""
        mine = f"label={_PROJECT_LABEL}={self.name}"
        return [
            *self.engine.run("ps", "--all", "--filter", mine, "--format", "container {{.Names}}").splitlines(),
            *self.engine.run("network", "ls", "--filter", mine, "--format", "network {{.Name}}").splitlines(),
            *self.engine.run("volume", "ls", "--filter", mine, "--format", "volume {{.Name}}").splitlines(),
        ]

    def images(self) -> list[str]:
        """Return the names of the images that the file builds or uses."""
        services = yaml.safe_load(self._file.read_text())["services"].values()
        return list(dict.fromkeys(service["image"] for service in services))

    # One container ----------------------------------------------------------------------------------------------------

    def containers(self) -> dict[str, str]:
        """Return the containers, running or not: their ids by service."""
        form = f'{{{{.ID}}}} {{{{index .Labels "{_SERVICE_LABEL}"}}}}'
        if not self.engine.private:
            form = f'{{{{.ID}}}} {{{{.Label "{_SERVICE_LABEL}"}}}}'
        lines = self.engine.run("ps", "--all", "--filter", f"label={_PROJECT_LABEL}={self.name}", "--format", form)
        return {service: found for found, service in (line.split() for line in lines.splitlines())}

    def container(self, service: str) -> str:
        """Return the id of a service's container. Raises `EngineError` without a container."""
        try:
            return self.containers()[service]
        except KeyError:
            raise EngineError(f"{self.name} has no container of {service}") from None

    def inspect(self, service: str) -> dict[str, Any]:
        """Return the engine's facts about a service's container."""
        return self.engine.inspect(self.container(service))

    def limits(self) -> dict[str, tuple[int, int]]:
        """Return bytes of memory and number of processes that the engine gives each service's container at most."""
        found = {service: self.engine.inspect(each)["HostConfig"] for service, each in self.containers().items()}
        return {service: (each["Memory"], each["PidsLimit"]) for service, each in found.items()}

    def running(self, service: str) -> bool:
        """Whether the container runs; False also without a container."""
        return self._pid(service) > 0

    def exit_code(self, service: str) -> int | None:
        """Return a container's exit code; None while the container runs, or without a container."""
        if service not in self.containers():
            return None
        state = self.inspect(service)["State"]
        return int(state["ExitCode"]) if state["Status"] == "exited" else None

    def exec(self, service: str, *command: str, seconds: float = 30.0, user: str | None = None) -> str:
        """Run a command in a container; return the command's output. Raises `EngineError` when the command fails."""
        options = ["--user", user] if user else []
        return self.engine.run("exec", *options, self.container(service), *command, seconds=seconds)

    def kill(self, service: str) -> None:
        """End a container like a crash (SIGKILL). The file's restart policy may start it again at once."""
        before = self._pid(service)
        try:
            self.engine.run("kill", self.container(service))
        except EngineError as error:  # podman waits for 5 s for the end's record: too short on a busy machine
            print(f"{service}: kill failed; now waiting for the end of the container: {error}", flush=True)
        wait_for(f"{service} killed", 30, lambda: self._pid(service) != before, poll=0.2)

    def start(self, service: str) -> None:
        """Start a container again, unless it runs."""
        self.engine.run("start", self.container(service))

    def remove(self, service: str) -> None:
        """Remove a container for good, running or not."""
        self.engine.run("rm", "--force", self.container(service))

    def logs(self, service: str, lines: int = 30) -> str:
        """Return the last lines of a container's output."""
        try:
            done = subprocess.run(
                [self.engine.name, "logs", "--tail", str(lines), self.container(service)],
                env=dict(self.engine.environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=COMMAND_SECONDS,
            )
        except (EngineError, subprocess.TimeoutExpired) as error:
            return str(error)
        return done.stdout

    def healthy(self, service: str) -> bool:
        """Whether the health check passes now; podman needs this call, for nothing else runs checks without systemd."""
        if not self.engine.private:
            health: dict[str, str] = self.inspect(service)["State"].get("Health", {})
            return health.get("Status") == "healthy"
        try:
            self.engine.run("healthcheck", "run", self.container(service))
        except EngineError:
            return False
        return True

    @contextlib.contextmanager
    def cut_off(self, service: str) -> Iterator[None]:
        """Cut a container off from every network while the block runs: its interfaces are down."""
        self._set_links(service, "down")
        try:
            yield
        finally:
            self._set_links(service, "up")

    def _set_links(self, service: str, to: str) -> None:
        # Not `docker network disconnect`: `connect` keeps no MAC, so the container would come back changed.
        if self.engine.private:
            pid = str(self._pid(service))
            setting = ["nsenter", "-t", pid, "-n", "ip", "link", "set"]
            for link in self._links(pid):
                run([*setting, link, to], self.engine.environment, seconds=COMMAND_SECONDS)
            return
        # This process may lack the rights, or the engine may run in a virtual machine. So a second container does this.
        rights = ["--user", "0:0", "--cap-drop", "ALL", "--cap-add", "NET_ADMIN"]
        where = ["--network", f"container:{self.container(service)}", "--entrypoint", "python3", HELPER_IMAGE]
        self.engine.run("run", "--rm", *rights, *where, "-c", _SET_LINKS, to)

    def _links(self, pid: str) -> list[str]:
        lines = run(
            ["nsenter", "-t", pid, "-n", "ip", "-o", "link", "show"], self.engine.environment, seconds=COMMAND_SECONDS
        )
        names = [line.split(":")[1].strip().partition("@")[0] for line in lines.splitlines()]
        return [name for name in names if name != "lo"]

    def _pid(self, service: str) -> int:
        found = self.containers().get(service)
        if found is None:
            return 0
        # Podman keeps the number of a process whose end podman has missed.
        return int(self.engine.run("inspect", "--format", "{{if .State.Running}}{{.State.Pid}}{{else}}0{{end}}", found))
