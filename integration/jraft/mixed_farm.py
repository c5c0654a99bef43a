"""A farm of gf-i2p servers and JRaft servers in one directory: starts, watches, compares and ends the servers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gf_i2p.raft.settings import Flow, Timing
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, Configuration, encode_server_id
from gf_i2p.wire.messages import MessageType
from integration.harness.local_farm import POLL_SECONDS, becomes, until
from integration.harness.processes import Processes, free_ports
from integration.harness.step_progress import StepProgress
from integration.jraft.jraft_server import Jraft, JraftServer, endpoint
from integration.jraft.plain_server import PlainServer
from integration.jraft.plain_tcp import ask_jraft

TIMING: Final = Timing(heartbeat=0.1, election_min=0.6, election_max=1.2)
PATIENT: Final = Timing(heartbeat=0.1, election_min=3.0, election_max=5.0)
"""For servers that should win no election."""
_SECONDS: Final = 30.0


class DifferError(AssertionError):
    """Two servers have different entries."""


class MixedFarm:
    """Servers by id; use the farm as an asynchronous context manager: all servers end with the block."""

    def __init__(self, jraft: Jraft, directory: Path, progress: StepProgress) -> None:
        self.ours: dict[int, PlainServer] = {}
        self.theirs: dict[int, JraftServer] = {}
        self.posted: list[bytes] = []
        """Every value that a leader has accepted, in order."""
        self.progress = progress
        self._jraft = jraft
        self._directory = directory
        self._processes = Processes()
        self._runs = 0

    async def __aenter__(self) -> Self:
        self._processes.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, trace)
        for server in self.ours.values():
            await server.stop()

    # Servers --------------------------------------------------------------------------------------------------------

    async def our(
        self,
        server_id: int,
        founders: Sequence[ClusterServer] = (),
        *,
        timing: Timing = TIMING,
        port: int | None = None,
        flow: Flow | None = None,
    ) -> PlainServer:
        """Start a gf-i2p server, also again after an end; without founders the server waits for an invitation."""
        if port is None:
            (port,) = free_ports(1)
        configuration = Configuration(0, 0, tuple(founders))
        server = PlainServer(self._directory, server_id, port, configuration, timing, flow)
        await server.start()
        self.ours[server_id] = server
        return server

    def their(
        self,
        server_id: int,
        others: Sequence[ClusterServer] = (),
        *,
        timing: Timing = TIMING,
        snapshot_distance: int = 0,
        port: int | None = None,
    ) -> JraftServer:
        """Start a JRaft server in a new directory. `others`: servers known from the beginning."""
        if port is None:
            (port,) = free_ports(1)
        itself = ClusterServer(server_id, endpoint(port))
        self._runs += 1
        directory = self._directory / f"jraft-{server_id}-{self._runs}"
        servers = sorted([itself, *others], key=lambda server: server.id)
        server = JraftServer(self._jraft, directory, itself, servers, self._processes, timing, snapshot_distance)
        server.start()
        self.theirs[server_id] = server
        return server

    async def stop_ours(self, server_id: int) -> None:
        """End a gf-i2p server."""
        await self.ours.pop(server_id).stop()

    # Actions ---------------------------------------------------------------------------------------------------------

    async def post(self, leader: PlainServer | JraftServer, count: int, *, size: int = 20, batch: int = 1) -> None:
        """Have the leader append `count` values, `batch` with each request."""
        for _ in range(0, count, batch):
            values = [f"value {len(self.posted) + n}".encode().ljust(size, b".") for n in range(batch)]
            if isinstance(leader, PlainServer):
                await leader.driver.post(values, seconds=_SECONDS)
            else:
                entries = tuple(Entry(0, ValueType.APPLICATION, value) for value in values)
                response = await ask_jraft(leader.port, MessageType.CLIENT_REQUEST, entries)
                assert response.accepted, f"JRaft server {leader.id} does not lead: {response}"
            self.posted += values

    async def add(self, leader: PlainServer | JraftServer, server: PlainServer | JraftServer) -> None:
        """Have a leader invite a server."""
        value = ClusterServer(server.id, server.endpoint).encode()
        await self._change(leader, MessageType.ADD_SERVER_REQUEST, value)

    async def remove(self, leader: PlainServer | JraftServer, server_id: int) -> None:
        """Have a leader remove a server."""
        await self._change(leader, MessageType.REMOVE_SERVER_REQUEST, encode_server_id(server_id))

    async def _change(self, leader: PlainServer | JraftServer, kind: MessageType, value: bytes) -> None:
        response = await ask_jraft(leader.port, kind, (Entry(0, ValueType.CLUSTER_SERVER, value),))
        assert response.accepted, f"server {leader.id} refuses {kind.name}: {response}"

    async def jraft_leader(self, among: Sequence[int]) -> JraftServer:
        """Wait until one of these JRaft servers leads, and all name the same leader."""
        servers = [self.theirs[server_id] for server_id in among]
        found: set[int] = set()

        async def agreed() -> bool:
            self.progress.tick()
            found.clear()
            found.update([await server.leader() for server in servers])
            return len(found) == 1 and found <= set(among)

        self.progress.doing("a JRaft server leads")
        await until("a JRaft server leads", _SECONDS, agreed, poll=0.1)
        (leader,) = found
        self.progress.done(f"JRaft server {leader} leads")
        return self.theirs[leader]

    async def our_leader(self, among: Sequence[int]) -> PlainServer:
        """Wait until one of these gf-i2p servers leads and may change the servers."""
        found: list[PlainServer] = []

        def led() -> bool:
            found[:] = [self.ours[i] for i in among if i in self.ours and self.ours[i].driver.core.is_leader]
            return bool(found) and found[0].driver.core.change_obstacle is None

        await self.see("a server of ours leads", led)
        return found[0]

    # Observations ----------------------------------------------------------------------------------------------------

    async def see(self, what: str, condition: Callable[[], bool], *, poll: float = POLL_SECONDS) -> None:
        """Wait for an event, and report it. Raises `NotSeenError`."""
        self.progress.doing(what)
        began = self.progress.seconds

        def holds() -> bool:
            self.progress.tick()
            for server in self.ours.values():
                if server.halted:
                    raise server.halted[0]
            return condition()

        await becomes(what, holds, _SECONDS, poll=poll)
        self.progress.done(f"{what} ({self.progress.seconds - began:.1f} s)")

    async def all_have_everything(self) -> None:
        """Wait until every server has applied all posted values: the same at the same indexes, and no others."""

        def equal() -> bool:
            states = [server.values for server in self.ours.values()]
            states += [server.applied()[0] for server in self.theirs.values()]
            return all(list(state.values()) == self.posted and state == states[0] for state in states)

        names = ", ".join([f"ours {i}" for i in self.ours] + [f"JRaft {i}" for i in self.theirs])
        await self.see(f"{len(self.posted)} values in order on {names}", equal)

    def compare_logs(self, server: PlainServer, *stopped: JraftServer) -> None:
        """Compare the committed entries in logs of stopped JRaft servers with a gf-i2p server's log, entry by entry."""
        ours = dict(server.log())
        commit = server.driver.core.commit
        for other in stopped:
            theirs = dict(other.log())
            common = [index for index in ours if index in theirs and index <= commit]
            for index in common:
                if ours[index] != theirs[index]:
                    raise DifferError(f"entry {index}: server {server.id} has {ours[index]}, JRaft {theirs[index]}")
            assert common, "the logs share nothing"
            self.progress.done(f"entries {common[0]} to {common[-1]} are the same in the log of JRaft {other.id}")
