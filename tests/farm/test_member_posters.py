"""Leaf members: their records list leaves, and cannot make a member publisher or move farm time."""

import pytest

from gf_i2p.farm import posters
from gf_i2p.farm.choice.listed_leaves import LeafInputs, Listing
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.posters import MAX_LEAF_MEMBER_BYTES
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.netdb.limits import MAX_META_ENTRIES
from tests.farm.fed_farm import INTERVAL, Farm
from tests.farm.strategies import leaf, record

FIRST = FIRST_LEAF_MEMBER_ID


def test_their_leaves_are_listed_and_they_are_no_candidates() -> None:
    farm = Farm()
    farm.members = [leaf(100), leaf(101)]
    farm.lasts(120_000)
    assert set(farm.state.leaf_members) == {FIRST, FIRST + 1}
    assert set(farm.state.records) == {1, 2, 3}
    assert farm.listed == {1, 2, 3, 100, 101}
    farm.dead = {1, 2, 3}
    farm.post(record(FIRST, leaf(100), date=farm.now))
    assert farm.publisher == 1
    assert FIRST not in farm.state.choice.why_not


def test_their_clocks_do_not_count() -> None:
    farm = Farm()
    farm.lasts(120_000)
    before = farm.state.now_ms
    for member in range(20):
        farm.post(record(FIRST + member, leaf(100 + member), date=farm.now + 10**9))
    assert farm.state.now_ms == before
    assert farm.state.last_published_ms == 0


def test_a_low_fresh_ms_takes_no_leaf_from_a_member_that_posts_every_30_s() -> None:
    """Servers know `freshMs` and post more often, members do not; and the stopwatch moves in steps (life 220816910)."""
    farm = Farm()
    farm.admin("set", parameters={"freshMs": 35_000, "unheardMs": 0})
    farm.lasts(60_000)
    for _ in range(4):
        farm.post(record(FIRST, leaf(100), date=farm.now, publish=None))
        for _ in range(4):  # all servers post every 10 s; by the stopwatch, 40 s pass between two records of the member
            farm.now += 10_000
            for server in farm.servers:
                farm.says(server)
            assert 100 in farm.listed
    assert farm.state.posters.by_id[FIRST].leaf_health[leaf(100).hash].proven, "the leaf was never down"


def test_a_silent_member_loses_its_leaves_after_105_s_at_the_earliest() -> None:
    farm = Farm()
    farm.admin("set", parameters={"freshMs": 35_000, "unheardMs": 0})
    farm.lasts(60_000)
    farm.post(record(FIRST, leaf(100), date=farm.now, publish=None))
    begun_ms = farm.state.clock.passed_ms
    while 100 in farm.listed:
        farm.now += 5_000
        for server in farm.servers:
            farm.says(server)
        assert farm.state.clock.passed_ms - begun_ms <= 120_000
    assert farm.state.clock.passed_ms - begun_ms > 105_000


def test_who_posts_nothing_for_a_day_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    day = 1_200_000
    monkeypatch.setattr(posters, "FORGOTTEN_MS", day)
    farm = Farm()
    farm.members = [leaf(100)]
    farm.lasts(60_000)
    farm.members = []
    farm.post(record(FIRST + 5, leaf(105), date=farm.now))
    farm.lasts(day - 60_000)
    farm.post(record(FIRST + 6, leaf(106), date=farm.now))
    assert set(farm.state.leaf_members) == {FIRST, FIRST + 5, FIRST + 6}
    farm.lasts(60_000 + 2 * INTERVAL)
    farm.post(record(FIRST + 6, leaf(106), date=farm.now))
    assert set(farm.state.leaf_members) == {FIRST + 6}
    assert set(farm.state.posters.by_id) == {1, 2, 3, FIRST + 6}
    assert farm.copy().encode() == farm.state.encode()


def test_there_is_a_limit_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posters, "MAX_LEAF_MEMBERS", 3)
    farm = Farm()
    for member in (7, 1, 4, 2, 1):
        farm.post(record(FIRST + member, leaf(member)))
    assert list(farm.state.leaf_members) == [FIRST + 7, FIRST + 4, FIRST + 1], "who was heard last stands last"


def test_and_to_their_records() -> None:
    farm = Farm()
    farm.post(record(FIRST, leaf(1), extra={"x": "y" * MAX_LEAF_MEMBER_BYTES}))
    assert farm.state.leaf_members == {}


def test_an_id_that_the_configuration_names_is_a_servers() -> None:
    farm = Farm()
    farm.post(record(FIRST, leaf(9), date=farm.now + 1))
    farm.state.configure([1, FIRST])
    assert farm.state.leaf_members == {}
    farm.post(record(FIRST, leaf(9), date=farm.now + 1))
    assert set(farm.state.records) == {FIRST}
    assert farm.publisher == FIRST
    farm.state.configure([1])
    assert farm.state.records == {}
    assert farm.state.posters.by_id == {}


def test_there_may_be_many_of_them_for_all_are_looked_at_now_and_then_only(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = []
    choose = Listing.choose

    def counted(listing: Listing, inputs: LeafInputs) -> None:
        choices.append(inputs.now_ms)
        choose(listing, inputs)

    farm = Farm()
    farm.members = [leaf(100 + number, up=number % 7 != 0) for number in range(200)]
    farm.lasts(120_000)
    began, entries = farm.now, farm.index
    monkeypatch.setattr(Listing, "choose", counted)
    for turn in range(40):
        farm.members = [leaf(100 + number, up=(number + turn) % 7 != 0) for number in range(200)]
        farm.turn()
    regular = (farm.now - began) / Parameters().republish_min_ms
    dropped = 40 * MAX_META_ENTRIES / 2  # a listed leaf that goes down is dropped at once
    assert farm.index - entries > 8000
    assert len(choices) <= 2 * regular + dropped
