"""The gate limits how many strangers may be inside at once, and for how long.

A connection is a stranger from accept() until it has authenticated. Strangers are few (in all, and per source) and have
one deadline for everything: TLS, HTTP, Digest. When strangers are too many, the newcomer is let in and an older one is
shown out: the oldest of the newcomer's source if that source has its full share, else the oldest of the most crowded
source. An honest peer needs milliseconds, so it is through before its turn. A peer that just holds connections open
only pushes out its own connections. From the same address, only thousands of attempts a second keep a newcomer out;
such attempts touch neither authenticated connections nor other addresses.
"""

import asyncio
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from gf_i2p.transport.connection_counters import Counters, Refusal, RefusalLog
from gf_i2p.wire.limits import HANDSHAKE_SECONDS, MAX_UNAUTHENTICATED, MAX_UNAUTHENTICATED_PER_SOURCE


class Gate:
    """Admits incoming connections; all listeners of one server share a gate."""

    def __init__(
        self,
        *,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        max_unauthenticated: int = MAX_UNAUTHENTICATED,
        max_per_source: int = MAX_UNAUTHENTICATED_PER_SOURCE,
    ) -> None:
        """`handshake_seconds`: from accept() to the 101 answer. The others: strangers in all, and from one source."""
        self.handshake_seconds = handshake_seconds
        """Seconds from accept() to the 101 answer; a change counts for connections accepted later."""
        self.counters = Counters()
        self._max = max_unauthenticated
        self._max_per_source = max_per_source
        self._strangers: dict[str, dict[Admission, None]] = {}  # by source, its strangers, the oldest first
        self._log: RefusalLog | None = None

    def admit(self, source: str, remote: str) -> "Admission":
        """Let in a connection that was just accepted; another stranger may have to go.

        Args:
            source: the source of the count: an address (`source_of`), or a name that a peer cannot make up at will.
            remote: the peer's address for the log.
        """
        counters = self.counters
        counters.accepted += 1
        share = self._strangers.get(source, {})
        if len(share) >= self._max_per_source:
            next(iter(share)).show_out(Refusal.SOURCE, "made room for a newer connection from its source")
        elif counters.unauthenticated >= self._max:
            crowded = max(self._strangers.values(), key=len)
            next(iter(crowded)).show_out(Refusal.CROWDED, "made room for a newer connection")
        admission = Admission(self, source, remote)
        self._strangers.setdefault(source, {})[admission] = None
        counters.unauthenticated += 1
        return admission

    def move(self, admission: "Admission", source: str) -> None:
        """Count a stranger for another source, as the newest stranger of that source."""
        self._take(admission)
        admission.source = source
        share = self._strangers.setdefault(source, {})
        if len(share) >= self._max_per_source:
            next(iter(share)).show_out(Refusal.SOURCE, "made room for a newer connection from its source")
        self._strangers.setdefault(source, {})[admission] = None

    def record(self, reason: Refusal, remote: str, detail: str) -> None:
        """Count and log a refusal."""
        if self._log is None:
            self._log = RefusalLog(self.counters, asyncio.get_running_loop().time)
        self._log.record(reason, remote, detail)

    def forget(self, admission: "Admission") -> None:
        """Take a connection off the strangers' list."""
        self._take(admission)
        self.counters.unauthenticated -= 1

    def _take(self, admission: "Admission") -> None:
        strangers = self._strangers[admission.source]
        del strangers[admission]
        if not strangers:
            del self._strangers[admission.source]

    def close(self) -> None:
        """Show out every stranger; these are not counted as refused."""
        for strangers in list(self._strangers.values()):
            for admission in list(strangers):
                admission.dismiss()


class Admission:
    """One incoming connection on its way through the gate."""

    __slots__ = ("_abort", "_deadline", "_gate", "_settled", "_stranger", "remote", "source")

    def __init__(self, gate: Gate, source: str, remote: str) -> None:
        """Made by `Gate.admit`; the clock runs from here."""
        self.source = source
        """The source of the count; only the gate changes this."""
        self.remote = remote
        self._gate = gate
        self._abort: Callable[[], object] | None = None
        self._stranger = True
        self._settled = False  # whether the gate has let the connection in or ended it
        seconds = gate.handshake_seconds
        self._deadline: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(
            seconds, self.show_out, Refusal.DEADLINE, f"not authenticated after {seconds:g} s"
        )

    def bind(self, abort: Callable[[], object]) -> None:
        """Set the function that closes the connection at once. Call this before the event loop goes on."""
        self._abort = abort

    def named(self, source: str, remote: str) -> None:
        """Set the peer, when the peer is known later than the connection; the deadline runs on."""
        self.remote = remote
        if self._stranger:
            self._gate.move(self, source)

    def challenged(self) -> None:
        """The connection got a 401 for want of (fresh) credentials: the ordinary beginning, and no refusal."""
        self._gate.counters.challenged += 1
        self._settled = True

    def authenticated(self) -> None:
        """The connection is a stranger no more: its deadline ends, and its slot is free."""
        self._leave()
        self._settled = True
        self._gate.counters.authenticated += 1

    def answered(self) -> None:
        """The connection has authenticated and got its answer: its slot is free; its end has the same deadline."""
        self._leave_strangers()
        self._settled = True

    def refuse(self, reason: Refusal, detail: str) -> None:
        """Note why the connection is not served; the first reason counts. The caller closes the connection."""
        if not self._settled:
            self._settled = True
            self._gate.record(reason, self.remote, detail)

    def show_out(self, reason: Refusal, detail: str) -> None:
        """Refuse the connection, and close it at once."""
        self.refuse(reason, detail)
        self.dismiss()

    def dismiss(self) -> None:
        """Close the connection at once, without a reason."""
        self._settled = True
        self._leave()
        if self._abort is not None:
            self._abort()

    def closed(self) -> None:
        """Note that the connection is gone."""
        self.refuse(Refusal.LEFT, "the peer closed before it had authenticated")
        self._leave()

    def _leave(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._leave_strangers()

    def _leave_strangers(self) -> None:
        if self._stranger:
            self._stranger = False
            self._gate.forget(self)


def source_of(address: str) -> str:
    """Return the source of an IP address: the address, or its /64, which one IPv6 host can fill at will."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"
