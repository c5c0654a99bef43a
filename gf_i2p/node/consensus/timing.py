"""The time-outs in force: fixed, or derived from the node's measurements. Pure: the caller gives the time.

The wire has no field for a leader's heartbeat interval. Yet a follower must never wait for less than the leader's
silence. So leader and followers derive their time-outs from silences that both have seen:

- A follower measures the leader's silences and remembers them for `memory` seconds. The follower waits for several
  times the usual silence, and for twice the longest.
- A leader begins with the shortest heartbeat, with which every follower can live, whatever the follower measured
  before. The silence may grow by a quarter at a time, and only when every reached follower has answered
  `ANSWERS_TO_RISE` times after a silence of the present length. An answer expires after half of `memory`; when traffic
  has left no silence for so long, the leader begins again. The leader also begins again when a follower's connection
  comes up, since that follower may have seen no silence. A shorter silence harms no follower and needs no such care.
- Heartbeats and vote requests measure the round trips. These messages are small, and do not stand behind entries that
  a disk must write. Before the first measurement, the connection's handshake counts. No time-out is shorter than a
  vote may take.

T is the 99th percentile of the round trips to the nearest peers that make a majority with this node. The floor and the
ceiling of the farm's `Range` bound all three values:

    heartbeat     T, and at most 1.25 times the silence that every reached follower has answered `ANSWERS_TO_RISE` times
    election_min  the longest of 3 T, 4 heartbeats, 4 usual silences, 2 longest silences
    election_max  2 election_min

A span of time in which the node itself stood still, suspended or swapped out, is neither a silence nor a round trip.

Only the servers of the current Configuration count: a server that has left is neither silent nor slow.

A leader measures the silences of the majority that check-quorum waits for. A server that has just started uses special
time-outs (`Range.unconnected`, `Range.first`) until it has heard `ENOUGH_SILENCES`. The leader may not have dialled
that server yet, and an election by that server would be in vain.
"""

import math
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from gf_i2p.node.consensus.link_measurements import SLOTS, RoundTrips, RoundTripSummary, Silences
from gf_i2p.raft.configurations import agreed, majority
from gf_i2p.raft.effects import Send
from gf_i2p.raft.settings import I2P, LAN, Timing
from gf_i2p.wire.messages import MessageType, Request

TRIPS_PER_HEARTBEAT: Final = 1.0
TRIPS_PER_ELECTION: Final = 3.0
"""Least election time-out in round trips: enough for a vote with its disk write, and to keep two candidates apart."""
TRIPS_TO_BE_FOUND: Final = 10.0
"""Round trips that a started server waits for its leader's dial by TCP, TLS and HTTP, perhaps for a second dial."""
HEARTBEATS_PER_ELECTION: Final = 4.0
USUAL_PER_ELECTION: Final = 4.0
WORST_PER_ELECTION: Final = 2.0
RISE: Final = 1.25
"""Factor by which a leader's silence may surpass the silence that all followers have answered."""
ANSWERS_TO_RISE: Final = 4
"""Answers after a full silence that every follower must have given before the leader's silences may grow."""
ENOUGH_SILENCES: Final = 16
"""Number of measured silences after which the time-outs may become shorter than `Range.first`."""


@dataclass(frozen=True, slots=True)
class Range:
    """The range in which time-outs adapt. `memory`: seconds for which measurements count."""

    unconnected: Timing
    """The least time-outs until every peer was connected once, in both directions. The leader must have
    dialled this server, too: a server that has just started reaches the others before the leader dials that server."""
    first: Timing
    """The least time-outs from then on, until `ENOUGH_SILENCES` were measured."""
    floor: Timing
    """The least time-outs after that."""
    ceiling: Timing
    memory: float


RANGE_OUTSIDE_I2P: Final = Range(
    unconnected=replace(LAN, election_min=10.0, election_max=20.0), first=LAN, floor=LAN, ceiling=I2P, memory=120.0
)
"""Limits of the time-outs in farms wholly outside I2P."""

RANGE_INSIDE_I2P: Final = Range(
    unconnected=replace(I2P, heartbeat=0.5),
    first=Timing(heartbeat=0.5, election_min=10.0, election_max=20.0),
    floor=Timing(heartbeat=0.5, election_min=3.0, election_max=6.0),
    ceiling=I2P,
    memory=1200.0,
)
"""Limits of the time-outs in farms with a part inside I2P. Tunnels are rebuilt every ten minutes; `memory` outlasts two
of these rebuilds."""


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """The source of a node's time-outs: a profile, in which the operator may have replaced single values.

    Raises `ValueError`, with a sentence for the operator, when the values cannot work together.
    """

    profile: str
    limits: Range
    fixed: Timing | None = None
    """The profile's time-outs; None when the time-outs adapt."""
    heartbeat: float | None = None
    election_min: float | None = None
    election_max: float | None = None

    def __post_init__(self) -> None:
        _ = self.first

    @property
    def first(self) -> Timing:
        """The fixed time-outs, or the least time-outs before `ENOUGH_SILENCES` were measured."""
        return self.fit(self.fixed or self.limits.first)

    def fit(self, timing: Timing) -> Timing:
        """Return `timing` with the operator's values, and the other values fitted to these. Raises `ValueError`."""
        heartbeat, shortest, longest = timing.heartbeat, timing.election_min, timing.election_max
        if self.fixed is None:
            if self.heartbeat is not None:
                shortest = max(shortest, HEARTBEATS_PER_ELECTION * self.heartbeat)
                if self.election_min is None and (self.election_max or math.inf) < 2.5 * self.heartbeat:
                    raise ValueError("election_max must be at least 2.5 times the heartbeat")
            if self.election_max is not None:
                shortest = min(shortest, self.election_max / 1.25)
            shortest = self.election_min or shortest
            heartbeat = min(heartbeat, shortest / HEARTBEATS_PER_ELECTION)
            longest = max(longest, 2 * shortest)
        return Timing(
            heartbeat=self.heartbeat or heartbeat,
            election_min=self.election_min or shortest,
            election_max=self.election_max or longest,
        )


class _Flight(NamedTuple):
    """A request that has no answer yet."""

    peer: int
    sent_at: float
    term: int | None
    """The term in which the leader sent the request; None for a vote request."""
    bulk: bool
    """Whether the request has entries, so that the answer waits for a disk."""
    measured: bool
    """Whether the round trip counts: neither this request nor an earlier one in flight has entries."""
    silence: float | None
    """Seconds since the previous AppendEntries to this peer. None for a request with entries, for a vote request, and
    when a heartbeat was not yet due."""


class _LeaderTerm:
    """A leader's measurements in one term."""

    def __init__(self, term: int) -> None:
        self.term = term
        self._sent_at: dict[int, float] = {}
        self._heard_at: dict[int, float] = {}
        self._silence_answers: dict[int, deque[tuple[float, float]]] = {}
        """By reached peer: the latest `ANSWERS_TO_RISE` answers after a full silence, as time and silence."""

    def reached(self, peer: int) -> None:
        """Note a new connection to the peer. Answers over earlier connections count no longer in `answered_silence`."""
        self._sent_at.pop(peer, None)
        self._silence_answers[peer] = deque(maxlen=ANSWERS_TO_RISE)

    def lost(self, peer: int) -> None:
        """Note that the peer has no connection."""
        self._silence_answers.pop(peer, None)

    def sent(self, peer: int, now: float) -> float:
        """Note a request to the peer; return the seconds since the request before, 0 for the first."""
        self._heard_at.setdefault(peer, now)
        self._silence_answers.setdefault(peer, deque(maxlen=ANSWERS_TO_RISE))
        silence = now - self._sent_at.get(peer, now)
        self._sent_at[peer] = now
        return silence

    def answered(self, peer: int, now: float) -> float:
        """Note an answer of the peer; return for how many seconds the leader had heard no majority before."""
        silence = now - agreed([now, *self._heard_at.values()])
        self._heard_at[peer] = now
        return silence

    def keep(self, peers: Collection[int]) -> None:
        """Forget the measurements of all peers that are not in `peers`."""
        for by_peer in (self._sent_at, self._heard_at, self._silence_answers):
            for peer in by_peer.keys() - peers:
                del by_peer[peer]

    def note_answer(self, peer: int, silence: float, now: float) -> None:
        """Note that the peer has answered a request that ended a silence of `silence` seconds."""
        if peer in self._silence_answers:
            self._silence_answers[peer].append((now, silence))

    def answered_silence(self, since: float) -> float:
        """Return the longest silence that every reached peer has answered `ANSWERS_TO_RISE` times since `since`.

        Both are in seconds. Return 0 while a reached peer has given fewer answers, or when no peer is reached.
        """
        shortest = float("inf")
        for answers in self._silence_answers.values():
            if len(answers) < ANSWERS_TO_RISE or answers[0][0] < since:
                return 0.0
            shortest = min(shortest, *(silence for _, silence in answers))
        return shortest if self._silence_answers else 0.0


class Timeouts:
    """The time-outs of one node, and the measurements behind them.

    When a message arrives, the driver first tells this object, and then the core. So the core acts by time-outs that
    include the newest measurement.
    """

    def __init__(self, plan: TimingPlan, *, servers: int) -> None:
        """`servers`: number of servers in the farm, until `change_servers` names them."""
        self.silences = Silences(plan.limits.memory)
        self._plan = plan
        self._majority = majority(servers)
        self._others = servers - 1
        self._peers: frozenset[int] | None = None
        """The other servers of the farm; None: every peer counts."""
        self._now = 0.0
        self._awake_since = -math.inf
        self._adapt_at = 0.0  # time from which the next message adapts the time-outs
        self._handshakes: dict[int, float] = {}
        self._dialled_by: set[int] = set()  # peers whose links to this node have come up once
        self._trips: dict[int, RoundTrips] = {}
        self._flights: dict[int, _Flight] = {}  # by tag
        self._bulk: Counter[int] = Counter()  # by peer, requests with entries on the way
        self._heard: dict[int, tuple[int, float]] = {}  # by leader: the term and the time of its latest AppendEntries
        self._leader_term: _LeaderTerm | None = None
        self._adapt()

    @property
    def plan(self) -> TimingPlan:
        """The source of the time-outs. The measurements stay when a new plan is set."""
        return self._plan

    @plan.setter
    def plan(self, plan: TimingPlan) -> None:
        self._plan = plan
        self._adapt()

    def round_trip(self, peer: int) -> RoundTripSummary | None:
        """Return a summary of the round trips to this peer; None when no round trip was measured.

        Before the first answer to a request, the summary has only the round trip of the handshake.
        """
        if peer in self._trips:
            return self._trips[peer].summary
        handshake = self._handshakes.get(peer)
        return None if handshake is None else RoundTripSummary(handshake, handshake, 1)

    def change_servers(self, peers: Collection[int]) -> None:
        """Note that the farm now consists of these peers and this server. Forget the round trips to other peers."""
        self._peers = frozenset(peers)
        self._others = len(self._peers)
        self._majority = majority(self._others + 1)
        self._trips = {peer: trips for peer, trips in self._trips.items() if peer in self._peers}
        if self._leader_term is not None:
            self._leader_term.keep(self._peers)
        self._adapt()

    def _counts(self, peer: int) -> bool:
        return self._peers is None or peer in self._peers

    # Events ---------------------------------------------------------------------------------------------------------

    def stood_still(self, now: float) -> None:
        """Note that this node stood still until now: no time before now counts as a silence or a round trip."""
        self._awake_since = now

    def reachable(self, peer: int, round_trip: float | None, now: float) -> None:
        """Note a new connection to `peer`. `round_trip`: seconds of one round trip in its handshake; None: unknown."""
        self._now = now
        if round_trip is not None:
            self._handshakes[peer] = round_trip
        if self._leader_term is not None and self._counts(peer):
            self._leader_term.reached(peer)
        self._adapt()

    def dialled(self, peer: int, now: float) -> None:
        """Note a new link from `peer` to this node."""
        if peer not in self._dialled_by:
            self._now = now
            self._dialled_by.add(peer)
            self._adapt()

    def incoming(self, request: Request, now: float) -> None:
        """Note a request that has arrived; only AppendEntries count."""
        if request.type is not MessageType.APPEND_ENTRIES_REQUEST:
            return
        self._now = now
        if self._leader_term is not None and request.term > self._leader_term.term:
            self._leader_term = None
            self._adapt_at = now
        # A deposed leader counts, too: its next message shows how long the silence was that deposed the leader.
        term, at = self._heard.get(request.source, (None, now))
        self._heard[request.source] = request.term, now
        if term == request.term:
            self._silent(now - at)
        self._adapt_in_time()

    def sent(self, send: Send, now: float) -> None:
        """Note a request that this node sends now."""
        self._now = now
        peer, request = send.peer, send.request
        bulk = bool(request.entries)
        term = silence = None
        if request.type is MessageType.APPEND_ENTRIES_REQUEST and self._counts(peer):
            term = request.term
            if self._leader_term is None or self._leader_term.term != term:
                self._leader_term = _LeaderTerm(term)
                self._adapt_at = now
            silence = self._leader_term.sent(peer, now)
            if bulk or silence < 0.9 * self.timing.heartbeat:
                silence = None
        measured = not bulk and not self._bulk[peer] and self._counts(peer)
        self._flights[send.tag] = _Flight(peer, now, term, bulk, measured, silence)
        self._bulk[peer] += bulk
        self._adapt_in_time()

    def answered(self, tag: int, now: float) -> None:
        """Note the answer to the request with this tag."""
        flight, leader_term = self._landed(tag), self._leader_term
        if flight is None:
            return
        self._now = now
        if not self._counts(flight.peer):
            return
        if flight.measured and flight.sent_at >= self._awake_since:
            if flight.peer not in self._trips:
                self._trips[flight.peer] = RoundTrips(self._plan.limits.memory)
            self._trips[flight.peer].add(now - flight.sent_at, now)
            self._adapt_at = now
        if leader_term is not None and leader_term.term == flight.term:
            if flight.silence is not None:
                leader_term.note_answer(flight.peer, flight.silence, now)
            self._silent(leader_term.answered(flight.peer, now))
        self._adapt_in_time()

    def failed(self, tag: int) -> None:
        """Note that the request with this tag gets no answer, because the connection is gone."""
        flight, leader_term = self._landed(tag), self._leader_term
        if flight is not None and leader_term is not None and leader_term.term == flight.term:
            leader_term.lost(flight.peer)

    def _landed(self, tag: int) -> _Flight | None:
        flight = self._flights.pop(tag, None)
        if flight is not None:
            self._bulk[flight.peer] -= flight.bulk
        return flight

    def _silent(self, seconds: float) -> None:
        """Note a silence of `seconds` that ends now, of the leader or, on the leader, of the majority.

        A silence longer than the longest election time-out does not count: the farm had no leader then.
        """
        if self._now - seconds < self._awake_since or seconds > self._plan.limits.ceiling.election_max:
            return
        if self.silences.add(seconds, self._now):
            self._adapt_at = self._now

    # Time-outs ------------------------------------------------------------------------------------------------------

    def _trip(self) -> float:
        """Return the 99th percentile of the round trips to the nearest peers that make a majority with this node.

        In seconds; 0 when no round trip is known. The module's docstring calls this value T.
        """
        trips = {peer: trips.p99 for peer, trips in self._trips.items()}
        round_trips = sorted((self._known_handshakes() | trips).values())
        return round_trips[min(max(self._majority - 2, 0), len(round_trips) - 1)] if round_trips else 0.0

    def _known_handshakes(self) -> dict[int, float]:
        return {peer: seconds for peer, seconds in self._handshakes.items() if self._counts(peer)}

    def _adapt_in_time(self) -> None:
        """Adapt when there is a new measurement, or an old measurement may have expired."""
        if self._now >= self._adapt_at:
            self._adapt()

    def _adapt(self) -> None:
        limits, silences = self._plan.limits, self.silences
        self._adapt_at = self._now + limits.memory / SLOTS
        if self._plan.fixed is not None:
            self.timing = self._plan.first
            return
        floor, ceiling = limits.floor, limits.ceiling
        least, trip, handshake = floor, self._trip(), 0.0
        if silences.count < ENOUGH_SILENCES:
            handshakes = self._known_handshakes()
            linked = [peer for peer in handshakes if peer in self._dialled_by]
            least = limits.first if len(linked) >= self._others else limits.unconnected
            handshake = max(handshakes.values(), default=0.0)
        heartbeat = floor.heartbeat
        if self._leader_term is not None:
            answered_silence = self._leader_term.answered_silence(self._now - limits.memory / 2)
            silence = min(TRIPS_PER_HEARTBEAT * trip, RISE * answered_silence)
            heartbeat = _clamp(silence, floor.heartbeat, ceiling.heartbeat)
        shortest = _clamp(
            max(
                TRIPS_PER_ELECTION * trip,
                HEARTBEATS_PER_ELECTION * heartbeat,
                USUAL_PER_ELECTION * silences.usual,
                WORST_PER_ELECTION * silences.worst,
                TRIPS_TO_BE_FOUND * handshake,
            ),
            least.election_min,
            ceiling.election_min,
        )
        longest = max(2 * shortest, least.election_max)
        self.timing = self._plan.fit(Timing(round(heartbeat, 3), round(shortest, 3), round(longest, 3)))


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
