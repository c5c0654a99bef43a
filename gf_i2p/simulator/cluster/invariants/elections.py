"""Invariants about the question before an election, and about the election that must follow (`raft/inquiry.py`).

A server that does not ask, or does not stand, is only slow: a later time-out hides the mistake. These invariants notice
the mistake itself. Times are seconds of the server's own monotonic clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gf_i2p.raft.configurations import majority
from gf_i2p.raft.effects import Effects
from gf_i2p.raft.election_timeout import LAST_RESORT
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Reachable, Tick
from gf_i2p.simulator.cluster.invariants.invariant import OF_LEADERS, ROUNDING, Invariant
from gf_i2p.simulator.facts import Facts, ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import NOBODY, MessageType, Response


@dataclass(frozen=True, slots=True)
class _Word:
    """A peer's answer."""

    asked_at: float
    nobody: bool
    """Whether the peer knows no leader."""
    leader: int | None
    """The leader that the peer is, or hears; None: nobody, or the answer does not tell."""


@dataclass(slots=True)
class _Asking:
    """A server's questions for the leader, and what the farm has answered."""

    ends: float = float("inf")
    """End of the running time-out."""
    unheard: int = 0
    """Time-outs in a row that have ended since a leader was heard, or since the server led."""
    since: float = float("-inf")
    """Time of the last message of a leader, granted vote, candidacy or leadership: earlier questions do not count."""
    is_due: bool = False
    """Whether a time-out has ended since then, and a majority could still know no leader."""
    is_clear: bool = False
    """Whether each answer since the end of the time-out tells whether the peer hears a leader."""
    flights: dict[int, tuple[int, float]] = field(default_factory=dict)
    """By peer: tag and time of the question that is on the way."""
    answers: dict[int, _Word] = field(default_factory=dict)
    """By peer: the last answer."""

    def begin_anew(self, clock: float) -> None:
        """Note that the farm has changed."""
        self.since, self.is_due = clock, False

    def follow(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        """Take in the questions and answers of a step."""
        match event:
            case Answered(peer, tag, response) if self.flights.get(peer, (None, 0.0))[0] == tag:
                if effects.violation is not None:  # the server believes nothing of the answer
                    del self.flights[peer]
                    return
                word = self.answers[peer] = _word(self.flights.pop(peer)[1], peer, response, server.id)
                self.is_clear &= word.nobody or word.leader is not None
                self.is_due &= self._may_agree(server, clock)  # if not, the end of the next time-out decides again
            case Failed(peer, tag) if self.flights.get(peer, (None, 0.0))[0] == tag:
                del self.flights[peer]
            case Reachable(peer):
                self.flights.pop(peer, None)
        for send in effects.sends:
            if send.request.type is MessageType.CLIENT_REQUEST:
                self.flights[send.peer] = send.tag, clock

    def _valid(self, server: ServerFacts, clock: float) -> dict[int, _Word]:
        earliest = max(self.since, clock - server.timing.election_max + ROUNDING)
        return {peer: word for peer, word in self.answers.items() if word.asked_at >= earliest}

    def _may_agree(self, server: ServerFacts, clock: float) -> bool:
        """Whether a majority of the voters has not said that it hears a leader, leads, or is the leader of another."""
        final = {peer: word for peer, word in self._valid(server, clock).items() if peer not in self.flights}
        against = {each for peer, word in final.items() if word.leader is not None for each in (peer, word.leader)}
        return len(set(server.voters) - against) >= majority(len(server.voters))

    def agreed(self, server: ServerFacts, clock: float) -> bool:
        """Whether a majority of the voters, this server included, knows no leader."""
        agreeing = {peer for peer, word in self._valid(server, clock).items() if word.nobody} | {server.id}
        return len(agreeing.intersection(server.voters)) >= majority(len(server.voters))

    def unasked(self, server: ServerFacts, clock: float) -> set[int]:
        """Return the other voters that the server should ask now."""
        timing = server.timing
        on_the_way = {peer for peer, (_, at) in self.flights.items() if clock < at + 2 * timing.election_max + ROUNDING}
        until = timing.election_min / 2 + ROUNDING
        lately = {peer for peer, word in self.answers.items() if clock < word.asked_at + until}
        return set(server.voters) - {server.id} - on_the_way - lately


def _word(asked_at: float, peer: int, response: Response, server_id: int) -> _Word:
    """Read an answer to the question of a server."""
    if response.accepted:
        return _Word(asked_at, nobody=False, leader=peer)
    named = response.destination
    hears = response.next_index > 0 and named not in {NOBODY, server_id}
    return _Word(asked_at, nobody=named in {NOBODY, server_id}, leader=named if hears else None)


class ElectionsHeld(Invariant):
    """A server whose time-out ends asks all voters for the leader, and stands when a majority knows none (thesis 9.6).

    The server stands in the step that brings the answer of the majority, and at no other answer. An answer that the
    server does not believe decides nothing. The answers count when their questions left after the last change in the
    farm, and within the maximum time-out. No election is due when a majority cannot know none, until the next time-out
    ends. A server outside its Configuration, or without the state of its snapshot, does so after `LAST_RESORT`
    time-outs, if it may have the newest Configuration.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._asking: dict[int, _Asking] = {}
        self._stood: set[int] = set()  # servers that have become candidates in this step

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._asking[server.id] = _Asking(is_due=True)  # the first step may end the time-out that began with the start
        self._stood.discard(server.id)

    def stands(self, server: ServerFacts) -> None:
        self._stood.add(server.id)

    def retimed(self, server: ServerFacts, clock: float) -> None:
        self._asking[server.id].ends = server.stands_at

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        asking = self._asking[server.id]
        ended = isinstance(event, Tick) and clock >= asking.ends
        stood, asking.ends = server.id in self._stood, server.stands_at
        self._stood.discard(server.id)
        was_due = asking.is_due
        asking.follow(server, event, effects, clock)
        asking.unheard = 0 if server.leads or _is_heard(server, event) else asking.unheard + ended
        if stood or server.leads or _is_heard(server, event) or _grants(effects):
            asking.begin_anew(clock)
        if stood or server.leads:
            if stood and isinstance(event, Answered) and not was_due and _is_sound(server):
                raise self.violated(f"server {server.id} stands at an answer, and no election is due")
            return
        if ended:
            asking.is_due, asking.is_clear = self._may_stand(server, asking.unheard), True
            if asking.is_due and (unasked := asking.unasked(server, clock)):
                raise self.violated(
                    f"the time-out of server {server.id} has ended, and the server does not ask {sorted(unasked)}"
                )
        believes = isinstance(event, Answered) and effects.violation is None
        decides = ended or (believes and asking.is_clear)
        if asking.is_due and decides and asking.agreed(server, clock):
            raise self.violated(
                f"an election is due, a majority knows no leader, and server {server.id} does not stand"
            )

    @staticmethod
    def _may_stand(server: ServerFacts, unheard: int) -> bool:
        if _is_sound(server):
            return True
        newest = [voters for index, voters in _configurations(server) if index > server.commit]
        return unheard > LAST_RESORT and any(server.id in voters for voters in newest)


def _configurations(server: ServerFacts) -> list[tuple[int, tuple[int, ...]]]:
    """Return the Configurations after the dropped entries."""
    return [item for item in server.configurations if item[0] > server.memory.base]


def _is_sound(server: ServerFacts) -> bool:
    return server.id in server.voters and not _has_lost_snapshot(server) and not server.cannot_follow


def _has_lost_snapshot(server: ServerFacts) -> bool:
    return server.memory.base > 0 and server.memory.snapshot is None


def _is_heard(server: ServerFacts, event: Input) -> bool:
    return (
        isinstance(event, Incoming)
        and event.request.type in OF_LEADERS
        and event.request.source == server.leader
        and event.request.term == server.term
    )


def _grants(effects: Effects) -> bool:
    return any(
        item.response.accepted and item.response.type is MessageType.REQUEST_VOTE_RESPONSE
        for item in effects.gated_replies
    )
