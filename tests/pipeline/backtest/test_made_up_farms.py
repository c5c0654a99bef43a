"""Costs of made-up farms, by a replay with the production `FarmState`: a dead publisher in office has its price."""

from functools import cache
from itertools import pairwise

import pytest

from gf_i2p.pipeline.backtest.measures import Counts, Measures
from gf_i2p.pipeline.backtest.replay import Replay
from tests.pipeline.backtest.made_up_farms import BEGAN_MS, INTERVAL, Kind, away, log
from tests.pipeline.backtest.replays import measure

DEADLY = Kind(deaths=40.0, death_seconds=(900.0, 1500.0))
SEED = 3
HOURS = 6
FRESH = (60_000, 105_000, 180_000, 600_000)


@cache
def measured(kind: Kind) -> list[Measures]:
    return measure("farm", log(kind, SEED, HOURS / 24), [{"freshMs": value} for value in FRESH])


def totals(kind: Kind) -> list[Counts]:
    return [each.total for each in measured(kind)]


def test_a_dead_publisher_in_office_costs_more_the_longer_it_counts_as_fresh() -> None:
    counts = totals(DEADLY)
    deaths = sum(len(times) for times in away(DEADLY, SEED, HOURS / 24).values())
    assert deaths > 15
    outages = [each.outage_ms for each in counts]
    assert outages == sorted(outages)
    assert outages[0] * 2 < outages[-1]
    assert [each.cost() for each in counts] == sorted(each.cost() for each in counts)
    changes = counts[1].changes
    assert outages[1] / max(changes, 1) == pytest.approx(105_000 - 30_000, abs=45_000), "from the missing record on"


def test_hindsight_finds_the_time_for_which_made_up_dead_servers_were_in_office() -> None:
    kind = Kind(deaths=60.0, death_seconds=(200.0, 400.0))
    dead, replay = away(kind, SEED, HOURS / 24), Replay("farm")
    offices = [
        ((row.received_ms - BEGAN_MS) / 1000, replay.runs[0].publisher or 0)
        for row in log(kind, SEED, HOURS / 24)
        if replay.feed(row)
    ]
    in_office = deaths = 0.0
    for (since, publisher), (until, _) in pairwise([*offices, (HOURS * 3600.0, 0)]):
        for begin, end in dead.get(publisher, ()):
            seconds = max(min(end, until) - max(begin, since), 0.0)
            in_office, deaths = in_office + seconds, deaths + (seconds > 0)
    (measures,) = measure("farm", log(kind, SEED, HOURS / 24))
    missed = in_office - measures.total.outage_ms / 1000
    assert deaths > 4
    assert 0 < missed < INTERVAL * deaths, "a death may come up to 30 s before the record that is missing"


def test_the_truth_is_the_same_for_each_set_and_in_each_part_of_the_grid() -> None:
    alone = [measure("farm", log(DEADLY, SEED, HOURS / 24), [{"freshMs": value}])[0] for value in FRESH[::3]]
    assert [each.days for each in alone] == [each.days for each in measured(DEADLY)[::3]]


def test_in_meta_a_new_publisher_comes_while_the_set_still_serves() -> None:
    meta = Kind(mode="meta", deaths=40.0, death_seconds=(900.0, 1500.0))
    counts = totals(meta)
    assert [each.outage_ms for each in counts[:3]] == [0, 0, 0]
    assert counts[0].changes > 3


def test_leaves_that_wait_in_vain_are_missing_and_not_in_failover() -> None:
    meta = Kind(mode="meta", leaf_falls=30.0)
    usual, patient = measure("farm", log(meta, SEED, HOURS / 24), [{}, {"leafUpMs": 1_800_000}])
    assert usual.total.stale_ms < 10 * usual.total.missing_ms
    assert usual.total.missing_ms * 2 < patient.total.missing_ms
    failover = Kind(leaf_falls=30.0, leaf_seconds=(200.0, 600.0))
    (none,) = measure("farm", log(failover, SEED, HOURS / 24))
    assert (none.total.missing_ms, none.total.stale_ms, none.total.set_changes) == (0, 0, 0)


def test_days_are_utc_days_and_add_up() -> None:
    (measures,) = measure("farm", log(Kind(deaths=12.0), SEED, 1.1))
    first, second = measures.days.items()
    assert second[0] == first[0] + 1
    assert first[1].farm_ms > 10 * second[1].farm_ms > 0
    assert first[1].outage_ms > 0, "an outage counts on its own day"
    assert measures.total.outage_ms == first[1].outage_ms + second[1].outage_ms
