"""Sentences about trouble, and the order of farms."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.health.episodes import Episode
from gf_i2p.pipeline.health.measures import OF_LEAVES, OF_SERVERS
from gf_i2p.pipeline.report.report_data import Period, Turn, Turns
from gf_i2p.pipeline.report.verdict_kinds import KINDS, Kind
from gf_i2p.pipeline.report.verdicts import Verdict, spans, verdicts
from tests.pipeline.report.report_data import BEGAN_MS, PERIOD, cell, episode, farm, hash_of, trial

END = 21 * 24
"""The last hour of the period."""


def attention(*episodes: Episode, **fields: Any) -> list[Verdict]:
    return list(verdicts(farm(episodes=episodes, **fields)).attention)


def sentence(*episodes: Episode, **fields: Any) -> str:
    [verdict] = attention(*episodes, **fields)
    return verdict.sentence


RULES = [(kind, *rule) for kind in KINDS.values() for rule in kind.episodes]


def test_each_measure_of_health_has_a_sentence_for_each_side() -> None:
    for measures, subject in ((OF_SERVERS, "server"), (OF_LEAVES, "leaf")):
        for measure in measures:
            sides = {side for _, *of, side in RULES if of == [subject, measure.name]}
            needed = {"low", "high"} if measure.only is None else {measure.only}
            assert "" in sides or needed <= sides, (subject, measure.name)


@pytest.mark.parametrize(("kind", "of", "measure", "side"), RULES)
@pytest.mark.parametrize("is_ongoing", [True, False])
def test_each_sentence_can_be_filled_in(kind: Kind, of: str, measure: str, side: str, *, is_ongoing: bool) -> None:
    value, usual = (1.0, 2.0) if side in ("low", "silent") else (3.0, 2.0)
    if measure == "skew_ms":
        value = 3_000.0 if side == "small" else 60_000.0
    end = END if is_ongoing else END - 9
    subject: dict[str, dict[str, Any]] = {
        "leaf": {"destination": hash_of(1)},
        "pair": {"server": None, "servers": (1, 2)},
    }
    odd = episode(measure, END - 30, end, value, usual, subject=of, **subject.get(of, {}))
    [verdict] = attention(odd, silent=frozenset({(2, odd.worst_ms)} if side == "silent" else ()))
    assert (verdict.kind, verdict.is_ongoing) == (kind, is_ongoing)
    assert "{" not in verdict.sentence
    assert not verdict.sentence.endswith(".")
    assert kind.next.endswith(".")


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        (episode("skew_ms", END - 40, END, 50_000, 0),
         "The clock of server 2 has been 50 s ahead since Monday 2026-07-20 08:00"),
        (episode("skew_ms", END - 40, END - 30, -2_000, 0, subject="pair", server=None, servers=(1, 2)),
         "The clock of server 1 or of server 2 was 2 s behind from Monday 2026-07-20 08:00 to 18:00"),
        (episode("tunnels", 9, END - 30, 40, 900, subject="farm", server=None, servers=(1, 2)),
         ("Most servers (1, 2) were carrying only 40 tunnels, usually 900, from 2026-07-01 09:00 to "
         "Monday 2026-07-20 18:00")),
        (episode("availability", END - 40, END - 39, 0.25, 1),
         "The router of server 2 was down from Monday 2026-07-20 08:00 to 09:00, and up for 25 % of the worst hour"),
        (episode("availability", END - 40, END, 0, 1, subject="leaf", destination=hash_of(2)),
         "Leaf aibaeaqc….b32.i2p of server 2 has been down since Monday 2026-07-20 08:00, though the router was up"),
        (episode("lag_ms", END - 40, END, 320, 18.4),
         "The router of server 2 has been slow since Monday 2026-07-20 08:00: a job lag of 320 ms, usually 18 ms"),
        (episode("known_peers", END - 40, END, 320, 3_000, subject="farm", server=None, servers=(1, 2)),
         ("The routers of most servers (1, 2) have been left with 320 known peers, usually 3,000, since "
         "Monday 2026-07-20 08:00")),
    ],
)  # fmt: skip
def test_sentences(odd: Episode, expected: str) -> None:
    assert sentence(odd) == expected


def test_a_silence_is_no_dead_router() -> None:
    odd = episode("availability", END - 3, END, 0, 1)
    assert sentence(odd, silent=frozenset({(2, odd.worst_ms)})).startswith("Server 2 has been silent since")
    assert sentence(odd, silent=frozenset({(1, odd.worst_ms)})).startswith("The router of server 2 has been down")


def test_episodes_of_one_time_are_one_verdict() -> None:
    odd = [
        episode("in_bytes_s", END - 40, END - 30, 4e3, 5e5),
        episode("tunnels", END - 41, END - 30, 10, 900),
        episode("lag_ms", END - 200, END - 30, 900, 20),
    ]
    few, slow = sorted(attention(*odd), key=lambda each: each.kind.name)
    assert (few.kind, few.with_) == (KINDS["few tunnels"], "little inbound traffic")
    assert (slow.kind, slow.with_) == (KINDS["slow router"], "")


def test_of_many_episodes_of_one_kind_the_newest_one_is_told() -> None:
    odd = [episode("lag_ms", at, at + 3, 900, 20) for at in (9, 30, END - 40)]
    assert sentence(*odd).endswith("a job lag of 900 ms, usually 20 ms, the last of 3 times")


def test_what_is_over_for_a_week_needs_no_attention() -> None:
    found = verdicts(farm(episodes=[episode("lag_ms", 5, 9, 900, 20), episode("skew_ms", END - 9, END, 90_000, 0)]))
    assert [each.kind for each in found.attention] == [KINDS["wrong clock"]]
    assert [each.kind for each in found.older] == [KINDS["slow router"]]
    assert not verdicts(farm()).attention


def test_farms_are_in_the_order_of_trouble() -> None:
    now, over = episode("lag_ms", END - 9, END, 900, 20), episode("skew_ms", END - 40, END - 30, 90_000, 0)
    old = episode("skew_ms", 5, 9, 90_000, 0)
    worst_first = [farm("d", episodes=[now, over]), farm("c", episodes=[now]), farm("b", episodes=[over]),
                   farm("a", episodes=[old]), farm("e", episodes=[])]  # fmt: skip
    assert sorted(worst_first, key=lambda each: (verdicts(each).order, each.name)) == worst_first


def test_a_server_that_was_never_up_much_is_told_although_nothing_is_unlike_its_past() -> None:
    servers = {1: {at: cell(availability=0.5) for at in range(PERIOD.stretches)}}
    assert sentence(servers=servers) == "Server 1 has been available for only 50 % of the time in the last 7 d"
    leaves = {hash_of(2): {at: cell(availability=0.8) for at in range(PERIOD.stretches)}}
    assert sentence(leaves=leaves).startswith("Leaf aibaeaqc….b32.i2p has been available for only 80 %")


def test_a_farm_without_a_publisher_is_told() -> None:
    turns = [Turn(BEGAN_MS, 1), Turn(PERIOD.until_ms - 3 * HOUR_MS, None)]
    assert sentence(published=Turns(turns, 1)) == "Nobody has been publishing since Tuesday 2026-07-21 21:00"
    back = [*turns, Turn(PERIOD.until_ms - HOUR_MS, 2)]
    assert sentence(published=Turns(back, 2)) == "Nobody was publishing from Tuesday 2026-07-21 21:00 to 23:00"
    assert not attention(published=Turns([Turn(BEGAN_MS, None)], 0)), "publishing is turned off"


def test_a_recommendation_is_the_last_word() -> None:
    live = trial(parameters={}, advice="margin=150 saves 39.0% of the cost. The first 8 days chose.")
    lag = episode("lag_ms", END - 9, END, 900, 20)
    first, last = attention(lag, trials=[live, trial(recommended=True)])
    assert first.kind == KINDS["slow router"]
    assert last.sentence == "Other parameters are better: margin=150 saves 39.0% of the cost"


turns = st.lists(st.builds(Turn, st.integers(-100, 1100), st.none() | st.integers(1, 3)), max_size=12)


@given(turns)
def test_the_times_of_publishers_are_inside_the_period_and_do_not_overlap(turns: list[Turn]) -> None:
    period = Period(0, 1000)
    times = spans(sorted(turns, key=lambda turn: turn.at_ms), period)
    assert all(0 <= begin < end <= 1000 for begin, end, _ in times)
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(times))


@given(st.integers(0, DAY_MS * 3000), st.integers(1, DAY_MS * 3000))
def test_a_period_has_few_stretches(since: int, length: int) -> None:
    period = Period(since, since + length)
    assert 1 <= period.stretches <= 84
    assert period.hour_ms + period.stretches * period.stretch_ms >= period.until_ms


def test_trouble_that_goes_on_is_not_told_as_over() -> None:
    odd = [episode("availability", END - 4, END - 2, 0.2, 1), episode("flaps", END - 4, END, 12, 0)]
    found = attention(*odd)
    assert [(each.kind.name, each.is_ongoing) for each in found] == [("restarts", True), ("router down", False)]


def test_a_fault_of_one_server_does_not_hide_another_that_is_always_rarely_available() -> None:
    servers = {id_: {at: cell(availability=0.5) for at in range(PERIOD.stretches)} for id_ in (1, 2)}
    found = attention(episode("availability", END - 40, END - 38, 0.2, 1), servers=servers)
    assert [each.sentence.split(" has")[0] for each in found if each.kind.name == "low availability"] == ["Server 1"]
