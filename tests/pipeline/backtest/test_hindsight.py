"""The truth about servers: silences, records that say so, and records that came late only."""

import pytest

from gf_i2p.farm.parameters import Parameters
from gf_i2p.pipeline.backtest.hindsight import Hindsight, common, lasting, outside

STEP = 30_000
USUAL = Parameters()


class Log:
    """Records of servers; the dates are the times, unless a test says otherwise."""

    def __init__(self) -> None:
        self.truth = Hindsight()

    def heard(self, server: int, *times: int, able: bool = True, date: int | None = None, **others: object) -> None:
        parameters = others.pop("parameters", USUAL)
        interval = others.pop("interval", None)
        assert isinstance(parameters, Parameters)
        assert interval is None or isinstance(interval, int)
        for time in times:
            self.truth.heard(
                server, time, time if date is None else date, able=able, interval_ms=interval, parameters=parameters
            )

    def unable(self, server: int, until: int = 10_000_000) -> list[tuple[int, int]]:
        return self.truth.unable(server, 0, until)


def test_a_server_is_unable_before_its_first_record_and_in_a_silence_from_the_missing_record_on() -> None:
    log = Log()
    log.heard(1, STEP, 2 * STEP, 20 * STEP, 21 * STEP)
    assert log.unable(1) == [(0, STEP), (3 * STEP, 20 * STEP)]
    assert log.unable(2) == [(0, 10_000_000)], "nobody knows it"
    log.heard(1, 24 * STEP)
    assert len(log.unable(1)) == 2, "90 s: one or two records are lost, and the lease is not over"
    log.heard(1, 27 * STEP + 1)
    assert log.unable(1)[2:] == [(25 * STEP, 27 * STEP + 1)]


def test_what_a_record_says_counts_until_the_next_record() -> None:
    log = Log()
    log.heard(1, 0)
    log.heard(1, STEP, 2 * STEP, able=False)
    log.heard(1, 3 * STEP)
    log.heard(1, 4 * STEP, able=False)
    log.heard(1, 50 * STEP)
    assert log.unable(1) == [(STEP, 3 * STEP), (4 * STEP, 50 * STEP)]


def test_a_record_that_came_late_shows_that_its_server_lived_until_the_lease_was_over() -> None:
    log = Log()
    log.heard(1, 0)
    log.heard(1, 100_000, date=STEP)
    assert log.unable(1) == [(90_000, 100_000)]
    log.heard(1, 300_000, date=230_000)
    assert log.unable(1)[1:] == [(130_000, 300_000)], "dead, and then late"


def test_the_period_of_a_server_and_the_lease_of_the_farm_decide_what_a_silence_is() -> None:
    log = Log()
    log.heard(1, 0, 60_000, parameters=Parameters(fresh_ms=35_000))
    assert log.unable(1) == [(15_000, 60_000)]
    log.heard(2, 0, 80_000, interval=10_000)
    assert log.unable(2) == []
    log.heard(2, 200_000, interval=10_000)
    assert log.unable(2) == [(90_000, 200_000)]


def test_a_silence_that_lasts_is_judged_and_goes_on_after_the_judgement() -> None:
    log = Log()
    log.heard(1, 0)
    log.heard(2, 0, able=False)
    log.truth.judge(80_000)
    assert (log.unable(1), log.unable(2)) == ([], [(0, 80_000)])
    log.truth.judge(200_000)
    assert log.unable(1) == [(STEP, 200_000)]
    log.heard(1, 300_000, date=60_000)
    assert log.unable(1) == [(STEP, 300_000)], "what was judged stands"
    log.truth.forget(250_000)
    assert log.unable(1) == [(STEP, 300_000)]
    log.truth.forget(300_000)
    assert (log.unable(1), log.unable(2)) == ([], [])


def test_a_server_that_leaves_the_farm_keeps_its_past() -> None:
    log = Log()
    log.heard(1, 0)
    log.heard(2, 0)
    log.truth.keep({2}, 500_000)
    assert log.unable(1) == [(STEP, 500_000)]
    log.truth.judge(900_000)
    assert log.unable(1) == [(STEP, 500_000)]


def test_a_server_that_comes_back_could_not_serve_while_it_was_out() -> None:
    log = Log()
    log.heard(1, 0, STEP)
    log.truth.keep({2}, 2 * STEP)
    log.heard(1, 100 * STEP)
    assert log.unable(1) == [(2 * STEP, 100 * STEP)]


def test_the_removal_of_another_server_judges_nobody_else() -> None:
    log = Log()
    log.heard(1, 0)
    log.heard(2, 0)
    log.truth.keep({1}, 95_000)
    log.heard(1, 100_000, date=STEP)
    assert log.unable(1) == [(90_000, 100_000)], "the record was made in time, and came late only"


def test_when_nobody_could_serve() -> None:
    log = Log()
    log.heard(1, 0, 30 * STEP)
    log.heard(2, 0, STEP, 10 * STEP, 11 * STEP)
    assert log.truth.nobody([1, 2], 0, 12 * STEP) == [(2 * STEP, 10 * STEP)]
    assert log.truth.nobody([], 5, 7) == [(5, 7)]


@pytest.mark.parametrize(
    ("others", "left"),
    [([], [(2, 8)]), ([(0, 3), (4, 5), (7, 9)], [(3, 4), (5, 7)]), ([(2, 8)], []), ([(8, 9)], [(2, 8)])],
)
def test_times_without_other_times(others: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    assert outside([(2, 8)], others) == left
    assert lasting(left) + lasting(common([(2, 8)], others)) == 6
