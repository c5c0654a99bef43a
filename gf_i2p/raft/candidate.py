"""The candidate role: a server that asks for votes (Raft 5.2)."""

from gf_i2p.raft.configurations import majority
from gf_i2p.raft.state import State
from gf_i2p.wire.messages import MessageType, Response


class Candidate:
    """One candidacy in one term. Once the vote for itself is durable, the requests leave and that vote counts."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._granted: set[int] = set()
        self._unanswered = set(state.peers)
        self.refused = False
        """Whether some server has refused its vote in this term."""
        for peer in state.peers:
            self.ask(peer)

    @property
    def won(self) -> bool:
        """Whether a majority of the Configuration has voted for us."""
        members = self._state.configurations.voters
        return len(self._granted.intersection(members)) >= majority(len(members))

    def voted(self) -> None:
        """Count the own vote, now durable. A lone server would otherwise lead in a term that a crash undoes."""
        self._granted.add(self._state.id)

    def ask(self, peer: int) -> None:
        """Ask a peer for its vote, or again when the peer has become reachable, unless it has answered."""
        if peer in self._unanswered:
            # As in JRaft, a vote request carries no commit index.
            self._state.send(peer, MessageType.REQUEST_VOTE_REQUEST, self._state.log.last_index, 0, gated=True)

    def answered(self, peer: int, response: Response) -> None:
        """Count an answer of the present term."""
        if peer in self._unanswered:
            self._unanswered.remove(peer)
            if response.accepted:
                self._granted.add(peer)
            else:
                self.refused = True
