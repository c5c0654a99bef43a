"""The time at which the next set is due, and the reason, for many situations of the last set."""

import pytest

from gf_i2p.farm.publishing.cadence import HURRIED_SECONDS, HURRIED_SETS, Cadence, Due, LastSet, backoff, next_due

PACE = Cadence(min_seconds=60.0, max_seconds=450.0)
CALM = HURRIED_SETS


@pytest.mark.parametrize(
    ("last_set", "differs", "at", "why"),
    [
        (None, False, 1000, "no set was given yet"),
        (None, True, 1000, "no set was given yet"),
        (LastSet(900, 900, CALM), False, 1350, "grow old"),
        (LastSet(900, 900, CALM + 7), False, 1350, "grow old"),
        (LastSet(900, 900, 1), False, 905, "dropped one of the first"),
        (LastSet(900, 900, 2), False, 910, "dropped one of the first"),
        (LastSet(900, 900, CALM - 1), False, 925, "dropped one of the first"),
        (LastSet(900, 900, CALM), True, 960, "leaves have changed"),
        (LastSet(900, 700, CALM), True, 925, "leaves have changed"),  # i2pd takes no more than one in 20 s
        (LastSet(900, 870, CALM), True, 930, "leaves have changed"),
        (LastSet(900, 900, 1), True, 905, "dropped one of the first"),
        (LastSet(900, 900, CALM, missed=True), False, 960, "not found"),
        (LastSet(900, 900, CALM, missed=True, retries=1), False, 1020, "not found"),
        (LastSet(900, 900, CALM, missed=True, retries=2), False, 1140, "not found"),
        (LastSet(900, 900, CALM, missed=True, retries=3), False, 1350, "grow old"),
        (LastSet(900, 900, CALM, missed=True, retries=10**6), False, 1350, "grow old"),
        (LastSet(900, 900, CALM, retries=2), False, 1350, "grow old"),
    ],
)
def test_when_the_next_set_is_due(last_set: LastSet | None, differs: bool, at: float, why: str) -> None:
    due = next_due(last_set, differs=differs, cadence=PACE, now=1000)
    assert due.at == at
    assert why in due.why


def test_nothing_is_hurried_where_no_router_could_drop_a_set() -> None:
    calm = Cadence(PACE.min_seconds, PACE.max_seconds, hurried_sets=0)
    assert next_due(LastSet(900, 900, 1), differs=False, cadence=calm, now=1000) == Due(1350, "a set must not grow old")


def test_an_ordered_set_is_due_as_soon_as_i2pd_takes_one() -> None:
    first = next_due(LastSet(900, 900, 1), differs=False, cadence=PACE, now=1000, is_ordered=True)
    later = next_due(LastSet(900, 900, CALM), differs=False, cadence=PACE, now=1000, is_ordered=True)
    assert (first.at, later) == (905, Due(925, "an administrator has ordered a new set"))
    calm = Cadence(PACE.min_seconds, PACE.max_seconds, hurried_sets=0)
    assert next_due(LastSet(900, 900, 9), differs=False, cadence=calm, now=1000, is_ordered=True).at == 900


def test_the_pauses_grow_up_to_the_longest() -> None:
    assert [backoff(retries, PACE) for retries in range(5)] == [60, 120, 240, 450, 450]
    assert backoff(10**9, PACE) == 450
    assert HURRIED_SECONDS > 20
