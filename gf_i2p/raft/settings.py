"""The operator's settings for the core, with the profiles of the design."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """The time-outs in seconds. A follower waits a random time between the election bounds (Raft 5.2)."""

    heartbeat: float
    election_min: float
    election_max: float

    def __post_init__(self) -> None:
        """Refuse values with which no leader could stay.

        Raises:
            ValueError: a sentence for the operator.
        """
        if not 0 < self.heartbeat * 2 <= self.election_min:
            raise ValueError("election_min must be at least twice the heartbeat, and the heartbeat above 0")
        if self.election_max < self.election_min * 1.2:
            raise ValueError("election_max must be at least 1.2 times election_min, or candidates collide for ever")

    @property
    def doubt(self) -> float:
        """Seconds of silence after which a leader that cannot be dialled counts as lost.

        Half of what others are given, but time for two heartbeats: one that still reaches us stays.
        """
        return max(self.election_min / 2, 2 * self.heartbeat)


LAN = Timing(heartbeat=0.1, election_min=0.5, election_max=1.0)
"""Servers a millisecond apart."""

I2P = Timing(heartbeat=5.0, election_min=20.0, election_max=50.0)
"""Servers a second or more apart, on tunnels that are rebuilt every ten minutes."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Bounds of replication: bytes are wire bytes of entries, counts are entries or messages."""

    append_entries: int = 1024
    """Entries in one AppendEntries."""
    append_bytes: int = 128 << 10
    """Bytes of entries in one AppendEntries (one larger entry goes alone). A slow line must carry them within an
    election time-out, since a follower hears its leader only when a whole message has arrived."""
    snapshot_bytes: int = 128 << 10
    """Data of one InstallSnapshot, for the same reason."""
    in_flight: int = 16
    """AppendEntries on the way to one follower."""
    queue_entries: int = 16_384
    """Proposed and uncommitted entries; a further proposal is refused."""
    queue_bytes: int = 32 << 20
    """Bytes of proposed and uncommitted entries."""
