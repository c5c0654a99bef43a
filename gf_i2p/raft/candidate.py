"""The candidate role: a server that asks for votes (Raft 5.2)."""

from gf_i2p.raft.configurations import majority
from gf_i2p.raft.state import State
from gf_i2p.wire.messages import MessageType, Response


class Candidate:
    """The candidacy of this server in one term.

    The vote requests leave when this server's vote for itself is durable. That vote counts only from then on.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._granted: set[int] = set()
        self._unanswered = set(state.peers)
        self.refused = False
        """Whether a peer has refused this candidate its vote."""
        for peer in state.peers:
            self.ask(peer)

    @property
    def won(self) -> bool:
        """Whether a majority of the Configuration has voted for this server."""
        voters = self._state.configurations.voters
        return len(self._granted.intersection(voters)) >= majority(len(voters))

    def voted(self) -> None:
        """Count this server's vote for itself, once the vote is durable.

        If the vote counted earlier, a farm's only server could lead in a term that a crash then erases.
        """
        self._granted.add(self._state.id)

    def ask(self, peer: int) -> None:
        """Send a peer the vote request, also a second time; do nothing if the peer has answered in this term."""
        if peer in self._unanswered:
            # As in JRaft, a vote request carries no commit index.
            self._state.send(peer, MessageType.REQUEST_VOTE_REQUEST, self._state.log.last_index, 0, gated=True)

    def answered(self, peer: int, response: Response) -> None:
        """Count a peer's first answer to the vote request of this term."""
        if peer in self._unanswered:
            self._unanswered.remove(peer)
            if response.accepted:
                self._granted.add(peer)
            else:
                self.refused = True
