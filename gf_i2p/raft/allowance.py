"""The bounds on how fast other servers may raise this server's term, and the index of this server's log.

Raft lets any message raise the term, and a term never falls. Terms are 64-bit numbers, so a broken or hostile server
could bring the farm to the last term, or to terms that some servers reach and other servers refuse. The rules:

- A server has an allowance of terms, which fills with time. A claim of a higher term takes the step from the allowance.
- When the allowance is too small, the server goes towards the claimed term as far as the allowance reaches, and the
  message has no other effect. To enter a higher term without a vote is always safe in Raft. So servers that hear each
  other differ by few terms, and a server that was away during an attack follows after the attack's length at most.
- A newcomer, whose log is empty and which no Configuration names, takes any term up to `LAST_TERM` at once. A newcomer
  has promised nothing, so only the newcomer itself can be harmed, and can begin again with an empty log.
- The answer of a server that is no member, as of a joining server, raises the term only within the allowance.

An AppendEntries lengthens a log by its own entries only. But a snapshot brings a log to any index, and indexes are
64-bit numbers, too. So a snapshot takes its step from an allowance of indexes, and is refused when that is too small.

docs/design/consensus.md has the reasons.
"""

from typing import Final

from gf_i2p.raft.token_bucket import TokenBucket

TERMS_AT_ONCE: Final = 2**20
"""Most terms in the allowance, and its content at the start: 16 s of `TERMS_A_SECOND`. A farm that holds an election
every minute needs two years for so many terms, so a server that was away follows at once."""
TERMS_A_SECOND: Final = 2**16
"""Terms that the allowance gains in a second: far more than elections take, and two million years to `LAST_TERM`."""
LAST_TERM: Final = 2**62
"""The last term that a newcomer takes, and in which a recovered farm goes on. As many terms again follow before the
last term of the wire, so elections are never at an end."""


INDEXES_AT_ONCE: Final = 2**36
"""The same for the indexes by which snapshots lengthen the log: more entries than a farm takes in two months at full
speed."""
INDEXES_A_SECOND: Final = 2**16
"""Several times the entries that a farm takes in a second; two thousand years to `LAST_INDEX`."""
LAST_INDEX: Final = 2**52
"""The last index of a snapshot that a newcomer takes. The farm's state holds indexes up to 2^53 (`MAX_DATE_MS`)."""


class Allowance(TokenBucket):
    """The terms or indexes by which other servers may bring this server forward now."""

    __slots__ = ()

    def take(self, step: int, now: float) -> int:
        """Take as much of `step` as there is, and return the taken part."""
        taken = min(step, int(self.content(now)))
        self.spend(taken)
        return taken

    def has(self, step: int, now: float) -> bool:
        """Whether the bucket has so much."""
        return step <= self.content(now)
