"""A line of the history gives back the value of the line, whatever the value was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.storage import history_lines as lines
from gf_i2p.storage.history_lines import (
    ApplicationLine,
    ConfigurationLine,
    Gap,
    Header,
    LineError,
    Other,
    Restored,
    Sequence,
    Trailer,
)
from gf_i2p.wire.limits import MAX_INTEGER, MAX_VALUE_BYTES

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(["\n", "\r\n", "\x85", "\u2028\u2029", "\x00", "\x1c", "\x7f", '"\\', "\U0001f9c4"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
NUMBERS = st.integers(1, MAX_INTEGER)


def round_trip(value: bytes, index: int = 5, term: int = 2, received: int = 1_790_000_000_000) -> ApplicationLine:
    line = lines.record_line(index, term, received, value)
    assert len(line) <= lines.MAX_LINE_BYTES
    assert line.endswith(b"\n")
    assert len(line.decode("utf-8").splitlines()) == 1, "nobody's idea of a line break stands inside"
    assert list(json.loads(line)) == sorted(json.loads(line))
    record = lines.parse_line(line)
    assert isinstance(record, ApplicationLine)
    assert (record.index, record.term, record.received_ms) == (index, term, received)
    return record


@given(JSON, st.sampled_from([None, 0, 2]), st.booleans(), NUMBERS, st.integers(0, MAX_INTEGER))
def test_json_comes_back_as_json(value: Any, indent: int | None, ascii_only: bool, index: int, term: int) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    record = round_trip(f" {text}\r\n".encode(), index, term)
    assert record.raw is None
    assert json.dumps(record.value, sort_keys=True) == json.dumps(value, sort_keys=True)


@given(st.binary(max_size=200) | st.lists(st.sampled_from(b'{}[]",:\\u0e1.-tfn \n\xc3\xff'), max_size=30).map(bytes))
def test_whatever_comes_back_as_it_was(value: bytes) -> None:
    record = round_trip(value)
    assert record.raw == value or record.value == json.loads(value)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"\xff",
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b"{",
        b"{}{}",
        b"{'a':1}",
        b"NaN",
        b"[-Infinity]",
        b"[1e999]",
        b'{"a":1,"a":1}',
        b'{"b":[{"a":1,"a":2}]}',
        rb'"\ud800"',
        rb'{"\udc00":1}',
        b'"a\nb"',
        b"1" * 33,
        b"01",
        b"[" * 101 + b"]" * 101,
        b'{"a":' * 101 + b"1" + b"}" * 101,
        b"[" * 500_000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
    ids=repr,
)
def test_what_not_everybody_reads_alike_is_kept_as_bytes(value: bytes) -> None:
    assert round_trip(value).raw == value


@pytest.mark.parametrize(
    ("value", "record"),
    [
        (b"null", b"null"),
        (b'{ "b" : 1.50, "a" : [ ] }', b'{"a":[],"b":1.5}'),
        ('"\\u00fc\u2028"'.encode(), '"ü\\u2028"'.encode()),
        (rb'"\ud83e\uddc4"', '"\U0001f9c4"'.encode()),
        (b"1" * 32, b"1" * 32),
        (b"[" * 100 + b"]" * 100, b"[" * 100 + b"]" * 100),
        (b"[" + b"[]," * 5000 + b"[]]", b"[" + b"[]," * 5000 + b"[]]"),
        (b"1e5", b"100000.0"),
    ],
    ids=repr,
)
def test_a_record_is_compact_and_sorted(value: bytes, record: bytes) -> None:
    line = b'{"index":5,"received":9,"record":' + record + b',"term":2}\n'
    assert lines.record_line(5, 2, 9, value) == line
    assert lines.parse_line(line) == ApplicationLine(5, 2, 9, json.loads(value))


@pytest.mark.parametrize(
    "value",
    [b"\n" * MAX_VALUE_BYTES, b'"' + b"x" * (MAX_VALUE_BYTES - 2) + b'"', b"[" + b"1e15," * 200_000 + b"1]"],
    ids=["bytes", "text", "numbers"],
)
def test_the_largest_values_fit_into_a_line(value: bytes) -> None:
    record = round_trip(value)
    assert record.raw == value or record.value == json.loads(value)
    assert (record.raw is None) == value.startswith(b'"')


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (lines.header_line(Header("fär", 2**32 - 2, 1, 0)), Header("fär", 2**32 - 2, 1, 0)),
        (
            lines.servers_line(5, 2, 9, (3, 0, 2**32 - 2), 2**32 - 2),
            ConfigurationLine(5, 2, 9, (3, 0, 2**32 - 2), 2**32 - 2),
        ),
        (lines.servers_line(1, 0, 0, (), None), ConfigurationLine(1, 0, 0, (), None)),
        (lines.servers_line(1, 0, 0, range(64), 64), ConfigurationLine(1, 0, 0, tuple(range(64)), 64)),
        (lines.gap_line(1, MAX_INTEGER), Gap(1, MAX_INTEGER)),
        (lines.gap_line(1, 2, [3, 1]), Gap(1, 2, servers=(3, 1))),
        (lines.restored_line(1, 2, 3, [3, 1]), Restored(1, 2, 3, servers=(3, 1))),
        (lines.other_line(3, 3), Other(3, 3)),
        (lines.trailer_line(0), Trailer(0)),
        (b' {"base64":"","index":1,"received":0,"term":0}\n', ApplicationLine(1, 0, 0, None, b"")),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, bytes) else "",
)
def test_lines_of_every_kind(line: bytes, value: lines.Line) -> None:
    assert lines.parse_line(line) == value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"index":1', "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "kind is unknown"),
        (b'{"index":1,"record":1,"term":1}', "kind is unknown"),
        (b'{"index":1,"received":1,"record":NaN,"term":1}', "not JSON"),
        (b'{"index":0,"received":1,"record":1,"term":1}', "index is a whole number"),
        (b'{"index":true,"received":1,"record":1,"term":1}', "index is a whole number"),
        (b'{"index":1,"received":1.0,"record":1,"term":1}', "received is a whole number"),
        (b'{"index":1,"received":1,"record":1,"term":9223372036854775808}', "term is a whole number"),
        (b'{"base64":"?","index":1,"received":1,"term":1}', "its base64 cannot be decoded"),
        (b'{"base64":1,"index":1,"received":1,"term":1}', "its base64 cannot be decoded"),
        (b'{"gap":[2,1]}', "gap is a whole number"),
        (b'{"gap":[1]}', "a first and a last"),
        (b'{"other":{"1":1,"2":2}}', "a first and a last"),
        (b'{"gap":[1,2],"servers":null}', "servers is a list"),
        (b'{"gap":[1,2],"servers":[1,1]}', "twice"),
        (b'{"other":[1,2],"servers":[1]}', "kind is unknown"),
        (b'{"servers":[1]}', "kind is unknown"),
        (b'{"index":1,"leader":1,"received":1,"servers":1,"term":1}', "servers is a list"),
        (b'{"index":1,"leader":1,"received":1,"servers":[4294967295],"term":1}', "server's id is a whole number"),
        (b'{"index":1,"leader":1,"received":1,"servers":[true],"term":1}', "server's id is a whole number"),
        (b'{"index":1,"leader":4294967295,"received":1,"servers":[1],"term":1}', "leader is a whole number"),
        (b'{"index":1,"leader":1,"received":1,"servers":%s,"term":1}' % str([*range(65)]).encode(), "at most 64 ids"),
        (b'{"index":1,"received":1,"servers":[1],"term":1}', "kind is unknown"),
        (b'{"other":[1,"2"]}', "other is a whole number"),
        (b'{"last":-1}', "last is a whole number"),
        (b'{"cluster":"f","first":1,"format":3,"opened":1,"server":1}', "a newer gf-i2p"),
        (b'{"cluster":"f","first":1,"format":0,"opened":1,"server":1}', "format is a whole number"),
        (b'{"cluster":"f","first":1,"format":[],"opened":1,"server":1}', "format is a whole number"),
        (b'{"cluster":"f","first":1,"format":1,"opened":1,"server":1}', "before gf-i2p 0.1.0; this program"),
        (b'{"cluster":"f","first":1,"format":2.0,"opened":1,"server":1}', "format is a whole number"),
        (b'{"format":3,"new":1,"servers":"all"}', "a newer gf-i2p"),
        (b'{"format":2,"new":1}', "kind is unknown"),
        (b'{"cluster":1,"first":1,"format":2,"opened":1,"server":1}', "cluster is a name"),
        (b'{"cluster":"f","first":0,"format":2,"opened":1,"server":1}', "first is a whole number"),
    ],
)
def test_what_is_no_line_is_refused(line: bytes, expected: str) -> None:
    with pytest.raises(LineError, match=expected):
        lines.parse_line(line)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([ApplicationLine(5, 1, 0, 1)], "the file's first line"),
        ([Header("f", 1, 6, 0)], "its name says otherwise"),
        ([Header("f", 1, 5, 0), Header("f", 1, 5, 0)], "in the middle"),
        ([Header("f", 1, 5, 0), ApplicationLine(6, 1, 0, 1)], "after entry 4 comes entry 6"),
        ([Header("f", 1, 5, 0), ApplicationLine(5, 1, 0, 1), Gap(5, 6)], "after entry 5 comes entry 5"),
        (
            [Header("f", 1, 5, 0), ConfigurationLine(5, 1, 0, (1,), 1), ConfigurationLine(7, 1, 0, (1,), 1)],
            "after entry 5 comes entry 7",
        ),
        ([Header("f", 1, 5, 0), Other(5, 9), Trailer(8)], "ends the file with entry 8, but the entry before is 9"),
        ([Header("f", 1, 5, 0), Gap(5, 9), Trailer(9), ApplicationLine(10, 1, 0, 1)], "after the file's last line"),
    ],
)
def test_lines_that_do_not_follow_each_other_are_refused(taken: list[lines.Line], expected: str) -> None:
    sequence = Sequence(5)
    for line in taken[:-1]:
        sequence.take(line)
    with pytest.raises(LineError, match=expected):
        sequence.take(taken[-1])


def test_a_farm_that_began_anew_has_its_line() -> None:
    line = lines.restored_line(3, 80, 2**28)
    assert lines.parse_line(line) == Restored(3, 80, 2**28)
    assert list(json.loads(line)) == sorted(json.loads(line))
    assert isinstance(lines.parse_line(line), Gap), "who asks for gaps only gets it, too"
    sequence = Sequence(3)
    sequence.take(Header("farm", 7, 3, 0))
    sequence.take(lines.parse_line(line))
    assert sequence.last_index == 80


@pytest.mark.parametrize(
    "line",
    [
        b'{"restored":[3,2],"term":5}',
        b'{"restored":[3],"term":5}',
        b'{"restored":3,"term":5}',
        b'{"restored":[3,4],"term":0}',
        b'{"restored":[3,4]}',
        b'{"term":5}',
    ],
)
def test_such_a_line_is_whole_or_none(line: bytes) -> None:
    with pytest.raises(LineError):
        lines.parse_line(line)


def test_the_term_of_a_configuration_is_known_too() -> None:
    sequence = Sequence(5)
    for line in (Header("f", 1, 5, 0), ApplicationLine(5, 1, 0, 1), ConfigurationLine(6, 2, 0, (1,), None), Gap(7, 9)):
        sequence.take(line)
    assert (sequence.last_index, sequence.last_term) == (9, (6, 2))
