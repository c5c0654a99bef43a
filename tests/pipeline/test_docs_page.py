"""The backtest in docs/pipeline.md matches the code."""

from pathlib import Path

from gf_i2p.pipeline.backtest.grid import MAX_SETS, USUAL
from gf_i2p.pipeline.backtest.recommendation import LEAST_GAIN
from gf_i2p.pipeline.backtest.replay_measures import BALANCE_MS, LONG_MS, SETTLE_MS, SILENT_MS, WEIGHTS

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"


def test_the_page_has_the_numbers() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split("## Backtest", 1)[1].split("\n## ", 1)[0].split())
    for expected in (
        f"{WEIGHTS.change:g} a change, {WEIGHTS.unneeded:g} more an unneeded one",
        f"{WEIGHTS.vacant_minute:g} a minute without publisher",
        f"{WEIGHTS.stale_minute:g} a minute of one stale leaf",
        f"{WEIGHTS.set_change:g} a change of the set, and {WEIGHTS.imbalance:g} × `balance`",
        f"for {LONG_MS // 1000} s without a silence of more than {SILENT_MS // 1000} s",
        f"in the first {SETTLE_MS // 1000} s",
        f"looks {BALANCE_MS // 1000} s apart",
        f"less than {LEAST_GAIN:.0%}".replace("%", " %"),
        f"At most {MAX_SETS - 1} sets",
        *(f"`{name}` " + ", ".join(map(str, values)) for name, values in USUAL.items()),
    ):
        assert expected in page, expected
