"""Costs of made-up farms, by a replay with the production `FarmState`: a dead publisher in office has its price."""

from functools import cache

import pytest

from gf_i2p.pipeline.backtest.measures import Counts, Measures
from tests.pipeline.backtest.made_up_farms import Kind, away, log
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
