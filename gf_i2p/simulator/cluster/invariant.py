"""The base of all invariants: the events at which an invariant may look at the farm."""

from collections.abc import Sequence

from gf_i2p.raft.effects import Effects, Send, SendReply, Write
from gf_i2p.raft.inputs import Input
from gf_i2p.simulator.facts import Facts, ServerFacts, Violation
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry


class Invariant:
    """One invariant. Each method is called at the event of its name; most invariants define few of the methods."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def violated(self, observation: str) -> Violation:
        """Return the error to raise."""
        return Violation(type(self).__name__, observation)

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        """A server starts with the content that its storage has loaded. Called before `ServerFacts.restart`."""

    def steps(self, server: ServerFacts, term: int, commit: int, effects: Effects) -> None:
        """A step has ended with this term and commit index. Called before `server` has these."""

    def writes(self, server: ServerFacts, write: Write, term: int, *, leads: bool) -> None:
        """A step has issued a write, and left the server in this term and role. Called before `server` has these."""

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        """A server has taken an input. Called when `server` has its new term, role and commit index.

        `clock`: the server's own monotonic clock, in seconds.
        """

    def leads(self, server: ServerFacts) -> None:
        """A server has become leader."""

    def stands(self, server: ServerFacts) -> None:
        """A server has become a candidate, in a new term."""

    def commits(self, server: ServerFacts, before: int) -> None:
        """A server's commit index has risen from `before`."""

    def committed(self, server: ServerFacts, first: int) -> None:
        """`server` is the first to commit the entries from `first` on."""

    def is_durable(self, server: ServerFacts, writes: Sequence[Write]) -> None:
        """These writes of a server have become durable. Called after `server` has these."""

    def sends(self, server: ServerFacts, item: Send | SendReply) -> None:
        """A message to another server leaves. Answers to clients are left out: they promise nothing about this disk."""

    def keeps(self, server: ServerFacts, write: Write) -> None:
        """A step has issued a write with a snapshot. Called before `server` has the snapshot."""

    def restores(self, server: ServerFacts, index: int, data: bytes) -> None:
        """A state machine has begun again from a snapshot up to this index; `data` is a snapshot of its state now."""

    def applies(self, server: ServerFacts, index: int, entry: Entry) -> None:
        """A server hands an entry to its state machine."""

    def chooses(self, server: ServerFacts, index: int, publisher: int | None, leaves: tuple[bytes, ...] = ()) -> None:
        """By the log up to `index`, `server` has chosen this publisher, and these leaves for the set."""

    def acknowledges(self, values: Sequence[bytes], last_index: int) -> None:
        """A caller is told that its entries are committed, the last entry at this index."""

    def refuses(self, values: Sequence[bytes]) -> None:
        """A caller is told that its entries are not in the log, and never will be."""

    def reads(self, server: ServerFacts, applied: int, owed: int) -> None:
        """A read sees entries up to `applied`; entries up to `owed` were acknowledged before the read was sent."""
