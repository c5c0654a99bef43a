"""Lengths and pauses of a service's lease sets, against what both kinds of router do: bridges/i2cp/lease_times.py."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.i2cp.lease_times import LEASES, GivingTimes
from bridges.i2cp.settings import RouterKind

I2PD, JAVA = RouterKind.I2PD, RouterKind.JAVA
I2PD_SWEEP = 51
"""Seconds before the end of a set or lease at which i2pd drops it: LEASE_ENDDATE_THRESHOLD."""
I2PD_PERIOD = 60
"""Seconds between two looks of an i2pd floodfill for sets to drop."""
I2PD_RECHECK = 48
"""Most seconds until i2pd publishes at once again: check after 8 s, and two pauses of 20 s."""
JAVA_AGAIN, JAVA_FUDGE = 15, 60
"""Seconds after a set's end at which a Java client looks again, and for which Java uses a lease that has ended."""


class PublishingRouter:
    """Publishes what it was given, as the sources of the two routers say."""

    def __init__(self, kind: RouterKind) -> None:
        self.kind = kind
        self.published: list[tuple[float, float]] = []
        """Time of each publication, and the time at which the published set was given."""
        self._pending: tuple[float, float] | None = None

    def give(self, now: float) -> None:
        self.pass_time(now)
        last = self.published[-1][0] if self.published else float("-inf")
        of_i2pd = now if now >= last + 20.0 else now + 20.0
        self._pending = (max(last + 60.0, now + 3.0) if self.kind is JAVA else of_i2pd, now)
        self.pass_time(now)

    def pass_time(self, now: float) -> None:
        if self._pending is not None and self._pending[0] <= now:
            self.published.append(self._pending)
            self._pending = None


def run(kind: RouterKind, requests: list[float], seconds: float) -> PublishingRouter:
    """Give a set at each due time, and whenever the router asks."""
    router, giving = PublishingRouter(kind), GivingTimes(LEASES[kind])
    waiting = sorted(requests)
    due = 0.0
    while due < seconds:
        now = min([due, *waiting[:1]])
        if waiting and now == waiting[0]:
            waiting.pop(0)
        router.give(now)
        due = giving.given(now)
    router.pass_time(seconds)
    return router


@pytest.mark.parametrize("kind", [I2PD, JAVA])
def test_a_set_outlasts_the_next_one_s_way_to_the_floodfills(kind: RouterKind) -> None:
    times = LEASES[kind]
    published = run(kind, [], 2000.0).published[2:]  # the second set of a session comes early
    longest = max(after - given for (_, given), (after, _) in itertools.pairwise(published))
    late = longest - (times.expires - I2PD_SWEEP)
    assert max(late, 0) / longest * late / 2 / I2PD_PERIOD < 0.01, "i2pd floodfills have the last set until the next"
    assert times.expires + JAVA_AGAIN <= times.lease + JAVA_FUDGE, "a Java client has a lease until it looks again"
    assert times.lease - I2PD_SWEEP < 30, "an i2pd client looks for another holder soon"
    if kind is I2PD:
        assert times.renew >= I2PD_RECHECK, "the router publishes at once"


@given(st.sampled_from([I2PD, JAVA]), st.lists(st.integers(0, 1200).map(lambda quarter: quarter / 4), max_size=12))
def test_a_router_that_asks_again_and_again_soon_publishes_sets_in_time_again(
    kind: RouterKind, requests: list[float]
) -> None:
    times = LEASES[kind]
    since = max(requests, default=-1.0)
    later = [each for each in run(kind, requests, 1000.0).published if each[0] >= since]
    assert later[0][0] - since <= times.pause + times.delay, "the end of the router's pause at the latest"
    for (_, given_at), (next_at, _) in itertools.pairwise(later):
        assert next_at - given_at <= times.expires - I2PD_SWEEP + 8, (requests, later)
