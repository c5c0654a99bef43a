"""A farm of routers of several kinds: equal health gives equal scores, and equal load gives equal costs."""

from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.farm.choice.cost import entry_cost, leaf_load
from gf_i2p.farm.choice.score import ALL, MOST, PRESUMED, Score, found_points, own_score, reached_points
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.bandwidth import bandwidth_used
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.record.remote_sensing import MetaSensing, RemoteDestination
from tests.farm.choice.kinds import TOLD, told
from tests.farm.choice.test_publisher_choice_page import PAGE, table
from tests.farm.fed_farm import Farm
from tests.farm.strategies import leaf

MARGIN = Parameters().margin
TROUBLE: dict[str, dict[str, Any]] = {
    "all is well": {},
    "up for 2 h": {"uptime": 7_200_000},
    "up for 5 min": {"uptime": 300_000},
    "firewalled": {"reachability": "firewalled"},
    "error": {"reachability": "error"},
    "bandwidth 40 % used": {"currentOutboundBandwidth": 40_000},
    "bandwidth 90 % used": {"currentOutboundBandwidth": 90_000},
}
"""Facts that Java I2P and i2pd tell by i2pcontrol."""
_COMMON = {"uptime": (86_400_000, 7_200_000, 1_800_000, 300_000),
           "reachability": ("ok", "testing", "firewalled", "hidden", "error"),
           "currentOutboundBandwidth": (9_000, 40_000, 70_000, 90_000)}  # fmt: skip


def others_opinions() -> list[tuple[int | None, int | None]]:
    """The points by other servers that are well or absent: for the leaves, and for the published set."""
    return list(product((None, reached_points(3, 0)), (None, found_points(3, 0))))


def test_the_table_of_the_kinds() -> None:
    """`docs/explanation/publisher-choice.md` has the scores of each kind of router, with each trouble."""
    rows = {row[0]: [int(cell) for cell in row[1:]] for row in table("router | every fact")}
    assert rows == {
        name: [own_score(told(kind, **changes)).total for kind in TOLD] for name, changes in TROUBLE.items()
    }


@pytest.mark.parametrize("pair", list(combinations(TOLD, 2)), ids=" and ".join)
def test_healthy_routers_have_equal_scores_whatever_they_tell(pair: tuple[str, str]) -> None:
    """All combinations of kinds, and of opinions of the other servers: no difference is above the margin."""
    one, other = (own_score(told(kind)) for kind in pair)
    for mine, yours in product(others_opinions(), repeat=2):
        assert abs(one.judged(*mine).total - other.judged(*yours).total) <= MARGIN


def test_java_and_i2pd_in_the_same_trouble_differ_by_a_few_points() -> None:
    """A plain share of the known parts would differ by far more. `docs/explanation/publisher-choice.md` has both."""
    differences, plain_differences = set[int](), set[int]()
    for values in product(*_COMMON.values()):
        facts = dict(zip(_COMMON, values, strict=True))
        java, i2pd = (own_score(told(kind, **facts)) for kind in ("Java I2P", "i2pd"))
        differences.add(java.total - i2pd.total)
        plain_java, plain_i2pd = (ALL * points // most for points, most in (java.sums(), i2pd.sums()))
        plain_differences.add(plain_java - plain_i2pd)
        every_fact = own_score(told("every fact", **facts))
        assert 0 < every_fact.total - i2pd.total < MARGIN / 2
    words = f"differ by up to {max(plain_differences)} points; here they differ by {max(differences)}"
    assert words in " ".join(PAGE.split())


def test_a_router_that_tells_one_step_of_trouble_is_as_good_as_a_router_that_tells_nothing() -> None:
    nothing = own_score(told("no i2pcontrol")).total
    assert nothing == PRESUMED * ALL // 100
    for kind in ("every fact", "Java I2P", "i2pd"):
        assert nothing < own_score(told(kind)).total <= nothing + MARGIN
        one_step = own_score(told(kind, currentOutboundBandwidth=40_000)).total
        assert nothing - MARGIN <= one_step < nothing
        serious = own_score(told(kind, reachability="firewalled")).total
        assert serious < nothing - MARGIN, "the other router takes over"


def test_a_mixed_farm_keeps_its_publisher_whichever_server_publishes_first() -> None:
    kinds = list(TOLD)
    for first in range(1, len(kinds) + 1):
        farm = Farm(*range(1, len(kinds) + 1))
        farm.reports = {
            server: {
                "router": told(kind),
                "remote_destinations": tuple(
                    RemoteDestination(leaf(other).hash, reachable=True) for other in farm.servers if other != server
                ),
            }
            for server, kind in enumerate(kinds, 1)
        }
        farm.turn()
        farm.admin("move", server=first)
        farm.admin("release")
        assert farm.publisher == first
        farm.lasts(3 * 3_600_000)
        scores = [score.total for score in farm.state.choice.scores.values()]
        assert max(scores) - min(scores) <= MARGIN
        assert farm.publisher == first


def test_a_set_that_no_server_finds_does_not_send_publishing_round_the_farm() -> None:
    """Only the publisher's set is judged. So the part `meta` alone must never decide between healthy servers."""
    farm = Farm()
    farm.turn()
    publishers = set()
    for _ in range(400):
        farm.reports = {server: {"meta_sensing": MetaSensing(None, None, farm.now)} for server in farm.servers}
        farm.turn(lambda: publishers.add(farm.publisher))
    assert publishers == {1}


points = st.none() | st.integers(0, 4).map(lambda steps: 50 * steps)
scores = st.builds(
    Score, *(st.none() | st.sampled_from(range(0, most + 1, 50)) for most in MOST.values())
)  # fmt: skip


@given(scores, scores)
def test_better_known_values_never_lower_the_score(one: Score, other: Score) -> None:
    better = Score(**{
        name: points if points is None else max(points, other.parts()[name] or 0)
        for name, points in one.parts().items()
    })  # fmt: skip
    assert better.total >= one.total
    steps = sum(better.parts()[name] or 0 for name in MOST) - sum(one.parts()[name] or 0 for name in MOST)
    assert better.total - one.total == steps, "a step of a part moves the score by as much, whatever else is known"


@given(scores, st.sampled_from(sorted(MOST)))
def test_a_value_that_becomes_known_and_is_the_best_never_lowers_the_score(one: Score, part: str) -> None:
    untold = Score(**one.parts() | {part: None})
    best = Score(**one.parts() | {part: MOST[part]})
    assert 0 <= best.total - untold.total <= MOST[part] * (100 - PRESUMED) // 100 + 1


@given(scores)
def test_the_score_is_the_share_of_the_known_points_with_the_presumption_for_the_rest(one: Score) -> None:
    known = [name for name in MOST if one.parts()[name] is not None]
    most = sum(MOST[name] for name in known)
    share = sum(one.parts()[name] or 0 for name in known) / most if most else 0.0
    assert one.total == int(most * share + PRESUMED / 100 * (ALL - most) + 1e-6)
    assert 0 <= one.total <= ALL == 1000


# Load and cost --------------------------------------------------------------------------------------------------------

LEAVES = {
    "both": ({"connections", "bandwidth"}, False),
    "connections only": ({"connections"}, False),
    "bandwidth only": ({"bandwidth"}, False),
    "the router's bandwidth only": (set[str](), True),
}


def leaf_with_load(number: int, percent: int, known: set[str]) -> Leaf:
    facts: dict[str, Any] = {
        f"{when}_{name}": value
        for name in known
        for when, value in (("configured", 1_000_000), ("current", 10_000 * percent))
    }
    return Leaf(leaf(number).hash, up=True, **facts)


def router_with_load(percent: int) -> dict[str, int]:
    return {"configuredOutboundBandwidth": 1_000_000, "currentOutboundBandwidth": 10_000 * percent}


@pytest.mark.parametrize("percent", range(101))
def test_leaves_of_equal_load_have_equal_costs_whatever_they_tell(percent: int) -> None:
    costs = set()
    for known, by_router in LEAVES.values():
        use = bandwidth_used(router_with_load(percent)) if by_router else None
        costs.add(entry_cost(leaf_load(leaf_with_load(1, percent, known), use, (0, 0)), None))
    assert max(costs) - min(costs) <= (16 if len(costs) > 1 else 0), "rounding of one step at most"


@pytest.mark.parametrize("kind", LEAVES)
def test_the_share_of_real_load_moves_the_cost_and_only_of_that_leaf(kind: str) -> None:
    known, by_router = LEAVES[kind]
    farm = Farm()
    costs = []
    for percent in range(0, 101, 10):
        for server, load_ in ((1, 20), (2, percent), (3, 20)):
            router = router_with_load(load_) if by_router else {}
            farm.reports[server] = {"leaves": [leaf_with_load(server, load_, known)], "router": router}
        farm.lasts(300_000)
        costs.append({each.owner: each.cost for each in farm.state.choice.entries})
    assert {each[1] for each in costs} == {each[3] for each in costs} == {costs[0][1]}
    assert [each[2] for each in costs] == sorted(each[2] for each in costs)
    assert (costs[0][2], costs[-1][2]) == (1, 192)
    assert len({each[2] for each in costs}) >= 8, "clients see each fifth of the load"
    for server in (1, 3):
        shares = [(256 - each[server]) / sum(256 - cost for cost in each.values()) for each in costs]
        assert shares == sorted(shares), "the other leaves are worth more to clients"


def test_the_load_of_one_of_a_servers_leaves_moves_the_cost_of_that_leaf_alone() -> None:
    farm = Farm()
    costs = []
    for percent in (0, 50, 100, 0):
        own = [
            leaf_with_load(number, percent if number == 12 else 20, {"connections", "bandwidth"})
            for number in (11, 12, 13)
        ]
        farm.reports[1] = {"leaves": own}
        farm.lasts(300_000)
        costs.append({int.from_bytes(each.hash): each.cost for each in farm.state.choice.entries})
    assert [set(each) for each in costs] == [{11, 12, 13, 2, 3}] * 4
    assert [each[12] for each in costs] == [1, 96, 192, 1]
    for number in (11, 13, 2, 3):
        assert len({each[number] for each in costs}) == 1


def test_a_leaf_of_unknown_load_comes_between_an_idle_leaf_and_a_busy_leaf() -> None:
    def cost(percent: int) -> int:
        return entry_cost(leaf_load(leaf_with_load(1, percent, {"connections"}), None, (0, 0)), None)

    unknown = entry_cost(leaf_load(leaf(1), None, (0, 0)), None)
    assert cost(0) < unknown == cost(25) < cost(50)


def test_one_failed_try_does_not_make_a_leaf_of_unknown_load_the_worst() -> None:
    unknown = entry_cost(leaf_load(leaf(1), None, (0, 0)), None)
    assert entry_cost(leaf_load(leaf(1), None, (0, 1)), None) == unknown + 32
