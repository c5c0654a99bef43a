"""Episodes: which stretches of hours are unlike the past, whose they are, and what is said."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.health.episodes import LEAST_WATCHED_MS, Episode, episodes
from gf_i2p.pipeline.health.evidence import JOINED_HOURS, LEAST_HOURS
from gf_i2p.pipeline.health.measures import OF_LEAVES, OF_SERVERS, Measure

START: Final = 1_789_948_800_000
"""00:00 UTC of 2026-09-21, a Monday."""
USUAL: Final = {
    "availability": 1.0,
    "flaps": 0.0,
    "records": 60.0,
    "lag_ms": 4.0,
    "tunnels": 1000.0,
    "in_bytes_s": 400_000.0,
    "out_bytes_s": 400_000.0,
    "known_peers": 4000.0,
    "skew_ms": 0.0,
    "load": 0.3,
}
WEEK: Final = 168
LEAF: Final = b64encode(b"\x00" * 31 + b"\x01", b"-~").decode()

Table = dict[str, NDArray[Any]]
Values = Mapping[int, Mapping[str, NDArray[Any]]]


def table(length: int, by_server: Values, *, leaf: str | None = None) -> Table:
    """Make the hours of servers. `by_server`: the values of some measures; all others are usual."""
    measures = OF_SERVERS if leaf is None else OF_LEAVES
    columns: dict[str, list[Any]] = {}
    for server, values in by_server.items():
        more: dict[str, Any] = {
            each.name: values.get(each.name, np.full(length, USUAL[each.name])) for each in measures
        }
        more |= {"server": np.full(length, server), "hour_ms": START + HOUR_MS * np.arange(length)}
        more |= {"watched_ms": values.get("watched_ms", np.full(length, HOUR_MS)), "destination": np.full(length, leaf)}
        for name, each in more.items():
            columns.setdefault(name, []).append(np.array(each[:length]))
    return {name: np.concatenate(each) for name, each in columns.items()}


NO_LEAVES: Final = table(0, {1: {}}, leaf=LEAF)


def judged(length: int, by_server: Values) -> list[Episode]:
    return episodes(table(length, by_server), NO_LEAVES)


def swings(length: int, level: float, seed: int = 1) -> NDArray[Any]:
    """Make values that follow the day, from 0.55 to 1.45 times the level, with noise of 10 %."""
    hours = np.arange(length)
    noise = np.random.default_rng(seed).normal(0, 0.1, length)
    return np.asarray(level * (1 + 0.45 * np.cos(hours * np.pi / 12)) * np.exp(noise))


@pytest.mark.parametrize(
    ("measure", "factor"),
    [("out_bytes_s", 0.02), ("in_bytes_s", 6.0), ("tunnels", 0.05), ("tunnels", 3.0), ("lag_ms", 10.0)],
)
@pytest.mark.parametrize("hour", [210, 218])
def test_a_daily_swing_hides_nothing(measure: str, factor: float, hour: int) -> None:
    """Three hours by day or by night. The swing itself is no anomaly."""
    values = swings(12 * 24, USUAL[measure])
    values[hour : hour + 3] *= factor
    (found,) = judged(len(values), {1: {measure: values}, 2: {}, 3: {}})
    assert (found.subject, found.server, found.measure) == ("server", 1, measure)
    assert (found.begin_ms, found.end_ms, found.hours) == (START + hour * HOUR_MS, START + (hour + 3) * HOUR_MS, 3)


def test_it_says_what_was_unlike_the_past_and_when() -> None:
    values = np.full(240, 1000.0)
    values[206:209] = [50.0, 40.0, 60.0]
    (found,) = judged(240, {1: {}, 2: {"tunnels": values}})
    assert (found.value, found.worst_ms) == (40.0, START + 207 * HOUR_MS)
    assert found.usual == pytest.approx(1000.0)
    assert found.score == pytest.approx(np.log(1010 / 50) / np.log(1.1))
    assert found.text == (
        "number of participating tunnels of server 2 was 40 in the worst hour, and is 1,000 usually; "
        "from 2026-09-29 14:00 to 17:00 UTC, 3 hours"
    )
    (lasting,) = judged(208, {1: {}, 2: {"tunnels": values}})
    assert "; since 2026-09-29 14:00 UTC, 2 hours" in lasting.text


def test_one_hour_of_a_heavy_tail_is_no_episode_but_two_are() -> None:
    values = np.full(240, 4.0)
    values[200] = 40_000.0
    assert judged(240, {1: {"lag_ms": values}}) == []
    values[201] = 40_000.0
    assert len(judged(240, {1: {"lag_ms": values}})) == 1


@pytest.mark.parametrize("measure", OF_SERVERS, ids=lambda measure: measure.name)
def test_a_change_within_the_leak_is_never_an_episode(measure: Measure) -> None:
    sign = -1 if measure.only == "low" else 1
    values = np.full(12 * 24, USUAL[measure.name])
    floor = max(measure.floor, (measure.share or 0) * USUAL[measure.name])
    values[200:] += sign * 0.95 * measure.leak * floor
    assert judged(len(values), {1: {}, 2: {}, 3: {measure.name: values}}) == []
    values[200:212] += sign * 4 * floor
    assert [each.measure for each in judged(len(values), {1: {}, 2: {}, 3: {measure.name: values}})] == [measure.name]


@pytest.mark.parametrize("measure", [each for each in OF_SERVERS if each.only], ids=lambda measure: measure.name)
def test_good_news_is_no_episode(measure: Measure) -> None:
    values = np.full(240, 0.5 if measure.name == "availability" else 500.0)
    values[200:212] *= 2.0 if measure.only == "low" else 0.1
    assert judged(240, {1: {measure.name: values}}) == []


def test_little_evidence_adds_up() -> None:
    """Each hour is only three spreads off."""
    values = np.full(240, 1000.0)
    values[200:212] = 1010 * 1.1**3 - 10
    (found,) = judged(240, {1: {"tunnels": values}})
    assert (found.hours, round(found.score, 6)) == (12, 3.0)


def test_a_drifting_clock_is_found_on_the_first_day() -> None:
    skew = np.zeros(260)
    skew[200:] = 150.0 * np.arange(60)
    (found,) = judged(260, {1: {}, 2: {"skew_ms": skew}, 3: {}})
    assert found.server == 2
    assert START + 200 * HOUR_MS < found.begin_ms < START + 212 * HOUR_MS


def test_a_clock_that_was_always_wrong_is_told() -> None:
    (found,) = judged(WEEK * 3, {1: {}, 2: {"skew_ms": np.full(WEEK * 3, 60_000.0)}, 3: {}})
    assert (found.server, found.usual) == (2, 5_000.0)
    assert found.hours == WEEK * 3 - LEAST_HOURS


def test_a_level_that_stays_becomes_usual() -> None:
    values = np.full(WEEK * 4, 1000.0)
    values[WEEK * 2 :] = 500.0
    (found,) = judged(len(values), {1: {"tunnels": values}})
    assert found.begin_ms == START + WEEK * 2 * HOUR_MS
    assert 5 <= (found.end_ms - found.begin_ms) / DAY_MS <= 9


def test_odd_days_do_not_make_the_following_days_odd() -> None:
    values = np.full(WEEK * 4, 1000.0)
    values[WEEK * 2 : WEEK * 2 + 72] = 100.0
    (found,) = judged(len(values), {1: {"tunnels": values}})
    assert found.hours == 72


def test_a_weekend_is_usual_once_there_are_four_weeks() -> None:
    values = np.full(WEEK * 6, 1000.0)
    days = np.arange(len(values)) // 24 % 7
    values[days >= 5] = 1800.0
    assert [each for each in judged(len(values), {1: {"tunnels": values}}) if each.end_ms > START + 29 * DAY_MS] == []
    values[WEEK * 5 + 24 : WEEK * 5 + 48] = 1800.0  # a Tuesday like a Saturday
    (found,) = (each for each in judged(len(values), {1: {"tunnels": values}}) if each.end_ms > START + 29 * DAY_MS)
    assert found.begin_ms == START + (WEEK * 5 + 24) * HOUR_MS


def test_a_restart_is_no_episode_and_many_are() -> None:
    def up(*restarts: int) -> dict[str, NDArray[Any]]:
        share, flaps = np.ones(240), np.zeros(240)
        share[list(restarts)], flaps[list(restarts)] = 0.93, 2.0
        return {"availability": share, "flaps": flaps}

    assert judged(240, {1: up(180), 2: up(200), 3: up()}) == []
    (found,) = judged(240, {1: up(180, 182, 183, 185), 2: up(200), 3: up()})
    assert (found.server, found.measure, found.hours) == (1, "flaps", 4)


def test_what_most_servers_show_at_once_is_the_farms() -> None:
    odd, usual = np.full(240, 1000.0), np.full(240, 1000.0)
    odd[200:206] = 100.0
    (found,) = judged(240, {1: {"tunnels": odd}, 2: {"tunnels": odd}, 3: {"tunnels": usual}})
    assert (found.subject, found.server, found.servers, found.hours) == ("farm", None, (1, 2), 6)
    assert found.text.startswith("number of participating tunnels of most servers (1, 2) was 100 in the worst hour")
    of_one = judged(240, {1: {"tunnels": odd}, 2: {"tunnels": usual}, 3: {"tunnels": usual}})
    assert [(each.subject, each.server) for each in of_one] == [("server", 1)]
    later = np.roll(odd, 24)
    of_each = judged(240, {1: {"tunnels": odd}, 2: {"tunnels": later}, 3: {"tunnels": usual}})
    assert [(each.subject, each.server) for each in of_each] == [("server", 1), ("server", 2)]


def test_of_two_clocks_nobody_can_tell_the_wrong_one() -> None:
    skew = np.zeros(240)
    skew[200:210] = 20_000.0
    (found,) = judged(240, {1: {"skew_ms": skew / 2}, 2: {"skew_ms": -skew / 2}})
    assert (found.subject, found.server, found.servers) == ("pair", None, (1, 2))
    assert found.text.startswith("the clock of server 1 or of server 2 was wrong from ")


def test_a_third_server_that_is_silent_makes_no_clock_wrong() -> None:
    """Clock 1 is always 4 s ahead. While server 3 is silent, the median lies between the clocks 1 and 2."""
    one, two, three = np.full(240, 4000.0), np.zeros(240), np.zeros(240)
    one[200:210], two[200:210], three[200:210] = 2000.0, -2000.0, np.nan
    assert judged(240, {1: {"skew_ms": one}, 2: {"skew_ms": two}, 3: {"skew_ms": three}}) == []


def test_a_farm_that_has_shrunk_to_two_has_pairs() -> None:
    skew, gone = np.zeros(WEEK * 4), np.zeros(WEEK * 4)
    skew[WEEK * 3 : WEEK * 3 + 10] = 10_000.0
    gone[WEEK:] = np.nan
    (found,) = judged(len(skew), {1: {"skew_ms": skew}, 2: {"skew_ms": -skew}, 3: {"skew_ms": gone}})
    assert (found.subject, found.servers) == ("pair", (1, 2))


def test_leaves_of_most_servers_are_one_episode() -> None:
    values = np.full(240, 0.0)
    values[200:204] = 12.0
    other = b64encode(bytes(32), b"-~").decode()
    both = table(240, {1: {"flaps": values}, 2: {"flaps": values}}, leaf=LEAF)
    (found,) = episodes(table(240, {1: {}, 2: {}, 3: {}}), both)
    assert (found.subject, found.server, found.destination, found.servers) == ("leaves", None, None, (1, 2))
    assert " of leaves of most servers (1, 2) was 12 " in found.text
    one, two = table(240, {1: {"flaps": values}}, leaf=LEAF), table(240, {1: {"flaps": values}}, leaf=other)
    leaves = {name: np.concatenate([each, two[name]]) for name, each in one.items()}
    assert [each.subject for each in episodes(table(240, {1: {}}), leaves)] == ["leaf", "leaf"]


@pytest.mark.parametrize(("name", "value"), [("flaps", 12.0), ("availability", 0.2), ("load", 0.95)])
def test_leaves_are_judged_as_servers_are(name: str, value: float) -> None:
    values = np.full(240, USUAL[name])
    values[200:204] = value
    servers, leaves = table(240, {1: {}, 2: {}, 3: {}}), table(240, {2: {name: values}}, leaf=LEAF)
    (found,) = episodes(servers, leaves)
    assert (found.subject, found.server, found.destination, found.measure) == ("leaf", 2, LEAF, name)
    assert " of leaf aaaaaaaa… of server 2 was " in found.text
    assert LEAF not in found.text, "any server may write any text into a record"


def test_what_the_router_explains_is_no_episode_of_the_leaf() -> None:
    down, flaps = np.ones(240), np.zeros(240)
    down[200:204], flaps[200:204] = 0.4, 6.0
    values = {"availability": down, "flaps": flaps}
    servers, leaves = table(240, {1: values, 2: {}, 3: {}}), table(240, {1: values}, leaf=LEAF)
    assert [(each.subject, each.measure) for each in episodes(servers, leaves)] == [
        ("server", "availability"),
        ("server", "flaps"),
    ]


def test_while_a_router_is_down_only_its_availability_tells() -> None:
    down, tunnels = np.ones(240), np.full(240, 1000.0)
    down[200:204], tunnels[200:204] = 0.1, 20.0
    (found,) = judged(240, {1: {"availability": down, "tunnels": tunnels}, 2: {}, 3: {}})
    assert found.measure == "availability"


def test_with_less_than_a_day_of_past_nothing_is_said() -> None:
    values = np.full(2 * LEAST_HOURS, 1000.0)
    values[LEAST_HOURS - 3 : LEAST_HOURS] = 50_000.0
    assert judged(len(values), {1: {"tunnels": values}}) == []
    values = np.full(2 * LEAST_HOURS, 1000.0)
    values[LEAST_HOURS + 2 : LEAST_HOURS + 5] = 50_000.0
    assert len(judged(len(values), {1: {"tunnels": values}})) == 1


def test_an_hour_of_which_little_was_watched_is_not_judged() -> None:
    share, watched = np.ones(240), np.full(240, HOUR_MS)
    share[200], watched[200] = 0.0, LEAST_WATCHED_MS - 1
    assert judged(240, {1: {"availability": share, "watched_ms": watched}}) == []
    watched[200] = LEAST_WATCHED_MS
    assert len(judged(240, {1: {"availability": share, "watched_ms": watched}})) == 1


def test_later_hours_do_not_change_what_was_over() -> None:
    """So the table stays the same, but for the newest episodes, when a day is added."""
    rng = np.random.default_rng(3)
    length = WEEK * 6
    by_server: dict[int, dict[str, NDArray[Any]]] = {}
    for server in (1, 2, 3):
        tunnels, skew = swings(length, 1000.0, server), rng.normal(0, 50, length)
        for at in rng.integers(0, length, 8):
            tunnels[at : at + rng.integers(2, 40)] *= 0.3
        by_server[server] = {"tunnels": tunnels, "skew_ms": skew}
    whole = judged(length, by_server)
    assert len(whole) > 10
    for end in range(WEEK * 2, length, 65):
        over = START + (end - 2 * JOINED_HOURS) * HOUR_MS
        before = [each for each in judged(end, by_server) if each.end_ms < over]
        assert before == [each for each in whole if each.end_ms < over]


def test_nothing_gives_nothing_and_the_order_of_rows_does_not_matter() -> None:
    assert episodes(table(0, {1: {}}), NO_LEAVES) == []
    values = swings(300, 1000.0)
    values[250:255] = 50.0
    servers = table(300, {1: {"tunnels": values}, 2: {}, 3: {}})
    order = np.random.default_rng(1).permutation(900)
    assert episodes(servers, NO_LEAVES) == episodes({name: each[order] for name, each in servers.items()}, NO_LEAVES)
