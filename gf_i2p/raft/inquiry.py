"""The question that precedes an election: who leads? The question takes the place of the pre-vote (thesis 9.6).

The wire has no message for a pre-vote. But every server answers a ClientRequest without entries, so a server that hears
no leader asks the other members in this form. The answer promises nothing, and the question raises no term. An answer
of a higher term raises the term of the asking server, as any answer does (Raft 5.1):

- A leader accepts.
- A follower that hears a live leader refuses, names the leader, and tells its own next index, which is above 0.
- Any other server refuses with a next index of 0: nothing speaks against an election.

A JRaft follower always tells 0, and may name a leader of long ago. So the name counts only when the named server has
answered in this inquiry that it leads.
"""

from dataclasses import dataclass

from gf_i2p.raft.configurations import majority
from gf_i2p.raft.state import State
from gf_i2p.wire.messages import NOBODY, Response


@dataclass(frozen=True, slots=True)
class _Answer:
    """The latest answer of a peer."""

    asked_at: float
    leads: bool
    leader: int
    """The server that the peer takes for the leader, or `NOBODY`."""
    hears: bool
    """Whether the peer hears that leader now."""


class Inquiry:
    """The questions of one server to the other members, and their latest answers.

    An answer is valid until `election_max` after its question left, or until `begin_anew`. At most one question to a
    peer is on the way.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._flights: dict[int, tuple[int, float]] = {}  # by peer: tag, time of the question
        self._answers: dict[int, _Answer] = {}
        self._since = float("-inf")  # time of the last change in the farm: earlier answers say nothing now
        self.next_at = 0.0
        """Time for the next questions."""
        self.is_due = False
        """Whether an election is due, and begins as soon as enough members have answered that nobody leads."""

    def begin_anew(self, now: float, pause: float) -> None:
        """Drop all answers, because the farm has changed, and ask again after `pause` seconds."""
        self._since = now
        self.next_at = now + pause
        self.is_due = False

    def ask(self, now: float) -> None:
        """Ask each member whose agreement is not known, or is soon too old. Plan the next questions.

        The first questions leave before the election time-out ends: as soon as the leader has been silent for so long
        that this server would vote for another server. So the answers have usually arrived when the election is due.
        """
        timing = self._state.timing
        self.next_at = now + max(timing.heartbeat, timing.election_min / 8)
        for peer in self._state.peers:
            self.ask_peer(peer, now)

    def ask_peer(self, peer: int, now: float) -> None:
        """Ask one member; do nothing if a question is on the way, or the member has agreed lately."""
        timing = self._state.timing
        flight, answer = self._flights.get(peer), self._answers.get(peer)
        if flight is not None and now < flight[1] + 2 * timing.election_max:
            return
        if answer is not None and self._agrees(answer, now) and now < answer.asked_at + timing.election_min / 2:
            return
        self._flights[peer] = self._state.ask(peer), now

    def forget_flight(self, peer: int) -> None:
        """Note a new connection to a peer: a question on an earlier connection gets no answer."""
        self._flights.pop(peer, None)

    def forget_flights(self) -> None:
        """Note the end of this server's leadership: a leader takes no answers to its earlier questions."""
        self._flights.clear()

    def failed(self, peer: int, tag: int) -> None:
        """Note that a request gets no answer."""
        if self._flights.get(peer, (0, 0.0))[0] == tag:
            del self._flights[peer]

    def completes(self, peer: int, tag: int, response: Response, now: float) -> bool:
        """Take an answer; return whether an election is due and this answer completes the majority for it."""
        if not self.answered(peer, tag, response) or not self.is_due:
            return False
        self.is_due = self.may_agree(now)
        return self.agreed(now)

    def answered(self, peer: int, tag: int, response: Response) -> bool:
        """Take an answer; return whether it answers a question of this inquiry."""
        expected, asked_at = self._flights.get(peer, (0, 0.0))
        if expected != tag:
            return False
        del self._flights[peer]
        self._answers[peer] = _Answer(asked_at, response.accepted, response.destination, response.next_index > 0)
        return True

    def agreed(self, now: float) -> bool:
        """Return whether a majority of the members agrees that nobody leads. This server, if a member, agrees."""
        members = self._state.configurations.voters
        agreeing = [member for member in members if self._agrees(self._answers.get(member), now)]
        return len(agreeing) + (self._state.id in members) >= majority(len(members))

    def may_agree(self, now: float) -> bool:
        """Return whether the members that have not answered, or are asked again, could still make `agreed` true."""
        members = self._state.configurations.voters
        final = {peer: answer for peer, answer in self._answers.items() if peer not in self._flights}
        valid = [answer for answer in final.values() if self._is_valid(answer, now)]
        heard = {answer.leader for answer in valid if answer.hears}
        open_members = [
            member
            for member in members
            if member != self._state.id
            and member not in heard
            and (not self._is_valid(answer := final.get(member), now) or self._agrees(answer, now))
        ]
        return len(open_members) + (self._state.id in members) >= majority(len(members))

    def _is_valid(self, answer: _Answer | None, now: float) -> bool:
        return answer is not None and self._since <= answer.asked_at > now - self._state.timing.election_max

    def _agrees(self, answer: _Answer | None, now: float) -> bool:
        """Return whether an answer is valid, and speaks for no live leader. The asking server, if named, does not lead.

        A peer may name another server without hearing that server. Such a name counts only if the named server has
        itself answered that it leads.
        """
        if answer is None or answer.leads or not self._is_valid(answer, now):
            return False
        if answer.leader in {NOBODY, self._state.id}:
            return True
        named = self._answers.get(answer.leader)
        return not answer.hears and not (named is not None and named.leads and self._is_valid(named, now))
