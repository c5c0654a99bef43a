"""The bound on how fast other servers may raise this server's term.

Raft lets any message raise the term, and a term never falls. Terms are 64-bit numbers, so a broken or hostile server
could bring the farm to the last term, or to terms that some servers reach and other servers refuse. The rules:

- A server has an allowance of terms, which fills with time. A claim of a higher term takes the step from the allowance.
- When the allowance is too small, the server goes towards the claimed term as far as the allowance reaches, and the
  message has no other effect. To enter a higher term without a vote is always safe in Raft. So servers that hear each
  other differ by few terms, and a server that was away during an attack follows after the attack's length at most.
- A newcomer, whose log is empty and which no Configuration names, takes any term up to `LAST_TERM` at once. A newcomer
  has promised nothing, so only the newcomer itself can be harmed, and can begin again with an empty log.
- The answer of a server that is no member, as of a joining server, raises the term only within the allowance.

docs/design/consensus.md has the reasons.
"""

from typing import Final

TERMS_AT_ONCE: Final = 2**20
"""Most terms in the allowance, and its content at the start: 16 s of `TERMS_A_SECOND`. A farm that holds an election
every minute needs two years for so many terms, so a server that was away follows at once."""
TERMS_A_SECOND: Final = 2**16
"""Terms that the allowance gains in a second: far more than elections take, and two million years to `LAST_TERM`."""
LAST_TERM: Final = 2**62
"""The last term that a newcomer takes, and in which a recovered farm goes on. As many terms again follow before the
last term of the wire, so elections are never at an end."""


class TermAllowance:
    """The terms by which other servers may raise this server's term now: a token bucket."""

    __slots__ = ("_filled_at", "_terms")

    def __init__(self, now: float) -> None:
        self._terms = float(TERMS_AT_ONCE)
        self._filled_at = now

    def take(self, terms: int, now: float) -> int:
        """Take as many of `terms` as there are; return the number. `now`: seconds, by a clock that never goes back."""
        self._fill(now)
        taken = min(terms, int(self._terms))
        self._terms -= taken
        return taken

    def has(self, terms: int, now: float) -> bool:
        """Whether the allowance has so many terms."""
        self._fill(now)
        return terms <= self._terms

    def _fill(self, now: float) -> None:
        self._terms = min(self._terms + (now - self._filled_at) * TERMS_A_SECOND, float(TERMS_AT_ONCE))
        self._filled_at = now
