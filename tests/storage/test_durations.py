import pytest

from gf_i2p.storage.durations import BOUNDS, Durations


def test_a_duration_counts_in_its_bucket_and_in_all_longer_ones() -> None:
    durations = Durations()
    for seconds in (0.0, 0.0005, 0.0006, 1.0, 31.0):
        durations.observe(seconds)
    counts = dict(durations.cumulative())
    assert list(counts) == [*BOUNDS, float("inf")]
    assert (counts[0.0005], counts[0.001], counts[0.5], counts[1.0], counts[30.0]) == (2, 3, 3, 4, 4)
    assert counts[float("inf")] == 5
    assert durations.sum == pytest.approx(32.0011)
