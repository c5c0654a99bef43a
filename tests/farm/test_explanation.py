"""The reasons for the choice, in words and as JSON."""

import json
from typing import Any

import pytest

from gf_i2p.farm.choice.score import MOST
from gf_i2p.farm.explanation import NOT_KNOWN, explaining, text_lines, why_publisher
from gf_i2p.farm.pieces import whole
from gf_i2p.farm.record.remote_sensing import RemoteDestination
from gf_i2p.farm.record.status_record import Leaf
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address
from tests.farm.choice.test_publisher import GOOD
from tests.farm.fed_farm import Farm
from tests.farm.made_up_logs import log, take
from tests.farm.strategies import leaf, record


def explain(state: FarmState) -> dict[str, Any]:
    return whole(explaining(state))


def lines(state: FarmState) -> list[str]:
    return list(text_lines(explain(state)))


def address(number: int) -> str:
    return to_b32_address(leaf(number).hash)


def test_in_words() -> None:
    farm = Farm()
    busy = Leaf(leaf(2).hash, up=True, current_connections=20, configured_connections=60)
    farm.reports[2] = {"leaves": [busy]}
    farm.reports[3] = {"publish": "off", "leaves": [leaf(3, up=False)]}
    farm.lasts(300_000)
    parts = (
        "the router's uptime", "its reachability", "exploratory tunnels", "job lag", "free bandwidth",
        "its leaves, as others reach them", "its set, as others find it",
    )  # fmt: skip
    nothing = "    " + ", ".join(f"{part} not known" for part in parts)
    no_load = "48 of 192: its load is not known; not known: connections, bandwidth, tunnels, tries of other servers"
    third = "64 of 192: 33% of its connections are in use; not known: bandwidth, tunnels, tries of other servers"
    assert lines(farm.state) == [
        "server 1 publishes (meta): server 2 is as good, and its id is higher",
        "  server 1: score 950; publishes",
        nothing,
        "  server 2: score 950; server 1 is as good, and its id is lower",
        nothing,
        "  server 3: score 950; publishing is off there",
        nothing,
        "2 leaves are listed",
        f"  {address(1)} of 1: cost 48 ({no_load})",
        f"  {address(2)} of 2: cost 64 ({third})",
        f"  {address(3)} is left out: 3 says that it is down",
    ]


def test_what_is_not_known_is_null_and_has_no_points() -> None:
    farm = Farm()
    busy = Leaf(leaf(2).hash, up=True, current_connections=20, configured_connections=60)
    farm.reports[2] = {"leaves": [busy], "router": {"uptime": 7_200_000, "reachability": "unknown"}}
    farm.reports[1] = {"remote_destinations": (RemoteDestination(busy.hash, reachable=True),)}
    farm.lasts(300_000)
    explanation = explain(farm.state)
    assert explanation["servers"][1]["parts"] == {
        "uptime": 100, "reachability": None, "tunnels": None, "job_lag": None, "bandwidth": None, "leaves": 100,
        "meta": None,
    }  # fmt: skip
    assert explanation["servers"][0]["parts"] == dict.fromkeys(MOST)
    assert [leaf_["parts"] for leaf_ in explanation["leaves"]] == [
        {"connections": None, "bandwidth": None, "tunnels": None, "unreached": None},
        {"connections": 64, "bandwidth": None, "tunnels": None, "unreached": 0},
        {"connections": None, "bandwidth": None, "tunnels": None, "unreached": None},
    ]
    assert f"the router's uptime 100/150, its reachability {NOT_KNOWN}," in "\n".join(lines(farm.state))


@pytest.mark.parametrize(("mode", "verb"), [("dry-run", "would publish"), ("failover", "serves")])
def test_words_of_other_modes(mode: str, verb: str) -> None:
    farm = Farm()
    farm.reports = {server: {"mode": mode} for server in farm.servers}
    farm.lasts(300_000)
    text = lines(farm.state)
    assert text[0] == f"server 1 {verb} ({mode}): server 2 is as good, and its id is higher"
    assert text[1] == f"  server 1: score 950; {verb}"
    of_leaves = [line for line in text if "leaves are" in line]
    if mode == "failover":
        assert of_leaves == [text[-1]]
        assert text[-1].startswith("leaves are of no use in mode failover: clients reach the service only at")
    else:
        assert of_leaves == ["3 leaves are listed"]
    assert len(explain(farm.state)["leaves"]) == 3


def test_nobody() -> None:
    farm = Farm()
    assert lines(farm.state)[0].startswith("nobody publishes: no server says that it is set to publish")
    assert explain(farm.state)["off"]
    farm.post(record(1, up=False))
    assert lines(farm.state)[0] == "nobody publishes: no server can publish"
    assert not explain(farm.state)["off"]
    assert lines(FarmState("farm"))[0].startswith("nobody publishes: the servers of the farm are not known yet")


def test_publishing_is_off_everywhere() -> None:
    farm = Farm()
    for server in farm.state.servers:
        farm.post(record(server, publish="off"))
    assert lines(farm.state)[0] == "nobody publishes: publishing is off on all servers"
    assert explain(farm.state)["off"]


@pytest.mark.parametrize("seed", range(4))
def test_every_farm_can_be_explained(seed: int) -> None:
    farm = Farm()
    for index, entry in enumerate(log(seed, 150), 1):
        take(farm.state, index, entry)
        if index % 10:
            continue
        explanation = explain(farm.state)
        assert json.loads(json.dumps(explanation)) == explanation
        assert explanation["publisher"] == farm.publisher
        hashes = {each for poster in farm.state.posters.by_id.values() for each in poster.leaves}
        assert {each["leaf"] for each in explanation["leaves"]} >= {to_b32_address(each) for each in hashes}
        assert all(each["why"] for each in explanation["leaves"])
        assert all(server["why_not"] or server["publishes"] for server in explanation["servers"])
        assert len(lines(farm.state)) > len(explanation["servers"])


def test_why_a_server_is_the_publisher() -> None:
    farm = Farm()
    farm.reports |= {server: {"publish": "off"} for server in (2, 3)}
    farm.turn()
    assert why_publisher(farm.state) == "it is the only server that can"
    farm.reports |= {server: {} for server in (2, 3)}
    farm.reports[1] = {"router": {"jobLag": 500}}
    farm.lasts(60_000)
    farm.reports[2] = {"router": {"jobLag": 5}}
    farm.turn()
    assert why_publisher(farm.state) == "it publishes already, and server 2 is better by 50 points: more than 50 count"
    farm.reports[2] = {"router": GOOD}
    farm.turn()
    assert why_publisher(farm.state) == (
        "it publishes already; server 2, better by 75 points, takes over when that has lasted for 105 s, and this "
        "server has published for 600 s"
    )
    farm.lasts(900_000)
    assert why_publisher(farm.state) == "its score of 982 is the best; server 3 has 950"
    farm.admin("move", server=3)
    assert why_publisher(farm.state) == "an administrator has moved publishing to it"
    farm.admin("release")
    farm.reports[3] = {"publish": "on"}
    farm.turn()
    assert why_publisher(farm.state) == "no other able server is set to publish (on)"
