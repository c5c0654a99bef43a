"""The farm under attack: three node processes with the limits of any new farm, and the measurements from outside."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared import local_client
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE
from integration.attack.attack import CLUSTER, FOREIGN, HONEST
from integration.harness.local_farm import LocalFarm

_TIMING: Final = "election_min = 2.0\nelection_max = 4.0"
"""Longer than the profile's: other programs on a busy machine depose no leader. An honest client still sees any pause
(`Attack.most_seconds`)."""
_PROC: Final = Path("/proc")
_PAGE: Final = 1000

LogEntry = tuple[int, str, str]
"""Term, type and value of an entry."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of the nodes' processes: the largest of them, in KiB."""

    now: int
    peak: int
    """Since `AttackedFarm.forget_peaks`, or since the start."""


class AttackedFarm(LocalFarm):
    """A `LocalFarm` whose users have budgets, with a client for each attack."""

    def __init__(self, directory: Path, attackers: Sequence[str]) -> None:
        """`attackers`: names of the attackers' clients."""
        self._attackers = attackers
        self._read: dict[int, int] = {}
        super().__init__(directory, client=HONEST)

    def _make(self, client: str) -> None:
        clients = [client, FOREIGN, *self._attackers]
        make_farm(
            self.directory,
            self.endpoints(),
            cluster=CLUSTER,
            profile="lan",
            clients=clients,
            digest={f"client-{FOREIGN}"},
        )
        for server in self.ids:
            path = self.node(server) / CONFIG_FILE
            path.write_text(path.read_text().replace("[timing]", f"[timing]\n{_TIMING}\n", 1))

    # Memory -----------------------------------------------------------------------------------------------------------

    def memory(self) -> Memory:
        """Read the memory of all nodes (proc(5), status)."""
        texts = [(_PROC / str(self.pid(server)) / "status").read_text() for server in self.ids]
        return Memory(*(max(_kib(text, name) for text in texts) for name in ("VmRSS", "VmHWM")))

    def forget_peaks(self) -> None:
        """Begin the peaks of memory anew (proc(5), clear_refs)."""
        for server in self.ids:
            (_PROC / str(self.pid(server)) / "clear_refs").write_text("5")

    # Log and output ---------------------------------------------------------------------------------------------------

    async def statuses(self) -> dict[int, dict[str, Any]]:
        """Ask all nodes for their status. Raises `CommandError` when a node does not answer within 30 s."""
        return {
            server: await local_client.request(self.node(server), "GET", "/v1/status", seconds=30)
            for server in self.ids
        }

    async def entries(self, server: int, first: int, last: int) -> dict[int, LogEntry]:
        """Return a server's committed entries from `first` to `last`, by index, without those that the log dropped."""
        status = await local_client.request(self.node(server), "GET", "/v1/status", seconds=30)
        first = max(first, status["log"]["first_index"])
        found: dict[int, LogEntry] = {}
        while first <= last:
            path = f"/v1/entries?stale=1&limit={min(_PAGE, last - first + 1)}&first={first}"
            page = (await local_client.request(self.node(server), "GET", path, seconds=30))["entries"]
            if not page:
                break
            for entry in page:
                found[entry["index"]] = entry["term"], entry["type"], entry.get("value", entry.get("base64"))
            first = page[-1]["index"] + 1
        return found

    def new_output(self) -> dict[int, list[str]]:
        """Return the lines that each node has written since the last call."""
        found = {}
        for server in self.ids:
            data = self.log(server).read_bytes()
            found[server] = data[self._read.get(server, 0) :].decode(errors="replace").splitlines()
            self._read[server] = len(data)
        return found


def _kib(text: str, name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    assert match is not None, name
    return int(match[1])
