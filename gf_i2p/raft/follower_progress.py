"""What a leader knows of one follower.

A follower is *probed* until the leader knows where its log agrees: one AppendEntries at a time. Then it is
*replicated* to: `next` runs ahead of the answers and several AppendEntries are on the way at once. A refusal or a lost
request leads back to probing. What a follower needs and the log has dropped comes as a *snapshot*, a block at a time.
"""

from dataclasses import dataclass, field

from gf_i2p.raft.effects import Snapshot


@dataclass(frozen=True, slots=True)
class Flight:
    """An AppendEntries on the way."""

    previous: int
    """Index just before its entries."""
    last: int
    """Index of its last entry; `previous` for a heartbeat."""
    round: int
    """The leader's heartbeat round when it left."""
    commit: int = 0
    """The commit index that it told of."""
    block_end: int = 0
    """Of an InstallSnapshot: the offset behind its data."""


@dataclass(slots=True)
class SnapshotSending:
    """A snapshot on its way to a follower."""

    snapshot: Snapshot
    offset: int = 0
    """Bytes that it has."""


@dataclass(slots=True)
class FollowerProgress:
    """Indexes, times and requests on the way, of one follower."""

    next: int
    """Index of the next entry to send."""
    match: int = 0
    """Highest index known to be the same as ours and durable there."""
    probing: bool = True
    sent_at: float = float("-inf")
    """When the latest AppendEntries left."""
    heard_at: float = float("-inf")
    """When the latest answer of this term came."""
    round: int = 0
    """Newest heartbeat round that it has answered."""
    forgetful: bool = False
    """Whether it has denied what it had acknowledged."""
    sending: SnapshotSending | None = None
    """The snapshot that it is sent now."""
    refused: int = 0
    """Index of the last snapshot that did not help it."""
    removed_at: int = 0
    """Index of the Configuration without it, above 0 when it is no member any more."""
    removed_since: float = 0.0
    """When that was appended."""
    endpoint: str = ""
    """Of one that is no member any more."""
    flights: dict[int, Flight] = field(default_factory=dict)
    """By tag, in the order of sending."""

    def back_to_probing(self, next_index: int) -> None:
        """Ask where the logs agree, from `next_index` on; answers still on the way no longer count."""
        self.probing = True
        self.next = max(next_index, self.match + 1)
        self.flights.clear()

    def lost(self) -> None:
        """Requests, or their answers, are lost: ask whether all of it has arrived; a refusal says where to begin again.

        Not from `match` on: a JRaft follower may have dropped its log beyond that meanwhile, and closes the connection
        on whatever goes on from there, each time (jraft-facts 12).
        """
        self.back_to_probing(self.next)

    def matched(self, index: int) -> None:
        """The follower holds everything up to `index`."""
        self.probing = False
        self.sending = None
        self.match = max(self.match, index)
        self.next = max(self.next, self.match + 1)
