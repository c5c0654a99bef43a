"""The operator's settings for the core: time-outs, with a profile for a LAN and one for I2P, and limits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """The time-outs in seconds. A follower waits a random time between the election bounds (Raft 5.2)."""

    heartbeat: float
    election_min: float
    election_max: float

    def __post_init__(self) -> None:
        """Refuse time-outs with which no leader could keep leading.

        Raises:
            ValueError: the text tells the operator which value to change.
        """
        if not 0 < self.heartbeat * 2 <= self.election_min:
            raise ValueError("election_min must be at least twice the heartbeat, and the heartbeat above 0")
        if self.election_max < self.election_min * 1.2:
            raise ValueError("election_max must be at least 1.2 times election_min, or candidates collide for ever")

    @property
    def doubt(self) -> float:
        """Seconds of silence after which a follower that cannot dial the leader regards the leader as lost.

        Half of `election_min`, but at least two heartbeats, so that a leader whose messages still arrive keeps leading.
        """
        return max(self.election_min / 2, 2 * self.heartbeat)

    @property
    def doubt_when_refused(self) -> float:
        """Seconds of silence that replace `doubt` when the leader's machine refuses connections.

        The machine answers, and no process listens: the leader's process has almost certainly ended. A quarter of
        `election_min`, but more than one heartbeat, so that a leader whose messages still arrive keeps leading.
        """
        return max(self.election_min / 4, 1.25 * self.heartbeat)


LAN = Timing(heartbeat=0.1, election_min=0.5, election_max=1.0)
"""For servers whose messages take about a millisecond."""

I2P = Timing(heartbeat=5.0, election_min=20.0, election_max=50.0)
"""For servers whose messages take a second or more, through tunnels that I2P rebuilds every ten minutes."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Limits of replication. Bytes are the sizes of entries on the wire, each with its 13-byte header."""

    append_entries: int = 1024
    """Most entries in one AppendEntries."""
    append_bytes: int = 128 << 10
    """Most bytes of entries in one AppendEntries (one larger entry goes alone). A slow line must carry a message
    within an election time-out, since a follower hears its leader only when a whole message has arrived."""
    snapshot_bytes: int = 128 << 10
    """Most bytes of data in one InstallSnapshot. A slow line must carry each block within an election time-out."""
    in_flight: int = 16
    """Most unanswered AppendEntries to one follower."""
    queue_entries: int = 16_384
    """Most proposed entries that are not committed yet. The leader refuses proposals beyond this number."""
    queue_bytes: int = 32 << 20
    """Most bytes of the proposed entries that are not committed yet."""
