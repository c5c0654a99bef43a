"""The guard of the speed: what it compares, when it fails, and its texts."""

from pathlib import Path

import pytest

from integration.bench import costs as costs_module
from integration.bench import guard
from integration.bench.costs import Costs
from integration.bench.systems.system import BenchError
from integration.harness.checkouts import ROOT


def costs(leader: float, follower: float = 1.0) -> Costs:
    return {name: {"leader": leader, "follower": follower} for name in ("sequential", "concurrent", "bulk")}


def test_a_cost_fails_from_a_quarter_more_on() -> None:
    base = costs(4.0)
    assert guard.grown(costs(5.0), base) == []
    assert guard.grown(costs(5.01), base) == ["sequential", "concurrent", "bulk"]
    assert guard.grown(base | {"bulk": {"leader": 4.0, "follower": 1.26}}, base) == ["bulk"]
    history = {"bulk": {"history": 1.0}}
    assert guard.grown({"bulk": {"history": 2.0}}, history) == []
    assert guard.grown({"bulk": {"history": 2.1}}, history) == ["bulk"]


def test_of_several_rounds_the_least_of_each_cost_counts() -> None:
    assert guard.cheapest([costs(5.0, 1.0), costs(4.0, 2.0)]) == costs(4.0, 1.0)


@pytest.mark.parametrize(
    ("leaders", "rounds", "ratio"),
    [
        ([4.2], 1, 1.05),
        ([6.0, 4.4], 2, 1.1),  # the first round met a machine that did other work
        ([6.0, 6.0, 6.0, 4.4], 4, 1.1),
        ([6.0, 6.0, 6.0, 6.0], 4, 1.5),
    ],
)
def test_the_guard_measures_both_in_turn_until_no_cost_has_grown(
    leaders: list[float], rounds: int, ratio: float
) -> None:
    measured: list[str] = []
    found = iter(leaders)

    def measure(place: Path) -> Costs:
        measured.append("now" if place == ROOT else "base")
        return costs(next(found) if place == ROOT else 4.0)

    now, base = guard.compared(measure, Path("base"))
    assert measured == (["base", "now", "now", "base"] * 2)[: 2 * rounds]
    assert now["bulk"]["leader"] / base["bulk"]["leader"] == pytest.approx(ratio)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A checkout whose code prints costs of its own."""
    bench = tmp_path / "integration" / "bench"
    bench.mkdir(parents=True)
    (tmp_path / "integration" / "__init__.py").touch()
    (bench / "__init__.py").touch()
    return bench / "costs.py"


def test_the_costs_of_a_checkout_come_from_its_own_code(other: Path, tmp_path: Path) -> None:
    other.write_text('print(\'{"bulk": {"leader": 4.0}}\')')
    assert guard.costs_in(tmp_path) == {"bulk": {"leader": 4.0}}
    other.write_text('import sys; sys.exit("The leader changed.")')
    with pytest.raises(BenchError, match=r"Nothing was measured in .*:\nThe leader changed\."):
        guard.costs_in(tmp_path)


def test_a_commit_that_the_clone_lacks_fails_and_a_shallow_clone_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(guard, "BUILD", tmp_path)
    monkeypatch.setattr(guard, "shallow", lambda: False)
    assert guard.main(["--base", "nowhere"]) == 1
    assert "git fetch --unshallow" in capsys.readouterr().err
    monkeypatch.setattr(guard, "shallow", lambda: True)
    assert guard.main(["--base", "nowhere"]) == 0
    assert "nothing was measured" in capsys.readouterr().err


def test_the_table_shows_each_ratio() -> None:
    found = {name: {"leader": 5.0} for name in ("sequential", "concurrent", "bulk")}
    base = {name: {"leader": 4.0} for name in found}
    text = guard.table(found, base)
    assert ["1", "sequential", "writer", "leader", "5.000", "4.000", "1.25"] in [
        line.split() for line in text.splitlines()
    ]


def test_a_record_has_a_bound_a_profile_and_a_title(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs_module, "_RECORDS", 30)
    assert "gf_i2p/farm/" in guard._profiled_records()
    base = {"records": {"node": 1.0}}
    assert guard.grown({"records": {"node": 1.6}}, base) == ["records"]
    assert "a server's record" in guard.table({"records": {"node": 1.1}}, base)
