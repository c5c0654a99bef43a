"""A router of either kind, alone in a network of its own, which ends at loopback: the router meets no other router."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gf_i2p.cli.doctor.router_lines import JAVA_ROUTER, JAVA_SAM, JAVA_WEBAPPS
from integration.harness.waiting import wait_for

I2PD: Final = """\
ip link set lo up
i2pd --datadir "$1" --conf "$1/i2pd.conf" --log file --loglevel none --reseed.threshold 0 --nettime.enabled 0 &
exec sleep 900
"""
"""Runs an i2pd. $1: its directory."""
JAVA: Final = """\
ip link set lo up
cd "$1" && rm -f router.ping && mkdir -p tmp
env PATH=/nonexistent "$3" -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true \\
    -Di2p.dir.base="$2" -Di2p.dir.config="$1" -Djava.io.tmpdir="$1/tmp" -cp "$2/lib/*" \\
    net.i2p.router.RouterLaunch >"$1/output" 2>&1 &
exec sleep 900
"""
"""Runs a Java router. $1: its directory, $2: the installation, $3: java. A killed router leaves the file router.ping,
which forbids a start. Without programs in PATH, the router opens no browser."""
_LONE_POOLS: Final = "".join(
    f"router.{way}Pool.{key}=0\n" for way in ("inbound", "outbound") for key in ("length", "lengthVariance")
)
_LONE_TUNNEL: Final = "".join(
    f"option.{way}.{key}=0\n" for way in ("inbound", "outbound") for key in ("length", "lengthVariance")
)
"""Without other routers, a Java router has only tunnels without hops. Until it has tunnels, it starts no proxy."""
_TUNNELS: Final = "i2ptunnel.config.d/*.config"
_AT_ONCE: Final = "clientApp.0.delay=0\n"
"""SAM would start two minutes after the router."""
_PATIENCE: Final = 120.0


@contextmanager
def running(script: str, *words: str | Path) -> Iterator[int]:
    """Run one of the scripts above; give the id of a process inside the router's network."""
    unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child=KILL", "sh", "-c", script, "sh", *map(str, words)]
    with subprocess.Popen(unshare, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            wait_for("unshare has a child", 30, lambda: bool(children.read_text()))
            yield int(children.read_text())
        finally:
            process.kill()


def wait_for_failures(pid: int, wrong: set[str], *words: str) -> None:
    """Wait until exactly these checks of `router-config WORDS --check` fail, inside the network of process `pid`."""
    command = [sys.executable, "-m", "gf_i2p.cli.main", "router-config", *words, "--check", "--json"]
    seen: set[str] = set()

    def only_these_fail() -> bool:
        asked = ["nsenter", f"--target={pid}", "--net", *command]
        run = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120)
        seen.clear()
        seen.update(check["name"] for check in json.loads(run.stdout)["checks"] if check["state"] == "fail")
        return seen == wrong

    wait_for(f"only {wrong or 'nothing'} fails", _PATIENCE, only_these_fail, else_say=lambda: f"seen: {seen}")


class JavaDefaults:
    """The directory of a Java router after the first starts: all files are as the router makes them by itself."""

    def __init__(self, directory: Path, installation: Path) -> None:
        """Start the router twice. The second start splits up the file of tunnels."""
        java = shutil.which("java")
        assert java is not None
        self.directory = directory
        self.words = (directory, installation, Path(java))
        with running(JAVA, *self.words):
            self._wait_for_files(JAVA_ROUTER, JAVA_WEBAPPS, "i2ptunnel.config", JAVA_SAM)
        self._append(JAVA_ROUTER, _LONE_POOLS)
        with running(JAVA, *self.words):
            self._wait_for_files(_TUNNELS)
        self._append(JAVA_SAM, _AT_ONCE)
        self._files = {path: path.read_text() for path in self._found("*.config") + self._found("*.config.d/*.config")}

    def give(self, files: dict[str, list[str]]) -> None:
        """Give each file these lines at its end, and nothing else to any file. A name without a star may be new."""
        for path in self._found("*.config.d/*.config"):
            if path not in self._files:
                path.unlink()
        for path, text in self._files.items():
            path.write_text(text)
        for name, lines in files.items():
            self._append(name, "".join(f"{line}\n" for line in lines))
        for path in self._found(_TUNNELS):
            path.write_text(path.read_text() + _LONE_TUNNEL)

    def _append(self, name: str, text: str) -> None:
        [path] = self._found(name) if "*" in name else [self.directory / name]
        with path.open("a") as file:
            file.write(text)

    def _found(self, name: str) -> list[Path]:
        return sorted(self.directory.glob(name))

    def _wait_for_files(self, *names: str) -> None:
        wait_for(f"the router has {names}", _PATIENCE, lambda: all(self._found(name) for name in names))
