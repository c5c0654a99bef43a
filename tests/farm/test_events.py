"""Events of a farm as sentences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gf_i2p.farm.events import LATE_MS, MOST, EventLog, in_order
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address
from tests.farm.fed_farm import Farm
from tests.farm.made_up_logs import log, take
from tests.farm.strategies import leaf
from tests.tier import examples


class Told:
    """The events of a farm since the last question."""

    def __init__(self, farm: Farm) -> None:
        self.farm = farm
        self.events = EventLog()
        self._last = 0

    def note(self) -> None:
        self.events.note(self.farm.state, self.farm.index, self.farm.now)

    def news(self) -> list[str]:
        self.note()
        events = self.events.after(self._last)
        self._last = events[-1].number if events else self._last
        return [event.text for event in events]


def address(number: int) -> str:
    return to_b32_address(leaf(number).hash)


def test_a_story_of_a_farm() -> None:
    farm = Farm()
    told = Told(farm)
    assert told.news() == ["the farm has the servers 1, 2, 3"]
    farm.lasts(120_000, told.note)
    begun = told.news()
    assert any(text.startswith("server 1 publishes: ") for text in begun)
    assert {f"leaf {address(number)} of {number} is listed" for number in (1, 2, 3)} <= set(begun)
    farm.lasts(120_000, told.note)
    assert told.news() == [], "nothing has changed"

    farm.dead.add(1)
    farm.lasts(240_000, told.note)
    news = told.news()
    taken_over = next(text for text in news if text.startswith("server 2 publishes"))
    assert taken_over.startswith("server 2 publishes, and server 1 no longer does: its newest record is ")
    gone = next(text for text in news if text.startswith(f"leaf {address(1)} of 1 is no longer listed: "))
    assert "nothing was heard of 1" in gone

    farm.admin("exclude", hash=leaf(2).hash, reason="new kernel")
    told.note()
    exclusion, effect = told.news()
    assert exclusion.startswith("admin-ann: ")
    assert exclusion.endswith(" (new kernel)")
    assert effect.startswith(f"leaf {address(2)} of 2 is no longer listed: ")

    farm.state.configure((2, 3, 4))
    assert told.news()[:2] == ["server 4 joined the farm", "server 1 left the farm"]
    farm.dead |= {2, 3}
    farm.state.configure((4,))
    assert any(text.startswith("nobody publishes: ") for text in told.news())


def test_many_leaves_are_told_as_a_number() -> None:
    farm = Farm()
    farm.reports[1] = {"leaves": [leaf(number) for number in range(1, 11)]}
    told = Told(farm)
    farm.says(2)
    farm.says(3)
    told.news()
    farm.says(1)
    assert told.news() == ["8 leaves are listed now, 10 in all"], "leaves 2 and 3 were listed before"


def test_what_happens_now_has_the_nodes_time_and_what_is_learned_late_has_farm_time() -> None:
    """While two of three servers are silent, farm time stands still: their loss is told when the node sees the loss."""
    farm = Farm()
    farm.lasts(60_000)
    farm_time = farm.state.now_ms
    assert farm_time is not None
    for now_ms, date in (
        (farm_time, farm_time),
        (farm_time + LATE_MS, farm_time + LATE_MS),
        (farm_time + LATE_MS + 1, farm_time),  # the node was away
        (farm_time - LATE_MS - 1, farm_time),  # the node's clock is behind
        (None, farm_time),  # the node reads its log again
    ):
        events = EventLog()
        events.note(farm.state, farm.index, now_ms)
        assert {event.date_ms for event in events.after(0)} == {date}


def test_events_are_told_in_the_order_of_their_dates() -> None:
    dates = [None, 50, 10, None, 30]
    events = [{"number": number, "date": date} for number, date in enumerate(dates, 1)]
    assert [event["number"] for event in in_order(events)] == [1, 3, 4, 5, 2]


def test_a_state_from_a_snapshot_is_where_the_events_begin() -> None:
    farm = Farm()
    farm.lasts(120_000)
    events = EventLog()
    events.begin_from(farm.copy())
    events.note(farm.state, farm.index, farm.now)
    assert events.after(0) == []


def test_old_events_are_dropped_and_the_numbers_go_on() -> None:
    events = EventLog()
    for number in range(MOST + 10):
        events.add(f"event {number}", None, 0)
    kept = events.after(0)
    assert (len(kept), kept[0].number, kept[-1].number) == (MOST, 11, MOST + 10)
    assert [event.text for event in events.after(MOST + 9)] == [f"event {MOST + 9}"]
    assert kept[0].encode() == {"number": 11, "date": None, "index": 0, "text": "event 10"}


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_log_has_its_events(seed: int) -> None:
    one, other = (FarmState("farm") for _ in range(2))
    told, told_again = EventLog(), EventLog()
    for index, entry in enumerate(log(seed, 150), 1):
        for state, events in ((one, told), (other, told_again)):
            take(state, index, entry)
            events.note(state, index, state.now_ms or 0)
        assert all(not event.text.endswith(".") and event.text.isprintable() for event in told.after(0))
    assert [event.encode() for event in told.after(0)] == [event.encode() for event in told_again.after(0)]


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("meta", "server 2 publishes, and server 1 no longer does: its newest record is "),
        ("failover", "server 2 serves, and server 1 no longer does: its newest record is "),
        ("dry-run", "server 2 would publish, and server 1 would no longer publish: its newest record is "),
    ],
)
def test_a_new_publisher_is_told_in_the_words_of_the_mode(mode: str, text: str) -> None:
    farm = Farm()
    for server in (1, 2, 3):
        farm.reports[server] = {"mode": mode}
    told = Told(farm)
    farm.lasts(120_000, told.note)
    told.news()
    farm.dead.add(1)
    farm.lasts(240_000, told.note)
    assert [each for each in told.news() if each.startswith(text)]
