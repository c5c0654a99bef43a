"""A report in the form of a lake of three weeks, made by hand: for tests of the page, and to look at."""

import math
import random
from base64 import b64encode
from typing import Final

from gf_i2p.pipeline.report.chart_data import (
    Anomalies,
    AnomalyRow,
    Backtest,
    Cell,
    Closest,
    FarmReport,
    Floodfills,
    Heat,
    HeatRow,
    Line,
    Near,
    Period,
    Quarantine,
    Reason,
    Report,
    SmallLines,
    TableSize,
    Timeline,
    TrialRow,
    Turn,
)
from gf_i2p.pipeline.report.formats import DAY_MS, HOUR_MS

BEGAN_MS: Final = 1_782_864_000_000
"""2026-07-01."""
PERIOD: Final = Period(BEGAN_MS, BEGAN_MS + 21 * DAY_MS)
HOSTILE: Final = "</title><script>alert(1)</script>\"' onload=x \u202e\x1b[2J&amp;"


def hash_of(number: int) -> str:
    return b64encode(random.Random(number).randbytes(32), b"-~").decode()


def _turns(chance: random.Random, often_ms: int, *, nobody: float) -> list[Turn]:
    turns, at = [], PERIOD.since_ms
    while at < PERIOD.until_ms:
        turns.append(Turn(at, None if chance.random() < nobody else chance.choice([1, 2, 3, 3])))
        at += int(chance.expovariate(1 / often_ms)) + HOUR_MS
        if turns[-1].who is None:
            at = turns[-1].at_ms + HOUR_MS
    return turns


def _heat(chance: random.Random) -> Heat:
    rows = []
    stretch = PERIOD.stretch_ms(120)
    for server in (1, 2, 3, 4, 5, (1 << 31) + 7):
        cells = {}
        for at in range(PERIOD.length_ms // stretch):
            if server == 5 and at < 40:
                continue
            bad = chance.random() < (0.25 if server == 4 else 0.04)
            cells[at] = Cell(
                chance.random() if bad else 1 - chance.random() * 0.002, 2 * 120, chance.randrange(4) if bad else 0
            )
        mean = sum(cell.availability for cell in cells.values()) / len(cells)
        rows.append(
            HeatRow(server, mean, 240 * len(cells), sum(each.flaps for each in cells.values()), 9_000_000, cells)
        )
    return Heat(stretch, rows, 3, 0.4, 6, 0.75)


def _lines(chance: random.Random, highest: float, *, gaps: bool) -> SmallLines:
    stretch = PERIOD.stretch_ms(240)
    steps = PERIOD.length_ms // stretch
    lines = []
    for number in range(7):
        phase, level = chance.random() * 6, chance.uniform(0.2, 0.6)
        values: list[float | None] = [
            highest
            * min(max(level + 0.25 * math.sin(phase + at * stretch * 6.28 / DAY_MS) + chance.gauss(0, 0.03), 0), 1)
            for at in range(steps)
        ]
        if gaps and number % 3 == 1:
            values[60:90] = [None] * 30
        lines.append(Line(hash_of(number), [None if each is None else round(each, 2) for each in values]))
    return SmallLines(stretch, lines, 2)


def _anomalies(chance: random.Random) -> Anomalies:
    rows = []
    for measure in ["lag_ms", "tunnels", "availability", "skew_ms"] * 6:
        subject, servers = chance.choice([("server", (1,)), ("leaf", (2,)), ("pair", (1, 2)), ("farm", (1, 2, 4))])
        begin_ms = PERIOD.since_ms + chance.randrange(24 * 21) * HOUR_MS
        text = f"{measure} was 1,200 in the worst hour, and is 80 usually"
        hours = chance.randrange(1, 30)
        end_ms = begin_ms + hours * HOUR_MS
        rows.append(AnomalyRow(subject, servers, measure, begin_ms, end_ms, hours, chance.uniform(2, 30), text))
    return Anomalies(rows, 31)


def _backtest() -> Backtest:
    live = TrialRow(
        "{}",
        live=True,
        outage_ms=5_400_000,
        changes=41,
        unneeded=12,
        stale_ms=91_000_000,
        missing_ms=1_000_000,
        set_changes=1210,
        imbalance=0.41,
        cost=4000.0,
        advice="freshMs=60000 saves 39.0% (31.0% to 44.0%) of the cost on the last 9 days.",
        in_force='{"freshMs":105000,"margin":50}',
    )
    others = [
        TrialRow(f'{{"freshMs":{60000 + 15000 * at},"margin":{20 * at},"holdMs":1200000}}', live=False,
              outage_ms=4_000_000 + 500_000 * at, changes=18 + at, unneeded=2 + at,
              stale_ms=60_000_000 + 9_000_000 * at, missing_ms=1_000_000 * at,
              set_changes=800 + 90 * at, imbalance=0.3 + 0.02 * at, cost=2440.0 + 240 * at,
              gain=f"{39 - 6 * at}.0% (31.0% to 44.0%)", recommended=not at)
        for at in range(6)
    ]  # fmt: skip
    return Backtest([live, *others], 64)


def _floodfills(chance: random.Random) -> Floodfills:
    hashes = []
    for number in range(4):
        days = {}
        for day in ("2026-07-20", "2026-07-21", "2026-07-22"):
            distances = sorted(chance.getrandbits(256) >> chance.randrange(8, 13) for _ in range(8))
            days[day] = [
                Near(
                    rank,
                    hash_of(100 + number * 8 + rank),
                    f"{distance:064x}",
                    {"lookups": "12", "answered": "11"} if rank < 3 else {},
                )
                for rank, distance in enumerate(distances, 1)
            ]
        hashes.append(Closest(hash_of(number), "master of web" if number == 0 else f"leaf {number} of web", days))
    return Floodfills(hashes, 3)


def report(seed: int = 1) -> Report:
    """Make a report: a farm with everything, and a farm with the entries only."""
    chance = random.Random(seed)
    led, published = _turns(chance, 4 * DAY_MS, nobody=0.0), _turns(chance, 20 * HOUR_MS, nobody=0.15)
    full = FarmReport(
        "web",
        3_104_411,
        PERIOD,
        Timeline(led, published, len(led) - 1, len(published) - 1),
        _heat(chance),
        _lines(chance, 255, gaps=True),
        _lines(chance, 0.8, gaps=False),
        _anomalies(chance),
        _backtest(),
    )
    bare = FarmReport("archive", 90_211, Period(BEGAN_MS, BEGAN_MS + 30 * HOUR_MS), Timeline(led[:1], None))
    reasons = [
        Reason("record", "date is a whole number from 0 to 9007199254740991", 4100, 900_000),
        Reason("line", "it is no line of a history", 310, 20_000),
        Reason("file", "its gzip ends in the middle: the node has stopped while it packed", 2, 8192),
    ]
    sizes = [
        TableSize(name, 1000 * at, 7, 300_000 * at) for at, name in enumerate(["entries", "quarantine", "closest"], 1)
    ]
    return Report(
        made_ms=PERIOD.until_ms,
        lake="lake",
        farms=[full, bare],
        farms_total=5,
        entries_total=4_000_000,
        floodfills=_floodfills(chance),
        quarantine=Quarantine(reasons, 4500, 31),
        sizes=[*sizes, TableSize("routers", None)],
        strange_clocks=12,
    )
