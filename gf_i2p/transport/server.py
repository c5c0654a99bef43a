"""The server of one transport: the farms that it serves, and the limits of all users' connections."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import structlog

from gf_i2p.transport.connection_counters import ConnectionRefusal, Counters
from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.inbound_connection import InboundConnection
from gf_i2p.transport.interface import Listener, Transport
from gf_i2p.transport.request_slices import RequestSlices
from gf_i2p.transport.served import AuthenticatedConnection, Served
from gf_i2p.wire.digest import Authenticator
from gf_i2p.wire.limits import (
    MAX_BYTES_IN_FLIGHT,
    MAX_CONNECTIONS_PER_USER,
    MAX_REQUESTS_IN_FLIGHT,
    MAX_UNFINISHED_BYTES,
)
from gf_i2p.wire.upgrade import ToldConfiguration


class Server:
    """Serves farms on one transport. The cluster in the request's path selects the farm. Farms may come and go."""

    def __init__(
        self,
        transport: Transport,
        farms: Mapping[str, Served] | None = None,
        *,
        gate: Gate | None = None,
        max_in_flight: int = MAX_REQUESTS_IN_FLIGHT,
        max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT,
        max_per_user: int = MAX_CONNECTIONS_PER_USER,
        max_unfinished_bytes: int = MAX_UNFINISHED_BYTES,
        entropy: Callable[[int], bytes] = os.urandom,
        slices: RequestSlices | None = None,
    ) -> None:
        """Prepare; `start` listens.

        Args:
            transport: accepts the connections.
            farms: the served farms, by cluster. `serve` adds farms later.
            gate: deadline and limits for unauthenticated connections of all farms.
            max_in_flight: most unanswered requests of one connection.
            max_bytes_in_flight: bytes of entries in unanswered requests of one connection. At this number no further
                request is handled.
            max_per_user: most connections of one user of one farm.
            max_unfinished_bytes: most bytes of incomplete requests on all connections of one user of one farm.
            entropy: returns the given number of random bytes.
            slices: the share of each user in a turn of the event loop.
        """
        self.farms: dict[str, Served] = {}
        """Farms that are served now, by cluster."""
        self.authenticators: dict[str, Authenticator] = {}
        self.configurations: dict[str, ToldConfiguration] = {}
        """By cluster, `Served.configuration` of each served farm.

        Handshakes under way read this and `authenticators`, so these handshakes no longer find a withdrawn farm.
        """
        self.max_in_flight = max_in_flight
        self.max_bytes_in_flight = max_bytes_in_flight
        self.entropy = entropy
        self.slices = slices or RequestSlices()
        self._transport = transport
        self._gate = gate or Gate()
        self._max_per_user = max_per_user
        self._max_unfinished_bytes = max_unfinished_bytes
        self._unfinished_bytes: Counter[tuple[str, str]] = Counter()
        self.administered: set[str] = set()
        """Clusters of the farms with an administration API."""
        self._listener: Listener | None = None
        self._connections: set[InboundConnection] = set()
        self._connections_per_user: Counter[tuple[str, str]] = Counter()
        self._no_connections = asyncio.Event()
        self._no_connections.set()
        self._withdrawing: dict[str, asyncio.Event] = {}
        self.log = structlog.get_logger(__name__)
        for cluster, farm in (farms or {}).items():
            self.serve(cluster, farm)

    @property
    def counters(self) -> Counters:
        """Counts of incoming connections so far."""
        return self._gate.counters

    @property
    def listener(self) -> Listener | None:
        """The listener; None before `start`."""
        return self._listener

    async def start(self) -> Listener:
        """Listen. Raises `TransportError` when that is not possible."""
        self._listener = await self._transport.listen(lambda admission: InboundConnection(self, admission), self._gate)
        return self._listener

    def serve(self, cluster: str, farm: Served) -> None:
        """Serve a farm from now on. Raises `ValueError` when a farm of this name is served or being withdrawn."""
        if cluster in self.farms or cluster in self._withdrawing:
            raise ValueError(f"a farm {cluster} is served here already")
        self.farms[cluster] = farm
        self.authenticators[cluster] = farm.authenticator
        if farm.configuration is not None:
            self.configurations[cluster] = farm.configuration
        if farm.on_administration is not None:
            self.administered.add(cluster)

    async def withdraw(self, cluster: str, grace: float) -> None:
        """Serve a farm no more. Other farms are not affected.

        From this moment the farm does not exist for new connections. Requests under way are answered, for at most
        `grace` seconds. Returns when the farm's connections are closed; at once when the farm is not served.
        """
        if self.farms.pop(cluster, None) is None:
            return
        del self.authenticators[cluster]
        self.configurations.pop(cluster, None)
        self.administered.discard(cluster)
        if not self._connections_of(cluster):
            return
        all_closed = self._withdrawing[cluster] = asyncio.Event()
        try:
            for connection in self._connections_of(cluster):
                connection.finish()
            try:
                async with asyncio.timeout(grace):
                    await all_closed.wait()
            except TimeoutError:
                for connection in self._connections_of(cluster):
                    connection.drop("the farm is no longer served here")
                await all_closed.wait()
        finally:
            del self._withdrawing[cluster]

    def _connections_of(self, cluster: str) -> list[InboundConnection]:
        return [each for each in self._connections if each.caller is not None and each.caller.cluster == cluster]

    def disconnect(self, cluster: str, users: Collection[str]) -> None:
        """Close the connections of these users: their credentials were withdrawn or changed."""
        for connection in list(self._connections):
            caller = connection.caller
            if caller is not None and caller.cluster == cluster and caller.user in users:
                connection.drop("its credentials were withdrawn")

    async def close(self, grace: float) -> None:
        """Accept nothing more, let requests under way be answered, then close everything.

        `grace`: seconds for the answers; later answers are dropped. Returns when all connections are closed.
        """
        if self._listener is not None:
            self._listener.close()
        self._gate.close()
        for connection in list(self._connections):
            connection.finish()
        try:
            async with asyncio.timeout(grace):
                await self._no_connections.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.drop("the node stops")
            await self._no_connections.wait()

    # --- Called by connections ----------------------------------------------------------------------------

    def opened(self, connection: InboundConnection) -> None:
        """Note a new connection, which has not authenticated yet."""
        self._connections.add(connection)
        self._no_connections.clear()

    def admit(self, caller: AuthenticatedConnection) -> bool:
        """Return whether this user may have one more connection, and count that connection."""
        key = (caller.cluster, caller.user)
        if self._connections_per_user[key] >= self._max_per_user:
            return False
        self._connections_per_user[key] += 1
        self.counters.current += 1
        return True

    def lost(self, connection: InboundConnection) -> None:
        """Forget a connection that has ended."""
        self._connections.discard(connection)
        if not self._connections:
            self._no_connections.set()
        caller = connection.caller
        if caller is not None:
            self.counters.current -= 1
            self.unfinished(caller, -connection.unfinished)
            key = (caller.cluster, caller.user)
            self._connections_per_user[key] -= 1
            if not self._connections_per_user[key]:
                del self._connections_per_user[key], self._unfinished_bytes[key]
            all_closed = self._withdrawing.get(caller.cluster)
            if all_closed is not None and not self._connections_of(caller.cluster):
                all_closed.set()

    def unfinished(self, caller: AuthenticatedConnection, change: int) -> bool:
        """Add `change` to the bytes of the user's incomplete requests; return whether the sum is within the limit."""
        key = (caller.cluster, caller.user)
        self._unfinished_bytes[key] += change
        return self._unfinished_bytes[key] <= self._max_unfinished_bytes

    def illegal(self, caller: AuthenticatedConnection, error: Exception | str) -> None:
        """Count and log an illegal message of an authenticated peer. The connection itself then ends."""
        self._gate.record(ConnectionRefusal.MESSAGE, caller.remote, f"{caller.user} of {caller.cluster}: {error}")
