"""JRaft: the class path, and a JRaft server as a child process."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.raft.settings import Timing
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, encode_server_id
from gf_i2p.wire.messages import NOBODY, MessageType
from integration.harness.processes import Processes, tail
from integration.jraft.plain_tcp import HOST, ask_jraft

CLASSES_VARIABLE: Final = "JRAFT_CLASSPATH"
"""Names a Java class path with JRaft (core and extensions) and JRaft's libraries."""
_NO_SERVER: Final = 0x7FFF_FFF0
_DRIVER: Final = Path(__file__).with_name("JraftServer.java")


class JraftMissingError(Exception):
    """JRaft cannot run here; the message names the missing part and the remedy."""


class JraftError(Exception):
    """A JRaft server broke an expectation; the message has the end of the log."""


@dataclass(frozen=True, slots=True)
class Jraft:
    """The JRaft that was found, with the compiled driver."""

    classpath: str

    @classmethod
    def prepare(cls, into: Path) -> "Jraft":
        """Compile the driver for the JRaft on the class path; takes some seconds. Raises `JraftMissingError`."""
        classpath = find_jraft()
        command = ["javac", "-nowarn", "-implicit:none", "-d", str(into), "-cp", classpath, str(_DRIVER)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise JraftMissingError(
                f"{CLASSES_VARIABLE} is no class path of JRaft, core and extensions: the driver does not compile with "
                f"it\n{result.stderr[-2000:].strip()}"
            )
        return cls(f"{into}:{classpath}")


def find_jraft() -> str:
    """Return the class path with JRaft; raises `JraftMissingError`."""
    classpath = os.environ.get(CLASSES_VARIABLE)
    if not classpath:
        raise JraftMissingError(
            "JRaft (datatechnology/jraft) is no part of this project: set "
            f"{CLASSES_VARIABLE} to a Java class path with its classes and the libraries that it needs"
        )
    for part in classpath.split(":"):
        if not Path(part).exists():
            raise JraftMissingError(f"{CLASSES_VARIABLE}: there is no {part}")
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            raise JraftMissingError(
                f"{program} is missing; Java 17 or newer is needed: apt-get install default-jdk-headless"
            )
    return classpath


class JraftServer:
    """One JRaft server, with all files in `directory`."""

    def __init__(
        self,
        jraft: Jraft,
        directory: Path,
        server: ClusterServer,
        servers: Sequence[ClusterServer],
        processes: Processes,
        timing: Timing,
        snapshot_distance: int = 0,
    ) -> None:
        """`servers`: all servers of the farm at first, this one included. `snapshot_distance`: entries; 0: none."""
        self.id = server.id
        self.endpoint = server.endpoint
        self.port = int(server.endpoint.rpartition(":")[2])
        self.directory = directory
        self._jraft = jraft
        self._processes = processes
        times = [round(seconds * 1000) for seconds in (timing.heartbeat, timing.election_min, timing.election_max)]
        self._arguments = [str(number) for number in (self.port, *times)]
        self._snapshot_distance = snapshot_distance
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir()
        (directory / "config.properties").write_text(f"server.id={server.id}\n")
        listed = [{"id": each.id, "endpoint": each.endpoint} for each in servers]
        (directory / "cluster.json").write_text(json.dumps({"logIndex": 0, "lastLogIndex": 0, "servers": listed}))

    @property
    def output(self) -> Path:
        """JRaft's own log, in debug detail."""
        return self.directory / "output.log"

    def start(self, snapshot_distance: int | None = None) -> None:
        """Start the process. `snapshot_distance`: a new value from now on."""
        if snapshot_distance is not None:
            self._snapshot_distance = snapshot_distance
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", self._jraft.classpath, "JraftServer", "run"]
        self._process = self._processes.spawn(
            f"JRaft server {self.id}",
            [*command, str(self.directory), *self._arguments, str(self._snapshot_distance)],
            self.output,
        )

    def kill(self) -> None:
        """Kill the server with -9."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    @property
    def exit_status(self) -> int | None:
        """Exit status of the server; None for a running server."""
        assert self._process is not None
        return self._process.poll()

    def check(self) -> None:
        """Raise `JraftError` when the server has ended."""
        if self.exit_status is not None:
            raise JraftError(f"JRaft server {self.id} ended ({self.exit_status}):\n{tail(self.output, 2000)}")

    def said(self, text: str) -> bool:
        """Whether the server's log has this text."""
        return text in self.output.read_text(errors="replace")

    def snapshot_index(self) -> int:
        """Index of the last entry in the newest snapshot; 0 without a snapshot."""
        return max((int(file.name.partition("-")[0]) for file in self.directory.glob("*.servers")), default=0)

    async def leader(self) -> int:
        """Ask for the leader in the server's view; `NOBODY` also without an answer."""
        # A request that changes nothing: the id belongs to no server of the farm.
        entry = Entry(0, ValueType.CLUSTER_SERVER, encode_server_id(_NO_SERVER))
        try:
            return (await ask_jraft(self.port, MessageType.REMOVE_SERVER_REQUEST, (entry,), seconds=2.0)).destination
        except OSError:
            return NOBODY

    def applied(self) -> tuple[dict[int, bytes], list[int]]:
        """Return the values in the state machine since the beginning or the last restoration, and the restorations.

        Raises `JraftError` when the indexes did not rise.
        """
        values: dict[int, bytes] = {}
        restored: list[int] = []
        file = self.directory / "applied"
        text = file.read_text() if file.exists() else ""
        for line in text[: text.rfind("\n") + 1].splitlines():
            word, _, rest = line.partition(" ")
            if word == "restored":
                restored.append(int(rest))
                (data,) = self.directory.glob(f"{rest}-*.data")
                values = {
                    int(i): bytes.fromhex(v)
                    for i, _, v in (x.partition(" ") for x in data.read_text().splitlines()[1:])
                }
                continue
            index, value = int(word), bytes.fromhex(rest)
            if values.get(index, value) != value:
                raise JraftError(f"JRaft server {self.id} has applied two values at {index}")
            if index not in values and values and index < max(values):
                raise JraftError(f"JRaft server {self.id} has applied {index} after {max(values)}")
            values[index] = value
        return values, restored

    def log(self) -> list[tuple[int, Entry]]:
        """Return index and entry of each entry in the log file, as JRaft reads the file. Only for a stopped server."""
        assert self._process is None or self._process.poll() is not None
        command = ["java", "-cp", self._jraft.classpath, "JraftServer", "log", str(self.directory)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        lines = [line.split(" ") for line in result.stdout.splitlines()]
        return [(int(i), Entry(int(term), ValueType(int(kind)), bytes.fromhex(v))) for i, term, kind, v in lines]


def endpoint(port: int) -> str:
    """Write a loopback port in the form of JRaft and of gf-i2p servers."""
    return f"tcp://{HOST}:{port}"
