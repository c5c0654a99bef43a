"""The farm's state follows from the log alone, so that all servers have the same state."""

import json
import random
from collections.abc import Iterable

import pytest

from gf_i2p.farm.record.status_record import MAX_RECORD_BYTES
from gf_i2p.farm.state import MAX_AHEAD_MS, FarmState, SnapshotError, decode_entry
from tests.farm.strategies import NOW, leaf, record, text

YEAR = 365 * 86_400_000


def state(*values: bytes, servers: Iterable[int] = (1, 2, 3)) -> FarmState:
    farm = FarmState("farm")
    farm.configure(servers)
    for index, value in enumerate(values, 1):
        farm.apply(value, index)
    return farm


def test_each_servers_newest_record_is_its_last_in_the_log() -> None:
    first, second, other = record(1, leaf(1)), record(1, date=NOW - 5), record(2)
    assert state(first.encode(), other.encode(), second.encode()).records == {1: second, 2: other}


@pytest.mark.parametrize(
    "value",
    [
        record(1, up=False, cluster="other").encode(),
        record(4).encode(),
        text(id=2**40),
        text(date=float("nan")),
        b"[" * 60_000,
        b"9" * MAX_RECORD_BYTES,
        b"",
        b"hello",
    ],
)
def test_what_is_no_record_of_one_of_its_servers_changes_nothing(value: bytes) -> None:
    good, other = record(1, published=NOW), record(2)
    farm = state(other.encode(), good.encode(), value)
    assert (farm.records, farm.last_published_ms) == ({1: good, 2: other}, NOW)


def test_made_up_servers_take_nobodys_place() -> None:
    flood = [record(server).encode() for server in range(4, 3000)]
    assert set(state(*flood, record(1).encode()).records) == {1}


def test_who_has_left_counts_no_more_and_begins_anew_when_it_comes_back() -> None:
    farm = state(record(1, published=NOW).encode(), record(2).encode())
    farm.configure([2, 3])
    assert set(farm.records) == {2}
    assert farm.last_published_ms == NOW, "its set is in the netDb all the same"
    farm.configure([1, 2, 3])
    assert set(farm.records) == {2}


def test_the_greatest_announcement_is_kept_when_its_server_forgets_it() -> None:
    farm = state(record(2).encode(), record(1, published=NOW).encode(), record(1, published=0).encode())
    assert farm.last_published_ms == NOW


@pytest.mark.parametrize("liar", [1, 2, 3])
def test_an_announcement_from_the_far_future_stops_nobody(liar: int) -> None:
    """A later version would have to exceed the announced one, and routers refuse sets from the far future."""
    honest = [record(server, published=NOW).encode() for server in (1, 2, 3) if server != liar]
    for date in (NOW, NOW + YEAR):
        farm = state(*honest, record(liar, date=date, published=NOW + YEAR).encode(), *honest)
        assert farm.last_published_ms == NOW


def test_a_publisher_whose_clock_is_ahead_is_followed_by_a_greater_version() -> None:
    """The publisher's set is in the netDb, and the netDb would not take the next publisher's older set."""
    ahead = NOW + 55_000
    farm = state(record(2).encode(), record(3).encode(), record(1, date=ahead).encode())
    assert farm.publisher == 2
    farm = state(record(2, up=False).encode(), record(3).encode(), record(2, date=ahead).encode())
    farm.apply(record(3, up=False).encode(), 4)
    assert farm.publisher == 2
    farm.apply(record(2, date=ahead, published=ahead).encode(), 5)
    assert farm.last_published_ms == ahead


def test_in_a_new_farm_one_clock_is_not_believed() -> None:
    farm = state(record(1, date=NOW + YEAR, published=NOW + YEAR).encode())
    assert (farm.now_ms, farm.publisher, farm.last_published_ms) == (None, None, 0)
    farm.apply(record(2).encode(), 2)
    assert (farm.now_ms, farm.publisher) == (NOW, 2)


def test_wrong_clocks_that_are_the_first_to_post_in_a_new_farm_age_nobody() -> None:
    """Farm time leaps from one record to the next, and no time has passed."""
    late = [record(3, leaf(3), date=NOW - 600_000), record(5, leaf(5), date=NOW - 150_000)]
    good = [record(each, leaf(each), date=NOW + each) for each in (4, 2, 1)]
    in_order = [*good[:2], *late, good[2]]
    farm = state(*(each.encode() for each in in_order), servers=range(1, 6))
    assert (farm.now_ms, farm.clock.passed_ms) == (NOW + 1, 0)
    for index, server in enumerate((4, 2, 1), 6):
        farm.apply(record(server, leaf(server), date=NOW + 30_000 + server).encode(), index)
    assert {3, 5} <= {entry.owner for entry in farm.choice.entries}, "their leaves are well"


def test_after_a_silence_of_all_the_publisher_may_be_the_first_to_post() -> None:
    farm = state(*(record(server).encode() for server in (2, 1, 3)))
    publisher = farm.publisher
    assert publisher is not None
    for index, server in enumerate((publisher, *(each for each in (1, 2, 3) if each != publisher)), 4):
        farm.apply(record(server, date=NOW + 90_000).encode(), index)
        assert farm.publisher == publisher


def test_after_a_silence_of_all_a_clock_that_is_behind_does_not_make_the_publisher_look_ahead() -> None:
    farm = state(*(record(server).encode() for server in (2, 1, 3)))
    publisher = farm.publisher
    assert publisher is not None
    late, right = (each for each in (1, 2, 3) if each != publisher)
    farm.apply(record(publisher, date=NOW + 150_000).encode(), 4)
    farm.apply(record(late, date=NOW + 95_000).encode(), 5)
    assert farm.publisher == publisher
    farm.apply(record(right, date=NOW + 151_000).encode(), 6)
    assert farm.publisher == publisher


def test_a_publisher_whose_clock_jumps_ahead_is_replaced_when_most_have_posted_after_it() -> None:
    farm = state(*(record(server).encode() for server in (1, 2, 3)))
    publisher = farm.publisher
    assert publisher is not None
    farm.apply(record(publisher, date=NOW + 600_000).encode(), 4)
    assert farm.publisher == publisher, "it may be the first after a silence"
    farm.apply(record(next(each for each in (1, 2, 3) if each != publisher), date=NOW + 10_000).encode(), 5)
    assert farm.publisher != publisher


def test_an_announcement_counts_when_its_time_has_come() -> None:
    """After a pause, the first record is newer than all entries that the farm knows."""
    later = NOW + MAX_AHEAD_MS + 1
    farm = state(*(record(server).encode() for server in (1, 2, 3)), record(2, date=later, published=later).encode())
    assert farm.last_published_ms == 0
    farm.apply(record(3, date=NOW + 1).encode(), 5)
    assert farm.last_published_ms == later


def test_equal_logs_make_equal_states() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    values = [
        record(
            chance.randrange(5),
            date=NOW + chance.randrange(-90_000, 90_000),
            published=NOW + chance.randrange(-90_000, 90_000),
            up=chance.random() < 0.8,
        ).encode()
        for _ in range(300)
    ]
    one, other = state(*values), state(*values)
    assert (one.records, one.last_published_ms) == (other.records, other.last_published_ms)
    rising = [state(*values[:length]).last_published_ms for length in range(0, 300, 20)]
    assert rising == sorted(rising)


# Snapshots ----------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_the_whole_state_and_goes_on_as_it_would_have() -> None:
    original = state(record(3, leaf(3)).encode(), record(1, leaf(1)).encode(), servers=(3, 1, 2))
    copy = FarmState.decode("farm", original.encode())
    assert copy.encode() == original.encode()
    assert copy.choice == original.choice
    for each in (original, copy):
        each.apply(record(2, leaf(2), date=NOW + 1).encode(), 4)
        each.configure((1, 2))
    assert copy.choice == original.choice
    assert copy.encode() == original.encode()


def test_a_snapshot_keeps_what_this_version_does_not_know_of_a_record() -> None:
    value = text(id=1, future={"of": "a newer version"})
    assert b"a newer version" in FarmState.decode("farm", state(value).encode()).encode()


@pytest.mark.parametrize("value", [text(cluster="other"), text(id=77)])
def test_a_snapshot_with_the_record_of_another_is_refused(value: bytes) -> None:
    good = json.loads(state(text()).encode())
    good["posters"][0]["value"] = value.decode()
    with pytest.raises(SnapshotError):
        FarmState.decode("farm", json.dumps(good).encode())


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"format":2}', b'{"format":2,"servers":[1]}', b"[" * 100_000, b"\xff"],
)
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        FarmState.decode("farm", data)


@pytest.mark.parametrize("number", [1, 3])
def test_a_snapshot_of_another_format_is_refused(number: int) -> None:
    good = json.loads(state(text()).encode())
    with pytest.raises(SnapshotError, match=f"it has the format '{number}', and this program knows 2"):
        FarmState.decode("farm", json.dumps({**good, "format": number}).encode())


def test_a_clock_that_is_ahead_does_not_become_right_by_waiting() -> None:
    """The newest record of this server grows old and comes nearer to farm time; the server's clock does not."""
    ahead = NOW + 71_000
    farm = state(*(record(server, up=False).encode() for server in (1, 3)), record(2, date=ahead).encode())
    for index, server in enumerate((1, 3), 4):
        farm.apply(record(server, up=False, date=NOW + 25_000).encode(), index)
    assert farm.publisher is None
    assert farm.choice.why_not[2] == "its clock is 71 s ahead of the farm's"


@pytest.mark.parametrize("before", [b"", b" ", b"\n", b"\t\r", b"\x0b", b"\xef\xbb\xbf", b"[", b"x"])
def test_an_object_is_decoded_after_any_space_of_json_and_after_nothing_else(before: bytes) -> None:
    expected = {"up": 1} if not before.strip(b" \t\n\r") else None
    assert decode_entry(before + b'{"up":1}') == expected


@pytest.mark.parametrize("value", [b"", b"{", b"null", b'"up"', b'["action"]', b"\xff" + bytes(1023)])
def test_a_value_that_is_no_object_is_no_entry(value: bytes) -> None:
    assert decode_entry(value) is None
