"""The base of all invariants: the events at which an invariant may look at the farm."""

from collections.abc import Iterable, Sequence
from typing import Final

from gf_i2p.raft.effects import Effects, Send, SendReply, Write
from gf_i2p.raft.inputs import Input
from gf_i2p.simulator.facts import Facts, FarmChoice, ServerFacts, Violation
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry
from gf_i2p.wire.messages import MessageType

ROUNDING: Final = 1e-6
"""Seconds by which two times may differ that are the same: clocks are floats."""

OF_LEADERS: Final = frozenset(
    {
        MessageType.APPEND_ENTRIES_REQUEST,
        MessageType.INSTALL_SNAPSHOT_REQUEST,
        MessageType.JOIN_CLUSTER_REQUEST,
        MessageType.LEAVE_CLUSTER_REQUEST,
        MessageType.SYNC_LOG_REQUEST,
    }
)
"""Requests that only a leader sends."""

OF_JOINS: Final = frozenset(
    {MessageType.JOIN_CLUSTER_REQUEST, MessageType.SYNC_LOG_REQUEST, MessageType.INSTALL_SNAPSHOT_REQUEST}
)
"""Requests by which a leader brings a newcomer in."""


def bytes_of(entries: Iterable[Entry]) -> int:
    """Return the bytes of entries on the wire (proposal 150, "Log Contents"). The core has a function of its own."""
    return sum(ENTRY_HEADER_BYTES + len(entry.value) for entry in entries)


class Invariant:
    """One invariant. The checker calls each method at the event that the method's docstring tells.

    An invariant defines only the methods that it needs, and raises `Violation`.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def violated(self, observation: str) -> Violation:
        """Return the error that the invariant must raise. `observation`: a clause that tells what was observed."""
        return Violation(type(self).__name__, observation)

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        """Called when a server starts with the content that its storage has loaded, before `ServerFacts.restart`."""

    def steps(self, server: ServerFacts, term: int, commit: int, effects: Effects) -> None:
        """Called when a core's step has ended. `server` does not have the new term and the new commit index yet."""

    def writes(self, server: ServerFacts, write: Write, term: int, *, leads: bool) -> None:
        """Called when a core's step has issued a write with entries.

        `term` and `leads` tell the state after the step. `server` does not have the write and this state yet.
        """

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        """Called when a server has taken an input. `server` has the new term, role and commit index already.

        `clock`: the server's own monotonic clock, in seconds.
        """

    def retimed(self, server: ServerFacts, clock: float) -> None:
        """Called when a server has got other time-outs, which `server` has already.

        `clock`: the server's own monotonic clock, in seconds.
        """

    def leads(self, server: ServerFacts) -> None:
        """Called when a server has become leader."""

    def stands(self, server: ServerFacts) -> None:
        """Called when a server has become a candidate, in a new term."""

    def commits(self, server: ServerFacts, before: int) -> None:
        """Called when a server's commit index has risen from `before` to `server.commit`."""

    def committed(self, server: ServerFacts, first: int) -> None:
        """Called when `server` is the first server to commit the entries from index `first` on."""

    def is_durable(self, server: ServerFacts, writes: Sequence[Write]) -> None:
        """Called when writes of a server have become durable. `server` has these writes already."""

    def sends(self, server: ServerFacts, item: Send | SendReply) -> None:
        """Called when a message to another server leaves. Answers to clients promise nothing, and do not count."""

    def keeps(self, server: ServerFacts, write: Write) -> None:
        """Called when a core's step has issued a write with a snapshot. `server` does not have the snapshot yet."""

    def restores(self, server: ServerFacts, index: int, data: bytes) -> None:
        """Called when a server's state machine has begun again from a snapshot up to this index.

        `data`: a new snapshot of the state machine, made after that.
        """

    def applies(self, server: ServerFacts, index: int, entry: Entry) -> None:
        """Called when a server hands the entry at `index` to its state machine."""

    def chooses(self, server: ServerFacts, index: int, choice: FarmChoice) -> None:
        """Called when `server` has chosen a publisher, a setting and leaves by the log up to `index`."""

    def acknowledges(self, values: Sequence[bytes], last_index: int) -> None:
        """Called when a server answers a client: these entries are committed, the last entry at `last_index`."""

    def refuses(self, values: Sequence[bytes]) -> None:
        """Called when a server answers a client: these entries are not in the log, and never will be."""

    def reads(self, server: ServerFacts, applied: int, owed: int) -> None:
        """Called when a server serves a read with entries up to `applied`.

        Clients knew entries up to `owed` as committed when the read was sent.
        """
