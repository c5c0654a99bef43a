"""The JSON Schema as columns judges a record as the nodes' own reading does."""

import json
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.farm.record.status_record import RecordError, StatusRecord
from gf_i2p.farm.schema import text as schema_text
from gf_i2p.pipeline.read.record_schema import RecordSchema, columns
from tests.farm.record.test_status_record import SCHEMA, SCHEMA_TEXT, json_values, records
from tests.farm.strategies import text

OURS = RecordSchema(schema_text())


def fits(value: Any) -> bool:
    return bool(SCHEMA.is_valid(value))


@given(records)
def test_what_a_node_writes_fits(given_: StatusRecord) -> None:
    value = json.loads(given_.encode())
    assert OURS.misfit(value) is None
    column = pa.array([OURS.row(value)], OURS.type)
    assert not OURS.doubtful(column)[0] or any("=" in leaf["hash"] for leaf in value["destinations"])
    row = column[0].as_py()
    assert (row["id"], row["date"], row["cluster"]) == (given_.id, given_.date_ms, given_.cluster)
    assert row["router"]["up"] is given_.router_up
    assert [leaf["up"] for leaf in row["destinations"]] == [leaf.up for leaf in given_.leaves]


@given(
    st.sampled_from(sorted(SCHEMA_TEXT["properties"])),
    json_values | st.dictionaries(st.sampled_from(["up", "destination", "hash", "id", "date", "mode"]), json_values),
)
def test_what_does_not_fit_is_what_the_schema_refuses(name: str, value: Any) -> None:
    """The two differ only where a float is a whole number: JSON Schema takes 1.0 for an integer, the nodes do not."""
    record = json.loads(text()) | {name: value}
    reason = OURS.misfit(record)
    if not fits(record):
        assert reason is not None
    try:
        StatusRecord.parse(json.dumps(record).encode())
    except RecordError:
        return
    assert reason is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"id": "1"}, "id must be of type integer"),
        ({"id": 1.0}, "id must be of type integer"),
        ({"id": True}, "id must be of type integer"),
        ({"id": 2**32 - 1}, "id must be from 0 to 4294967294"),
        ({"date": -1}, "date must be from 0"),
        ({"router": {}}, "router has no up"),
        ({"router": {"up": 1}}, "up must be of type boolean"),
        ({"config": None}, None),
        ({"config": {"mode": 5}}, "mode must be of type string"),
        ({"config": {"mode": None}}, None),
        ({"destinations": [{"hash": "AAAA", "up": True}]}, "hash is not of the form"),
        ({"destinations": [5]}, "an item of destinations must be of type object"),
        ({"destinations": [{"hash": "A" * 43, "up": True}] * 257}, "up to 256 items"),
        ({"destinations": [{"hash": "A" * 43, "up": True, "type": 4}]}, r"type must be one of \[3, 7\]"),
        ({"router": {"up": True, "jobLag": "much", "version": 5}}, None),
    ],
)
def test_why(changes: dict[str, Any], why: str | None) -> None:
    record = json.loads(text(**changes))
    reason = OURS.misfit(record)
    assert (reason is None) == fits(record) or "1.0" in str(changes)
    if why is None:
        assert reason is None
    else:
        assert reason is not None
        assert re.search(why, reason)


def test_doubt_about_columns() -> None:
    good = OURS.row(json.loads(text()))
    hash_ = {"hash": "A" * 43, "up": True}
    bad = [
        good | {"id": -1},
        good | {"id": 2**32 - 1},
        good | {"date": None},
        good | {"router": None},
        good | {"router": {"up": None}},
        good | {"destinations": [hash_] * 257},
        good | {"destinations": [hash_, hash_ | {"hash": "A" * 42 + "B"}]},
        good | {"destinations": [hash_ | {"up": None}]},
        good | {"destinations": [hash_ | {"type": 4}]},
        good | {"destinations": [hash_ | {"below": ["x"]}]},
        good | {"remoteDestinations": [{"hash": "A" * 43, "reachable": True, "date": None}]},
        good | {"metaSensing": {"date": None}},
        good | {"meta": {"destination": "x", "publishConfig": "on", "publishing": True, "lastPublishedTime": -1}},
        good | {"router": {"up": True, "jobLag": float("nan")}},
    ]
    column = pa.array([good, *bad, good], OURS.type)
    assert OURS.doubtful(column).tolist() == [False, *[True] * len(bad), False]
    assert OURS.doubtful(column.slice(1, 3)).tolist() == [True] * 3


def test_open_fields_are_what_they_can_be() -> None:
    fields = {"up": True, "jobLag": "much", "knownPeers": 7, "activePeers": True, "version": 5, "reachability": "ok"}
    router = pa.array([OURS.row(json.loads(text(router=fields)))], OURS.type)[0].as_py()["router"]
    assert (router["jobLag"], router["knownPeers"], router["activePeers"]) == (None, 7.0, None)
    assert (router["version"], router["reachability"]) == (None, "ok")


def test_how_spark_writes_it() -> None:
    small = RecordSchema(
        '{"type":"object","properties":{"a":{"type":"array","items":{"type":["integer","null"]}},"b":{}}}'
    )
    assert columns(pa.schema({"record": small.type, "farm": pa.string(), "raw": pa.binary()})).simpleString() == (
        "struct<record:struct<a:array<bigint>,b:double>,farm:string,raw:binary>"
    )
