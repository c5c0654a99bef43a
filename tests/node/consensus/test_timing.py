"""The time-outs that follow from the measurements."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gf_i2p.node.consensus.timing import (
    ANSWERS_TO_RISE,
    ENOUGH_SILENCES,
    HEARTBEATS_PER_ELECTION,
    RANGE_INSIDE_I2P,
    RANGE_OUTSIDE_I2P,
    RISE,
    Range,
    Timeouts,
    TimingPlan,
)
from gf_i2p.raft.effects import Send
from gf_i2p.raft.settings import I2P, LAN, Timing
from gf_i2p.wire.messages import MessageType, Request
from tests.raft.lab import application
from tests.tier import examples

APPEND, VOTE = MessageType.APPEND_ENTRIES_REQUEST, MessageType.REQUEST_VOTE_REQUEST
LIMITS = pytest.mark.parametrize("limits", [RANGE_OUTSIDE_I2P, RANGE_INSIDE_I2P], ids=["outside", "inside"])


def request(term: int = 1, *, source: int = 9, kind: MessageType = APPEND, entries: int = 0) -> Request:
    return Request(kind, source, 1, term, 0, 0, 0, tuple(application("x") for _ in range(entries)))


@dataclass
class Life:
    """A `Timeouts` of one server, and the test's clock."""

    limits: Range = RANGE_OUTSIDE_I2P
    servers: int = 3
    now: float = 1000.0
    tags: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.timeouts = Timeouts(TimingPlan("auto", self.limits), servers=self.servers)

    @property
    def timing(self) -> Timing:
        return self.timeouts.timing

    def connect(self, seconds: float = 0.001) -> None:
        for peer in range(2, self.servers + 1):
            self.timeouts.reachable(peer, seconds, self.now)
            self.timeouts.dialled(peer, self.now)

    def hear(self, gap: float, times: int = 1, *, term: int = 1, source: int = 9) -> None:
        """Let a leader's message come `times` times, each `gap` seconds after the one before."""
        for _ in range(times):
            self.now += gap
            self.timeouts.incoming(request(term, source=source), self.now)

    def send(self, peer: int = 2, *, term: int = 1, entries: int = 0, kind: MessageType = APPEND) -> int:
        tag = next(self.tags)
        self.timeouts.sent(Send(peer, request(term, kind=kind, entries=entries), tag), self.now)
        return tag

    def answer(self, tag: int, after: float = 0.0) -> None:
        self.now += after
        self.timeouts.answered(tag, self.now)

    def lead(self, trip: float, seconds: float, *, peers: tuple[int, ...] = (2, 3)) -> list[float]:
        """Send heartbeats as a leader does, each answered after `trip`; return the heartbeats in force."""
        end, heartbeats = self.now + seconds, []
        on_the_way: list[tuple[float, int]] = []
        next_at = self.now
        while self.now < end:
            if on_the_way and on_the_way[0][0] <= next_at:
                at, tag = on_the_way.pop(0)
                self.now = max(self.now, at)
                self.timeouts.answered(tag, self.now)
            else:
                self.now = next_at
                on_the_way += [(self.now + trip, self.send(peer)) for peer in peers]
                next_at = self.now + self.timing.heartbeat
            heartbeats.append(self.timing.heartbeat)
        return heartbeats


def within(timing: Timing, limits: Range) -> bool:
    return (
        limits.floor.heartbeat <= timing.heartbeat <= limits.ceiling.heartbeat
        and limits.floor.election_min <= timing.election_min <= limits.ceiling.election_min
        and limits.floor.election_max <= timing.election_max <= limits.ceiling.election_max
    )


# Plans ---------------------------------------------------------------------------------------------------------------

SOME = st.none() | st.floats(min_value=0.01, max_value=100)
TIMINGS = st.builds(
    lambda h, e, longest: Timing(h, h * e, h * e * longest),
    st.floats(min_value=0.05, max_value=5),
    st.floats(min_value=4, max_value=200),
    st.floats(min_value=2, max_value=3),
)


@given(SOME, SOME, SOME, TIMINGS)
def test_values_that_are_taken_at_all_fit_whatever_is_measured(
    heartbeat: float | None, shortest: float | None, longest: float | None, timing: Timing
) -> None:
    try:
        plan = TimingPlan("auto", RANGE_OUTSIDE_I2P, heartbeat=heartbeat, election_min=shortest, election_max=longest)
    except ValueError:
        assume(False)
        raise
    fitted = plan.fit(timing)
    assert fitted.heartbeat == heartbeat or heartbeat is None
    assert fitted.election_min == shortest or shortest is None
    assert fitted.election_max == longest or longest is None


def test_single_values_replace_what_adapts_and_the_rest_gives_way() -> None:
    assert TimingPlan("auto", RANGE_OUTSIDE_I2P, heartbeat=0.5).first == Timing(0.5, 2.0, 4.0)
    assert TimingPlan("auto", RANGE_OUTSIDE_I2P, election_min=0.2).first == Timing(0.05, 0.2, 1.0)
    assert TimingPlan("auto", RANGE_OUTSIDE_I2P, election_max=0.5).first == Timing(0.1, 0.4, 0.5)
    assert TimingPlan("auto", RANGE_OUTSIDE_I2P, election_min=3.0).first == Timing(0.1, 3.0, 6.0)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"heartbeat": 1.0, "election_min": 1.5}, "election_min must be at least twice the heartbeat"),
        ({"heartbeat": 1.0, "election_max": 2.4}, r"election_max must be at least 2\.5 times the heartbeat"),
        ({"election_min": 1.0, "election_max": 1.1}, r"election_max must be at least 1\.2 times election_min"),
    ],
)
def test_values_that_never_work_together_are_refused_at_once(values: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        TimingPlan("auto", RANGE_INSIDE_I2P, **values)  # type: ignore[arg-type]


def test_a_fixed_profile_stays_whatever_is_measured() -> None:
    life = Life()
    life.timeouts.plan = TimingPlan("i2p", RANGE_OUTSIDE_I2P, fixed=I2P, heartbeat=3.0)
    life.connect(9.0)
    life.hear(4.0, 100)
    life.lead(2.0, 100)
    assert life.timing == Timing(3.0, I2P.election_min, I2P.election_max)
    assert life.timeouts.round_trip(2) is not None, "it is measured all the same, for who asks"
    life.timeouts.plan = TimingPlan("auto", RANGE_OUTSIDE_I2P)
    assert life.timing.election_min > 8.0, "and counts when the plan changes"


# Beginnings ----------------------------------------------------------------------------------------------------------


def test_outside_i2p_it_begins_with_the_lan_profile_as_soon_as_all_are_connected() -> None:
    life = Life()
    life.timeouts.reachable(2, 0.001, life.now)
    assert life.timing.election_min >= 10, "server 3 may lead, and may be about to dial us"
    life.timeouts.reachable(3, 0.001, life.now)
    life.timeouts.dialled(2, life.now)
    assert life.timing.election_min >= 10, "server 3 has not dialled us"
    life.timeouts.dialled(3, life.now)
    assert life.timing == LAN


def test_with_an_endpoint_inside_i2p_it_begins_with_that_profile_but_speaks_often() -> None:
    life = Life(RANGE_INSIDE_I2P)
    assert life.timing == Timing(0.5, I2P.election_min, I2P.election_max)
    life.connect(0.02)
    assert life.timing == RANGE_INSIDE_I2P.first
    life.hear(0.5, ENOUGH_SILENCES - 1)
    assert life.timing == RANGE_INSIDE_I2P.first, "too little was heard"
    life.hear(0.5, 100)
    assert life.timing == RANGE_INSIDE_I2P.floor


def test_a_farm_of_one_has_nobody_to_wait_for() -> None:
    assert Life(servers=1).timing == LAN


def test_a_server_that_has_just_started_leaves_a_far_leader_the_time_to_dial_it() -> None:
    life = Life()
    life.connect(0.3)
    assert life.timing.election_min == pytest.approx(3.0)
    life.hear(0.1, 40)
    assert life.timing.election_min == pytest.approx(0.9)


# Followers -----------------------------------------------------------------------------------------------------------


@LIMITS
@pytest.mark.parametrize("gap", [0.01, 0.1, 0.4, 1.5, 4.0, 8.0])
def test_a_follower_waits_for_several_times_the_usual_silence(limits: Range, gap: float) -> None:
    life = Life(limits)
    life.connect()
    life.hear(gap, max(200, int(60 / gap)))
    expected = min(max(4 * gap, limits.floor.election_min), limits.ceiling.election_min)
    assert life.timing.election_min == pytest.approx(expected, abs=0.001)
    assert life.timing.heartbeat == limits.floor.heartbeat, "with which it would begin to lead"


def test_one_stall_is_remembered_and_forgotten_in_time() -> None:
    life = Life(RANGE_INSIDE_I2P)
    life.connect()
    life.hear(0.5, 100)
    life.hear(6.0)
    assert life.timing.election_min == pytest.approx(12.0)
    life.hear(0.5, 2 * 1100)
    assert life.timing.election_min == pytest.approx(12.0)
    life.hear(0.5, 2 * 200)
    assert life.timing == RANGE_INSIDE_I2P.floor


def test_what_is_heard_counts_for_the_wait_that_it_begins() -> None:
    life = Life()
    life.connect()
    life.hear(0.1, 100)
    life.hear(0.8)
    assert life.timing.election_min == pytest.approx(1.6), "before the core is told of the message"


def test_traffic_does_not_hide_how_long_its_absence_lasts() -> None:
    life = Life()
    life.connect()
    life.hear(1.0, 60)
    life.hear(0.002, 20_000)
    assert life.timing.election_min >= 4.0
    assert life.timing.election_min >= 2 * RISE, "the leader may fall silent for longer, now"


def test_two_leaders_one_after_the_other_make_no_silence() -> None:
    life = Life()
    life.connect()
    life.hear(0.1, 50)
    life.now += 5.0
    life.hear(0.1, 50, term=2, source=8)
    assert life.timing == LAN
    life.hear(5.0, 1, term=3, source=8)
    assert life.timing == LAN, "nor does the same one in another term"


def test_a_leader_that_was_deposed_for_its_silence_and_speaks_again_shows_how_long_that_was() -> None:
    life = Life()
    life.connect()
    life.hear(0.1, 50)
    life.send(kind=VOTE, term=2)
    life.hear(0.1, 10, term=2, source=8)
    life.hear(1.0)
    assert life.timing.election_min == pytest.approx(4.0)


def test_a_break_that_no_leader_survives_is_no_silence() -> None:
    life = Life()
    life.connect()
    life.hear(0.1, 50)
    life.hear(3600.0)
    assert life.timing == LAN


def test_votes_that_come_too_late_lengthen_the_wait_until_they_come_in_time() -> None:
    life = Life()
    life.connect()
    for _ in range(2):
        tags = [life.send(peer, kind=VOTE) for peer in (2, 3)]
        for tag in tags:
            life.answer(tag, 1.0)
    assert life.timing.election_min >= 3.0


def test_while_we_stood_still_nobody_was_silent() -> None:
    life = Life()
    life.connect()
    life.hear(0.1, 50)
    tag = life.send(kind=VOTE)
    usual, trip = life.timing, life.timeouts.round_trip(2)
    life.now += 8.0
    life.timeouts.stood_still(life.now)
    life.hear(0.0)
    life.answer(tag)
    assert life.timing == usual
    assert life.timeouts.round_trip(2) == trip
    life.hear(1.0)
    assert life.timing.election_min >= 2.0, "from then on it counts again"


# Leaders -------------------------------------------------------------------------------------------------------------


@LIMITS
@pytest.mark.parametrize("trip", [0.001, 0.05, 0.3, 1.0, 3.0, 20.0])
def test_a_leaders_heartbeat_settles_at_the_round_trip(limits: Range, trip: float) -> None:
    life = Life(limits)
    life.connect(trip)
    heartbeats = life.lead(trip, 200 + 20 * trip)
    expected = min(max(trip, limits.floor.heartbeat), limits.ceiling.heartbeat)
    assert heartbeats[0] == limits.floor.heartbeat
    assert life.timing.heartbeat == pytest.approx(expected, abs=0.001)
    settled = life.timing
    assert set(life.lead(trip, 60 + 10 * trip)) == {settled.heartbeat}
    assert life.timing == settled


def test_a_leader_falls_silent_for_longer_only_step_by_step_each_of_them_answered() -> None:
    life = Life(RANGE_INSIDE_I2P)
    life.connect(3.0)
    heartbeats = life.lead(3.0, 300)
    steps = [(a, b) for a, b in itertools.pairwise(heartbeats) if b > a]
    assert len(steps) > 5
    assert all(b <= RISE * a * 1.001 for a, b in steps)


def test_a_leaders_own_delay_shows_its_followers_nothing() -> None:
    life = Life(RANGE_INSIDE_I2P)
    for peer in (2, 3):
        life.answer(life.send(peer, kind=VOTE), 3.0)
    for _ in range(ANSWERS_TO_RISE + 1):
        for peer in (2, 3):
            life.answer(life.send(peer))
        life.now += 0.5
    assert life.timing.heartbeat == pytest.approx(RISE * 0.5)
    life.now += 3.0
    for peer in (2, 3):
        life.answer(life.send(peer))
    assert life.timing.heartbeat == pytest.approx(RISE * 0.5), "one long silence is not several"


def test_a_follower_that_does_not_answer_holds_the_heartbeat_and_one_without_connection_does_not() -> None:
    life = Life(RANGE_INSIDE_I2P)
    life.connect(2.0)
    life.send(3)
    life.lead(2.0, 200, peers=(2,))
    assert life.timing.heartbeat == RANGE_INSIDE_I2P.floor.heartbeat
    life.timeouts.failed(life.send(3))
    life.lead(2.0, 200, peers=(2,))
    assert life.timing.heartbeat == pytest.approx(2.0, abs=0.01)


def test_a_connection_that_comes_up_makes_the_leader_speak_often_at_once() -> None:
    life = Life(RANGE_INSIDE_I2P)
    life.connect(2.0)
    life.lead(2.0, 300)
    assert life.timing.heartbeat == pytest.approx(2.0, abs=0.01)
    life.timeouts.reachable(3, 2.0, life.now)
    assert life.timing.heartbeat == RANGE_INSIDE_I2P.floor.heartbeat


def test_what_traffic_has_hidden_for_long_is_shown_anew() -> None:
    life = Life()
    life.connect(1.0)
    life.lead(1.0, 300)
    assert life.timing.heartbeat == pytest.approx(1.0, abs=0.01)
    for second in range(int(RANGE_OUTSIDE_I2P.memory / 2) + 5):
        assert life.timing.heartbeat > 0.9 or second > RANGE_OUTSIDE_I2P.memory / 2 - 5
        for peer in (2, 3):
            life.answer(life.send(peer, entries=1))
        life.now += 1.0
    assert life.timing.heartbeat == RANGE_OUTSIDE_I2P.floor.heartbeat


def test_a_new_term_as_leader_begins_with_the_shortest_heartbeat() -> None:
    life = Life(RANGE_INSIDE_I2P)
    life.connect(2.0)
    life.lead(2.0, 300)
    life.send(2, term=2)
    assert life.timing.heartbeat == RANGE_INSIDE_I2P.floor.heartbeat
    life.lead(2.0, 300)
    life.hear(0.5, term=7)
    assert life.timing.heartbeat == RANGE_INSIDE_I2P.floor.heartbeat, "it leads no more"


def test_an_older_leader_ends_no_leadership() -> None:
    life = Life(RANGE_INSIDE_I2P)
    life.connect(2.0)
    life.send(2, term=1)
    life.lead(2.0, 300)
    life.hear(0.1, term=0)
    assert life.timing.heartbeat == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize(("servers", "counts"), [(2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0)])
def test_what_counts_is_the_round_trip_to_the_nearest_majority(servers: int, counts: float) -> None:
    life = Life(RANGE_INSIDE_I2P, servers=servers)
    for peer in range(2, servers + 1):
        life.answer(life.send(peer, kind=VOTE), peer - 1.0)
    assert life.timeouts._trip() == counts


def test_answers_that_wait_for_a_disk_or_for_much_data_are_no_round_trips() -> None:
    life = Life()
    bulk, behind = life.send(2, entries=100), life.send(2)
    life.answer(bulk, 5.0)
    life.answer(behind, 0.1)
    assert life.timeouts.round_trip(2) is None
    life.answer(life.send(2), 0.2)
    trip = life.timeouts.round_trip(2)
    assert trip is not None
    assert trip.samples == 1
    assert trip.p99 == pytest.approx(0.2)


def test_a_request_that_fails_is_no_round_trip_and_stands_in_nobodys_way() -> None:
    life = Life()
    life.timeouts.failed(life.send(2, entries=1))
    life.answer(life.send(2), 0.2)
    trip = life.timeouts.round_trip(2)
    assert trip is not None
    assert trip.samples == 1
    life.timeouts.answered(12345, life.now)
    life.timeouts.failed(12345)


def test_check_quorum_gives_a_stall_of_all_followers_its_time_the_second_time() -> None:
    life = Life(RANGE_INSIDE_I2P)
    life.connect()
    life.lead(0.1, 60)
    assert life.timing == RANGE_INSIDE_I2P.floor
    tags = [life.send(peer) for peer in (2, 3)]
    life.answer(tags[0], 7.0)
    assert life.timing.election_max >= 4 * 7.0
    life.answer(tags[1], 0.0)


def test_one_follower_that_is_slow_is_no_silence_of_the_majority() -> None:
    life = Life(RANGE_INSIDE_I2P)
    life.connect()
    life.send(3)
    life.lead(0.1, 60, peers=(2,))
    assert life.timing == RANGE_INSIDE_I2P.floor


# Servers that come and go --------------------------------------------------------------------------------------------


def test_a_server_that_has_left_is_not_silent() -> None:
    """Otherwise a leader's time-outs reach the ceiling soon after a farm has shrunk, and check-quorum waits as long."""
    life = Life(servers=4)
    life.connect()
    life.lead(0.001, 60, peers=(2, 3, 4))
    before = life.timing
    life.timeouts.change_servers([2])
    life.lead(0.001, 60, peers=(2,))
    assert life.timing == before
    assert life.timeouts.silences.worst < 1.0


def test_a_server_that_is_told_that_it_has_left_and_answers_no_more_holds_nothing_up() -> None:
    life = Life(RANGE_INSIDE_I2P)
    life.connect()
    life.lead(1.0, 300)
    assert life.timing.heartbeat == pytest.approx(1.0, abs=0.01)
    life.timeouts.change_servers([2])
    for _ in range(300):
        life.send(3)
        life.lead(1.0, 1.0, peers=(2,))
    assert life.timing.heartbeat == pytest.approx(1.0, abs=0.01)


def test_the_round_trip_that_counts_is_the_one_to_the_majority_of_the_present_servers() -> None:
    life = Life(RANGE_INSIDE_I2P, servers=1)
    assert life.timing == RANGE_INSIDE_I2P.first
    life.timeouts.change_servers(range(2, 6))
    assert life.timing.election_min == RANGE_INSIDE_I2P.unconnected.election_min, (
        "it has to be found by its leader first"
    )
    for peer in range(2, 6):
        life.answer(life.send(peer, kind=VOTE), peer - 1.0)
    assert life.timeouts._trip() == 2.0
    life.timeouts.change_servers([4, 5])
    assert life.timeouts._trip() == 3.0


def test_a_server_that_is_about_to_join_is_known_when_it_has() -> None:
    life = Life(servers=2)
    life.connect()
    life.timeouts.reachable(3, 0.002, life.now)
    life.timeouts.dialled(3, life.now)
    life.timeouts.change_servers([2, 3])
    assert life.timing == TimingPlan("auto", RANGE_OUTSIDE_I2P).first


# Always --------------------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["hear", "send", "bulk", "vote", "answer", "fail", "reach", "old", "servers"]),
        st.floats(min_value=0, max_value=100) | st.floats(min_value=0, max_value=0.5),
        st.integers(min_value=2, max_value=3),
        st.booleans(),
    ),
    max_size=120,
)


@LIMITS
@given(EVENTS)
def test_bounds_hold_whatever_happens(limits: Range, events: list[tuple[str, float, int, bool]]) -> None:
    life = Life(limits)
    term, tags = 1, []
    assert life.timing.election_min <= limits.ceiling.election_min
    for what, seconds, peer, flag in events:
        life.now += seconds
        before = life.timing
        match what:
            case "hear" | "old":
                term += flag and what == "hear"
                life.timeouts.incoming(request(term if what == "hear" else 0, source=peer), life.now)
            case "send" | "bulk" | "vote":
                kind = VOTE if what == "vote" else APPEND
                tags.append(life.send(peer, term=term, kind=kind, entries=int(what == "bulk")))
            case "answer" if tags:
                life.timeouts.answered(tags.pop(0), life.now)
            case "fail" if tags:
                life.timeouts.failed(tags.pop(-1))
            case "reach":
                life.timeouts.reachable(peer, seconds if flag else None, life.now)
            case "servers":
                life.timeouts.change_servers([2, 3] if flag else [peer])
        timing = life.timing
        assert within(timing, limits)
        assert HEARTBEATS_PER_ELECTION * timing.heartbeat <= timing.election_min + 0.002
        if what in {"hear", "old", "reach", "fail"}:
            assert timing.heartbeat <= before.heartbeat
    assert len(life.timeouts._flights) == len(tags), "nothing piles up"
    assert sum(life.timeouts._bulk.values()) >= 0


@LIMITS
@given(st.lists(st.floats(min_value=0.001, max_value=20), min_size=30, max_size=60), st.floats(1.0, 5.0))
def test_longer_silences_never_make_a_follower_wait_for_less(limits: Range, gaps: list[float], factor: float) -> None:
    short, long = Life(limits), Life(limits)
    for life in (short, long):
        life.connect()
        life.hear(0.1)
    for number, gap in enumerate(gaps):
        # Both get their measurements at the same times, so that both forget old ones at the same time.
        for life, seconds in ((short, gap), (long, factor * gap)):
            life.timeouts._now = number * 1.0
            life.timeouts._silent(min(seconds, limits.ceiling.election_max))
            life.timeouts._adapt_in_time()
    assert long.timing.election_min >= short.timing.election_min
    assert long.timing.election_max >= short.timing.election_max


@LIMITS
@settings(max_examples=examples(20))
@given(st.floats(min_value=0.001, max_value=3), st.floats(min_value=1.0, max_value=1.6))
def test_a_longer_round_trip_never_makes_anything_shorter(limits: Range, trip: float, factor: float) -> None:
    timings = []
    for seconds in (trip, factor * trip):
        life = Life(limits)
        life.connect(seconds)
        life.lead(seconds, 150)
        timings.append(life.timing)
    near, far = timings
    assert far.heartbeat >= near.heartbeat - 0.002
    assert far.election_min >= near.election_min - 0.01
    assert far.election_max >= near.election_max - 0.02
