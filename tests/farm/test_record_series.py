"""The numbers of servers' records over time."""

from itertools import pairwise

from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.farm.record_series import MOST, STEP_MS, RecordSeries

START = 1_790_000_000_000


def record(date_ms: int, server: int = 1, **router: object) -> StatusRecord:
    return StatusRecord("farm", date_ms, server, router_up=True, router=router)


def test_a_sample_has_the_routers_numbers_and_the_clocks_difference() -> None:
    series = RecordSeries()
    series.take(record(START + 700, uptime=5000, currentInboundBandwidth=10.5, jobLag=True), START)
    (sample,) = series.of(1)
    assert (sample.date_ms, sample.clock_ms, sample.uptime_ms, sample.inbound) == (START, 700, 5000, 10.5)
    assert (sample.outbound, sample.tunnels, sample.job_lag_ms) == (None, None, None)
    assert series.of(2) == []


def test_one_sample_a_minute_is_kept_and_a_day_of_them() -> None:
    series = RecordSeries()
    for number in range(2 * MOST + 100):
        date = START + number * STEP_MS // 2
        series.take(record(date, uptime=number), date)
    samples = series.of(1)
    assert len(samples) == MOST
    assert {after.date_ms - before.date_ms for before, after in pairwise(samples)} == {STEP_MS}
    assert samples[-1].uptime_ms == 2 * MOST + 98
    fewer = series.of(1, 300)
    assert 200 < len(fewer) <= 300
    assert fewer[-1] == samples[-1], "the newest is always there"
    assert series.of(1, 1) == samples[-1:]


def test_a_record_that_was_seen_is_no_new_sample_and_a_server_that_left_is_forgotten() -> None:
    series = RecordSeries()
    one, two = record(START), record(START, 2)
    for each in (one, two, two, None):
        series.take(each, START + 10 * STEP_MS)
    assert [len(series.of(server)) for server in (1, 2)] == [1, 1]
    series.keep((1, 3))
    assert [len(series.of(server)) for server in (1, 2)] == [1, 0]


def test_without_farm_time_the_records_own_date_counts() -> None:
    series = RecordSeries()
    series.take(record(START), None)
    assert [(sample.date_ms, sample.clock_ms) for sample in series.of(1)] == [(START, None)]
