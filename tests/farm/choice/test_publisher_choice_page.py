"""`docs/explanation/publisher-choice.md` describes the behaviour of the code."""

import re
from pathlib import Path
from typing import Any

from gf_i2p.farm.choice import cost
from gf_i2p.farm.choice.cost import entry_cost, leaf_load
from gf_i2p.farm.choice.score import ALL, MOST, PRESUMED
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.status_record import Leaf
from tests.farm.fed_farm import Farm

PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "publisher-choice.md").read_text()


def table(header: str) -> list[list[str]]:
    """Give the rows of the table whose first row begins with `header`."""
    lines = PAGE[PAGE.index(f"| {header}") :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def router(cells: list[str]) -> dict[str, Any]:
    uptime, reachability, exploratory, lag, bandwidth = cells
    numbers = {
        "uptime": None if uptime == "-" else int(float(uptime) * 3_600_000),
        "reachability": reachability,
        "exploratoryTunnels": None if exploratory == "-" else int(exploratory),
        "jobLag": None if lag == "-" else int(lag),
        "currentInboundBandwidth": None if bandwidth == "-" else int(bandwidth),
        "configuredInboundBandwidth": 100,
    }
    return {name: value for name, value in numbers.items() if value is not None}


def test_the_example() -> None:
    rows = table("id | publishConfig")
    farm = Farm(*(int(row[0]) for row in rows))
    farm.reports = {int(row[0]): {"publish": row[1], "router": router(row[2:7])} for row in rows}
    for server in (2, 1, 3, 4, 5):
        farm.says(server)
    assert {server: score.total for server, score in farm.state.choice.scores.items()} == {
        int(row[0]): int(row[7]) for row in rows
    }
    assert f"**server {farm.publisher} publishes**" in PAGE
    farm.lasts(600_000)
    farm.reports[3]["router"]["jobLag"] = 80
    farm.lasts(600_000)
    scores = farm.state.choice.scores
    assert f"80 ms: {scores[3].total} points, better by {scores[3].total - scores[2].total}." in PAGE
    assert farm.publisher == 2
    farm.reports[2]["router"]["currentInboundBandwidth"] = 40
    farm.turn()
    assert farm.publisher == 2
    scores = farm.state.choice.scores
    assert f"40 % as well ({scores[2].total}, better by\n{scores[3].total - scores[2].total})" in PAGE
    farm.lasts(farm.state.parameters.fresh_ms + 30_000)
    assert farm.publisher == 3


def test_the_parts_of_the_score() -> None:
    assert [int(row[1]) for row in table("part | most")] == list(MOST.values())
    assert f"score = k + {PRESUMED} % of ({ALL} - m), rounded down" in PAGE


def test_the_costs() -> None:
    for cells in table("connections | bandwidth"):
        pairs = [None if cell == "-" else tuple(map(int, cell.split("/"))) for cell in cells[:4]]
        (used, most), (rate, limit), (missing, tunnels), (unreached, tries) = (pair or (None, None) for pair in pairs)
        leaf = Leaf(
            bytes(32), up=True, current_connections=used, configured_connections=most, current_bandwidth=rate,
            configured_bandwidth=limit, current_tunnels=None if missing is None else (tunnels or 0) - missing,
            configured_tunnels=tunnels,
        )  # fmt: skip
        reach_counts = ((tries or 0) - (unreached or 0), unreached or 0)
        assert entry_cost(leaf_load(leaf, None, reach_counts), None) == int(cells[4])
    penalties = {name: int(weight) for weight, name in re.findall(r"(\d+) · (tunnels|unreached)", PAGE)}
    assert penalties == {name: cost.MOST[name] for name in ("tunnels", "unreached")}
    assert f"load = {cost.LOAD} · (the mean" in PAGE
    assert f"or {cost.UNKNOWN_LOAD} when neither is known" in PAGE


def test_the_parameters() -> None:
    assert {row[0]: row[1] for row in table("name | default")} == {
        name: str(value) for name, value in Parameters().all().items()
    }
