"""A server that is invited and catches up: JoinCluster and SyncLog, as a leader sends them (jraft-facts, "Join")."""

from collections.abc import Sequence

from gf_i2p.raft.state import State
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.log_values import LogPack
from gf_i2p.wire.messages import Request


class Newcomer:
    """One invitation. It is over when we are a member, or another server leads."""

    def __init__(self, state: State, leader: int, term: int) -> None:
        self._state = state
        self.leader = leader
        self.term = term
        self.agreed = state.commit
        """Up to which index our log is known to be the leader's: packs say nothing of the entry before them."""

    def take(self, request: Request) -> tuple[int, Sequence[Entry]] | int:
        """Look at a SyncLogRequest: the entries that are new, and the index that they begin at.

        Or the next index that we need, when the pack does not follow what we have. Raises `RemoteProtocolError`.
        """
        first = request.last_log_index + 1
        if first > self.agreed + 1:
            return self.agreed + 1
        entries = LogPack.decode(request.entries[0].value).entries
        last = request.last_log_index + len(entries)
        if last <= self.agreed:
            return last + 1
        return first, entries


def check_terms(before: int, entries: Sequence[Entry], term: int) -> None:
    """Check that terms rise, from that of the entry before to the sender's. Raises `RemoteProtocolError`."""
    terms = [max(before, 1), *(entry.term for entry in entries), term]
    if terms != sorted(terms):
        raise RemoteProtocolError("entries whose terms fall, or lie above its own")
