"""The term of a farm that begins anew."""

import pytest

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.recovery.new_term import TERM_LEAP, TERM_SCATTER, term_beyond
from gf_i2p.raft.core import MAX_TERM_STEP


def test_a_term_that_cannot_have_been_reached() -> None:
    hour = 3600.0
    assert term_beyond(7) >= 7 + TERM_LEAP
    first = term_beyond(7, since=hour)
    assert first >= 7 + TERM_LEAP + 2 * hour
    later = [term_beyond(7, since=hour + TERM_SCATTER) for _ in range(20)]
    assert min(later) > first + TERM_SCATTER, "a farm that began anew in between and has held elections since"
    assert len(set(later)) > 1, "not twice the same"
    for wrong in (-1e9, 1e12):  # wrong clocks cost terms, and nothing else
        assert 7 + TERM_LEAP <= term_beyond(7, since=wrong) < 7 + 2 * TERM_LEAP + TERM_SCATTER
    known = 0
    for _ in range(6):
        known = term_beyond(known, since=1e12)
        assert known + TERM_LEAP // 2 < MAX_TERM_STEP, "an empty server takes it, for years to come"
    with pytest.raises(ConfigError, match="begin a new farm"):
        term_beyond(MAX_TERM_STEP - 2 * TERM_LEAP, since=0.0)
