"""Status records: a written record can be read, and nothing else can."""

import contextlib
import json
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gf_i2p.farm import strict_json
from gf_i2p.farm.record.master_load import NAMES, MasterLoad
from gf_i2p.farm.record.remote_sensing import MetaSensing, RemoteDestination, RemoteRouter
from gf_i2p.farm.record.router_facts import Reachability, RouterStatus
from gf_i2p.farm.record.status_record import (
    MAX_DESTINATIONS,
    MAX_OPENINGS,
    MAX_RECORD_BYTES,
    Leaf,
    Meta,
    RecordError,
    ReportedConfig,
    StatusRecord,
    router_numbers,
)
from gf_i2p.farm.schema import text as schema_text
from gf_i2p.farm.strict_json import MAX_DIGITS
from gf_i2p.netdb.encoding import to_base64
from tests.farm.strategies import MASTER, NOW, leaf, record, text

dates = st.integers(0, 2**53 - 1)
hashes = st.binary(min_size=32, max_size=32)
extras = st.dictionaries(
    st.text(max_size=3).map(lambda name: f"x{name}"), st.integers(0, 2**53) | st.text(), max_size=2
)
numbers = st.none() | st.integers(0, 2**53 - 1)
loads = st.builds(MasterLoad, dates, numbers, numbers, numbers, numbers, numbers)
metas = st.builds(
    Meta, st.text(max_size=99), st.sampled_from(["off", "on", "auto"]), st.booleans(), dates, st.none() | st.text(),
    attempted_ms=dates, sent_ms=dates, confirmed_ms=dates, load=st.none() | loads, extra=extras,
)  # fmt: skip
leaves = st.builds(
    Leaf, hashes, st.booleans(), st.none() | st.text(max_size=99), type=st.sampled_from([3, 7]),
    below=st.lists(hashes, max_size=2).map(tuple), depth=numbers, uptime_ms=numbers, configured_tunnels=numbers,
    current_tunnels=numbers, configured_bandwidth=numbers, current_bandwidth=numbers, configured_connections=numbers,
    current_connections=numbers, blacklisted=numbers, extra=extras,
)  # fmt: skip
records = st.builds(
    StatusRecord,
    st.text(max_size=20),
    dates,
    st.integers(0, 2**32 - 2),
    st.booleans(),
    st.dictionaries(st.text(max_size=9).filter(lambda name: name != "up"), st.integers(0, 2**53) | st.text(max_size=9)),
    st.none() | metas,
    st.lists(leaves, max_size=20).map(tuple),
    config=st.none() | st.builds(ReportedConfig, st.none() | st.text(), numbers, st.none() | st.text(), extras),
    remote_routers=st.lists(
        st.builds(RemoteRouter, st.integers(0, 2**32 - 2), st.booleans(), numbers, numbers, numbers), max_size=3
    ).map(tuple),
    remote_destinations=st.lists(
        st.builds(RemoteDestination, hashes, st.booleans(), numbers, numbers, dates, numbers), max_size=3
    ).map(tuple),
    meta_sensing=st.none() | st.builds(MetaSensing, numbers, numbers, dates),
    extra=extras,
)
SCHEMA_TEXT: dict[str, Any] = json.loads(schema_text())
SCHEMA = Draft202012Validator(SCHEMA_TEXT)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=9,
)


@given(records)
def test_what_is_written_is_read(given_: StatusRecord) -> None:
    assert StatusRecord.parse(given_.encode()) == given_


@given(records)
def test_what_is_written_fits_the_schema(given_: StatusRecord) -> None:
    SCHEMA.validate(json.loads(given_.encode()))


@given(
    st.sampled_from(sorted(SCHEMA_TEXT["properties"])),
    json_values | st.dictionaries(st.sampled_from(["up", "destination", "hash", "id", "date", "mode"]), json_values),
)
def test_what_the_schema_refuses_is_refused(name: str, value: Any) -> None:
    """The reverse does not always hold: the schema does not know where base64 ends."""
    try:
        read = text(**{name: value})
        StatusRecord.parse(read)
    except RecordError:
        return
    SCHEMA.validate(json.loads(read))


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA_TEXT)


def test_what_this_version_does_not_know_is_passed_on() -> None:
    fields = json.loads(text())
    unknown = fields | {
        "x": [1, {"y": 2}],
        "config": {"mode": "meta", "later": 1.5},
        "meta": fields["meta"] | {"later": None},
        "destinations": [fields["destinations"][0] | {"later": "yes"}],
        "router": fields["router"] | {"later": [True]},
    }
    assert json.loads(StatusRecord.parse(json.dumps(unknown).encode()).encode()) == unknown


def test_the_names_are_those_of_the_proposal() -> None:
    status = RouterStatus(uptime_ms=5, version="2.45.1", reachability=Reachability.OK, current_inbound=1.5)
    written = StatusRecord(
        "farm", NOW, 7, router_up=True, router=router_numbers(status), leaves=(Leaf(bytes(32), up=False),),
        meta=Meta(MASTER.base64, "on", publishing=True, last_published_ms=NOW, last_published_set="abcd"),
    )  # fmt: skip
    assert json.loads(written.encode()) == {
        "cluster": "farm",
        "date": NOW,
        "id": 7,
        "router": {
            "up": True,
            "uptime": 5,
            "version": "2.45.1",
            "reachability": "ok",
            "currentInboundBandwidth": 1.5,
        },
        "destinations": [{"hash": to_base64(bytes(32)), "up": False}],
        "meta": {
            "destination": MASTER.base64,
            "publishConfig": "on",
            "publishing": True,
            "lastPublishedTime": NOW,
            "lastPublishedLS": "abcd",
        },
    }


def test_the_load_of_the_masters_session_has_the_names_of_a_leafs_load() -> None:
    load = MasterLoad(1, 2, 3, 4, 5, 6)
    meta = Meta(MASTER.base64, "on", publishing=True, load=load)
    fields = meta.encode()
    assert load.encode().items() <= fields.items()
    full = Leaf(bytes(32), True, None, 3, (), 1, 1, 1, 1, 1, 1, 1, 1, 1)
    assert NAMES == load.encode().keys() < full.encode().keys()
    assert Meta.parse(fields) == meta
    assert Meta.parse({name: value for name, value in fields.items() if name not in NAMES}).load is None
    for name in NAMES:
        assert Meta.parse({**fields, name: None}).load is not None
        with pytest.raises(RecordError, match=f"{name} is a whole number"):
            Meta.parse({**fields, name: -1})


def test_a_number_of_the_router_that_json_does_not_have_is_left_out() -> None:
    odd = RouterStatus(current_inbound=math.nan, current_outbound=math.inf, known_peers=3)
    assert router_numbers(odd) == {"knownPeers": 3}


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_whatever_else_is_posted_is_no_record_and_no_accident(data: bytes) -> None:
    with pytest.raises(RecordError):
        StatusRecord.parse(data)


@given(
    st.sampled_from(["cluster", "date", "id", "router", "destinations", "meta"]),
    json_values | st.dictionaries(st.sampled_from(["up", "destination", "publishing", "hash"]), json_values),
)
def test_a_value_that_is_something_else_is_refused_or_harmless(name: str, value: Any) -> None:
    try:
        read = StatusRecord.parse(text(**{name: value}))
    except RecordError:
        return
    assert StatusRecord.parse(read.encode()) == read


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (text(date=-1), "date is a whole number"),
        (text(date=2**53), "date is a whole number"),
        (text(date=1.0), "date is a whole number"),
        (text(date=True), "date is a whole number"),
        (text(date=None), "date is a whole number"),
        (text(id=2**32 - 1), "id is a whole number"),
        (text(date=10**MAX_DIGITS), "a number has up to 32 digits"),
        (text(x=math.nan), "NaN is no number"),
        (text(x=-math.inf), "-Infinity is no number"),
        (text().replace(b'"id": 1', b'"id": 1e999'), "a number is too large"),
        (text(id="1"), "id is a whole number"),
        (text(cluster=5), "cluster is a text"),
        (text(router={}), "up is true or false"),
        (text(router={"up": 1}), "up is true or false"),
        (text(router=[]), "router is an object"),
        (text(meta="x"), "meta is an object"),
        (text(destinations={}), "destinations is a list"),
        (text(destinations=[{"hash": "AAAA", "up": True}]), "has 32 bytes, not 3"),
        (text(destinations=[{"hash": "A" * 4000, "up": True}]), "longer than 32 bytes need"),
        (text(destinations=[{"hash": "!" * 43, "up": True}]), "not base64"),
        (text(destinations=[{"hash": "\ud800" * 43, "up": True}]), "not base64"),
        (text(destinations=["x"]), "a destination is an object"),
        (text(destinations=[{"hash": to_base64(bytes(32)), "up": True}] * (MAX_DESTINATIONS + 1)), "up to 256"),
        (text(x="y" * MAX_RECORD_BYTES), "up to 65536 bytes"),
        (text() + b"x", "JSON object in UTF-8"),
        (b"\xff" + text(), "JSON object in UTF-8"),
        (b"\xef\xbb\xbf" + text(), "JSON object in UTF-8"),
        (b"", "JSON object in UTF-8"),
        (b"null", "JSON object in UTF-8"),
        (b"[" * 60_000, "lists and objects"),
        (b'{"a":' * 10_000, "lists and objects"),
    ],
)
def test_refused(data: bytes, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        StatusRecord.parse(data)


def test_256_leaves_are_as_many_as_there_may_be() -> None:
    most = record(1, *(leaf(number) for number in range(MAX_DESTINATIONS)))
    assert StatusRecord.parse(most.encode()) == most


def test_how_deep_a_record_may_be_does_not_depend_on_who_reads_it() -> None:
    """Otherwise two servers with one log would know different things."""

    def deeper(frames: int) -> StatusRecord:
        return StatusRecord.parse(deepest) if frames == 0 else deeper(frames - 1)

    deep = b"[" * (MAX_OPENINGS - 5) + b"]" * (MAX_OPENINGS - 5)
    deepest = text().replace(b'"cluster"', b'"x": ' + deep + b', "cluster"')
    assert deepest.count(b"[") + deepest.count(b"{") == MAX_OPENINGS
    assert deeper(0) == deeper(sys.getrecursionlimit() // 3)
    with pytest.raises(RecordError, match="lists and objects"):
        StatusRecord.parse(deepest.replace(deep, b"[" + deep + b"]"))


def _object(values: list[str]) -> str:
    return "{" + ",".join(f'"{place}": {value}' for place, value in enumerate(values)) + "}"


_NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
_TEXTS = st.recursive(
    _NUMBERS
    | st.text().map(json.dumps)
    | st.sampled_from(["true", "null", "NaN", "-Infinity", "", "01", '"', "1e999"]),
    lambda inside: (
        st.lists(inside, max_size=3).map(lambda found: f"[{','.join(found)}]")
        | st.lists(inside, max_size=3).map(_object)
    ),
    max_leaves=8,
)


@given(_TEXTS, st.sampled_from(["", " ", "\n", "x", "{}", "\ufeff"]), st.sampled_from(["", " ", "x"]))
@example("1" * MAX_DIGITS, "", "")
@example("1" * (MAX_DIGITS + 1), "", "")
@example("-" + "1" * MAX_DIGITS, "", "")
@example("9" * 31 + "E+0400", "", "")
@example("1.5e400", "", "")
@example("1e-400", "", "")
@example('"' + "0" * MAX_DIGITS + '\\\\"', "", "")
@example('"\\\\", ' + "1" * (MAX_DIGITS + 1), "", "")
@example("0e999", "", "")
@example("1" * 310 + ".0", "", "")
def test_numbers_are_read_fast_as_they_are_read_with_care(value: str, before: str, after: str) -> None:
    text_ = f'{before}{{"x": {value}}}{after}'

    def read(how: Callable[[], object]) -> str:
        try:
            return repr(how())  # 1 and 1.0 differ there, and so do 0.0 and -0.0
        except ValueError:
            return "refused"

    assert read(lambda: strict_json._decode(text_.encode())) == read(lambda: _CAREFUL.decode(text_))


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(digits)
    return int(digits)


def _fraction(digits: str) -> float:
    if not math.isfinite(float(digits)):
        raise ValueError(digits)
    return float(digits)


_CAREFUL = json.JSONDecoder(parse_int=_whole_number, parse_float=_fraction, parse_constant=_whole_number)
"""Looks at each number: the slow way."""


@pytest.mark.parametrize("odd", ["1" * MAX_DIGITS, "0." + "0" * 40, "1e300", "1e-4000", "9" * 40, "1e999", '"1e999"'])
@pytest.mark.parametrize("before", ["", " "])
def test_no_text_makes_python_look_at_each_number(odd: str, before: str) -> None:
    """A client that posts 16 MiB of such zeros took half a minute of every server's processor."""
    crafted = f'{before}{{"up":[{"0," * 10_000}{odd}]}}'.encode()
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        with contextlib.suppress(ValueError):
            strict_json._decode(crafted)
    finally:
        sys.setprofile(None)
    assert calls < 100


@pytest.mark.parametrize("text_", ['"' + '\\"' * 30_000, '{"x":' + '"' * 60_000, "-" * 65_000, "0e000" * 13_000])
def test_a_text_that_is_no_json_is_refused_without_looking_again_and_again(text_: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        strict_json._decode((text_ + "0" * MAX_DIGITS).encode())


def test_the_masters_hash() -> None:
    assert Meta(MASTER.base64, "on", publishing=False).hash == MASTER.hash
    assert Meta("no base64!", "on", publishing=False).hash is None
    assert Meta("A" * 9999, "on", publishing=False).hash is None
