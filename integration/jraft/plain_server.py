"""A server of this project on plain TCP: the node's driver with real core and log. The state machine keeps values."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from gf_i2p.node.consensus.driver import Driver
from gf_i2p.node.consensus.timing import RANGE_OUTSIDE_I2P, Timeouts, TimingPlan
from gf_i2p.raft.effects import Snapshot
from gf_i2p.raft.settings import Flow, Timing
from gf_i2p.storage.database import Storage
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration
from integration.jraft.plain_tcp import HOST, PlainListener, PlainPeer

CLUSTER = "jraft"
HEAD = b"values\n"
"""Beginning of a snapshot, which must not be empty; a line "INDEX HEX" for each value follows."""


class PlainServer:
    """One server. `founders` is empty for a server that waits for an invitation."""

    def __init__(
        self, directory: Path, server_id: int, port: int, founders: Configuration, timing: Timing, flow: Flow | None
    ) -> None:
        self.id = server_id
        self.port = port
        self.values: dict[int, bytes] = {}
        """Committed values by index, in the order of application."""
        self.restored: list[int] = []
        """Indexes of the snapshots from which the server went on."""
        self.halted: list[BaseException] = []
        self.peers: dict[int, PlainPeer] = {}
        self._timing = timing
        path = directory / f"ours-{server_id}.sqlite3"
        if not path.exists():
            Storage.create(path, cluster=CLUSTER, server_id=server_id)
        self._storage = Storage.open(path, cluster=CLUSTER, server_id=server_id)
        self.driver = Driver(
            server_id,
            self._storage,
            bootstrap=founders,
            timeouts=Timeouts(TimingPlan("lan", RANGE_OUTSIDE_I2P, fixed=timing), servers=len(founders.servers) or 1),
            check_snapshot=lambda data: None if data.startswith(HEAD) else "it is no list of values",
            on_halt=self.halted.append,
            flow=flow,
        )
        self._applied = 0
        self._ending: list[asyncio.Task[None]] = []
        self.listener = PlainListener(port, self.driver.incoming)
        self.driver.on_contacts = self._contacts_changed
        self.driver.on_applicable.append(self._apply)
        self.driver.on_restore.append(self._restore)
        self.driver.on_snapshot_wanted = self.keep_snapshot
        if self.driver.core.snapshot is not None:
            self._restore(self.driver.core.snapshot)

    @property
    def endpoint(self) -> str:
        """The server's endpoint."""
        return f"tcp://{HOST}:{self.port}"

    async def start(self) -> None:
        """Listen, dial, and take part."""
        await self.listener.start()
        self.driver.start(self.peers)
        self._apply()

    async def stop(self) -> None:
        """End at once, like a kill in the eyes of the others; every promise is on the disk."""
        await self.listener.stop()
        await self.driver.stop(0.0)
        await asyncio.gather(*(peer.stop() for peer in self.peers.values()), *self._ending)
        self._storage.close()

    def log(self) -> list[tuple[int, Entry]]:
        """Return index and entry of each present entry."""
        log = self.driver.core.log
        entries = log.slice(log.base + 1, log.last_index, max_entries=1 << 20, max_bytes=1 << 30)
        return list(enumerate(entries, log.base + 1))

    def keep_snapshot(self, keep: int = 0) -> None:
        """Make a snapshot, and drop all but the last `keep` entries before the snapshot's end."""
        base = self.driver.core.log.base
        lines = [f"{index} {value.hex()}\n".encode() for index, value in self.values.items()]
        if self._applied > base:
            self.driver.snapshotted(self._applied, HEAD + b"".join(lines), max(base, self._applied - keep))

    def _contacts_changed(self, contacts: Mapping[int, str]) -> None:
        for server in [server for server in self.peers if server not in contacts]:
            self._ending.append(asyncio.get_running_loop().create_task(self.peers.pop(server).stop()))
        for server, endpoint in contacts.items():
            if server not in self.peers:
                port = urlsplit(endpoint).port
                assert port is not None
                self.peers[server] = PlainPeer(
                    port, partial(self.driver.reachable, server), request_seconds=self._timing.election_max
                )

    def _apply(self) -> None:
        core = self.driver.core
        while core.log.base <= self._applied < core.applicable:
            for entry in core.log.slice(self._applied + 1, core.applicable, max_entries=1024, max_bytes=1 << 20):
                self._applied += 1
                if entry.value_type is ValueType.APPLICATION:
                    self.values[self._applied] = entry.value

    def _restore(self, snapshot: Snapshot) -> None:
        if snapshot.index <= self._applied:
            return
        assert snapshot.data.startswith(HEAD), "a snapshot of the wrong state machine"
        self.values.clear()
        for line in snapshot.data.decode().splitlines()[1:]:
            index, value = line.split(" ")
            self.values[int(index)] = bytes.fromhex(value)
        self._applied = snapshot.index
        self.restored.append(snapshot.index)
        self._apply()
