"""The term of a farm that begins anew."""

import pytest

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.recovery.new_term import TERM_LEAP, TERM_SCATTER, term_beyond
from gf_i2p.raft.allowance import LAST_TERM


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


@pytest.mark.parametrize("reached", [2**32, 2**33, 2**61])
def test_a_term_to_which_a_hostile_server_has_brought_the_farm_leaves_a_whole_leap(reached: int) -> None:
    assert term_beyond(reached) >= reached + TERM_LEAP


def test_the_leaps_shrink_with_the_terms_that_are_left() -> None:
    term, beginnings = LAST_TERM - 2**32, 0
    while LAST_TERM - term > 16:
        term, last = term_beyond(term, since=1e12), term
        assert last < term < LAST_TERM, "a newcomer takes it"
        beginnings += 1
    assert beginnings > 50
    for too_late in (LAST_TERM - 1, LAST_TERM, LAST_TERM + 1):
        with pytest.raises(ConfigError, match="begin a new farm"):
            term_beyond(too_late)
