"""ZooKeeper: three servers as Debian ships them, default durability, asked with messages encoded by hand.

kazoo, the usual Python client, stores half of what this client stores under 64 writers: its threads take the
interpreter's lock from each other. ZooKeeper uses plain TCP here, and the farm uses TLS: this is an advantage for
ZooKeeper. Each writer sets its own znodes; every set is one transaction, and so is a request of 100.
"""

import asyncio
import shutil
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from integration.bench.systems import zookeeper_messages as messages
from integration.bench.systems.node_cluster import REQUEST_SECONDS, NodeCluster, factory
from integration.bench.systems.system import NODES, BenchError, ClusterProcess, System, SystemClient, not_installed
from integration.harness.processes import Processes, free_ports

LOOPBACK: Final = "127.0.0.1"
JAR: Final = Path("/usr/share/java/zookeeper.jar")
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
PING_SECONDS: Final = 1.0
"""All clients of ZooKeeper ping. The leader of ZooKeeper 3.8.0 now and then leaves the request of a lone client until
the next message comes, although the followers have the transaction: seen four times in ten runs of 5 s."""
SETTINGS: Final = """\
tickTime=2000
initLimit=10
syncLimit=5
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
"""
"""The first three lines are Debian's example; the others allow 64 writers, and open no port for anything else."""


def check() -> None:
    """Raise BenchError with the command to run when ZooKeeper or Java is missing."""
    if shutil.which("java") is None or not JAR.exists():
        raise not_installed("ZooKeeper", "zookeeper")


def version() -> str:
    """Return the version, by the name of the file beside Debian's link."""
    return next(JAR.parent.glob("zookeeper-[0-9]*.jar")).stem.replace("zookeeper-", "ZooKeeper ")


class Connection(asyncio.Protocol):
    """A session with one server. ZooKeeper answers the requests of a session in their order."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self.welcomed: asyncio.Future[bytes] = loop.create_future()
        """Done when the server has opened the session."""
        self._waiting.append(self.welcomed)
        self._xid = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for a session."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(messages.connect_request())

    def data_received(self, data: bytes) -> None:
        """Give each answer to the request that waits for it."""
        buffer = self._buffer
        buffer += data
        begin = 0
        while len(buffer) >= begin + 4:
            end = begin + 4 + messages.LENGTH.unpack_from(buffer, begin)[0]
            if len(buffer) < end:
                break
            self._take(bytes(buffer[begin + 4 : end]))
            begin = end
        del buffer[:begin]

    def _take(self, message: bytes) -> None:
        if self.welcomed.done() and messages.reply(message).xid == messages.PING_XID:
            return
        waiter = self._waiting.popleft()
        if not waiter.done():
            waiter.set_result(message)
        if waiter is self.welcomed:
            self._ping()

    def _ping(self) -> None:
        if self._transport is not None:
            self._transport.write(messages.request(messages.PING_XID, messages.PING, b""))
            asyncio.get_running_loop().call_later(PING_SECONDS, self._ping)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Fail every request that waits for an answer."""
        self._transport = None
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(ConnectionError("ZooKeeper has closed the connection"))
                waiter.exception()  # a request that nobody awaits any more is no error

    @property
    def open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None

    async def ask(self, kind: int, body: bytes) -> int:
        """Send a request; return the number of its transaction. Raises ConnectionError, BenchError."""
        if self._transport is None:
            raise ConnectionError("ZooKeeper has closed the connection")
        self._xid = xid = self._xid + 1
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._transport.write(messages.request(xid, kind, body))
        reply = messages.reply(await answer)
        exists = kind == messages.CREATE and reply.error == messages.NODE_EXISTS  # made by a request that failed
        if reply.xid != xid or (reply.error and not exists):
            raise BenchError(f"ZooKeeper answers request {xid} with error {reply.error} to request {reply.xid}")
        return reply.zxid

    def close(self) -> None:
        """End the connection; the server forgets the session later."""
        if self._transport is not None:
            self._transport.close()


async def dial(port: int) -> Connection:
    """Open a session with the server at a port of loopback. Raises OSError, TimeoutError."""
    async with asyncio.timeout(REQUEST_SECONDS):
        _, connection = await asyncio.get_running_loop().create_connection(Connection, LOOPBACK, port)
        try:
            await connection.welcomed
        except BaseException:
            connection.close()
            raise
    return connection


class ZooKeeperClient:
    """One writer with a session of its own. When the session has ended, the writer opens one at the next port."""

    def __init__(self, connection: Connection, ports: Sequence[int], writer: int) -> None:
        self._connection = connection
        self._ports = deque(ports)
        self._writer = writer
        self._paths: list[bytes] = []

    async def post(self, values: Sequence[bytes]) -> int:
        """Set a znode for each value; return the number of the transaction."""
        if not self._connection.open:
            self._ports.rotate(-1)
            self._connection = await dial(self._ports[0])
        while len(self._paths) < len(values):
            path = b"/bench-%d-%d" % (self._writer, len(self._paths))
            await self._connection.ask(messages.CREATE, messages.create_body(path))
            self._paths.append(path)
        if len(values) == 1:
            return await self._connection.ask(messages.SET_DATA, messages.set_body(self._paths[0], values[0]))
        body = messages.multi_body(self._paths[: len(values)], values)
        return await self._connection.ask(messages.MULTI, body)

    async def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class ZooKeeperCluster(NodeCluster):
    """Three running ZooKeeper servers."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        super().__init__("zookeeper", processes, directory)
        ports = free_ports(3 * NODES)
        self._ports = dict(zip(self.names, ports[:NODES], strict=True))
        members = zip(range(1, NODES + 1), ports[NODES : 2 * NODES], ports[2 * NODES :], strict=True)
        self._members = "".join(f"server.{number}={LOOPBACK}:{peer}:{vote}\n" for number, peer, vote in members)
        self._writers = 0
        self.start_all()

    def command(self, name: str) -> Sequence[str]:
        """Write a server's files; return the command that starts the server."""
        home = self.directory / name
        data = home / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(str(self.names.index(name) + 1))
        own = f"dataDir={data}\nclientPort={self._ports[name]}\nclientPortAddress={LOOPBACK}\n"
        (home / "zoo.cfg").write_text(SETTINGS + own + self._members)
        return ["java", "-cp", str(JAR), MAIN, str(home / "zoo.cfg")]

    async def _status(self, node: ClusterProcess) -> str:
        """Return a server's answer to `srvr`, empty without an answer."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                reader, writer = await asyncio.open_connection(LOOPBACK, self._ports[node.name])
                try:
                    writer.write(b"srvr")
                    return (await reader.read()).decode()
                finally:
                    writer.close()
        return ""

    async def leads(self, node: ClusterProcess) -> bool:
        """See `NodeCluster`."""
        return messages.leads(await self._status(node))

    async def connect(self, leader: ClusterProcess) -> SystemClient:
        """Return a writer with a session and znodes of its own."""
        self._writers += 1
        port = self._ports[leader.name]
        return ZooKeeperClient(await dial(port), [port], self._writers)

    async def connect_beside(self, leader: ClusterProcess) -> SystemClient:
        """See `integration.bench.systems.system.Killable`."""
        self._writers += 1
        ports = [self._ports[node.name] for node in self.nodes if node != leader]
        return ZooKeeperClient(await dial(ports[0]), ports, self._writers)

    async def position(self, node: ClusterProcess) -> int | None:
        """See `integration.bench.systems.system.Killable`."""
        return messages.applied(await self._status(node))


ZOOKEEPER = System(
    name="zookeeper", title="ZooKeeper", bulk_writers=8, check=check, version=version, cluster=factory(ZooKeeperCluster)
)
