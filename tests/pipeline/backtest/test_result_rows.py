"""The rows of the table in words: the command's text, and the fragment with the recommended parameters."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.pipeline.backtest import show
from gf_i2p.farm.parameters import Parameters
from gf_i2p.pipeline.backtest.gain import Gain
from gf_i2p.pipeline.backtest.job import BacktestFigures
from gf_i2p.pipeline.backtest.measures import Counts
from gf_i2p.pipeline.backtest.parameters_file import fragment, read_parameters
from gf_i2p.pipeline.backtest.result_rows import BacktestRow, compared, recommended_command, recommended_values
from gf_i2p.pipeline.days import DAY_MS
from gf_i2p.pipeline.errors import UsageError

FIGURES = BacktestFigures(farms=3, sets=2, entries=8640, decisions=70, inexact=0, seconds=2.0)


def result(parameters: dict[str, Any], farm: str = "farm", **changes: Any) -> BacktestRow:
    counts = Counts(farm_ms=20 * DAY_MS, outage_ms=600_000, changes=10, stale_ms=changes.pop("stale_ms", 600_000))
    row = BacktestRow(farm, parameters, Parameters().all() | parameters, True, 8640, counts, counts.cost())
    return replace(row, **changes)


def farm_rows(name: str = "farm", **parameters: Any) -> list[BacktestRow]:
    live = result({}, name, advice="leafDownMs=1000 saves much.")
    return [live, result(parameters, name, stale_ms=60_000, recommended=True, gain=Gain(0.3, 0.1, 0.4, 7.0))]


def test_only_what_changes_is_to_be_set() -> None:
    rows = farm_rows(leafDownMs=1000, margin=50)
    assert recommended_values(rows) == {"leafDownMs": 1000}, "the margin is that already"
    assert recommended_command(rows) == "gf-i2p farm set DIR leafDownMs=1000"
    shown = {name: (old, new) for name, old, new in compared(*rows)}
    assert shown["s of stale leaves"] == (600, 60)


@pytest.mark.parametrize("name", ['a\n[farm.parameters]\nmargin = "1', "del\x7f", "\U0001f9c4\u2028é\x00"])
def test_a_fragment_is_toml_whatever_the_farm_is_called(name: str) -> None:
    rows = farm_rows(name, leafDownMs=1000, tree="tree")
    rows[0] = replace(rows[0], exact=False)
    text = fragment(rows)
    assert tomllib.loads(text) == {"farm": {"cluster": name, "parameters": {"leafDownMs": 1000, "tree": "tree"}}}
    assert "# until now 0" in text
    assert "has gaps" in text
    assert "# leafDownMs=1000 saves much." in text
    assert recommended_command(rows) in text


def test_a_fragment_without_a_recommendation_has_only_the_reason() -> None:
    text = fragment([result({}, advice="Nothing is recommended: it is too calm."), result({"margin": 7})])
    assert tomllib.loads(text) == {}
    assert "it is too calm" in text


def test_a_fragment_is_for_its_own_farm(tmp_path: Path) -> None:
    file = tmp_path / "recommended.toml"
    file.write_text(fragment(farm_rows("web", leafDownMs=1000)))
    assert read_parameters(file, "web") == {"leafDownMs": 1000}
    with pytest.raises(UsageError, match="is for the farm 'web', and not for 'wub'"):
        read_parameters(file, "wub")
    file.write_text("[farm.parameters]\nleafDownMs = 1000\n")  # by hand: the fragment is for any farm
    assert read_parameters(file, "wub") == {"leafDownMs": 1000}


def test_a_table_shows_each_farm_and_what_is_recommended() -> None:
    text = show(FIGURES, [farm_rows(leafDownMs=1000)])
    assert "Farm farm: 8,640 entries, 20.0 days" in text
    assert "30.0% (10.0% to 40.0%)" in text
    assert "Recommended (*): leafDownMs=1000 saves much." in text
    assert "gf-i2p farm set DIR leafDownMs=1000" in text
    assert text.index("* leafDownMs=1000") < text.index("  live")
    assert "and 2 more farms" in text
    assert "8,640 entries x sets a second" in text
    assert "gf-i2p farm set" not in show(FIGURES, [farm_rows()[:1]])
    assert "\x1b" not in show(FIGURES, [farm_rows("\x1b[2J")])
