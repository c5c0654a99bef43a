"""The figures of `make bench-i2p`."""

import pytest

from integration.bench.through_i2p import Figures, table


def test_a_commit_is_compared_with_the_faster_stream_and_a_sync() -> None:
    figures = Figures(
        echoes={2: [0.004, 0.002, 0.003], 3: [0.001, 0.009, 0.010]},
        commits=[0.016, 0.008, 0.004, 0.008],
        takeovers=[9.0, 30.0, 12.0],
        led=[False, True, False],
        fsync=0.001,
    )
    document = figures.document()
    assert document["commit_p50_ms"] == pytest.approx(8.0)
    assert document["raw_stream_p50_ms"] == {2: pytest.approx(3.0), 3: pytest.approx(9.0)}
    assert document["commit_to_raw_stream_and_fsync"] == pytest.approx(8 / (3 + 1))
    assert document["publisher_killed_to_newer_set_median_s"] == 12.0
    shown = table(document)
    assert "| commit p50 / (raw stream and fsync) | 2.00 |" in shown
    assert "median of 3, s | 12.0 (9.0 to 30.0) |" in shown


def test_without_a_kill_no_takeover_is_shown() -> None:
    document = Figures(echoes={2: [0.002]}, commits=[0.004], fsync=0.0).document()
    assert document["publisher_killed_to_newer_set_median_s"] is None
    assert "killed" not in table(document)
