"""The present publisher, and the choice of the next one."""

import pytest

from gf_i2p.farm.parameters import Parameters
from tests.farm.fed_farm import Farm
from tests.farm.strategies import NOW, leaf, record
from tests.netdb.strategies import KEYS

GOOD = {"uptime": 10**8, "reachability": "ok", "exploratoryTunnels": 9, "jobLag": 3}
PARAMETERS = Parameters()


def test_the_first_that_can_becomes_publisher_and_stays_it_from_those_that_are_as_good() -> None:
    farm = Farm()
    farm.says(2)
    farm.says(3)
    assert farm.publisher == 2
    farm.lasts(3_600_000)
    assert farm.publisher == 2
    assert farm.state.choice.why_not == {
        1: "server 2 is as good, and publishes already",
        3: "server 2 is as good, and its id is lower",
    }


def test_of_those_that_are_as_good_the_lowest_id_follows() -> None:
    farm = Farm(1, 2, 3, 4)
    farm.lasts(300_000)
    assert farm.publisher == 1
    farm.dead = {1}
    farm.lasts(300_000)
    assert farm.publisher == 2


def test_a_publisher_that_fails_is_replaced_at_once() -> None:
    farm = Farm()
    farm.lasts(60_000)
    assert farm.publisher == 1
    farm.reports[1] = {"up": False}
    farm.says(1)
    assert farm.publisher == 2
    assert farm.state.choice.why_not[1] == "its router is down"


def test_a_clearly_better_one_takes_over_only_after_some_time() -> None:
    farm = Farm()
    farm.lasts(60_000)
    farm.reports[1] = farm.reports[2] = {"router": GOOD | {"reachability": "firewalled"}}
    farm.reports[3] = {"router": GOOD}
    farm.lasts(PARAMETERS.hold_ms - 90_000)
    assert farm.publisher == 1
    assert farm.state.choice.why_not[3] == "its score is 982; server 1 with 882 publishes already"
    farm.lasts(120_000)
    assert farm.publisher == 3
    assert farm.state.choice.why_not[1] == "its score is 882, and that of server 3 is 982"


def test_one_that_is_better_by_no_more_than_the_margin_does_not() -> None:
    farm = Farm()
    farm.reports[2] = farm.reports[1] = {"router": {"jobLag": 500}}
    farm.reports[3] = {"router": {"jobLag": 1}}
    farm.lasts(7_200_000)
    scores = farm.state.choice.scores
    assert scores[3].total - scores[1].total == PARAMETERS.margin
    assert farm.publisher == 1


def test_a_score_that_goes_to_and_fro_moves_nothing() -> None:
    farm = Farm()
    farm.lasts(60_000)
    for number in range(240):
        farm.reports[1] = {"router": {"jobLag": 90_000 if number % 3 == 0 else 50}}
        farm.turn()
        assert farm.publisher == 1


def test_on_comes_before_auto_but_one_that_comes_and_goes_does_not_publish_each_time() -> None:
    farm = Farm()
    farm.lasts(60_000)
    farm.reports[3] = {"publish": "on"}
    changes = [1]
    for number in range(240):
        farm.reports[3] = {"publish": "on", "up": number % 3 != 0}
        farm.turn()
        if farm.publisher != changes[-1]:
            changes.append(farm.publisher or 0)
    assert changes == [1]
    farm.reports[3] = {"publish": "on"}
    farm.lasts(PARAMETERS.fresh_ms + 60_000)
    assert farm.publisher == 3
    assert farm.state.choice.why_not[1] == "server 3 is to publish (on), and this server only may (auto)"


def test_an_administrator_moves_publishing_at_once_and_as_long_as_that_server_can() -> None:
    farm = Farm()
    farm.lasts(60_000)
    farm.admin("move", server=3)
    assert farm.publisher == 3
    assert farm.state.choice.why_not[1] == "publishing was moved to server 3"
    farm.reports[3] = {"up": False}
    farm.says(3)
    assert farm.publisher == 1
    farm.reports[3] = {}
    farm.lasts(PARAMETERS.fresh_ms - 30_000)
    assert farm.publisher == 1, "it may go again"
    farm.lasts(60_000)
    assert farm.publisher == 3
    farm.admin("release")
    farm.lasts(60_000)
    assert farm.publisher == 3, "it is as good as the others, and publishes already"


def test_a_server_that_comes_and_goes_does_not_publish_each_time_although_it_was_moved_there() -> None:
    farm = Farm()
    farm.lasts(60_000)
    farm.admin("move", server=3)
    changes = [3]
    for number in range(120):
        farm.reports[3] = {"up": number % 3 != 0}
        farm.turn()
        if farm.publisher != changes[-1]:
            changes.append(farm.publisher or 0)
    assert changes == [3, 1]


def test_a_drained_server_publishes_only_when_nobody_else_can() -> None:
    farm = Farm()
    farm.lasts(60_000)
    farm.admin("drain", server=1)
    assert farm.publisher == 2
    assert farm.state.choice.why_not[1] == "it is drained: it publishes only when no other server can"
    assert farm.listed == {1, 2, 3}, "its leaves stay"
    farm.dead = {2}
    farm.reports[3] = {"publish": "off"}
    farm.lasts(180_000)
    assert farm.publisher == 1
    farm.dead = set()
    farm.lasts(180_000)
    assert farm.publisher == 2
    farm.admin("undrain", server=1)
    assert farm.publisher == 2


def test_who_cannot_publish_is_told_why_not() -> None:
    farm = Farm(*range(1, 11))
    other = KEYS.destination.base64.replace("A", "B", 1)
    farm.post(record(2, up=False))
    farm.post(record(3, publish="off"))
    farm.post(record(4, publish=None))
    farm.post(record(6))
    farm.post(record(7))
    farm.post(record(8, publish="sometimes"))
    farm.post(record(9, mode="failover"))
    farm.post(record(1, date=NOW - PARAMETERS.fresh_ms - 1))
    farm.post(record(5, date=NOW + PARAMETERS.ahead_ms + 1))
    choice = farm.state.choice
    assert choice.publisher == 6
    assert choice.mode == "meta"
    assert choice.why_not == {
        1: "its newest record is 105 s old",
        2: "its router is down",
        3: "publishing is off there",
        4: "publishing is off there",
        5: "its clock is 60 s ahead of the farm's",
        7: "server 6 is as good, and its id is lower",
        8: "publishing is off there",
        9: "its mode is failover, and the mode of most servers is meta",
        10: "it has posted nothing yet",
    }
    farm.post(record(10, master=other))
    assert farm.state.choice.why_not[10] == "it would publish for another master than most servers"
    farm.post(record(10, master="?"))
    assert farm.state.choice.why_not[10] == "its master is no destination"


@pytest.mark.parametrize("mode", ["dry-run", "meta", "failover"])
def test_the_mode_is_that_of_the_publisher(mode: str) -> None:
    farm = Farm()
    assert farm.state.choice.mode == "off"
    farm.reports = {server: {"mode": mode} for server in farm.servers}
    farm.turn()
    assert (farm.publisher, farm.state.choice.mode) == (1, mode)
    farm.reports = {server: {"mode": "off"} for server in farm.servers}
    farm.turn()
    assert (farm.publisher, farm.state.choice.mode) == (None, "off")


def test_the_mode_of_most_does_not_change_when_one_of_them_dies() -> None:
    farm = Farm()
    farm.reports = {1: {"mode": "failover"}, 2: {"mode": "meta"}, 3: {"mode": "meta"}}
    farm.lasts(60_000)
    farm.dead = {3}
    farm.lasts(600_000)
    assert (farm.publisher, farm.state.choice.mode) == (2, "meta")


def test_nobody_is_chosen_where_nobody_can() -> None:
    farm = Farm(1)
    assert farm.publisher is None
    farm.post(record(1, leaf(1), publish="off"))
    assert farm.publisher is None
    assert farm.state.choice.why_not == {1: "publishing is off there"}
    farm.post(record(1, leaf(1)))
    farm.state.configure([])
    assert farm.publisher is None
