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
    """An AppendEntries on the way."""

    previous: int
    """Index just before the request's entries."""
    last: int
    """Index of the request's last entry; `previous` for a heartbeat."""
    round: int
    """The leader's heartbeat round when the request left."""
    commit: int = 0
    """The commit index in the request."""
    block_end: int = 0
    """For an InstallSnapshot: the offset after its data."""


@dataclass(slots=True)
class SnapshotSending:
    """A snapshot on its way to a follower."""

    snapshot: Snapshot
    offset: int = 0
    """Bytes that the follower has."""


@dataclass(slots=True)
class FollowerProgress:
    """Indexes, times and requests on the way, of one follower."""

    next: int
    """Index of the next entry to send."""
    match: int = 0
    """Highest index known to match the leader's log and to be durable on the follower."""
    probing: bool = True
    sent_at: float = float("-inf")
    """Time when the latest AppendEntries left."""
    heard_at: float = float("-inf")
    """Time when the latest answer of this term came."""
    round: int = 0
    """Newest heartbeat round that the follower has answered."""
    forgetful: bool = False
    """Whether it has denied what it had acknowledged."""
    sending: SnapshotSending | None = None
    """The snapshot that it is sent now."""
    refused: int = 0
    """Index of the last snapshot that did not help the follower."""
    removed_at: int = 0
    """Index of the Configuration without the follower; 0 for a member."""
    removed_since: float = 0.0
    """Time when that Configuration was appended."""
    endpoint: str = ""
    """Endpoint of a follower that is no longer a member."""
    flights: dict[int, Flight] = field(default_factory=dict)
    """Requests on the way, by tag, in the order of sending."""

    def back_to_probing(self, next_index: int) -> None:
        """Probe where the logs agree, from `next_index` on; answers still on the way no longer count."""
        self.probing = True
        self.next = max(next_index, self.match + 1)
        self.flights.clear()

    def lost(self) -> None:
        """Probe again after a loss of requests or answers; a refusal says where to begin.

        The probe does not start at `match`: a JRaft follower may have dropped its log beyond `match` meanwhile. Such a
        follower closes the connection on every request that goes on from there (jraft-facts 12).
        """
        self.back_to_probing(self.next)

    def matched(self, index: int) -> None:
        """Note that the follower holds all entries up to `index`."""
        self.probing = False
        self.sending = None
        self.match = max(self.match, index)
        self.next = max(self.next, self.match + 1)
