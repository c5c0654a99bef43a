"""A report in the form of a lake of three weeks, made by hand: for tests of the page."""

from base64 import b64encode
from typing import Any, Final

from gf_i2p.pipeline.backtest.gain import Gain
from gf_i2p.pipeline.backtest.measures import Counts
from gf_i2p.pipeline.backtest.result_rows import BacktestRow
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.health.episodes import Episode
from gf_i2p.pipeline.report.report_data import (
    FarmReport,
    Period,
    Report,
    TableSize,
    Turn,
    Turns,
)

BEGAN_MS: Final = 1_782_864_000_000
"""2026-07-01, a Wednesday."""
PERIOD: Final = Period(BEGAN_MS, BEGAN_MS + 21 * DAY_MS)
HOSTILE: Final = "</title><script>alert(1)</script>\"' onload=x \u202e\x1b[2J&amp;"


def hash_of(number: int) -> str:
    return b64encode(bytes([number]) * 32, b"-~").decode()


def cell(**figures: Any) -> dict[str, Any]:
    usual = {
        "hours": 6, "watched_ms": 6 * HOUR_MS, "availability": 1.0, "records": 720, "flaps": 0, "gap": 0,
        "lag_ms": 20.0, "skew_ms": 10.0, "tunnels": 900.0, "in_bytes_s": 5e5, "out_bytes_s": 5e5, "known_peers": 3e3,
        "load": 0.4, "connections": 12.0,
    }  # fmt: skip
    return usual | figures


def episode(measure: str, begin: float, end: float, value: float, usual: float, **fields: Any) -> Episode:
    """Make an episode of server 2, from the hour `begin` to the hour `end` of the period."""
    begin_ms, end_ms = (BEGAN_MS + int(hours * HOUR_MS) for hours in (begin, end))
    all_: dict[str, Any] = {
        "subject": "server", "server": 2, "destination": None, "servers": (2,), "measure": measure,
        "begin_ms": begin_ms, "end_ms": end_ms, "hours": int(end - begin), "worst_ms": begin_ms,
        "value": value, "usual": usual, "spread": 1.0, "score": 12.0, "text": f"{measure} was odd",
    }  # fmt: skip
    return Episode(**all_ | fields)


def trial(**fields: Any) -> BacktestRow:
    counts = Counts(
        farm_ms=1000, outage_ms=5_400_000, changes=41, unneeded=12, stale_ms=91_000, missing_ms=1_000,
        set_changes=1210, imbalance_ms=410.0,
    )  # fmt: skip
    usual: dict[str, Any] = {
        "farm": "web", "parameters": {"margin": 150}, "in_force": {"freshMs": 105_000, "margin": 50}, "exact": True,
        "entries": 4_411, "counts": counts, "cost": 4000.0, "gain": Gain(0.39, 0.31, 0.44, 99.0),
    }  # fmt: skip
    return BacktestRow(**usual | fields)


def farm(name: str = "web", **fields: Any) -> FarmReport:
    """Make a farm with everything, and without trouble of the last days."""
    stretches = range(PERIOD.stretches)
    servers = {id_: {at: cell() for at in stretches} for id_ in (1, 2, 2**31)}
    leaves = {hash_of(each): {at: cell(server=each) for at in stretches} for each in (1, 2)}
    turns = [Turn(BEGAN_MS, 1), Turn(BEGAN_MS + DAY_MS, None), Turn(BEGAN_MS + DAY_MS + HOUR_MS, 2)]
    live = trial(parameters={}, gain=None, advice="Nothing is recommended: 2 days are too few.")
    made: dict[str, Any] = {
        "led": Turns([Turn(BEGAN_MS, 1)], 0), "published": Turns(turns, 2), "servers": servers, "servers_total": 3,
        "costs": {hash_: [16] * 20 + [None] * 4 + [32] * (PERIOD.stretches - 24) for hash_ in leaves},
        "leaves": leaves, "leaves_total": 5, "episodes": [episode("lag_ms", 5, 9, 900, 20)], "episodes_total": 1,
        "trials": [live, trial()], "trials_total": 9,
    }  # fmt: skip
    return FarmReport(name, 4_411, PERIOD, **made | fields)


def report(*farms: FarmReport) -> Report:
    """Make a report: by default of a farm with everything, and of a farm with the entries only."""
    bare = FarmReport("archive", 90_211, Period(BEGAN_MS, BEGAN_MS + 30 * HOUR_MS), led=Turns([Turn(BEGAN_MS, 1)], 0))
    nearest, farthest = (f"{rank << 240:064x}" for rank in (1, 2))
    closest = {
        "hash": hash_of(1), "name": "master of web", "day": "2026-07-20", "floodfill": hash_of(9), "nearest": nearest,
        "farthest": farthest, "floodfills": 2,
    }  # fmt: skip
    return Report(
        made_ms=PERIOD.until_ms,
        farms=farms or [farm(), bare],
        farms_total=5,
        entries_total=4_000_000,
        closest=[closest],
        reasons=[{"what": "line", "reason": "it is no line of a history", "pieces": 310, "length": 20_000}],
        sizes=[TableSize("entries", True, 7, 300_000), TableSize("routers", False)],
        hashes_total=3,
        quarantined=4500,
        strange_clocks=12,
    )
