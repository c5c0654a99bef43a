"""Entries as columns: almost all at once, the odd ones one by one, with the same result."""

import json
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.record.status_record import RecordError, StatusRecord
from gf_i2p.farm.schema import text as schema_text
from gf_i2p.pipeline.days import spans_around
from gf_i2p.pipeline.read.entry_columns import LATEST_MS, Typer
from gf_i2p.pipeline.read.line_walk import FoundLine, Is
from gf_i2p.storage.history_lines import restored_line, servers_line
from tests.farm.record.test_status_record import json_values, records
from tests.farm.strategies import NOW, text
from tests.tier import examples

TYPER = Typer(schema_text())
ADMIN = AdminEntry("farm", NOW, "admin-joe", "release").encode()


def entry(value: bytes, index: int = 1, *, received_ms: int = NOW, what: Is = Is.RECORD) -> FoundLine:
    return FoundLine(what, index, 1, received_ms, value)


def compact(value: bytes) -> bytes:
    return json.dumps(json.loads(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def rows(*lines: FoundLine, farm: str = "farm") -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = TYPER.rows(farm, [2] * len(lines), lines).to_pylist()
    return values


def test_a_row_of_each_kind() -> None:
    line = servers_line(4, 1, NOW, (1, 2, 3), 2)
    table = rows(
        entry(compact(text()), 1),
        entry(ADMIN, 2),
        entry(b"\xff", 3, what=Is.RAW),
        entry(line, 4, what=Is.SERVERS),
        entry(b'"hello"', 5),
        entry(b'{"hello":"router"}', 6),
        entry(gap := restored_line(5, 7, 9, (1, 2)).strip(), 7, what=Is.GAP),
    )
    assert [row["kind"] for row in table] == ["status", "admin", "other", "servers", "other", "other", "servers"]
    assert [row["index"] for row in table] == [1, 2, 3, 4, 5, 6, 7]
    assert {(row["farm"], row["day"], row["exporter"], row["term"], row["received_ms"]) for row in table} == {
        ("farm", "2026-09-21", 2, 1, NOW)
    }
    assert [row["value"] for row in table[:2]] == [compact(text()).decode(), ADMIN.decode()]
    assert (table[2]["value"], table[2]["raw"]) == (None, b"\xff")
    assert (table[3]["servers"], table[3]["leader"], table[3]["value"]) == ([1, 2, 3], 2, None)
    assert (table[6]["servers"], table[6]["leader"], table[6]["value"]) == ([1, 2], None, gap.decode())
    assert table[0]["record"]["router"]["up"] is True
    assert all(row["record"] is None for row in table[1:])
    assert all(row["misfit"] is None for row in table)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"id": "1"}, "id must be of type integer"),
        ({"router": {"up": None}}, "up must be of type boolean"),
        ({"router": []}, "router must be of type object"),
        ({"cluster": "other"}, "of another farm"),
        ({"cluster": 5}, "cluster must be of type string"),
        ({"date": 5}, "its date is before 2020"),
        ({"date": NOW + 86_400_001}, "more than a day away"),
        ({"date": NOW - 86_400_001}, "more than a day away"),
        ({"date": NOW + 86_400_000}, None),
        ({"id": 2**32 - 1}, "id must be from 0"),
        ({"destinations": [{"hash": "A" * 42 + "B", "up": True}]}, "bits beyond its last byte"),
        ({"x": "y" * 70_000}, "up to 65536 bytes"),
        ({"x": [[]] * 500}, "lists and objects"),
        ({"x": "\u2028é"}, None),
        ({"action": "release", "by": "admin-joe"}, None),
    ],
)
def test_status_records_that_do_not_fit(changes: dict[str, Any], why: str | None) -> None:
    good = [entry(compact(text()), index) for index in range(1, 40)]
    odd = entry(compact(text(**changes)), 40)
    table = rows(*good[:20], odd, *good[20:])
    assert all(row["misfit"] is None and row["record"] for row in table if row["index"] != 40)
    row = table[20]
    assert row["kind"] == "status"
    assert row["value"] == odd.text.decode()
    assert (row["record"] is None) == (why is not None)
    assert (row["misfit"] is None) == (why is None)
    assert why is None or why in row["misfit"]


def test_an_exporter_without_a_clock() -> None:
    (row,) = rows(entry(compact(text()), received_ms=1000))
    assert (row["day"], row["misfit"]) == ("1970-01-01", "the exporter's clock said that it was before 2020")
    (row,) = rows(entry(compact(text()), received_ms=2**53 - 1))
    assert row["day"] == "9999-12-31"


def test_a_clock_that_is_centuries_ahead_is_not_believed_by_itself() -> None:
    """The records of that server have the same date, and would make hours up to that date."""
    for first in (253_402_300_799_999, 2**53 - 1, LATEST_MS):
        (row,) = rows(entry(compact(text(date=first)), received_ms=first))
        assert (row["misfit"], row["record"]) == ("its date is after 2199", None)
    table = rows(
        entry(compact(text(date=LATEST_MS - 1)), 1, received_ms=LATEST_MS - 1),
        entry(compact(text(date=LATEST_MS - 1)), 2, received_ms=LATEST_MS),
    )
    assert [row["misfit"] for row in table] == [None, "the exporter's clock said that it was after 2199"]
    assert spans_around([table[0]["day"]])  # a believed record has days around


def test_what_a_checksum_vouched_for_and_is_no_json() -> None:
    value = compact(text())[:-1] + b","
    (row,) = rows(entry(value))
    assert (row["kind"], row["misfit"], row["value"], row["raw"]) == ("other", "it is not JSON", None, value)


@pytest.mark.parametrize("value", [b'"\xed\xa0\x80"', b'"\x00\xff\x00"\x00', b'\xef\xbb\xbf{"a":1}', b'"\xff"'])
def test_what_is_no_utf_8_spoils_no_other(value: bytes) -> None:
    good = compact(text())
    table = rows(entry(good, 1), entry(value, 2), entry(good[:-1] + b',"x":' + value + b"}", 3), entry(good, 4))
    assert [row["misfit"] for row in table] == [None, "it is not JSON", "it is not JSON", None]
    assert (table[1]["value"], table[1]["raw"]) == (None, value)


def test_two_values_in_one_line_do_not_shift_the_others() -> None:
    good = compact(text())
    table = rows(entry(good, 1), entry(good + good, 2), entry(good, 3))
    assert [row["misfit"] for row in table] == [None, "it is not JSON", None]


@settings(max_examples=examples(200))
@given(st.lists(records, min_size=1, max_size=5), st.booleans())
def test_as_the_nodes_read_it(given_: list[StatusRecord], sorted_: bool) -> None:
    values = [
        json.dumps(json.loads(each.encode()), sort_keys=sorted_, separators=(",", ":")).encode() for each in given_
    ]
    lines = [
        entry(value, index, received_ms=each.date_ms)
        for index, (value, each) in enumerate(zip(values, given_, strict=True))
    ]
    farm = given_[0].cluster
    together = TYPER.rows(farm, [1] * len(lines), lines)
    with patch.object(TYPER, "_columns", return_value=None):
        apart = TYPER.rows(farm, [1] * len(lines), lines)
    assert together.equals(apart)


@settings(max_examples=examples(200))
@given(
    st.sampled_from(["cluster", "date", "id", "router", "destinations", "meta", "config", "metaSensing"]),
    json_values | st.dictionaries(st.sampled_from(["up", "destination", "publishing", "hash", "date"]), json_values),
)
@example("config", {"up": float("inf")})
@example("config", {"up": float("nan")})
def test_what_is_believed_is_what_the_nodes_believe(name: str, value: Any) -> None:
    data = json.dumps(json.loads(text()) | {name: value}, separators=(",", ":")).encode()
    (row,) = rows(entry(data))
    try:
        record = StatusRecord.parse(data)
    except RecordError:
        assert row["record"] is None
        return
    assert (row["misfit"] is None) == (record.cluster == "farm" and abs(record.date_ms - NOW) <= 86_400_000)


def test_a_schema_that_has_grown() -> None:
    grown = json.loads(schema_text())
    grown["properties"]["battery"] = {"type": "integer", "minimum": 0, "maximum": 100}
    typer = Typer(json.dumps(grown))
    lines = [entry(compact(text(battery=each)), 1) for each in (50, 101, "much")]
    table = typer.rows("farm", [1, 1, 1], lines).to_pylist()
    assert [row["record"] and row["record"]["battery"] for row in table] == [50, None, None]
    assert [row["misfit"] for row in table] == [
        None,
        "battery must be from 0 to 100",
        "battery must be of type integer",
    ]
    assert isinstance(typer.schema.field("record").type, pa.StructType)
