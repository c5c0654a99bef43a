"""Grids: all combinations after the live set, files, and values that no farm can have."""

from pathlib import Path

import pytest

from gf_i2p.pipeline.backtest.grid import MAX_SETS, USUAL, combined, differences, read_grid, shown
from gf_i2p.pipeline.errors import PipelineError


def test_the_live_set_comes_first_and_each_set_once() -> None:
    sets = combined({"margin": [0, 50, 0], "freshMs": [60_000]})
    fresh = {"freshMs": 60_000}
    assert sets == [{}, fresh, {"margin": 0}, fresh | {"margin": 0}, {"margin": 50}, fresh | {"margin": 50}]
    assert combined({}) == [{}]
    assert [shown(each) for each in (sets[0], sets[3])] == ["live", "freshMs=60000, margin=0"]
    assert len(combined(USUAL)) == 24
    assert differences({"margin": 50, "freshMs": 7}, {"margin": 50, "freshMs": 8}) == {"freshMs": 7}


def test_a_file_has_values_and_sets(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text('[values]\nmargin = [0, 1]\n[[set]]\ntree = "tree"\nmaxEntries = 8\n')
    parts = [{"maxEntries": 8}, {"tree": "tree"}, {"tree": "tree", "maxEntries": 8}]
    assert read_grid(path) == [{}, {"margin": 0}, {"margin": 1}, *parts]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[values]\nmargin = 3", "a list for each"),
        ("[values]\nmargin = []", "a list for each"),
        ("[value]\nmargin = [3]", "a list for each"),
        ("[[set]]\nmargins = 3", "no parameter"),
        ("[[set]]\nmargin = 3000", "0 to 1000"),
        ("[[set]]\nmargin = true", "0 to 1000"),
        ("[[set]]\nrepublishMaxMs = 100000", "No decision depends"),
        ("margin", "not TOML"),
        pytest.param("[values]\nmargin = " + "[" * 50_000, "not TOML", id="deep"),
        ("\xff", "not TOML"),
        ("[values]\nmargin = [" + ",".join(map(str, range(400))) + "]", "too many"),
        ("[[set]]\nmargin = 0\n" + "\n".join(f"[[set]]\nmargin = {n}" for n in range(1, MAX_SETS + 1)), "leave some"),
    ],
)
def test_what_makes_no_sense_is_said(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "grid.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(PipelineError, match=why):
        read_grid(path)
