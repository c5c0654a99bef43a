"""The container engine of this machine, and its command line."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from integration.testnet.namespace import MissingError, environment

ENGINE_VARIABLE: Final = "GF_I2P_ENGINE"
"""Tells the tests the engine: `docker` or `podman`."""
PODMAN_NEEDED: Final = {
    "podman": "podman",
    "buildah": "buildah",
    "crun": "crun",
    "netavark": "netavark",
    "aardvark-dns": "aardvark-dns",
    "catatonit": "catatonit",
    "iptables": "iptables",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""Programs that podman needs here, and their Debian packages."""
_HELPERS: Final = "/usr/lib/podman"
"""The directory of netavark and aardvark-dns on Debian."""
COMMAND_SECONDS: Final = 120.0
"""A command of the engine that takes longer counts as hanging."""


class EngineError(Exception):
    """A command of the engine failed; the text has the command's output."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Docker or podman."""

    name: str
    """`docker` or `podman`: also the name of the command."""
    compose: tuple[str, ...]
    """The command that reads compose files."""
    environment: Mapping[str, str] = field(default_factory=environment, repr=False)

    @property
    def private(self) -> bool:
        """Whether the engine runs in namespaces of its own: podman does, Docker is the machine's."""
        return self.name == "podman"

    def run(self, *arguments: str, seconds: float = COMMAND_SECONDS) -> str:
        """Run a command of the engine; return its output. Raises `EngineError` when it fails or hangs."""
        return run([self.name, *arguments], self.environment, seconds=seconds)

    def inspect(self, what: str) -> dict[str, Any]:
        """Return the engine's facts about a container or image."""
        found: dict[str, Any] = json.loads(self.run("inspect", what))[0]
        return found


def run(command: list[str], env: Mapping[str, str], *, seconds: float, cwd: Path | None = None) -> str:
    """Run a command; return its standard output. Raises `EngineError` with the end of its output."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, timeout=seconds, cwd=cwd, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"no end within {seconds:.0f} s: {' '.join(command)}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-3000:]
        raise EngineError(f"exit code {done.returncode}: {' '.join(command)}\n{said}")
    return done.stdout


def find_engine() -> Engine:
    """Find Docker with its compose plugin and a running engine, or podman. Raises `MissingError`."""
    if _docker_answers():
        return docker()
    if os.geteuid() != 0:
        raise MissingError(
            "no Docker engine answers us, and podman in namespaces of its own needs root: run it as root, or as a "
            "user whom Docker answers (`docker info`)"
        )
    path = f"{environment()['PATH']}:{_HELPERS}"
    missing = [command for command in PODMAN_NEEDED if shutil.which(command, path=path) is None]
    if missing:
        packages = " ".join(sorted({PODMAN_NEEDED[command] for command in missing}))
        raise MissingError(
            f"no Docker engine answers, and for podman these are not found: {', '.join(missing)}. "
            f"To have them: sudo apt-get install {packages}"
        )
    return podman()


def named(name: str) -> Engine:
    """Return the engine that was found before, by its name."""
    return docker() if name == "docker" else podman()


def docker() -> Engine:
    """Return this machine's Docker."""
    return Engine("docker", ("docker", "compose"))


def podman() -> Engine:
    """Return podman with podman-compose. Raises `MissingError` without podman-compose."""
    beside = Path(sys.executable).with_name("podman-compose")
    compose = str(beside) if beside.exists() else shutil.which("podman-compose")
    if compose is None:
        raise MissingError("podman-compose is not installed. To have it: pip install '.[docker]'")
    return Engine("podman", (compose,))


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        for command in (["docker", "compose", "version"], ["docker", "info"]):
            run(command, environment(), seconds=20)
    except (EngineError, OSError):
        return False
    return True
