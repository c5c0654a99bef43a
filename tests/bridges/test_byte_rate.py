"""Bytes per second over the window of a status record."""

from bridges.byte_rate import WINDOW_SECONDS, ByteRate

BYTES = 60_000


def test_the_average_is_over_the_window_at_most() -> None:
    rate = ByteRate(1000.0)
    rate.add(BYTES, 1000.1)
    assert rate.per_second(1000.1) == BYTES, "a burst of the first moment counts over a second"
    assert rate.per_second(1015.0) == BYTES / 15
    assert rate.per_second(1000.0 + WINDOW_SECONDS) == BYTES / WINDOW_SECONDS
    assert rate.per_second(1001.0 + WINDOW_SECONDS) == 0
    assert rate.total == BYTES


def test_bytes_after_a_long_silence_count_over_the_window() -> None:
    rate = ByteRate(0.0)
    for now in (1000.0, 1000.5, 1010.0):
        rate.add(BYTES, now)
    assert rate.per_second(1010.0) == 3 * BYTES / WINDOW_SECONDS
    assert rate.per_second(1035.0) == BYTES / WINDOW_SECONDS


def test_few_numbers_are_kept() -> None:
    rate = ByteRate(0.0)
    for step in range(100_000):
        rate.add(1, step / 100)
    assert rate.per_second(1000.0) == 100
    assert len(rate._seconds) <= WINDOW_SECONDS + 1
