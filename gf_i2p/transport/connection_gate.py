"""The gate limits the number of unauthenticated connections, in all and per source, and the time to authenticate.

A connection counts as unauthenticated from accept() until the peer has authenticated. One deadline covers TLS, HTTP and
Digest. When a limit is reached, the gate admits the new connection and closes an old one: the oldest of the same source
when that source has reached its limit, else the oldest of the source with the most unauthenticated connections.

An honest peer needs milliseconds, and so has authenticated before its connection would be closed. A peer that only
holds connections open makes the gate close that peer's own connections. Only thousands of attempts a second keep an
honest peer of the same address out. Such attempts touch neither authenticated connections nor other addresses.
"""

import asyncio
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from gf_i2p.transport.connection_counters import ConnectionRefusal, Counters, RefusalLog
from gf_i2p.wire.limits import HANDSHAKE_SECONDS, MAX_UNAUTHENTICATED, MAX_UNAUTHENTICATED_PER_SOURCE


class Gate:
    """Admits incoming connections. All listeners of one server share a gate."""

    def __init__(
        self,
        *,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        max_unauthenticated: int = MAX_UNAUTHENTICATED,
        max_per_source: int = MAX_UNAUTHENTICATED_PER_SOURCE,
    ) -> None:
        """Prepare a gate without connections.

        Args:
            handshake_seconds: from accept() to the 101 answer.
            max_unauthenticated: most unauthenticated connections in all.
            max_per_source: most unauthenticated connections of one source.
        """
        self.handshake_seconds = handshake_seconds
        """Seconds from accept() to the 101 answer; a change counts for connections accepted later."""
        self.counters = Counters()
        self._max = max_unauthenticated
        self._max_per_source = max_per_source
        self._unauthenticated: dict[str, dict[Admission, None]] = {}  # by source, the oldest first
        self._log: RefusalLog | None = None

    def admit(self, source: str, remote: str) -> "Admission":
        """Admit a connection that was just accepted; at a limit, close an older unauthenticated connection.

        Args:
            source: what the limit per source counts by: an address (`source_of`), or a name that a peer cannot make up.
            remote: the peer's address for the log.
        """
        counters = self.counters
        counters.accepted += 1
        admissions = self._unauthenticated.get(source, {})
        if len(admissions) >= self._max_per_source:
            _make_room(admissions)
        elif counters.unauthenticated >= self._max:
            crowded = max(self._unauthenticated.values(), key=len)
            next(iter(crowded)).refuse_and_close(ConnectionRefusal.CROWDED, "made room for a newer connection")
        admission = Admission(self, source, remote)
        self._unauthenticated.setdefault(source, {})[admission] = None
        counters.unauthenticated += 1
        return admission

    def move(self, admission: "Admission", source: str) -> None:
        """Count an unauthenticated connection for another source, as the newest connection of that source."""
        self._remove(admission)
        admission.source = source
        admissions = self._unauthenticated.setdefault(source, {})
        if len(admissions) >= self._max_per_source:
            _make_room(admissions)
        self._unauthenticated.setdefault(source, {})[admission] = None

    def record(self, reason: ConnectionRefusal, remote: str, detail: str) -> None:
        """Count and log a refusal."""
        if self._log is None:
            self._log = RefusalLog(self.counters, asyncio.get_running_loop().time)
        self._log.record(reason, remote, detail)

    def forget(self, admission: "Admission") -> None:
        """Stop counting a connection as unauthenticated."""
        self._remove(admission)
        self.counters.unauthenticated -= 1

    def _remove(self, admission: "Admission") -> None:
        admissions = self._unauthenticated[admission.source]
        del admissions[admission]
        if not admissions:
            del self._unauthenticated[admission.source]

    def close(self) -> None:
        """Close every unauthenticated connection, without counting these as refused."""
        for admissions in list(self._unauthenticated.values()):
            for admission in list(admissions):
                admission.dismiss()


class Admission:
    """One incoming connection on its way through the gate."""

    __slots__ = ("_abort", "_deadline", "_gate", "_holds_slot", "_settled", "remote", "source")

    def __init__(self, gate: Gate, source: str, remote: str) -> None:
        """Begin the time limit for authentication. Only `Gate.admit` makes admissions."""
        self.source = source
        """The source that the connection counts for; only the gate changes this."""
        self.remote = remote
        self._gate = gate
        self._abort: Callable[[], object] | None = None
        self._holds_slot = True
        self._settled = False  # whether the outcome is known, so that no refusal counts any more
        seconds = gate.handshake_seconds
        self._deadline: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(
            seconds, self.refuse_and_close, ConnectionRefusal.DEADLINE, f"not authenticated after {seconds:g} s"
        )

    def bind(self, abort: Callable[[], object]) -> None:
        """Set the function that closes the connection at once. Call this before the event loop goes on."""
        self._abort = abort

    def identify(self, source: str, remote: str) -> None:
        """Set the peer's source and address, when these are known only after accept(); the deadline runs on."""
        self.remote = remote
        if self._holds_slot:
            self._gate.move(self, source)

    def challenged(self) -> None:
        """Note that the connection got a 401 for missing or stale credentials: this is usual, and no refusal."""
        self._gate.counters.challenged += 1
        self._settled = True

    def authenticated(self) -> None:
        """Note that the connection has authenticated: the deadline ends, and the slot is free."""
        self._leave()
        self._settled = True
        self._gate.counters.authenticated += 1

    def answered(self) -> None:
        """Note that the connection has authenticated and got its answer: the slot is free, and the deadline runs on."""
        self._free_slot()
        self._settled = True

    def refuse(self, reason: ConnectionRefusal, detail: str) -> None:
        """Note why the connection is not served; the first reason counts. The caller closes the connection."""
        if not self._settled:
            self._settled = True
            self._gate.record(reason, self.remote, detail)

    def refuse_and_close(self, reason: ConnectionRefusal, detail: str) -> None:
        """Count the connection as refused, and close the connection at once."""
        self.refuse(reason, detail)
        self.dismiss()

    def dismiss(self) -> None:
        """Close the connection at once, without counting a refusal."""
        self._settled = True
        self._leave()
        if self._abort is not None:
            self._abort()

    def closed(self) -> None:
        """Note that the connection has ended. An outcome that was not counted yet counts as `Refusal.LEFT`."""
        self.refuse(ConnectionRefusal.LEFT, "the peer closed before it had authenticated")
        self._leave()
        self._abort = None  # leads to the transport and its protocol, which would wait for the garbage collector

    def _leave(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._free_slot()

    def _free_slot(self) -> None:
        if self._holds_slot:
            self._holds_slot = False
            self._gate.forget(self)


def source_of(address: str) -> str:
    """Return the source of an IP address: the IPv4 address, or the /64 of an IPv6 address, which one host may own."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"


def _make_room(admissions: dict[Admission, None]) -> None:
    """Close the oldest of one source's connections."""
    oldest = next(iter(admissions))
    oldest.refuse_and_close(ConnectionRefusal.SOURCE, "made room for a newer connection from its source")
