"""The time-outs in force: fixed ones, or such as follow from what the node measures. Pure: told the time.

The wire has no field in which a leader could say how often it will be heard. Yet no follower may wait for less than
its leader is silent. So both go by what both have seen:

- A follower measures how long its leader is silent, and remembers it for `memory` seconds. It waits for several times
  the silence that is usual, and for twice the longest.
- A leader begins with the shortest heartbeat that there is: with that every follower can live, whatever it has
  measured before. It lets its silences grow by a quarter at a time, and only when every follower that it reaches has
  answered `SHOWN` times after one of the present length. What none has answered for half of `memory`, because traffic
  left no silence, counts no more, and the leader begins again; so it does when a follower's connection comes up, for
  that one may have seen nothing of it. To be heard more often harms nobody, and needs no such care.
- Round trips are measured by heartbeats and vote requests: small ones, and not behind entries that a disk must write.
  Before there are any, the handshake of the connection counts. No time-out is shorter than a vote may take.

With T the 99th percentile of the round trips to the nearest peers that make a majority with us, and all clamped
between the floor and the ceiling of the farm's `Range`:

    heartbeat     T, and at most 1.25 times the silence shown
    election_min  the longest of 3 T, 4 heartbeats, 4 usual silences, 2 longest silences
    election_max  2 election_min

What spans a time in which this node itself stood still, suspended or swapped out, is no silence and no round trip.

Only the servers of the Configuration that counts are asked for anything: one that has left is neither silent nor slow.

A leader's silences are those of the majority that check-quorum waits for. A server that has just started has time-outs
of its own (`Range.unconnected`, `Range.first`) until it has heard `ENOUGH_SILENCES`: nobody knows it yet, and if it
stood for election before its leader has dialled it, its higher term would depose that leader.
"""

import math
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from gf_i2p.node.consensus.link_measurements import SLOTS, RoundTrip, RoundTrips, Silences
from gf_i2p.raft.configurations import agreed, majority
from gf_i2p.raft.effects import Send
from gf_i2p.raft.settings import I2P, LAN, Timing
from gf_i2p.wire.messages import MessageType, Request

TRIPS_PER_HEARTBEAT: Final = 1.0
TRIPS_PER_ELECTION: Final = 3.0
"""A vote, its disk write included, and room so that two candidates seldom meet."""
TRIPS_TO_BE_FOUND: Final = 10.0
"""For a server that has just started, until its leader has dialled it, by TCP, TLS and HTTP, and perhaps once more."""
HEARTBEATS_PER_ELECTION: Final = 4.0
USUAL_PER_ELECTION: Final = 4.0
WORST_PER_ELECTION: Final = 2.0
RISE: Final = 1.25
"""By how much a leader's silence may surpass the one that all have answered."""
SHOWN: Final = 4
"""How often a follower has answered after a silence before the next may be longer."""
ENOUGH_SILENCES: Final = 16
"""After so many the time-outs may become shorter than those at the beginning."""


@dataclass(frozen=True, slots=True)
class Range:
    """Between what time-outs adapt. `memory`: seconds for which measurements count."""

    unconnected: Timing
    """As long as some peer was never connected: a server that has just started must not depose a leader that is about
    to find it."""
    first: Timing
    """The least from then on, until a leader has been heard for a while."""
    floor: Timing
    ceiling: Timing
    memory: float


OUTSIDE: Final = Range(
    unconnected=replace(LAN, election_min=10.0, election_max=20.0), first=LAN, floor=LAN, ceiling=I2P, memory=120.0
)
"""For farms that are all outside I2P."""

INSIDE: Final = Range(
    unconnected=replace(I2P, heartbeat=0.5),
    first=Timing(heartbeat=0.5, election_min=10.0, election_max=20.0),
    floor=Timing(heartbeat=0.5, election_min=3.0, election_max=6.0),
    ceiling=I2P,
    memory=1200.0,
)
"""For farms that I2P has a part in. Tunnels are rebuilt every ten minutes, and the silence that this may bring is not
forgotten before it has come twice."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a node comes by its time-outs: a profile, single values of which the operator has replaced.

    Raises `ValueError`, with a sentence for the operator, when the values cannot work together.
    """

    profile: str
    limits: Range
    fixed: Timing | None = None
    """The profile's time-outs, None when they adapt."""
    heartbeat: float | None = None
    election_min: float | None = None
    election_max: float | None = None

    def __post_init__(self) -> None:
        _ = self.first

    @property
    def first(self) -> Timing:
        """The least time-outs until a leader has been heard for a while; fixed ones for ever."""
        return self.fit(self.fixed or self.limits.first)

    def fit(self, timing: Timing) -> Timing:
        """Put the operator's values in; those that adapt give way to them."""
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
    """A request that is not answered yet."""

    peer: int
    sent_at: float
    term: int | None
    """Of the office in which it was sent, None for a vote request."""
    bulk: bool
    """Whether it has entries: its answer waits for a disk."""
    measured: bool
    """Whether its round trip counts: it has none, nor has one before it."""
    silence: float | None
    """How long we had been silent, when it ended a silence of the full length."""


class _Office:
    """What a leader measures in one term."""

    def __init__(self, term: int) -> None:
        self.term = term
        self._sent_at: dict[int, float] = {}
        self._heard_at: dict[int, float] = {}
        self._shown: dict[int, deque[tuple[float, float]]] = {}
        """By peer that is reached: when it has answered, and after what silence."""

    def reached(self, peer: int) -> None:
        """A new connection: nothing has been shown over it."""
        self._sent_at.pop(peer, None)
        self._shown[peer] = deque(maxlen=SHOWN)

    def lost(self, peer: int) -> None:
        """There is no connection."""
        self._shown.pop(peer, None)

    def speaks(self, peer: int, now: float) -> float:
        """Return for how long the peer has heard nothing; 0 at first."""
        self._heard_at.setdefault(peer, now)
        self._shown.setdefault(peer, deque(maxlen=SHOWN))
        silence = now - self._sent_at.get(peer, now)
        self._sent_at[peer] = now
        return silence

    def hears(self, peer: int, now: float) -> float:
        """Return for how long no majority was heard."""
        silence = now - agreed([now, *self._heard_at.values()])
        self._heard_at[peer] = now
        return silence

    def keep(self, peers: Collection[int]) -> None:
        """Forget all others."""
        for noted in (self._sent_at, self._heard_at, self._shown):
            for peer in noted.keys() - peers:
                del noted[peer]

    def show(self, peer: int, silence: float, now: float) -> None:
        """Note that this peer has answered after such a silence."""
        if peer in self._shown:
            self._shown[peer].append((now, silence))

    def shown(self, since: float) -> float:
        """The silence that all who are reached have answered so often, and since then; 0 when they have not."""
        shortest = float("inf")
        for shown in self._shown.values():
            if len(shown) < SHOWN or shown[0][0] < since:
                return 0.0
            shortest = min(shortest, *(silence for _, silence in shown))
        return shortest if self._shown else 0.0


class Tempo:
    """The time-outs of one node, and what they are made from.

    It is told what the node sends and hears, each time before the core is told the same: then what it has learnt
    counts for the core's answer.
    """

    def __init__(self, plan: Plan, *, servers: int) -> None:
        """`servers`: how many the farm has, as long as it is not known which ones."""
        self.silences = Silences(plan.limits.memory)
        self._plan = plan
        self._majority = majority(servers)
        self._others = servers - 1
        self._peers: frozenset[int] | None = None
        """The other servers of the farm; None: whoever is spoken to."""
        self._now = 0.0
        self._awake_since = -math.inf
        self._adapt_at = 0.0  # when that is due, whatever happens
        self._handshakes: dict[int, float] = {}
        self._trips: dict[int, RoundTrips] = {}
        self._flights: dict[int, _Flight] = {}  # by tag
        self._bulk: Counter[int] = Counter()  # by peer, requests with entries on the way
        self._heard: dict[int, tuple[int, float]] = {}  # by leader, its term, and when it was last heard in it
        self._office: _Office | None = None
        self._adapt()

    @property
    def plan(self) -> Plan:
        """Where the time-outs come from; may be exchanged, and what was measured stays."""
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._plan = plan
        self._adapt()

    def round_trip(self, peer: int) -> RoundTrip | None:
        """What is known of the round trip to this peer: by requests, or else by the handshake alone."""
        if peer in self._trips:
            return self._trips[peer].summary
        handshake = self._handshakes.get(peer)
        return None if handshake is None else RoundTrip(handshake, handshake, 1)

    def change_servers(self, peers: Collection[int]) -> None:
        """The farm consists of these and of this server from now on."""
        self._peers = frozenset(peers)
        self._others = len(self._peers)
        self._majority = majority(self._others + 1)
        self._trips = {peer: trips for peer, trips in self._trips.items() if peer in self._peers}
        if self._office is not None:
            self._office.keep(self._peers)
        self._adapt()

    def _counts(self, peer: int) -> bool:
        return self._peers is None or peer in self._peers

    # What happens ---------------------------------------------------------------------------------------------------

    def stood_still(self, now: float) -> None:
        """Until now this node did nothing, for longer than an election waits: who was not heard was not silent."""
        self._awake_since = now

    def reachable(self, peer: int, round_trip: float | None, now: float) -> None:
        """A connection to this peer has come up. `round_trip`: of its handshake, when known."""
        self._now = now
        if round_trip is not None:
            self._handshakes[peer] = round_trip
        if self._office is not None and self._counts(peer):
            self._office.reached(peer)
        self._adapt()

    def incoming(self, request: Request, now: float) -> None:
        """A server's request has arrived."""
        if request.type is not MessageType.APPEND_ENTRIES_REQUEST:
            return
        self._now = now
        if self._office is not None and request.term > self._office.term:
            self._office = None
            self._adapt_at = now
        # An old leader counts, too: if it was deposed because of its silence, now we know how long that was.
        term, at = self._heard.get(request.source, (None, now))
        self._heard[request.source] = request.term, now
        if term == request.term:
            self._silent(now - at)
        self._adapt_in_time()

    def sent(self, send: Send, now: float) -> None:
        """A request leaves."""
        self._now = now
        peer, request = send.peer, send.request
        bulk = bool(request.entries)
        term = silence = None
        if request.type is MessageType.APPEND_ENTRIES_REQUEST and self._counts(peer):
            term = request.term
            if self._office is None or self._office.term != term:
                self._office = _Office(term)
                self._adapt_at = now
            silence = self._office.speaks(peer, now)
            if bulk or silence < 0.9 * self.timing.heartbeat:
                silence = None
        measured = not bulk and not self._bulk[peer] and self._counts(peer)
        self._flights[send.tag] = _Flight(peer, now, term, bulk, measured, silence)
        self._bulk[peer] += bulk
        self._adapt_in_time()

    def answered(self, tag: int, now: float) -> None:
        """The request with this tag is answered."""
        flight, office = self._landed(tag), self._office
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
        if office is not None and office.term == flight.term:
            if flight.silence is not None:
                office.show(flight.peer, flight.silence, now)
            self._silent(office.hears(flight.peer, now))
        self._adapt_in_time()

    def failed(self, tag: int) -> None:
        """The request with this tag will not be answered: there is no connection."""
        flight, office = self._landed(tag), self._office
        if flight is not None and office is not None and office.term == flight.term:
            office.lost(flight.peer)

    def _landed(self, tag: int) -> _Flight | None:
        flight = self._flights.pop(tag, None)
        if flight is not None:
            self._bulk[flight.peer] -= flight.bulk
        return flight

    def _silent(self, seconds: float) -> None:
        """Note a silence; one that no leader survives was not a leader's, but a break in the farm."""
        if self._now - seconds < self._awake_since or seconds > self._plan.limits.ceiling.election_max:
            return
        if self.silences.add(seconds, self._now):
            self._adapt_at = self._now

    # What follows ---------------------------------------------------------------------------------------------------

    def _trip(self) -> float:
        """T, see above; 0 when no round trip is known."""
        trips = {peer: trips.p99 for peer, trips in self._trips.items()}
        known = sorted((self._known_handshakes() | trips).values())
        return known[min(max(self._majority - 2, 0), len(known) - 1)] if known else 0.0

    def _known_handshakes(self) -> dict[int, float]:
        return {peer: seconds for peer, seconds in self._handshakes.items() if self._counts(peer)}

    def _adapt_in_time(self) -> None:
        """Adapt when there is something new, or something old may count no more."""
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
            least = limits.first if len(handshakes) >= self._others else limits.unconnected
            handshake = max(handshakes.values(), default=0.0)
        heartbeat = floor.heartbeat
        if self._office is not None:
            shown = self._office.shown(self._now - limits.memory / 2)
            wanted = min(TRIPS_PER_HEARTBEAT * trip, RISE * shown)
            heartbeat = _clamp(wanted, floor.heartbeat, ceiling.heartbeat)
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
