"""The effects of one step: what the driver must write, send and answer.

The order matters. `sends` and `replies` may leave at once. `gated_sends` and `gated_replies` promise that this server
remembers a vote, a term or stored entries. They leave only when *every* `Write` that the core has issued so far, this
step's included, is durable. A leader's AppendEntries promises nothing, so it goes out while the leader's own disk still
writes (Raft thesis, 10.2.1).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gf_i2p.wire.entries import Entry
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import Request, Response

Token = Hashable
"""The driver's name for one waiting caller. The core only hands the name back."""


class HardState(NamedTuple):
    """The state that a server must never forget (Raft, figure 2): its latest term, and its vote in that term."""

    term: int
    """0 to 2^63-1."""
    vote: int
    """A server id, or `NOBODY`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state that follows from all entries up to and including `index` (Raft 7)."""

    index: int
    """Index of the last entry that the snapshot covers; at least 1."""
    term: int
    """Term of the entry at `index`."""
    configuration: Configuration
    """The Configuration in force at `index`."""
    data: bytes
    """State of the state machine after entry `index`: opaque bytes, not empty (docs/design/jraft.md)."""


CheckSnapshot = Callable[[bytes], str | None]
"""Checks a snapshot's data. Returns a clause that says why the data is no state of the farm; None: the data is one."""


class Write(NamedTuple):
    """One atomic change of the durable state. The log's end changes first, then the log's beginning.

    When `entries` is not empty, all stored entries at `first_index` and above are removed, and `entries` take the
    indexes from `first_index` on.
    """

    hard_state: HardState | None
    first_index: int
    entries: tuple[Entry, ...]
    snapshot: Snapshot | None = None
    """A newer snapshot that replaces the stored one. None: the stored snapshot stays."""
    drop: int = 0
    """Entries up to this index are removed, because the stored snapshot covers them. 0: none."""
    install: bool = False
    """Whether `snapshot` also replaces the whole log, which is then empty and goes on after the snapshot's index."""
    number: int = 0
    """The n-th write of a core has the number n, from 1; `inputs.Stored` carries such a number. 0: not issued yet."""


class LogReader(Protocol):
    """Reads stored entries that the core no longer has in memory."""

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Return consecutive entries from index `first`, at most up to `last`.

        The entries have at most `max_bytes` together, counting 13 + value length for each. The first entry is returned
        even if larger.
        """
        ...


class Send(NamedTuple):
    """A request for another server. Its answer comes back as `inputs.Answered` or `inputs.Failed` with the same tag."""

    peer: int
    request: Request
    tag: int


class SendReply(NamedTuple):
    """The answer to a request or to a local proposal."""

    token: Token
    response: Response


class ReadReady(NamedTuple):
    """A linearizable read that may be served once the state machine has applied `read_index`."""

    token: Token
    read_index: int


@dataclass(slots=True)
class Effects:
    """All effects of one step. The driver submits `write` first, then handles the rest in any order."""

    write: Write | None = None
    sends: list[Send] = field(default_factory=list)
    gated_sends: list[Send] = field(default_factory=list)
    replies: list[SendReply] = field(default_factory=list)
    gated_replies: list[SendReply] = field(default_factory=list)
    dropped: list[Token] = field(default_factory=list)
    """Callers that get no answer: the outcome is unknown, or the caller broke the protocol. Close these connections."""
    reads_ready: list[ReadReady] = field(default_factory=list)
    reads_refused: list[Token] = field(default_factory=list)
    restore: Snapshot | None = None
    """A received snapshot. A state machine that has applied less must restart from this snapshot."""
    snapshot_wanted: bool = False
    """A follower needs a newer snapshot than the stored one: make one, and step with `inputs.Snapshotted`."""
    notice: str | None = None
    """A sentence for the operator that says why a server was not added."""
    violation: str | None = None
    """A sentence for the operator about a rule that a peer has broken. This server's state is unharmed."""
