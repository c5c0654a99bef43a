"""Outages in office: at once in mode `failover`, in mode `meta` when clients cannot use the newest set any more."""

from gf_i2p.farm.parameters import Parameters
from gf_i2p.pipeline.backtest.hindsight import Hindsight
from gf_i2p.pipeline.backtest.offices import USABLE_MS, Offices

REPUBLISH = Parameters().republish_max_ms
END = 10_000_000
SERVERS = (1, 2)


def served(dead: Hindsight, *offices: tuple[int, int | None], failover: bool = True, steps: int = END) -> int:
    """Return the outage; `steps`: the time between two settlements."""
    made = Offices()
    outage, waiting = 0, list(offices)
    for until in range(steps, END + 1, steps):
        while waiting and waiting[0][0] <= until:
            since, publisher = waiting.pop(0)
            made.change(since, publisher, failover=failover)
        outage += made.settle(0, until, dead, SERVERS, REPUBLISH)
    return outage


def lived(*dead: tuple[int, int]) -> Hindsight:
    """Server 1 is dead in some times, by what its records say; server 2 always serves."""
    made = Hindsight()
    for server in SERVERS:
        for time in range(0, END + 1, 20_000):
            able = server == 2 or not any(begin <= time < end for begin, end in dead)
            made.heard(server, time, time, able=able, interval_ms=None, parameters=Parameters())
    return made


def test_a_dead_publisher_in_office_is_an_outage_in_failover() -> None:
    dead = lived((1_000_000, 3_000_000))
    assert served(dead, (0, 1)) == 2_000_000
    assert served(dead, (0, 1), (1_100_000, 2)) == 100_000
    assert served(dead, (0, 2)) == 0
    assert served(dead, (0, 2), (2_500_000, 1)) == 500_000
    assert served(dead, (0, 1), (1_100_000, 2), (2_990_000, 1)) == 110_000


def test_a_vacant_office_is_an_outage_while_somebody_could_serve() -> None:
    assert served(lived(), (0, 1), (500_000, None), (700_000, 2)) == 200_000
    dead = Hindsight()
    for time in range(0, END + 1, 20_000):
        for server in SERVERS:
            dead.heard(server, time, time, able=time < 1_000_000, interval_ms=None, parameters=Parameters())
    assert served(dead, (0, 1)) == served(dead, (0, 1), (2_000_000, None)) == 0, "nobody could"


def test_in_meta_the_set_serves_until_clients_cannot_use_it_any_more() -> None:
    dead = lived((1_000_000, 3_000_000))
    published = 1_000_000 // REPUBLISH * REPUBLISH
    assert served(dead, (0, 1), failover=False) == 3_000_000 - published - USABLE_MS
    assert served(dead, (0, 1), (1_100_000, 2), failover=False) == 0
    assert served(dead, (0, 1), (2_000_000, 2), failover=False) == 2_000_000 - published - USABLE_MS
    assert served(lived(), (0, 1), (950_000, None), (1_550_000, 2), failover=False) == 1_550_000 - 1_500_000
    assert served(lived(), (0, None), (70_000, 1), failover=False) == 70_000, "there was no set before"


def test_when_an_office_is_settled_makes_no_difference() -> None:
    dead = lived((1_000_000, 3_000_000), (4_000_000, 4_700_000))
    for failover in (True, False):
        offices = ((0, 1), (2_100_000, None), (2_200_000, 2), (3_900_000, 1))
        at_once = served(dead, *offices, failover=failover)
        assert at_once > 0
        for steps in (100_000, 340_000, 1_000_000):
            assert END % steps == 0 or END // steps * steps > 4_700_000
            assert served(dead, *offices, failover=failover, steps=steps) == at_once


def test_what_was_before_the_measured_time_does_not_count() -> None:
    made = Offices()
    made.change(0, 1, failover=True)
    assert made.settle(1_400_000, END, lived((1_000_000, 1_500_000)), SERVERS, REPUBLISH) == 100_000
