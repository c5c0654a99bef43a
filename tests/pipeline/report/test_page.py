"""The page: what it loads and runs (nothing), hostile texts, what is left out, what is missing, its size."""

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import altair as alt
import pytest
from markupsafe import escape

from gf_i2p.netdb.encoding import from_base64, to_b32_address
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.lake.paths import TABLES
from gf_i2p.pipeline.report import charts, formats
from gf_i2p.pipeline.report.charts import Mark
from gf_i2p.pipeline.report.formats import MAX_TEXT, clean
from gf_i2p.pipeline.report.page import FarmView, page
from gf_i2p.pipeline.report.report_data import Report, TableSize
from tests.pipeline.report.report_data import HOSTILE, PERIOD, cell, episode, farm, hash_of, report, trial

HOLLOW = {"meta", "br"}
STYLE = (Path(charts.__file__).parent / "templates/style.css").read_text("utf-8")


class Reader(HTMLParser):
    """Reads a page: its tags with attributes, and its texts. Every tag must be closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in HOLLOW:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)


def hostile() -> Report:
    """Put hostile text into every text of the data."""
    odd = episode("load", 3, 9, 0.9, 0.1, subject="leaf", destination=HOSTILE, text=HOSTILE)
    leaves = {HOSTILE: {at: cell(server=1) for at in range(PERIOD.stretches)}}
    live = trial(advice=HOSTILE, parameters={})
    web = farm(
        HOSTILE,
        episodes=[odd, replace(odd, measure=HOSTILE)],
        leaves=leaves,
        costs={HOSTILE: [1] * PERIOD.stretches},
        trials=[live, trial(parameters={HOSTILE: HOSTILE}, recommended=True)],
    )
    return replace(
        report(web),
        closest=[
            dict.fromkeys(("hash", "name", "day", "floodfill"), HOSTILE)
            | {"nearest": "0" * 64, "farthest": "f" * 64, "floodfills": 8}
        ],
        reasons=[{"what": HOSTILE, "reason": HOSTILE, "pieces": 5, "length": 5}],
        sizes=[TableSize(HOSTILE, False)],
    )


@pytest.mark.parametrize("made", [report(), hostile()], ids=["honest", "hostile"])
def test_it_loads_and_runs_nothing(made: Report) -> None:
    read = Reader(text := page(made))
    assert {tag for tag, _ in read.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "form", "base"})
    for tag, attributes in read.tags:
        assert not [name for name in attributes if name.startswith("on") or name in {"src", "style", "xlink:href"}], tag
        assert (attributes.get("href", "#") or "").startswith("#")
    assert "url(" not in text
    assert "@import" not in STYLE
    [policy] = [meta["content"] for meta in read.named("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert b64encode(sha256(STYLE.encode()).digest()).decode() in policy, "the only style is the one that is allowed"
    assert text.count("<style>") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"] for attributes in read.named("a")} <= {f"#{id_}" for id_ in ids}


def test_what_is_hostile_is_shown_as_it_is() -> None:
    read = Reader(page(hostile()))
    shown = clean(HOSTILE)
    assert "<script>alert(1)</script>" in shown
    assert sum(shown in text for text in read.texts) > 10


def test_a_chart_cannot_be_broken_by_a_name() -> None:
    """Names in charts are the beginnings of addresses; even a name that is none stays text."""
    name = '"><script>alert(1)</script> &amp;'
    drawn = charts.lanes([Mark(PERIOD.since_ms, PERIOD.until_ms, "bad", name)], [name], PERIOD)
    read = Reader(drawn)
    assert {tag for tag, _ in read.tags} <= {"svg", "g", "path", "line", "text"}
    assert any("<script>" in text for text in read.texts)


@pytest.mark.parametrize("days", [0.01, 1, 21, 365, 3000])
def test_a_chart_of_any_length_is_small_and_has_a_mark_for_each_incident(days: float) -> None:
    period = replace(PERIOD, until_ms=PERIOD.since_ms + int(days * DAY_MS))
    marks = [Mark(period.since_ms + at * HOUR_MS, period.since_ms + (at + 1) * HOUR_MS, "bad") for at in range(900)]
    values: list[float | None] = [None if at % 9 == 5 else at**2 / 7 for at in range(period.stretches)]
    drawn = charts.lines({0: values, 1: values}, marks[::30], period)
    assert len(drawn) < 7_000
    assert 'fill="var(--bad)"' in drawn
    assert 'stroke="var(--line-1)"' in drawn
    assert "NaN" not in drawn


def test_altair_finds_no_mistake_in_the_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Altair's check is left out of production, because it takes ten times as long as the rest."""
    plain = alt.LayerChart.to_dict
    checked = []

    def to_dict(chart: alt.LayerChart, **options: object) -> object:
        checked.append(chart)
        return plain(chart, validate=True)

    monkeypatch.setattr(alt.LayerChart, "to_dict", to_dict)
    charts.lines({0: [1.0, None]}, [Mark(PERIOD.since_ms, PERIOD.until_ms, "bad")], PERIOD)
    charts.lanes([Mark(PERIOD.since_ms, PERIOD.until_ms, "bad", "1")], ["1"], PERIOD)
    assert len(checked) == 2


def test_the_worst_farm_comes_first() -> None:
    odd = episode("skew_ms", 21 * 24 - 40, 21 * 24, 50_000, 0)
    text = page(report(farm("calm"), farm("poor", episodes=[odd])))
    assert text.index('<a href="#farm-0">poor</a>') < text.index('<a href="#farm-1">calm</a>')
    assert "The clock of server 2 has been 50 s ahead since Monday 2026-07-20 08:00.</strong>" in text
    assert "Likely cause: time synchronisation." in text
    assert "calm</a>: nothing needs attention." in text


def test_leaves_have_their_addresses() -> None:
    text = page(report())
    full = to_b32_address(from_base64(hash_of(1), 32))
    assert f'<summary title="{full}">{full[:8]}….b32.i2p</summary>{full}</details>' in text
    assert hash_of(1) not in text


def test_every_chart_is_there_for_readers_without_sight() -> None:
    read = Reader(page(report()))
    labels = [each.get("aria-label") or "" for each in read.named("div") if each.get("role") == "img"]
    assert len(labels) == len(list(read.named("svg"))) == 15
    for name in ("Job lag", "Clock", "Participating tunnels", "Inbound", "Outbound", "Known peers", "Records", "Cost"):
        assert any(label.startswith(name) for label in labels), name
    tables, regions = list(read.named("table")), [each for each in read.named("div") if each.get("class") == "wide"]
    assert len(tables) == len(regions), "each table scrolls by itself on a narrow screen"
    assert all(each.get("tabindex") == "0" and each.get("aria-label") for each in regions)


def test_a_table_that_is_missing_says_which_job_makes_it() -> None:
    full = report()
    text = page(replace(full, farms=full.farms[1:], closest=None, reasons=None))
    for name in ("server_hours", "destination_hours", "anomalies", "decisions", "backtest", "closest", "quarantine"):
        assert re.search(f"The table {name} .* yet: <code>gf-i2p pipeline {TABLES[name]}</code>", text), name
    assert "nobody has looked for trouble yet" in text
    text = page(replace(full, sizes=[TableSize(name, False) for name in TABLES]))
    for name in TABLES:
        assert f"not there: gf-i2p pipeline {TABLES[name]} makes it" in text


def test_what_is_left_out_is_said() -> None:
    text = page(report())
    for remark in (
        "3 more farms are not shown: see --farm.",
        "Not counted: 12 entries with a time of before 2020",
        "3 more leaves with fewer records",
        "7 more sets cost more",
        "2 more hashes: not shown",
        "4,500 pieces in all",
    ):
        assert remark in text, remark


def test_an_empty_lake_is_a_page_too() -> None:
    Reader(page(replace(report(), farms=[], farms_total=0, entries_total=0, closest=None, reasons=[])))


def test_a_lake_without_farms_says_so() -> None:
    assert "There are no farms in this lake yet." in page(replace(report(), farms=[]))


def test_the_advice_of_the_backtest_is_shown_whole_and_escaped() -> None:
    advice = "No set is <better>. " + "The gain of a set on the last days is too small to tell. " * 9
    text = page(report(farm(trials=[trial(parameters={}, advice=advice)])))
    assert str(escape(advice)) in text


def test_the_same_report_gives_the_same_page() -> None:
    assert page(report()) == page(report())


def test_texts_are_cut() -> None:
    assert len(clean("x" * 10_000)) == MAX_TEXT
    assert clean("x" * MAX_TEXT) == "x" * MAX_TEXT


def test_only_what_differs_is_shown() -> None:
    live = trial(parameters={}, in_force={"a": 1, "b": 2})
    view = FarmView(farm(trials=[live]))
    assert view.shown(trial(parameters={"a": 1, "b": 3, "c": 4})) == "b = 3, c = 4"
    assert view.shown(live) == "as in the log"
    assert view.shown(trial(parameters={"a": 1})) == "as in the log"


@pytest.mark.parametrize(("distance", "bits"), [("0" * 64, 256), (f"{1:064x}", 255), ("f" * 64, 0)])
def test_equal_bits(distance: str, bits: int) -> None:
    assert formats.equal_bits(distance) == bits


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (formats.percent(0.99999), ">99.9 %"),
        (formats.percent(1.0), "100 %"),
        (formats.percent(None), "–"),
        (formats.lasting(90_000), "1 min 30 s"),
        (formats.lasting(1001 * DAY_MS), "1,001 d"),
        (formats.lasting(5), "5 ms"),
        (formats.lasting(-90_000), "-1 min 30 s"),
        (formats.size(1536), "1.5 KiB"),
        (formats.size(5 << 40), "5.0 TiB"),
        (formats.moment(10**18), f"{10**18} ms"),
        (formats.server(2**31 + 7), "member 2147483655"),
        (formats.figure(0.12345), "0.123"),
        (formats.address("no hash"), "no hash"),
        (formats.short("no hash at all"), "no hash …"),
    ],
)
def test_figures(shown: str, expected: str) -> None:
    assert shown == expected
