"""A server's score as a publisher."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.farm.choice.score import MOST, found_points, own_score, reached_points
from gf_i2p.farm.record.remote_sensing import MetaSensing, RemoteDestination
from tests.farm.fed_farm import Farm
from tests.farm.strategies import leaf

BEST = {
    "uptime": 6 * 3_600_000,
    "reachability": "ok",
    "exploratoryTunnels": 4,
    "jobLag": 100,
    "currentInboundBandwidth": 25,
    "configuredInboundBandwidth": 100,
}


def test_the_ends() -> None:
    assert sum(MOST.values()) == 1000
    assert own_score(BEST).judged(100, 100).total == 1000
    assert own_score({}).total == 950, "of unknown health: presumed to be well, or nearly"
    assert own_score(BEST).total == 800 + 190, "no server has judged, which counts for nothing"
    worst = {"uptime": 0, "reachability": "error", "exploratoryTunnels": 0, "jobLag": 9000}
    full = {"currentInboundBandwidth": 100, "configuredInboundBandwidth": 100}
    assert own_score(worst | full).judged(0, 50).total == 50


@pytest.mark.parametrize(
    ("part", "router", "points"),
    [
        ("uptime", {"uptime": 6 * 3_600_000 - 1}, 100),
        ("uptime", {"uptime": 3_600_000}, 100),
        ("uptime", {"uptime": 600_000}, 50),
        ("uptime", {"uptime": 599_999}, 0),
        ("uptime", {"uptime": -1}, None),
        ("uptime", {"uptime": True}, None),
        ("uptime", {"uptime": "long"}, None),
        ("uptime", {"uptime": math.nan}, None),
        ("uptime", {"uptime": math.inf}, None),
        ("uptime", {}, None),
        ("reachability", {"reachability": "testing"}, 150),
        ("reachability", {"reachability": "error"}, 0),
        ("reachability", {"reachability": "quux"}, None),
        ("reachability", {"reachability": "unknown"}, None),
        ("reachability", {"reachability": ["ok"]}, None),
        ("tunnels", {"exploratoryTunnels": 3}, 100),
        ("tunnels", {"exploratoryTunnels": 0}, 0),
        ("job_lag", {"jobLag": 101}, 100),
        ("job_lag", {"jobLag": 5000}, 50),
        ("job_lag", {"jobLag": 5001}, 0),
        ("bandwidth", {"currentInboundBandwidth": 250.5, "configuredInboundBandwidth": 1000}, 150),
        ("bandwidth", {"currentInboundBandwidth": 26, "configuredInboundBandwidth": 100}, 100),
        ("bandwidth", {"currentOutboundBandwidth": 76, "configuredOutboundBandwidth": 100}, 0),
        ("bandwidth", {"currentOutboundBandwidth": 500, "configuredOutboundBandwidth": 100}, 0),
        ("bandwidth", {"currentOutboundBandwidth": 5, "configuredOutboundBandwidth": 0}, None),
    ],
)
def test_parts(part: str, router: dict[str, Any], points: int | None) -> None:
    assert own_score(router).parts()[part] == points


@given(
    st.dictionaries(st.sampled_from([*BEST, "up"]), st.none() | st.floats() | st.integers() | st.text() | st.booleans())
)
def test_whatever_a_record_says_the_score_is_in_its_range(router: dict[str, Any]) -> None:
    score = own_score(router)
    assert all(points is None or 0 <= points <= MOST[name] for name, points in score.parts().items())
    assert 0 <= score.total <= 1000


def test_a_share_of_the_others() -> None:
    counts = ((0, 0), (1, 0), (2, 1), (1, 1), (1, 2), (1, 3), (0, 1))
    assert [reached_points(yes, no) for yes, no in counts] == [None, 100, 100, 50, 50, 0, 0]
    assert [found_points(yes, no) for yes, no in counts] == [None, 100, 100, 75, 75, 50, 50]


def test_what_others_reach_counts_and_not_what_one_says_of_itself() -> None:
    farm = Farm()
    for server in farm.servers:
        farm.reports[server] = {
            "remote_destinations": tuple(RemoteDestination(leaf(other).hash, other != 2) for other in farm.servers)
        }
    farm.turn()
    scores = farm.state.choice.scores
    assert {server: scores[server].leaves for server in farm.servers} == {1: 100, 2: 0, 3: 100}
    farm.dead = {1, 3}
    farm.reports[2] = {"remote_destinations": (RemoteDestination(leaf(2).hash, reachable=True),)}
    farm.turn()
    assert farm.state.choice.scores[2].leaves == 0


@pytest.mark.parametrize(("age", "points"), [(0, 100), (900_000, 100), (900_001, 50), (None, 50)])
def test_whether_others_find_the_publishers_set(age: int | None, points: int) -> None:
    farm = Farm()
    farm.turn()
    assert farm.publisher == 1
    version = None if age is None else farm.now - age
    farm.reports[2] = {"meta_sensing": MetaSensing(version, None if version is None else 3, farm.now)}
    farm.says(2)
    assert [farm.state.choice.scores[server].meta for server in farm.servers] == [points, None, None]


def test_what_was_sensed_long_ago_does_not_count() -> None:
    farm = Farm()
    farm.turn()
    farm.reports[2] = {"meta_sensing": MetaSensing(None, None, farm.now)}
    farm.lasts(960_000)
    assert farm.state.choice.scores[1].meta is None
