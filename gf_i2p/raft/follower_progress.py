"""A leader's knowledge of one follower.

A follower is *probed*, with one AppendEntries at a time, until the leader knows where the logs agree. Then the leader
*replicates*: `next` runs ahead of the answers, and several AppendEntries are on the way at once. A refusal or a lost
request leads back to probing. Entries that the follower needs and the log has dropped are replaced by a *snapshot*,
sent a block at a time.
"""

from dataclasses import dataclass, field

from gf_i2p.raft.effects import Snapshot


@dataclass(frozen=True, slots=True)
class Flight:
    """An AppendEntries, or a block of a snapshot, that waits for its answer."""

    previous: int
    """Index just before the request's entries."""
    last: int
    """Index of the request's last entry; `previous` for a heartbeat."""
    round: int
    """The leader's heartbeat round when the request left."""
    commit: int = 0
    """The commit index in the request."""
    block_end: int = 0
    """Offset after the data of an InstallSnapshot; 0 for an AppendEntries."""


@dataclass(slots=True)
class SnapshotSending:
    """A snapshot on its way to a follower."""

    snapshot: Snapshot
    offset: int = 0
    """Bytes of the snapshot that the follower has."""


@dataclass(slots=True)
class FollowerProgress:
    """The leader's indexes, times and unanswered requests for one follower."""

    next: int
    """Index of the next entry to send."""
    match: int = 0
    """Highest index known to match the leader's log and to be durable on the follower."""
    probing: bool = True
    sent_at: float = float("-inf")
    """Time when the latest AppendEntries or snapshot block left, in seconds."""
    heard_at: float = float("-inf")
    """Time of the latest answer in this term, in seconds; at first the time when the leader began to send."""
    round: int = 0
    """Newest heartbeat round that the follower has answered."""
    forgetful: bool = False
    """Whether the follower has refused an entry that it acknowledged earlier: the follower lost its log."""
    sending: SnapshotSending | None = None
    """The snapshot that the leader sends the follower now."""
    refused: int = 0
    """Index of the last snapshot that the follower refused; 0 for none."""
    removed_at: int = 0
    """Index of the Configuration that removed the follower; 0 for a voter."""
    removed_since: float = 0.0
    """Time when that Configuration was appended, in seconds."""
    endpoint: str = ""
    """Endpoint of a follower that is no longer a voter."""
    flights: dict[int, Flight] = field(default_factory=dict)
    """Requests on the way, by tag, in the order of sending."""

    def back_to_probing(self, next_index: int) -> None:
        """Probe from `next_index` on, or after `match` if that is later; ignore the answers that are still to come."""
        self.probing = True
        self.next = max(next_index, self.match + 1)
        self.flights.clear()

    def lost(self) -> None:
        """Probe again from `next` on, after requests or answers were lost. A refusal moves `next` back.

        The probe does not start at `match`: a JRaft follower may have dropped the log beyond `match` meanwhile, and
        then closes the connection at every request that continues from `match` (docs/design/jraft.md).
        """
        self.back_to_probing(self.next)

    def matched(self, index: int) -> None:
        """Note that the follower holds all entries up to `index`."""
        self.probing = False
        self.sending = None
        self.match = max(self.match, index)
        self.next = max(self.next, self.match + 1)
