"""A farm of real node processes on loopback, over TLS, for tests, benchmarks and `make farm`."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.processes import children, free_ports, spawn, tail

POLL_SECONDS: Final = 0.02
PROGRAM: Final = ("-m", "gf_i2p.cli.main")
_CALM: Final = "election_min = 5.0\nelection_max = 10.0"


class NotSeenError(AssertionError):
    """An awaited event did not happen in time."""


async def until(
    what: str, seconds: float, condition: Callable[[], Awaitable[bool]], *, poll: float = POLL_SECONDS
) -> None:
    """Wait until the condition holds, checked every `poll` seconds; raises `NotSeenError` with `what`."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            while not await condition():  # noqa: ASYNC110 -- another process makes it true
                await asyncio.sleep(poll)
    except TimeoutError as error:
        if not limit.expired():
            raise  # the condition itself has timed out
        raise NotSeenError(f"not seen within {seconds:g} s: {what}") from error


async def becomes(what: str, condition: Callable[[], bool], seconds: float = 20, *, poll: float = POLL_SECONDS) -> None:
    """Wait as `until` does, for a condition without `await`."""

    async def holds() -> bool:
        return condition()

    await until(what, seconds, holds, poll=poll)


class LocalFarm:
    """Servers 1 to n below `directory`, each a child process with its output in `node.log`.

    Leaving the `with` block stops every process, whatever happened inside.
    """

    def __init__(
        self, directory: Path, *, servers: int = 3, client: str = "load", program: Sequence[str] = PROGRAM
    ) -> None:
        """`program`: the Python arguments before `run DIRECTORY`; see `integration.harness.short_log`."""
        self.directory = directory
        self.ids = tuple(range(1, servers + 1))
        """Ids of the farm's servers; a caller that changes the farm updates these."""
        self.programs: dict[int, Sequence[str]] = {}
        """Programs of single servers, in the place of `program`; used at the next start."""
        self.pythons: dict[int, tuple[Path, dict[str, str]]] = {}
        """Interpreters of single servers, with their environments, in the place of this one; used at the next start."""
        self.fragile: set[int] = set()
        """Servers that may end by themselves."""
        self.program = tuple(program)
        self.client_file = directory / f"client-{client}.toml"
        if not self.client_file.exists():
            self._make(client)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ending: set[int] = set()
        """Servers that this object is ending: `kill` may run in a thread beside other work."""

    def _make(self, client: str) -> None:
        """Write the directories."""
        make_farm(self.directory, self.endpoints(), cluster="farm", profile="lan", clients=[client])
        self._lift_budget()

    def _lift_budget(self) -> None:
        """Let the one client post without a limit: the client stands for all users of a busy farm."""
        for server_id in self.ids:
            path = self.node(server_id) / CONFIG_FILE
            path.write_text(path.read_text().replace("client_kib_per_second = 1024", "client_kib_per_second = 0", 1))

    def endpoints(self) -> dict[int, Endpoint]:
        """Give each server an endpoint."""
        ports = free_ports(len(self.ids))
        return {i: Endpoint("127.0.0.1", port) for i, port in zip(self.ids, ports, strict=True)}

    def node(self, server_id: int) -> Path:
        """Directory of a server."""
        return self.directory / f"server-{server_id}"

    def log(self, server_id: int) -> Path:
        """Path of a server's output."""
        return self.node(server_id) / "node.log"

    def pid(self, server_id: int) -> int:
        """Process id of a running server."""
        return self._processes[server_id].pid

    @property
    def running(self) -> list[int]:
        """Ids of the servers whose process runs."""
        return [
            server_id
            for server_id, process in tuple(self._processes.items())
            if server_id not in self._ending and process.poll() is None
        ]

    def start(self, server_id: int, *python_arguments: str) -> None:
        """Start a server's process; `python_arguments` stand before the program."""
        program = self.programs.get(server_id, self.program)
        python, environment = self.pythons.get(server_id, (sys.executable, None))
        command = [str(python), *python_arguments, *program, "run", str(self.node(server_id))]
        self._processes[server_id] = spawn([*self.where(server_id), *command], self.log(server_id), environment)

    def where(self, _server_id: int) -> list[str]:
        """Return the prefix that runs a command in a server's network namespace; empty here, where all share one."""
        return []

    def start_all(self) -> None:
        """Start every server."""
        for server_id in self.ids:
            self.start(server_id)

    def kill(self, server_id: int, number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal, wait for the end of the process and return its exit status."""
        process = self._processes[server_id]
        self._ending.add(server_id)  # from now on the end of the process is no surprise
        try:
            process.send_signal(number)
            status = process.wait(timeout=120)
            del self._processes[server_id]
        finally:
            self._ending.discard(server_id)
        return status

    def kill_history(self, server_id: int) -> None:
        """Kill the history process of a running server, if there is one now: the server starts another one."""
        if server_id in self._processes:
            for child in children(self.pid(server_id)):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    def send_signal(self, server_id: int, number: signal.Signals) -> None:
        """Send a signal that does not end the process."""
        self._processes[server_id].send_signal(number)

    def check(self) -> None:
        """Raise `NotSeenError` with the end of the log when a server that is not `fragile` has ended by itself."""
        for server_id, process in tuple(self._processes.items()):
            code = process.poll()
            ours = server_id in self._ending or self._processes.get(server_id) is not process
            if code is not None and not ours and server_id not in self.fragile:
                raise NotSeenError(f"server {server_id} ended by itself ({code}):\n{tail(self.log(server_id))}")

    async def status(self, server_id: int, *, seconds: float = 5) -> dict[str, Any] | None:
        """Return the status of a server, None without an answer within `seconds`."""
        try:
            answer: dict[str, Any] = await local_client.request(
                self.node(server_id), "GET", "/v1/status", seconds=seconds
            )
        except CommandError:
            return None
        return answer

    async def leader(self, seconds: float = 120.0) -> int:
        """Wait until all running servers agree on a running leader; return its id."""
        found: list[int] = []

        async def agreed() -> bool:
            self.check()
            answers = [await self.status(server_id) for server_id in self.running]
            leaders = {None if answer is None else answer["leader"] for answer in answers}
            found[:] = [leader for leader in leaders if leader is not None]
            return len(leaders) == 1 and found[0:1] != [] and found[0] in self.running

        await until("one leader that all running servers know", seconds, agreed)
        return found[0]

    async def calm(self) -> int:
        """Lengthen the election time-outs, so that the leader stays on a busy machine, too; return the leader's id.

        An election then begins only after 5 to 10 s of silence, unless the leader resigns.
        """
        await self.leader()
        for server_id in self.running:
            path = self.node(server_id) / CONFIG_FILE
            path.write_text(path.read_text().replace("[timing]", f"[timing]\n{_CALM}\n", 1))
            reload = await local_client.request(self.node(server_id), "POST", "/v1/reload", seconds=60, body={})
            assert reload["error"] is None, reload
        # A follower uses the new time-outs from the next heartbeat on. This read ends after a heartbeat to a majority.
        leader = await self.leader()
        await local_client.request(self.node(leader), "GET", "/v1/entries?limit=1&stale=0", seconds=60)
        return leader

    async def converged(self, seconds: float = 120.0) -> int:
        """Wait until all servers have the same log, wholly committed and durable; return its length."""
        length: list[int] = []

        async def equal() -> bool:
            answers = [await self.status(server_id) for server_id in self.ids]
            numbers = {
                -1 if answer is None else answer["log"][name]
                for answer in answers
                for name in ("last_index", "stored", "commit", "applied")
            }
            length[:] = numbers
            return len(numbers) == 1 and -1 not in numbers

        await until("equal logs on all servers", seconds, equal)
        return length[0]

    async def whole(self, seconds: float = 120.0) -> None:
        """Wait until each server has a connection to each other server, so that any two can elect a leader."""

        async def connected() -> bool:
            answers = [await self.status(server_id) for server_id in self.ids]
            return all(a is not None and all(each["connected"] for each in a["servers"]) for a in answers)

        await until("connections between all servers", seconds, connected)

    async def records(self, server_id: int) -> dict[int, dict[str, Any]]:
        """Return the newest record of each server and member, by id, in a server's log. No snapshot may be there."""
        found: dict[int, dict[str, Any]] = {}
        first = 1
        while True:
            path = f"/v1/entries?stale=1&limit=1000&first={first}"
            page = await local_client.request(self.node(server_id), "GET", path, seconds=60)
            for entry in page["entries"]:
                value = json.loads(entry["value"]) if "value" in entry else {}
                if "router" in value:
                    found[value["id"]] = value
            if not page["entries"]:
                return found
            first = page["entries"][-1]["index"] + 1

    async def exported(self, index: int, seconds: float = 120.0) -> None:
        """Wait until every server's history has the log up to this index."""

        async def all_have() -> bool:
            answers = [await self.status(server_id) for server_id in self.ids]
            return all(answer is not None and answer["history"]["exported"] >= index for answer in answers)

        await until(f"all histories go up to {index}", seconds, all_have)

    def stop(self) -> None:
        """Stop every process: by SIGTERM, and by SIGKILL after 120 s."""
        for server_id in self.running:
            self._processes[server_id].send_signal(signal.SIGCONT)
            self._processes[server_id].send_signal(signal.SIGTERM)
        processes = tuple(self._processes.values())
        try:
            for process in processes:
                process.wait(timeout=120)
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
