"""The benchmark's tables in Markdown, and the tables on the page."""

import json
from pathlib import Path

import pytest

from integration.bench.markdown import markdown
from tests.integration.bench.test_report import full_report

DOCS = Path(__file__).parents[3] / "docs" / "reference"


def test_each_figure_stands_in_the_table() -> None:
    report = full_report()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown(report).splitlines() if line]
    assert rows[0][1] == "farm", "the farm comes first"
    for result in report["results"]:
        column = rows[0].index(result["system"])
        titles = {"sequential": "1 writer", "concurrent": "64 writers", "bulk": "requests of 100"}
        row = next(row for row in rows if row[0] == f"{titles[result['workload']]}, entries/s")
        assert row[column].startswith(f"{result['median']['entries_per_second']:,.0f}"[:2])
    assert len({row[-1] for row in rows if row[-1] in {"met", "missed"}}) >= 1


@pytest.mark.parametrize("name", ["2026-11-28"])
def test_the_page_has_the_tables_of_its_document(name: str) -> None:
    page = (DOCS / "benchmarks.md").read_text()
    tables = markdown(json.loads((DOCS / "benchmarks" / f"{name}.json").read_text()))
    assert all(table in page for table in tables.split("\n\n"))
