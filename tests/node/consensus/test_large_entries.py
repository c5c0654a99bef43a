"""A member of JRaft's cluster whose leader sends entries over the limits, with a double that plays the leader.

The double does what docs/design/jraft.md says of a JRaft leader: one request at a time, the next one
right after the answer, the answer's next index after an acceptance, and one entry back after a refusal.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gf_i2p.raft.settings import Timing
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import MAX_ENTRIES_BYTES
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.message_stream import RequestDecoder, ResponseDecoder
from gf_i2p.wire.messages import (
    RESPONSE_TYPE,
    MessageType,
    Request,
    Response,
    encode_response,
)
from integration.harness.local_farm import becomes
from integration.harness.processes import free_ports
from integration.jraft.jraft_server import endpoint
from integration.jraft.plain_server import PlainServer
from integration.jraft.plain_tcp import HOST, encode_entry_without_limits, encode_without_limits

TIMING = Timing(heartbeat=0.02, election_min=0.2, election_max=0.4)
TERM = 3


@dataclass
class Leader:
    """JRaft server 1, which leads in term 3. `log`: the encoded entries from index 1 on."""

    port: int
    peer: int
    log: list[bytes]
    next: int = 2
    answers: list[Response] = field(default_factory=list)
    asked: list[MessageType] = field(default_factory=list)
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer what the other server asks: a JRaft leader takes any higher term, and says that it leads."""
        decoder = RequestDecoder()
        self.writers.append(writer)
        with contextlib.suppress(ConnectionError):  # the other server may break the connection off
            while piece := await reader.read(1 << 16):
                for request in decoder.feed(piece):
                    self.asked.append(request.type)
                    kind = RESPONSE_TYPE[request.type]
                    leads = request.type is MessageType.CLIENT_REQUEST
                    writer.write(encode_response(Response(kind, 1, 1, TERM, len(self.log) + 1, accepted=leads)))

    async def replicate(self) -> None:
        """Keep a connection to the other server, as JRaft's client does."""
        while True:
            try:
                reader, writer = await asyncio.open_connection(HOST, self.peer)
                self.connections += 1
                self.writers.append(writer)
                decoder = ResponseDecoder()
                while True:
                    entries = b"".join(self.log[self.next - 1 : self.next + 199])
                    previous = struct.unpack_from(">q", self.log[self.next - 2])[0] if self.next > 1 else 0
                    request = Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, TERM, previous, self.next - 1, 0)
                    writer.write(encode_without_limits(request, entries))
                    await writer.drain()
                    found: list[Response] = []
                    while not found:
                        piece = await reader.read(1 << 16)
                        if not piece:
                            raise ConnectionError
                        found = decoder.feed(piece)
                    self._take(found[0])
                    if self.next > len(self.log):
                        await asyncio.sleep(TIMING.heartbeat)
            except OSError:
                await asyncio.sleep(0.02)

    def _take(self, answer: Response) -> None:
        self.answers.append(answer)
        assert answer.next_index <= len(self.log) + 1, "JRaft exits"
        if answer.accepted:
            self.next = answer.next_index
        else:
            self.next = answer.next_index if 0 < answer.next_index < self.next else self.next - 1
        assert self.next >= 1, "JRaft exits"


def entry(size: int, value_type: ValueType = ValueType.APPLICATION, value: bytes | None = None) -> bytes:
    value = bytes(size) if value is None else value
    return encode_entry_without_limits(Entry(TERM, value_type, value))


@asynccontextmanager
async def mixed(directory: Path, *values: int) -> AsyncIterator[tuple[PlainServer, Leader]]:
    """Our server 2 and a JRaft leader 1, whose log has a Configuration and values of these sizes."""
    ports = free_ports(3)
    servers = tuple(ClusterServer(i, endpoint(port)) for i, port in enumerate(ports, 1))
    configuration = Configuration(1, 0, servers)
    log = [entry(0, ValueType.CONFIGURATION, configuration.encode()), *map(entry, values)]
    leader = Leader(ports[0], ports[1], log)
    ours = PlainServer(directory, 2, ports[1], configuration, TIMING, None)
    listener = await asyncio.start_server(leader.serve, HOST, ports[0])
    await ours.start()
    task = asyncio.create_task(leader.replicate())
    try:
        yield ours, leader
        assert not task.done() or task.exception() is None, task.exception()
    finally:
        task.cancel()
        await asyncio.wait([task])
        listener.close()
        await ours.stop()
        for writer in leader.writers:
            writer.transport.abort()


@pytest.mark.parametrize("values", [(20, 1_200_000), (20, *[100_000] * 200)], ids=["one value", "one request"])
async def test_a_leader_with_large_entries_is_heard_and_stays(tmp_path: Path, values: tuple[int, ...]) -> None:
    async with mixed(tmp_path, *values) as (ours, leader):
        core = ours.driver.core
        await becomes("it says so", lambda: core.cannot_follow is not None)
        before, began = len(leader.answers), asyncio.get_running_loop().time()
        await becomes(
            "many time-outs pass", lambda: asyncio.get_running_loop().time() > began + 8 * TIMING.election_max
        )
        await becomes("it hears the leader, also on a busy machine", lambda: core.leader == 1)
        assert (core.term, core.role) == (TERM, "follower")
        assert MessageType.REQUEST_VOTE_REQUEST not in leader.asked
        assert leader.connections == 1
        assert "sends entries over the limit" in (core.cannot_follow or "")
        rate = (len(leader.answers) - before) / (8 * TIMING.election_max)
        assert rate <= 1.5 / (TIMING.doubt / 2), "the same is sent again and again, but not as fast as it can be"
        assert sum(map(len, ours.values.values())) <= MAX_ENTRIES_BYTES


async def test_it_follows_again_when_the_entries_fit(tmp_path: Path) -> None:
    async with mixed(tmp_path, 20, 1_200_000) as (ours, leader):
        await becomes("it says so", lambda: ours.driver.core.cannot_follow is not None)
        leader.log[2] = entry(30)
        await becomes("it has the entry", lambda: ours.driver.core.log.last_index == 3)
        assert ours.driver.core.cannot_follow is None
        assert Entry(TERM, ValueType.APPLICATION, bytes(30)) == ours.log()[-1][1]


async def test_it_says_so_once_also_when_the_request_grows(tmp_path: Path) -> None:
    with capture_logs() as lines:
        async with mixed(tmp_path, 20, *[100_000] * 180) as (ours, leader):
            await becomes("it says so", lambda: ours.driver.core.cannot_follow is not None)
            core = ours.driver.core
            for _ in range(3):
                before = core.cannot_follow
                leader.log.append(entry(100_000))
                await becomes("the sizes differ", lambda before=before: core.cannot_follow != before)  # type: ignore[misc]
    assert [line["event"] for line in lines].count("cannot follow the leader") == 1
