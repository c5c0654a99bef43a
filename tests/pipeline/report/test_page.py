"""The page has every part, loads nothing from outside, escapes all texts, and formats figures for people."""

import itertools
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.pipeline.lake.paths import TABLES
from gf_i2p.pipeline.report import formats
from gf_i2p.pipeline.report.chart_data import (
    MADE_BY,
    Anomalies,
    AnomalyRow,
    Cell,
    Heat,
    HeatRow,
    Near,
    Period,
    Quarantine,
    Reason,
    Report,
    TableSize,
    Timeline,
    TrialRow,
    Turn,
)
from gf_i2p.pipeline.report.farm_charts import heat, level, spans, timeline
from gf_i2p.pipeline.report.formats import DAY_MS, HOUR_MS
from gf_i2p.pipeline.report.layout import WIDTH, across, steps, ticks
from gf_i2p.pipeline.report.markup import MAX_TEXT, clean, element, joined
from gf_i2p.pipeline.report.page import page
from gf_i2p.pipeline.report.style import STYLE
from gf_i2p.pipeline.report.timeless_charts import differences
from tests.pipeline.report.report_data import HOSTILE, PERIOD, report

HOLLOW = {"meta", "br"}


class Reader(HTMLParser):
    """Reads a page, and checks that every opened element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in HOLLOW:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)


def hostile() -> Report:
    """Put hostile text into every text of the data."""
    made = report()
    web = made.farms[0]
    assert web.heat is not None
    assert web.weights is not None
    assert made.floodfills is not None
    found = Anomalies([AnomalyRow(HOSTILE, (1,), HOSTILE, PERIOD.since_ms, PERIOD.until_ms, 9, 9.0, HOSTILE)], 1)
    assert web.backtest is not None
    trials = [
        replace(each, parameters=f'{{"{HOSTILE[:8]}": 1}}' if at else HOSTILE)
        for at, each in enumerate(web.backtest.trials)
    ]
    lines = replace(web.weights, lines=[replace(each, name=HOSTILE) for each in web.weights.lines])
    near = [
        replace(
            each,
            hash=HOSTILE,
            name=HOSTILE,
            days={
                HOSTILE: [replace(one, floodfill=HOSTILE, distance=HOSTILE, profile={HOSTILE: HOSTILE}) for one in day]
            },
        )
        for each in made.floodfills.hashes
        for day in each.days.values()
    ]
    farm = replace(
        web, name=HOSTILE, weights=lines, loads=lines, anomalies=found, backtest=replace(web.backtest, trials=trials)
    )
    return replace(
        made,
        farms=[farm],
        floodfills=replace(made.floodfills, hashes=near),
        quarantine=Quarantine([Reason(HOSTILE, HOSTILE, 5, 5)], 5, 1),
        sizes=[replace(each, name=HOSTILE) for each in made.sizes],
    )


@pytest.mark.parametrize("made", [report(), hostile()], ids=["honest", "hostile"])
def test_it_loads_and_runs_nothing(made: Report) -> None:
    read = Reader(text := page(made))
    assert {tag for tag, _ in read.tags}.isdisjoint(
        {"script", "link", "img", "iframe", "object", "form", "base", "style2"}
    )
    for tag, attributes in read.tags:
        assert not [name for name in attributes if name.startswith("on") or name in {"src", "style", "xlink:href"}], tag
        assert (attributes.get("href", "#") or "").startswith("#")
    assert "url(" not in STYLE
    assert "@import" not in STYLE
    [policy] = [meta["content"] for meta in read.named("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert b64encode(sha256(STYLE.encode()).digest()).decode() in policy, "the only style is the one that is allowed"
    assert text.count("<style>") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_what_is_hostile_is_shown_as_it_is() -> None:
    read = Reader(page(hostile()))
    shown = clean(HOSTILE)
    assert "<script>alert(1)</script>" in shown
    assert sum(shown in text for text in read.texts) > 20


def test_every_chart_is_there_for_who_cannot_see_it() -> None:
    read = Reader(page(report()))
    plots = [attributes for attributes in read.named("svg") if attributes.get("class") == "plot"]
    assert len(plots) > 40
    assert all(plot.get("role") == "img" for plot in plots)
    text = page(report())
    assert len(re.findall(r"role=\"img\"><title>[^<]{10,}", text)) == len(plots), "each begins with what it shows"
    assert sum(each == "As a table" for each in read.texts) == 4 + 1 + 4 + 1
    for name in (
        "Leaders and publishers",
        "Availability",
        "Weights",
        "Load",
        "Anomalies",
        "Parameters",
        "Quarantine",
    ):
        assert name in read.texts
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"] for attributes in read.named("a")} <= {f"#{id_}" for id_ in ids}


def test_the_page_is_well_formed_and_the_same_again() -> None:
    text = page(report())
    assert text == page(report())
    ET.fromstring(re.sub(r"(<meta [^>]*)>", r"\1/>", text.removeprefix("<!DOCTYPE html>\n")))


def test_a_table_that_is_missing_says_which_job_makes_it() -> None:
    full = report()
    text = page(replace(full, farms=full.farms[1:], floodfills=None, quarantine=None))
    for name, job in MADE_BY.items():
        if name not in {"entries", "files", "routers", "alerts", "backtest_days"}:  # of these nothing is drawn
            assert f"The table {name} has nothing of this yet: <code>gf-i2p pipeline {job}</code>" in text
    assert "The publishers are not known" in text
    assert "The table entries has nothing of this yet" in page(
        replace(full, farms=[replace(full.farms[0], timeline=None)])
    )


def test_the_sizes_say_of_every_table_that_is_missing_which_job_makes_it() -> None:
    text = page(replace(report(), sizes=[TableSize(name, None) for name in TABLES]))
    assert MADE_BY.keys() == set(TABLES)
    for name in TABLES:
        assert f"not there: gf-i2p pipeline {MADE_BY[name]} makes it" in text


def test_what_is_left_out_is_said() -> None:
    text = page(report())
    for remark in (
        "3 more farms with 805,378 entries: see --farm.",
        "Not drawn: 12 entries with a time of before 2020",
        "3 more servers are not drawn; their mean is 40 %.",
        "2 more leaves are not drawn.",
        "The strongest 24 of 31.",
        "57 more sets cost more",
        "3 more hashes are not drawn.",
        "88 more for 28 other reasons.",
    ):
        assert remark in text, remark


def test_an_empty_lake_is_a_page_too() -> None:
    Reader(
        page(
            replace(
                report(), farms=[], farms_total=0, entries_total=0, floodfills=None, quarantine=Quarantine([], 0, 0)
            )
        )
    )


# Building blocks -----------------------------------------------------------------------------------------------------


@given(st.text(max_size=50))
def test_no_text_becomes_markup(text: str) -> None:
    read = Reader(element("p", text, joined(text, element("b", text)), title=text))
    assert [tag for tag, _ in read.tags] == ["p", "b"]
    assert "".join(read.texts) == 3 * clean(text)
    assert read.tags[0][1]["title"] == clean(text)


def test_texts_are_cut() -> None:
    assert len(clean("x" * 10_000)) == MAX_TEXT
    assert clean("x" * MAX_TEXT) == "x" * MAX_TEXT


turns = st.lists(st.builds(Turn, st.integers(-100, 1100), st.none() | st.integers(1, 3)), max_size=12)


@given(turns)
def test_spans_cover_the_time_once(drawn: list[Turn]) -> None:
    """The spans follow each other from the first turn to the end, and name the publisher at any moment."""
    period = Period(0, 1000)
    in_order = sorted(drawn, key=lambda turn: turn.at_ms)
    times = spans(in_order, period)
    for moment in range(0, 1000, 7):
        last = next((turn for turn in reversed(in_order) if turn.at_ms <= moment), None)
        holders = [who for start, end, who in times if start <= moment < end]
        assert holders == ([] if last is None else [last.who])
    assert all(one[2] != other[2] or one[1] < other[0] for one, other in itertools.pairwise(times))


def test_a_timeline_says_how_long_each_had_it() -> None:
    turns_of_two = Timeline([Turn(0, 1)], [Turn(0, None), Turn(HOUR_MS, 2)], 0, 1)
    text = timeline(turns_of_two, Period(0, 4 * HOUR_MS))
    assert "server 2: led 0 s, published 3 h" in text
    assert "nobody published for 1 h in all" in text
    assert "0 changes of leader, 1 change of publisher" in text
    assert "server 2 published from 1970-01-01 01:00 to 1970-01-01 04:00 UTC (3 h)" in text


@given(st.integers(0, 10**12), st.integers(1, 3 * 365 * DAY_MS))
def test_ticks_and_stretches_are_few_and_inside(since: int, length: int) -> None:
    period = Period(since, since + length)
    marks = ticks(period)
    assert len(marks) <= 7
    full = HOUR_MS if length > 3 * HOUR_MS else 60_000
    assert all(0 <= across(period, each) <= WIDTH and each % full == 0 for each in marks)
    assert -(-length // period.stretch_ms(120)) <= 120


def test_a_line_has_gaps() -> None:
    text = steps([0.0, 5.0, None, 10.0], 12, 10.0, WIDTH / 4)
    assert 'd="M0 11.0H250.0V6.5H500.0M750.0 2.0H1000.0"'.replace("M0 ", "M0.0 ") in text


def test_a_line_ends_with_the_plot() -> None:
    """An hour and a half: the second hour's step has half of the first one's width."""
    text = steps([1.0, 1.0], 12, 1.0, WIDTH / 1.5)
    assert re.findall(r"H([\d.]+)", text) == ["666.7", "1000.0"] * 2


def test_some_minutes_have_an_axis() -> None:
    period = Period(PERIOD.since_ms + 90_000, PERIOD.since_ms + 20 * 60_000)
    assert ticks(period) == [PERIOD.since_ms + minutes * 60_000 for minutes in (5, 10, 15, 20)]


def test_what_is_known_by_hours_stands_where_its_hour_is() -> None:
    """A farm that begins at one minute past: the farm's first hour is the hour that holds this minute, not the next."""
    period = Period(PERIOD.since_ms + 60_000, PERIOD.since_ms + 3 * HOUR_MS)
    heat_map = Heat(HOUR_MS, [HeatRow(1, 0.5, 9, 0, 0, {at: Cell(at / 2, 3, 0) for at in range(3)})])
    text = heat(heat_map, period)
    assert [f"{formats.moment(PERIOD.since_ms + at * HOUR_MS)} UTC: {50 * at} %" in text for at in range(3)] == [
        True
    ] * 3
    assert re.findall(r"H([\d.]+)", steps([1.0, 1.0], 12, 1.0, 500.0, 100.0)) == ["400.0", "900.0"] * 2


def test_members_that_only_serve_are_no_servers() -> None:
    """The members are no servers, drawn or not."""
    text = page(report())
    assert "<dt>servers</dt><dd>6</dd>" in text
    assert "<dt>availability</dt><dd>75 %</dd>" in text


def test_levels_of_availability() -> None:
    assert [level(each) for each in (1.0, 0.999, 0.9989, 0.95, 0.8, 0.5, 0.49, 0.0)] == [0, 0, 1, 2, 3, 4, 5, 5]


def test_the_recommended_set_is_marked_and_the_advice_is_there() -> None:
    text = page(report())
    assert text.count("<strong>recommended </strong>") == 1
    assert "39.0% (31.0% to 44.0%) of the cost on the last 9 days." in text


def trial(cost: float | None, *, live: bool = False, parameters: str = "{}") -> TrialRow:
    return TrialRow(parameters, live, 1, 1, 1, 1, 1, 1, None, cost)


@pytest.mark.parametrize(
    ("distance", "bits"), [(0, 256), (1, 255), (2, 254), (5 << 240, 13), (1 << 255, 0), ((1 << 256) - 1, 0)]
)
def test_how_close_a_floodfill_is(distance: int, bits: int) -> None:
    near = Near(1, "", f"{distance:064x}")
    assert near.equal_bits == bits
    assert bits <= near.closeness <= bits + 1
    assert Near(1, "", "no number").closeness == 0


def test_only_what_differs_is_shown() -> None:
    live = trial(1.0, live=True, parameters='{"a":1,"b":2}')
    assert differences(trial(1.0, parameters='{"a":1,"b":3,"c":4}'), live) == "b = 3, c = 4"
    assert differences(live, live) == "as in the log"
    assert (
        differences(trial(1.0, parameters='{"a":1,"b":3}'), replace(live, parameters="{}", in_force='{"a":1}'))
        == "b = 3"
    )
    assert differences(trial(1.0, parameters="[" * 10), live) == f"parameters = {'[' * 10}"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (formats.percent(0.99999), ">99.9 %"),
        (formats.percent(1.0), "100 %"),
        (formats.percent(0.5), "50 %"),
        (formats.percent(None), "–"),
        (formats.lasting(90_000), "1 min 30 s"),
        (formats.lasting(3 * HOUR_MS), "3 h"),
        (formats.lasting(1001 * DAY_MS), "1,001 d"),
        (formats.lasting(5), "5 ms"),
        (formats.lasting(-90_000), "-1 min 30 s"),
        (formats.size(1536), "1.5 KiB"),
        (formats.size(5 << 40), "5.0 TiB"),
        (formats.moment(10**18), f"{10**18} ms"),
        (formats.server(2**31 + 7), "leaf 7"),
        (formats.figure(0.12345), "0.123"),
    ],
)
def test_figures(shown: str, expected: str) -> None:
    assert shown == expected
