"""What the core asks of its driver: the effects of one step.

Order is the whole point. `sends` and `replies` may leave at once. `gated_sends` and `gated_replies` are promises about
what this server remembers (a vote, a term, stored entries): they leave only when *every* `Write` that the core has
issued so far, this step's included, is durable. A leader's AppendEntries is not such a promise, so it goes out while
the leader's own disk still writes (Raft thesis, 10.2.1).
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gf_i2p.wire.entries import Entry
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import Request, Response

Token = Hashable
"""Names one waiting caller, for the driver; the core only hands it back."""


class HardState(NamedTuple):
    """What a server must never forget (Raft, figure 2): its latest term, and whom it voted for in it."""

    term: int
    """0 to 2^63-1."""
    vote: int
    """A server id, or `NOBODY`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state that follows from all entries up to and with `index` (Raft 7)."""

    index: int
    """Of the last entry that it covers; 1 at least."""
    term: int
    """That entry's."""
    configuration: Configuration
    """The one that counts at `index`."""
    data: bytes
    """The state machine's state after that entry, opaque here; not empty (jraft-facts, "InstallSnapshot")."""


class Write(NamedTuple):
    """One atomic change of the durable state: first the log's end, then its beginning.

    When `entries` is not empty, everything stored at `first_index` and above is removed and the entries take the
    indexes from `first_index` on.
    """

    hard_state: HardState | None
    first_index: int
    entries: tuple[Entry, ...]
    snapshot: Snapshot | None = None
    """Takes the place of the stored one, if there is any; its index is greater."""
    drop: int = 0
    """Entries up to this index are removed; the stored snapshot covers them. 0: none."""
    install: bool = False
    """`snapshot` takes the place of the whole log, too: it goes on, empty, after the snapshot's last entry."""
    number: int = 0
    """The n-th write that a core issues is number n, from 1: `inputs.Stored` names it. 0: no core has issued it."""


class LogReader(Protocol):
    """Reads durable entries that have left the core's memory."""

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return consecutive entries from index `first`, at most up to `last`.

        At least one entry when `first <= last`; no more than fit into `max_bytes` (13 + value length each) otherwise.
        """
        ...


class Send(NamedTuple):
    """A request for another server. Its answer comes back as `inputs.Answered` or `inputs.Failed` with the same tag."""

    peer: int
    request: Request
    tag: int


class Reply(NamedTuple):
    """The answer to a request, or to a local proposal."""

    token: Token
    response: Response


class ReadReady(NamedTuple):
    """A linearizable read may be served once the state machine has applied `read_index`."""

    token: Token
    read_index: int


@dataclass(slots=True)
class Effects:
    """All that one step asks for. The driver submits `write` first, then handles the rest in any order."""

    write: Write | None = None
    sends: list[Send] = field(default_factory=list)
    gated_sends: list[Send] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    gated_replies: list[Reply] = field(default_factory=list)
    dropped: list[Token] = field(default_factory=list)
    """Callers whose outcome nobody knows (or who broke the protocol): their connection is closed without an answer."""
    reads_ready: list[ReadReady] = field(default_factory=list)
    reads_refused: list[Token] = field(default_factory=list)
    restore: Snapshot | None = None
    """A snapshot that was received: the state machine begins again from it, if it had not come so far."""
    snapshot_wanted: bool = False
    """A follower can only go on from a snapshot, and there is none that helps: have one made (`inputs.Snapshotted`)."""
    notice: str | None = None
    """What became of a change of the servers, a sentence for the operator."""
    violation: str | None = None
    """What a peer did that no correct server does. The state is unharmed; the operator should know."""
