"""The recommendation: the cheapest of the unbeaten sets, if the set is worth a change; and the written form."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.pipeline.backtest import show
from gf_i2p.farm.parameters import Parameters
from gf_i2p.pipeline.backtest.job import BacktestFigures
from gf_i2p.pipeline.backtest.parameters_file import read_parameters
from gf_i2p.pipeline.backtest.recommendation import BacktestRow, advise, compared, fragment, recommended_command
from gf_i2p.pipeline.backtest.replay_measures import DAY_MS, Measures
from gf_i2p.pipeline.errors import UsageError


def result(parameters: dict[str, Any], farm: str = "farm", **changes: Any) -> BacktestRow:
    calm = Measures(
        parameters=parameters,
        in_force=Parameters().all() | parameters,
        entries=8640,
        exact=True,
        farm_ms=2 * DAY_MS,
        changes=10,
        unneeded=2,
        without_publisher_ms=0,
        stale_ms=600_000,
        set_changes=50,
        balance=0.01,
    )
    return BacktestRow(farm, dataclasses.replace(calm, **changes))


def test_the_cheapest_is_recommended_and_the_front_has_those_that_none_beats() -> None:
    live = result({})
    better = result({"leafDownMs": 1000, "margin": 50}, stale_ms=60_000, set_changes=60)
    worse = result({"leafDownMs": 600_000}, stale_ms=6_000_000)
    calm = result({"margin": 1000}, changes=9, stale_ms=900_000)
    advice = advise([worse, calm, better, live])
    assert advice.best is better
    assert set(map(id, advice.front)) == {id(live), id(better), id(calm)}
    assert advice.changes == {"leafDownMs": 1000}, "the margin is that already"
    assert advice.gain == pytest.approx(1 - better.cost / live.cost)
    assert recommended_command(advice) == "gf-i2p farm set DIR leafDownMs=1000"
    shown = {name: (old, new) for name, old, new in compared(live.measures, better.measures)}
    assert shown["s of stale leaves"] == (600, 60)


@pytest.mark.parametrize(
    ("changes", "live_changes", "why"),
    [
        ({"stale_ms": 560_000}, {}, "is the least"),
        ({"stale_ms": 700_000}, {}, "costs less"),
        ({"stale_ms": 0}, {"farm_ms": DAY_MS - 1}, "too few"),
    ],
)
def test_nothing_is_recommended_for_little_or_on_little(
    changes: dict[str, Any], live_changes: dict[str, Any], why: str
) -> None:
    advice = advise([result({}, **live_changes), result({"margin": 7}, **(live_changes | changes))])
    assert advice.best is None
    assert why in advice.why_not
    assert (advice.changes, advice.gain) == ({}, 0)
    assert tomllib.loads(fragment(advice)) == {}
    assert why in fragment(advice)


def test_no_set_is_recommended_that_the_farm_would_refuse() -> None:
    live = result({}, in_force=Parameters().all() | {"republishMaxMs": 100_000})
    cheap = result({"republishMinMs": 200_000}, stale_ms=0)
    advice = advise([live, cheap])
    assert advice.best is None
    assert advice.front == (live,)


def test_what_the_farm_has_by_now_is_not_recommended() -> None:
    """An administrator has changed the margin within the log: the live set is worse, and nothing is left to set."""
    live = result({}, in_force=Parameters().all() | {"margin": 150})
    advice = advise([live, result({"margin": 150}, changes=2)])
    assert (advice.best, advice.changes) == (None, {})
    assert "has had the best set since" in fragment(advice)
    assert tomllib.loads(fragment(advice)) == {}
    figures = BacktestFigures(farms=1, sets=2, entries=8640, decisions=70, inexact=0, seconds=2.0)
    assert "gf-i2p farm set" not in show(figures, [(advice, [live])])


@pytest.mark.parametrize("name", ['a\n[farm.parameters]\nmargin = "1', "del\x7f", "\U0001f9c4\u2028é\x00"])
def test_a_fragment_is_toml_whatever_the_farm_is_called(name: str) -> None:
    live, best = result({}, name, exact=False), result({"leafDownMs": 1000, "tree": "tree"}, name, stale_ms=0)
    advice = advise([live, best])
    text = fragment(advice)
    assert tomllib.loads(text) == {"farm": {"cluster": name, "parameters": {"leafDownMs": 1000, "tree": "tree"}}}
    assert "# until now 0" in text
    assert "has gaps" in text
    assert recommended_command(advice) in text


def test_a_fragment_is_for_its_own_farm(tmp_path: Path) -> None:
    live, best = result({}, "web"), result({"leafDownMs": 1000}, "web", stale_ms=0)
    file = tmp_path / "recommended.toml"
    file.write_text(fragment(advise([live, best])))
    assert read_parameters(file, "web") == {"leafDownMs": 1000}
    with pytest.raises(UsageError, match="is for the farm 'web', and not for 'wub'"):
        read_parameters(file, "wub")
    file.write_text("[farm.parameters]\nleafDownMs = 1000\n")  # by hand: the fragment is for any farm
    assert read_parameters(file, "wub") == {"leafDownMs": 1000}


def test_a_table_shows_each_farm_and_what_is_recommended() -> None:
    live, best = result({}), result({"leafDownMs": 1000}, stale_ms=0)
    figures = BacktestFigures(farms=3, sets=2, entries=8640, decisions=70, inexact=0, seconds=2.0)
    text = show(figures, [(advise([live, best]), [live, best])])
    assert "Farm farm: 8,640 entries, 48.0 h" in text
    assert "gf-i2p farm set DIR leafDownMs=1000" in text
    assert text.index("* leafDownMs=1000") < text.index("  live")
    assert "and 2 more farms" in text
    assert "8,640 entries x sets a second" in text
    odd = dataclasses.replace(live, farm="\x1b[2J")
    assert "\x1b" not in show(figures, [(advise([odd]), [odd])])
