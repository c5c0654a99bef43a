"""A short day: the figures, and the faults that the day notices."""

import json

import pytest

from gf_i2p.farm.state import FarmState
from integration.runs import day
from integration.runs.day import Day


def passed(tree: str = "best", seed: int = 4) -> Day:
    made = Day(hours=1.5, leaves=60, servers=5, tree=tree, seed=seed)
    made.run(lambda _: None)
    return made


def test_a_short_day_is_as_it_should_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert day.main(["--hours", "1.5", "--leaves", "60", "--seed", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    assert found["entries"] > 1.5 * 120 * 60
    assert (found["largest_set"], found["listed_at_the_end"], found["restored_copies"]) == (16, 16, 1)
    assert found["left_out_at_the_end"] > 40


def test_a_tree_lists_more() -> None:
    found = passed("tree")
    assert not found.wrong
    assert found.branches > 1
    assert found.largest <= 16
    assert len(found.state.listing.listed) > 40


def test_the_same_seed_is_the_same_day() -> None:
    assert passed().state.encode() == passed().state.encode()


def test_leaves_that_nobody_tells_of_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FarmState, "_left_out", lambda _: {})
    assert "neither listed nor left out" in passed().wrong[0]


def test_a_state_that_does_not_come_back_whole_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = FarmState.decode

    def decode(cluster: str, data: bytes) -> FarmState:
        made = sound(cluster, data)
        made.clock.passed_ms += 30_000
        return made

    monkeypatch.setattr(FarmState, "decode", decode)
    assert any("restored" in wrong for wrong in passed().wrong)


def test_changes_without_need_are_too_many() -> None:
    made = passed()
    made.changes += [day.Change(60.0, 1, 2, "not needed: for a test", needed=False)] * 2
    options = type("Options", (), {"seed": 4, "hours": 1, "servers": 5, "leaves": 60, "tree": "best"})
    assert "2 changes of publisher were not needed" in day.figures_of(made, options, 1.0)["wrong"][0]  # type: ignore[arg-type]
