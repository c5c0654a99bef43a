"""The gate: how many strangers may be inside at once, and for how long.

A connection is a stranger from accept() until it has authenticated. Strangers are few (in all, and per source)
and have one deadline for everything: TLS, HTTP, Digest. When they are too many, the newcomer is let in and an older
one is shown out: the oldest of the newcomer's source if that has its full share, else the oldest of the most crowded
source. An honest peer needs milliseconds, so it is through before its turn; whoever just holds connections open only
pushes out their own. From the same address, only thousands of attempts a second keep a newcomer out; connections that
have authenticated, and other addresses, are not touched by them.
"""

import asyncio
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from gf_i2p.transport.connection_counters import Counters, Refusal, RefusalLog
from gf_i2p.wire.limits import HANDSHAKE_SECONDS, MAX_UNAUTHENTICATED, MAX_UNAUTHENTICATED_PER_SOURCE


class Gate:
    """Admits incoming connections; shared by everything that listens for one server."""

    def __init__(
        self,
        *,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        max_unauthenticated: int = MAX_UNAUTHENTICATED,
        max_per_source: int = MAX_UNAUTHENTICATED_PER_SOURCE,
    ) -> None:
        """`handshake_seconds`: from accept() to the 101 answer. The others: strangers in all and from one source."""
        self.handshake_seconds = handshake_seconds
        """See above; may be changed, for the connections accepted from then on."""
        self.counters = Counters()
        self._max = max_unauthenticated
        self._max_per_source = max_per_source
        self._strangers: dict[str, dict[Admission, None]] = {}  # source -> its strangers, the oldest first
        self._log: RefusalLog | None = None

    def admit(self, source: str, remote: str) -> "Admission":
        """Let a connection in that was just accepted; another may have to go for it.

        Args:
            source: who it counts for: an address (`source_of`), or whatever a peer cannot make up at will.
            remote: its address for the log.
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
        """Count a stranger for another source, of which it is the newest then."""
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
        """Show every stranger out; they are not counted as refused."""
        for strangers in list(self._strangers.values()):
            for admission in list(strangers):
                admission.dismiss()


class Admission:
    """One incoming connection on its way through the gate."""

    __slots__ = ("_abort", "_deadline", "_gate", "_stranger", "_verdict", "remote", "source")

    def __init__(self, gate: Gate, source: str, remote: str) -> None:
        """Made by `Gate.admit`; the clock runs from here."""
        self.source = source
        """Who it counts for; only the gate changes it."""
        self.remote = remote
        self._gate = gate
        self._abort: Callable[[], object] | None = None
        self._stranger = True
        self._verdict = False  # whether it is settled what becomes of the connection
        seconds = gate.handshake_seconds
        self._deadline: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(
            seconds, self.show_out, Refusal.DEADLINE, f"not authenticated after {seconds:g} s"
        )

    def bind(self, abort: Callable[[], object]) -> None:
        """Say how to close it at once: called when it is shown out. Due before the event loop goes on."""
        self._abort = abort

    def named(self, source: str, remote: str) -> None:
        """Say whom it comes from, when that shows later than the connection; the clock runs on."""
        self.remote = remote
        if self._stranger:
            self._gate.move(self, source)

    def challenged(self) -> None:
        """It was answered with 401 for want of (fresh) credentials: the ordinary way to begin, no refusal."""
        self._gate.counters.challenged += 1
        self._verdict = True

    def authenticated(self) -> None:
        """It is a stranger no more: the deadline is off, its slot is free."""
        self._leave()
        self._verdict = True
        self._gate.counters.authenticated += 1

    def answered(self) -> None:
        """It has authenticated and got all that it came for: its slot is free, and the deadline is for its end."""
        self._leave_strangers()
        self._verdict = True

    def refuse(self, reason: Refusal, detail: str) -> None:
        """Say why it is not served; the first reason counts. The caller closes the connection."""
        if not self._verdict:
            self._verdict = True
            self._gate.record(reason, self.remote, detail)

    def show_out(self, reason: Refusal, detail: str) -> None:
        """Refuse and close it at once."""
        self.refuse(reason, detail)
        self.dismiss()

    def dismiss(self) -> None:
        """Close it at once, without giving a reason."""
        self._verdict = True
        self._leave()
        if self._abort is not None:
            self._abort()

    def closed(self) -> None:
        """The connection is gone."""
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
    """What an IP address counts for: itself, or its /64, which one IPv6 host can fill at will."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"
