"""The benchmark's chart."""

from xml.etree import ElementTree as ET

import pytest

from integration.bench.chart import chart, panels
from integration.bench.measures import FAILOVER
from integration.bench.report import Observations, document
from tests.integration.bench.test_report import MACHINE, SETTINGS, full_report

SVG = "{http://www.w3.org/2000/svg}"


def test_the_longest_bar_of_a_panel_is_the_largest_value() -> None:
    report = full_report()
    root = ET.fromstring(chart(report))
    bars = [float(each.attrib["width"]) for each in root.iter(f"{SVG}rect")]
    one, many, bulk = ([value for _, value in panel.bars] for panel in panels(report))
    assert (len(one), len(many), len(bulk)) == (2, 3, 2)
    assert [width / max(bars) for width in bars[2:5]] == pytest.approx([value / max(many) for value in many], abs=0.001)
    assert [each.attrib["class"] for each in root.iter(f"{SVG}rect")].count("bar farm") == 3


def test_names_of_systems_are_escaped_and_figures_are_shown() -> None:
    report = document([], MACHINE, SETTINGS, [Observations(FAILOVER, "a < b", [0.25])])
    root = ET.fromstring(chart(report))
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert texts == ["leader killed to the next accepted entry: s, less is better", "a < b", "0.25"]
