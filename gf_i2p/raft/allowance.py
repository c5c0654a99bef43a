"""The bounds on how fast other servers may raise this server's term and the last index of this server's log.

Raft lets any message raise the term, and a term never falls. Terms are 64-bit numbers, so a broken or hostile server
could bring the farm to the last term, or to terms that some servers reach and other servers refuse. The rules:

- A server has an allowance of terms, which fills with time. A claim of a higher term takes the step from the allowance.
- When the allowance is too small, the server raises its term as far as the allowance reaches, and the message has no
  other effect. To enter a higher term without a vote is always safe in Raft. So servers that hear each other differ by
  few terms. A server that was away during an attack needs at most as long as the attack lasted to follow again.
- A newcomer, whose log is empty and which no Configuration names, takes any term up to `LAST_TERM` at once. A newcomer
  has promised nothing, so only the newcomer itself can be harmed, and can begin again with an empty log.
- An answer of a server that is no member, such as a joining server, raises the term only if the allowance covers the
  whole step.

An AppendEntries lengthens a log by its own entries only. But a snapshot brings a log to any index, and indexes are
64-bit numbers, too. So a snapshot takes its step from an allowance of indexes. If that allowance is too small, the
snapshot is refused.

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
"""The last term that a newcomer takes. A recovered farm goes on below this term, too. The wire has as many terms again
above this term, so terms for elections never run out."""


INDEXES_AT_ONCE: Final = 2**36
"""Most indexes in the allowance for snapshots, and its content at the start: more entries than a farm takes in two
months at full speed."""
INDEXES_A_SECOND: Final = 2**16
"""Indexes that the allowance gains in a second: several times the entries that a farm takes in a second, and two
thousand years to `LAST_INDEX`."""
LAST_INDEX: Final = 2**52
"""The last index of a snapshot that a newcomer takes. The farm's state holds indexes up to 2^53 (`MAX_DATE_MS`)."""


class Allowance(TokenBucket):
    """The number of terms or indexes by which other servers may bring this server forward now. Times in seconds."""

    __slots__ = ()

    def take(self, step: int, now: float) -> int:
        """Take `step` from the allowance, or all that the allowance has if that is less; return the number taken."""
        taken = min(step, int(self.content(now)))
        self.spend(taken)
        return taken

    def has(self, step: int, now: float) -> bool:
        """Return whether the allowance covers all of `step`."""
        return step <= self.content(now)
