"""The backtest in docs/reference/pipeline-jobs.md and docs/explanation/backtest.md matches the code."""

from pathlib import Path

from gf_i2p.pipeline.backtest.grid import MAX_SETS, USUAL
from gf_i2p.pipeline.backtest.measures import WEIGHTS
from gf_i2p.pipeline.backtest.offices import USABLE_MS
from gf_i2p.pipeline.backtest.recommendation import HELD_OUT, LEAST_DAYS, LEAST_GAIN, LEAST_HELD_OUT, LEAST_SECONDS
from gf_i2p.pipeline.backtest.replay_measures import BALANCE_MS, LONG_MS, SETTLE_MS, SILENT_MS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_has_the_numbers() -> None:
    jobs = (DOCS / "reference" / "pipeline-jobs.md").read_text(encoding="utf-8")
    section = jobs.split("## Backtest", 1)[1].split("\n## ", 1)[0]
    page = " ".join([*section.split(), *(DOCS / "explanation" / "backtest.md").read_text(encoding="utf-8").split()])
    for expected in (
        f"| `change` | {WEIGHTS.change:g} |",
        f"| `unneeded` | {WEIGHTS.unneeded:g} |",
        f"| `stale` | {WEIGHTS.stale:g} |",
        f"| `missing` | {WEIGHTS.missing:g} |",
        f"| `sets` | {WEIGHTS.sets:g} |",
        f"| `imbalance` | {WEIGHTS.imbalance:g} |",
        f"{USABLE_MS // 1000} s after its publication",
        f"the last {HELD_OUT:.0%}".replace("%", " %"),
        f"{LEAST_HELD_OUT} days at least",
        f"With less than {LEAST_DAYS} days",
        f"{LEAST_SECONDS:g} s of outage a day",
        f"for {LONG_MS // 1000} s without a silence of more than {SILENT_MS // 1000} s",
        f"in the first {SETTLE_MS // 1000} s",
        f"looks {BALANCE_MS // 1000} s apart",
        f"less than {LEAST_GAIN:.0%}".replace("%", " %"),
        f"At most {MAX_SETS - 1} sets",
        *(f"`{name}` " + ", ".join(map(str, values)) for name, values in USUAL.items()),
    ):
        assert expected in page, expected
