"""Measures of parameter sets, on short made-up logs."""

import dataclasses
from typing import Any

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.pipeline.backtest.measures import Counts, Measures, Weights
from gf_i2p.pipeline.backtest.replay import ReplayedEntry
from gf_i2p.pipeline.backtest.replay_measures import LAST_DAY, LONG_MS, SETTLE_MS, imbalance
from gf_i2p.pipeline.days import DAY_MS
from gf_i2p.pipeline.errors import UsageError
from tests.farm.strategies import NOW, leaf, record
from tests.pipeline.backtest.replays import measure, row

STEP = 30_000
OPEN = {"router": {"uptime": 90_000_000, "reachability": "ok"}}
FIREWALLED = {"router": {"uptime": 90_000_000, "reachability": "firewalled"}}


class Log:
    """Rounds of records, a step apart: in each round every server posts that is not silent."""

    def __init__(self, *servers: int) -> None:
        self.servers = servers
        self.rows: list[ReplayedEntry] = [row(1, servers)]
        self.now = NOW

    def add(self, value: bytes | tuple[int, ...]) -> None:
        self.rows.append(row(len(self.rows) + 1, value))

    def rounds(self, count: int, *, silent: tuple[int, ...] = (), **changes: dict[str, Any]) -> None:
        """`changes`: differences of a server, `s1=dict(up=False)`, or of a server's leaves."""
        for _ in range(count):
            self.now += STEP
            for place, server in enumerate(self.servers):
                if server not in silent:
                    others = dict(changes.get(f"s{server}", {}))
                    leaves = others.pop("leaves", (leaf(server),))
                    self.add(record(server, *leaves, date=self.now + place, **others).encode())

    def measures(self, **fixed: Any) -> Measures:
        return measure("farm", self.rows, [fixed])[0]

    def measure(self, **fixed: Any) -> Counts:
        return self.measures(**fixed).total


def settled(*servers: int) -> Log:
    log = Log(*servers)
    log.rounds(SETTLE_MS // STEP + 2)
    assert log.measure().changes == 0
    return log


def test_a_calm_farm_costs_nothing() -> None:
    log = settled(1, 2, 3)
    log.rounds(40)
    measures = log.measures()
    total = measures.total
    assert total == Counts(farm_ms=total.farm_ms, imbalance_ms=total.imbalance_ms)
    assert total.imbalance == pytest.approx(0)
    assert total.cost() == pytest.approx(0)
    assert measures.exact
    assert 40 * STEP <= total.farm_ms <= 43 * STEP
    assert measures.entries == len(log.rows)
    assert measures.in_force["freshMs"] == 105_000


def test_who_dies_is_replaced_and_that_was_needed() -> None:
    log = settled(1, 2, 3)
    log.rounds(40, silent=(1,))
    measures = log.measure()
    assert (measures.changes, measures.unneeded) == (1, 0)
    log.rounds(40)
    assert log.measure().unneeded == 0, "it came back after a silence"


def test_a_change_for_a_little_better_server_was_not_needed() -> None:
    log = settled(1, 2, 3)
    log.rounds(30, s1=FIREWALLED, s2=OPEN, s3=FIREWALLED)
    assert (log.measure().changes, log.measure(margin=1000).changes) == (1, 0)
    assert log.measure(holdMs=0).unneeded == 1
    assert log.measure(margin=1000).unneeded == 0


def test_it_was_needed_when_the_old_one_fails_soon_after() -> None:
    log = settled(1, 2, 3)
    log.rounds(10, s1=FIREWALLED, s2=OPEN, s3=FIREWALLED)
    assert log.measure(holdMs=0).changes == 1
    log.rounds(1, s1={"up": False}, s2=OPEN)
    log.rounds(LONG_MS // STEP + 5, s2=OPEN)
    assert log.measure(holdMs=0).unneeded == 0


def test_what_an_administrator_asks_for_is_needed() -> None:
    log = settled(1, 2, 3)
    log.add(AdminEntry("farm", 1, "admin-ann", "move", server=3).encode())
    log.rounds(LONG_MS // STEP + 5)
    assert (log.measure().changes, log.measure().unneeded) == (1, 0)


def test_time_without_a_publisher_counts_when_one_could() -> None:
    """With records 50 s apart, a farm that wants one every 35 s takes the only possible publisher for dead."""
    log = Log(1, 2)
    log.rounds(8, s2={"publish": None})
    for _ in range(20):
        log.rounds(1, silent=(2,))
        log.now += 20_000
        log.rounds(1, silent=(1,), s2={"publish": None})
        log.now += 20_000
    assert log.measure().without_publisher_ms == 0
    measures = log.measure(freshMs=35_000)
    assert measures.without_publisher_ms == pytest.approx(20 * 50_000, rel=0.1)
    assert measures.changes == 0, "the same one comes back each time"
    log.rounds(40, s1={"up": False}, s2={"publish": None})
    assert log.measure().without_publisher_ms == 0, "nobody could"


def test_a_leaf_that_is_down_is_stale_until_it_is_taken_out() -> None:
    log = settled(1, 2, 3)
    log.rounds(20, s2={"leaves": (leaf(2, up=False),)})
    assert log.measure(leafDownMs=0).stale_ms <= STEP
    assert log.measure(leafDownMs=300_000).stale_ms == pytest.approx(300_000, abs=2 * STEP)
    assert log.measure(leafDownMs=3_600_000).stale_ms == pytest.approx(19 * STEP, abs=STEP)


def test_a_leaf_whose_server_is_silent_was_dead_since_its_last_record() -> None:
    log = settled(1, 2, 3)
    log.rounds(12, silent=(2,))
    before = log.measure(freshMs=3_600_000)
    assert before.stale_ms == pytest.approx(12 * STEP, abs=STEP), "at the end of the log, too"
    log.rounds(10)
    assert log.measure(freshMs=3_600_000).stale_ms == pytest.approx(13 * STEP, abs=STEP)
    assert log.measure(freshMs=35_000, unheardMs=0).stale_ms <= 3 * STEP


def test_a_short_silence_is_no_death() -> None:
    log = settled(1, 2, 3)
    log.rounds(2, silent=(2,))
    log.rounds(5)
    assert log.measure().stale_ms == 0


def test_changes_of_the_set_are_counted() -> None:
    log = settled(1, 2, 3)
    for up in (False, True):
        log.rounds(10, s2={"leaves": (leaf(2, up=up),)})
    assert log.measure().set_changes == 2
    assert log.measure(leafDownMs=3_600_000).set_changes == 0


def test_costs_that_say_nothing_of_the_load_are_out_of_balance() -> None:
    assert imbalance([1, 1], [1, 1]) == 0
    assert imbalance([1, 1], [1, 0]) == pytest.approx(0.5)
    log = settled(1, 2)
    busy = Leaf(leaf(2).hash, up=True, configured_connections=100, current_connections=100)
    log.rounds(60, s2={"leaves": (busy,)})
    free = log.measure().imbalance
    log.rows.insert(1, row(2, AdminEntry("farm", 1, "admin-ann", "cost", hash=busy.hash, cost=1).encode()))
    log.rows = [dataclasses.replace(each, index=place) for place, each in enumerate(log.rows, 1)]
    assert 0 < free < 0.1 < log.measure().imbalance < 0.4, "who is full costs as little as who is idle"


def test_a_gap_ends_what_was_measured_and_is_not_measured_itself() -> None:
    log = settled(1, 2, 3)
    log.rounds(20, s2={"leaves": (leaf(2, up=False),)})
    before = log.measure(leafDownMs=3_600_000)
    skipped = len(log.rows) + 5
    log.now += 1000 * STEP
    log.rounds(20)
    rows = log.rows
    log.rows = [
        *rows[: skipped - 5],
        *(dataclasses.replace(each, index=each.index + 5) for each in rows[skipped - 5 :]),
    ]
    assert not log.measures(leafDownMs=3_600_000).exact
    measures = log.measure(leafDownMs=3_600_000)
    assert measures.stale_ms == before.stale_ms
    assert 0 < measures.farm_ms - before.farm_ms <= 20 * STEP
    assert measures.changes == 0


def test_a_publisher_that_is_chosen_anew_right_behind_a_gap_is_in_office() -> None:
    log = Log(1, 2)
    failover: dict[str, Any] = {f"s{server}": {"mode": "failover"} for server in log.servers}
    log.rounds(20, **failover)
    before = len(log.rows)
    log.rounds(20, **failover)
    log.rounds(20, silent=(1,), **failover)
    log.rows = [
        *log.rows[:before],
        *(dataclasses.replace(each, index=each.index + 5) for each in log.rows[before:]),
    ]
    assert log.measure().outage_ms == pytest.approx(105_000 - STEP, abs=STEP)


def test_a_set_from_before_a_gap_serves_nobody_behind_the_gap() -> None:
    """Behind the gap, the clock of the only able server is 20 s ahead: too far for the second parameter set."""
    log = Log(1, 2, 3)
    idle: dict[str, Any] = {f"s{server}": {"publish": None} for server in (2, 3)}
    log.rounds(10, **idle)
    before = len(log.rows)
    for _ in range(15):
        log.rounds(1, silent=(1,), **idle)
        log.add(record(1, leaf(1), date=log.now + 20_000).encode())
    log.rows[before:] = [dataclasses.replace(each, index=each.index + 5) for each in log.rows[before:]]
    assert log.measure().outage_ms == 0
    assert log.measure(aheadMs=10_000).outage_ms == pytest.approx(15 * STEP - SETTLE_MS, abs=2 * STEP)


def test_an_outage_stays_one_when_other_servers_take_the_place() -> None:
    log = Log(1, 2, 3)
    failover: dict[str, Any] = {f"s{server}": {"mode": "failover"} for server in range(1, 7)}
    log.rounds(SETTLE_MS // STEP + 20, **failover)
    log.rounds(20, silent=(1,), **failover)
    before = log.measure().outage_ms
    assert before > 100_000
    log.servers = (4, 5, 6)
    log.add(log.servers)
    log.rounds(40, **failover)
    assert log.measure().outage_ms == pytest.approx(before, abs=STEP)


def test_a_wild_clock_makes_no_day_that_no_calendar_has() -> None:
    log = Log(1)
    log.rounds(SETTLE_MS // STEP + 20)
    log.now = 2**53 - 100 * STEP
    log.rounds(5)
    days = log.measures().days
    assert (len(days), max(days)) == (2, LAST_DAY)


def test_a_leaf_that_is_listed_anew_right_behind_a_gap_is_not_missing() -> None:
    log = Log(1)
    log.rounds(20)
    before = len(log.rows)
    log.rounds(20)
    log.rows[before:] = [dataclasses.replace(each, index=each.index + 5) for each in log.rows[before:]]
    assert log.measure().missing_ms == 0


def test_costs_are_seconds_of_outage_a_day() -> None:
    day = Counts(farm_ms=DAY_MS, outage_ms=7000, changes=2, unneeded=1, stale_ms=120_000, missing_ms=60_000)
    day.set_changes, day.imbalance_ms = 3, DAY_MS / 2
    weights = Weights(change=1, unneeded=4, stale=0.5, missing=0.1, sets=2, imbalance=10)
    assert day.cost(weights) == pytest.approx(7 + 2 + 4 + 60 + 6 + 6 + 5)
    assert dataclasses.replace(day, farm_ms=2 * DAY_MS).cost(weights) == pytest.approx(90 / 2)
    assert dataclasses.replace(day, without_publisher_ms=DAY_MS).cost() == day.cost(), "the outage has it already"
    assert Counts().cost() == 0
    day.add(day)
    assert (day.farm_ms, day.outage_ms, day.imbalance) == (2 * DAY_MS, 14_000, 0.5)


def test_weights_are_read_by_their_names() -> None:
    assert Weights.parse({"change": "7", "stale": "0.5"}) == Weights(change=7, stale=0.5)
    for texts, why in (({"chance": "7"}, "is no weight"), ({"change": "x"}, "a number"), ({"sets": "nan"}, "from 0")):
        with pytest.raises(UsageError, match=why):
            Weights.parse(texts)
