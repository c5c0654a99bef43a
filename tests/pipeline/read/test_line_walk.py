"""The kind of each line of a file; a wrong line spoils no other line."""

import time
from hashlib import md5

import pytest

from gf_i2p.pipeline.read.line_walk import MAX_BAD_LINES, MAX_UNDATED, FoundLine, Is, Walk, servers_of
from gf_i2p.pipeline.read.stored_file import Lines
from gf_i2p.storage.history_lines import (
    MAX_LINE_BYTES,
    gap_line,
    other_line,
    record_line,
    restored_line,
    servers_line,
    trailer_line,
)
from tests.pipeline.made_up_exports import at, content, lines


def walk(data: bytes, *, strict: bool = True) -> tuple[list[FoundLine], Walk]:
    going = Walk(Lines([data]), strict=strict)
    return list(going), going


def indexes(walked: list[FoundLine]) -> list[int]:
    return [each.at for each in walked if each.what is not Is.BAD]


def bad(walked: list[FoundLine]) -> list[str]:
    return [each.reason for each in walked if each.what is Is.BAD]


def test_every_kind_of_line() -> None:
    body = [
        servers_line(1, 1, 90, (1, 2), None),
        record_line(2, 1, 100, b'{"a": 1}'),
        record_line(3, 1, 100, b"\xff"),
        b" " + record_line(4, 1, 100, b'"text"'),
        other_line(5, 6),
        gap_line(7, 8, (1,)),
        restored_line(9, 10, 7, (1, 2)),
        b'{"term": 7, "record": [1], "received": 3, "index": 11}\n',
    ]
    walked, going = walk(content(body, last=11))
    assert [(each.what, each.at, each.term, each.received_ms, each.text) for each in walked] == [
        (Is.SERVERS, 1, 1, 90, body[0].strip()),
        (Is.RECORD, 2, 1, 100, b'{"a":1}'),
        (Is.RAW, 3, 1, 100, b"\xff"),
        (Is.RECORD, 4, 1, 100, b'"text"'),
        (Is.GAP, 8, 0, 3, body[5].strip()),
        (Is.GAP, 10, 7, 3, body[6].strip()),
        (Is.RECORD, 11, 7, 3, b"[1]"),
    ]
    assert [servers_of(walked[place].text).servers for place in (0, 4, 5)] == [(1, 2), (1,), (1, 2)]
    assert (going.problem, going.closed, going.lines, going.last_index) == (None, True, 10, 11)


def test_gaps_without_servers_are_nothing_and_behind_the_last_entry_they_are_as_old_as_the_file() -> None:
    walked, going = walk(content([gap_line(1, 2), gap_line(3, 8, (1, 3))]))
    assert [(each.what, each.at, each.received_ms) for each in walked] == [(Is.GAP, 8, at(1))]
    assert going.last_index == 8
    walked, _ = walk(content([gap_line(1, 2, (1,)), b"junk\n", *lines([3])]))
    then = at(3) + 40
    assert [(each.what, each.received_ms) for each in walked] == [(Is.BAD, 0), (Is.GAP, then), (Is.RECORD, then)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"index":3,"received":1,"record":{"a":,"term":1}\n', "not JSON"),
        (b'{"index":3,"received":1,"record":{"a":NaN},"term":1}\n', "not JSON"),
        (b'{"index":3,"received":1,"record":"\xff","term":1}\n', "not JSON"),
        (b'{"index":3,"received":1,"record":"\xed\xa0\x80","term":1}\n', "not JSON"),  # half of a surrogate pair
        (b'{"index":3,"received":1,"record":"\x00\xff\x00"\x00,"term":1}\n', "not JSON"),  # the text would be UTF-16
        (b'{"index":3,"received":1,"record":\xef\xbb\xbf1,"term":1}\n', "not JSON"),
        (b'{"index":3,"received":1,"record":%b1%b,"term":1}\n' % (b"[" * 101, b"]" * 101), "more than 100 deep"),
        (b'{"index":3,"record":%b1%b,"received":1,"term":1}\n' % (b"[" * 101, b"]" * 101), "more than 100 deep"),
        (b'{"index":3,"record":1e400,"received":1,"term":1}\n', "a number that is too large"),
        (b'{"index":3,"record":"\\ud800","received":1,"term":1}\n', "no Unicode"),
        (b'{"index":3,"received":1,"rec\n', "not JSON"),
        (b'{"index":3,"received":1,"term":1}\n', "kind is unknown"),
        (b'{"index":3,"received":"1","record":1,"term":1}\n', "received is a whole number"),
        (b"\n", "not JSON"),
        (bytes(20) + b"\n", "not JSON"),
        (b'{"cluster":"farm","first":1,"format":2,"opened":1,"server":1}\n', "in the middle"),
        (record_line(2, 1, 1, b"1"), "entry 2 does not belong after entry 2"),
        (record_line(900, 1, 1, b"1"), "entry 900 does not belong after entry 2"),
        (record_line(4, 1, 1, b"1"), "entry 4 does not belong after entry 2"),
    ],
)
def test_a_bad_line_costs_itself(line: bytes, why: str) -> None:
    body = lines(range(1, 8))
    inserted, _ = walk(content([*body[:2], line, *body[2:]], last=7))
    assert indexes(inserted) == [1, 2, 3, 4, 5, 6, 7]
    assert len(bad(inserted)) == 1
    assert why in bad(inserted)[0]
    replaced, going = walk(content([*body[:2], line, *body[3:]], last=7))
    assert indexes(replaced) == [1, 2, 4, 5, 6, 7]
    assert len(bad(replaced)) == (0 if b'"index":4' in line else 1) or bad(replaced)[0].startswith("entry 4")
    assert going.last_index == 7


def test_of_a_bad_line_there_is_all_that_it_says() -> None:
    body = lines(range(1, 8))
    misplaced = [record_line(index, 3, 1, b"1") for index in (800, 1, 2)]
    odd = [other_line(900, 901), gap_line(1, 2), gap_line(2, 2, (1, 2)), *misplaced, b"junk\n"]
    walked, _ = walk(content([*body[:4], *odd, *body[4:]]))
    assert indexes(walked) == [*range(1, 8)]
    assert sorted(each.text for each in walked if each.what is Is.BAD) == sorted(line.strip() for line in odd)


def test_missing_lines_are_the_files_problem() -> None:
    body = lines(range(1, 8))
    walked, going = walk(content([*body[:2], *body[4:]], last=7))
    assert indexes(walked) == [1, 2, 5, 6, 7]
    assert (bad(walked), going.problem) == ([], "after entry 2 comes 5")
    assert going.problem_at == len(content(body[:2]))


def test_the_only_line_behind_a_hole_counts() -> None:
    body = lines(range(1, 8))
    walked, going = walk(content([*body[:2], body[6]]))
    assert (indexes(walked), going.problem) == ([1, 2, 7], "after entry 2 comes 7")


def test_a_file_twice_in_one() -> None:
    body = lines(range(1, 4))
    walked, _ = walk(content(body, last=3) + content(body, last=3))
    assert indexes(walked) == [1, 2, 3]
    assert len(bad(walked)) == 4  # the last line says the same, and is no entry


def test_a_torn_end() -> None:
    data = content(lines(range(1, 4)))
    walked, _ = walk(data[:-5])
    assert indexes(walked) == [1, 2]
    assert bad(walked) == ["it has no end: the file was cut, or is being written"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"xyz", "it is empty, or its first line has no end"),
        (b"\x00\n", "not JSON"),
        (trailer_line(1), "should be the first line"),
        (b'{"cluster":"farm","first":1,"format":99,"opened":1,"server":1}\n', "a newer gf-i2p"),
        (b'{"cluster":"","first":1,"format":2,"opened":1,"server":1}\n', "cannot be a cluster name"),
        (
            b'{"cluster":"__HIVE_DEFAULT_PARTITION__","first":1,"format":2,"opened":1,"server":1}\n',
            "Spark reads this name as null",
        ),
        (b'{"cluster":"..","first":1,"format":2,"opened":1,"server":1}\n', "cannot be a cluster name"),
    ],
)
def test_no_first_line(data: bytes, why: str) -> None:
    walked, going = walk(data + (b"" if not data.endswith(b"\n") else lines([1])[0]))
    assert walked == []
    assert going.header is None
    assert going.problem is not None
    assert why in going.problem


def test_behind_the_last_line_is_nothing() -> None:
    walked, _ = walk(content(lines([1]), last=1) + lines([2])[0])
    assert indexes(walked) == [1]
    assert len(bad(walked)) == 1


def test_a_last_line_that_says_otherwise() -> None:
    _, going = walk(content(lines([1]), last=5))
    assert going.problem == "its last line says 5, after entry 1"


def test_where_a_checksum_vouches_for_it_records_are_not_read() -> None:
    line = b'{"index":1,"received":1,"record":{"a":,"term":1}\n'
    assert indexes(walk(content([line]), strict=False)[0]) == [1]
    assert indexes(walk(content([line]), strict=True)[0]) == []


def test_how_deep_a_record_may_be_does_not_depend_on_who_asks() -> None:
    """The caller's own stack depth does not change the deepest record that is accepted.

    Readings call from different depths. If two disagreed, a line would be an entry once, and an error another time.
    """

    def from_below(levels: int, data: bytes) -> list[FoundLine]:
        return from_below(levels - 1, data) if levels else walk(data)[0]

    for levels in (1, 99, 100, 101, 500, *range(930, 1000)):
        record = b"[" * levels + b"]" * levels
        fast = b'{"index":1,"received":1,"record":%b,"term":1}\n' % record
        slow = b'{"index":1,"record":%b,"received":1,"term":1}\n' % record
        for line in (fast, slow):
            expected = Is.RECORD if levels <= 100 else Is.BAD
            assert {from_below(depth, content([line]))[0].what for depth in (0, 5, 40)} == {expected}, levels


def test_bad_lines_beyond_the_limit_are_counted_together() -> None:
    body = lines(range(1, 8))
    junk = [b"%d\n" % number for number in range(MAX_BAD_LINES)]
    more = [b"\n", b"x" * 40 + b"\n", record_line(9_000, 1, 1, b"1"), b"\xff\n"]
    walked, going = walk(content([*body[:4], *junk, *more, *body[4:], b"half"]))
    assert indexes(walked) == [*range(1, 8)]
    assert len(bad(walked)) == MAX_BAD_LINES
    assert (going.bad, going.lines) == (MAX_BAD_LINES + 5, 8 + MAX_BAD_LINES + 4)
    rest = going.unlisted
    assert rest is not None
    assert rest.reason == "5 more bad lines of the file have no rows of their own"
    assert rest.overlong is not None
    left_out = [more[0], more[1], more[3], more[2], b"half\n"]  # line 9,000 is bad when the next line has come
    assert rest.overlong.length == sum(map(len, left_out))
    assert rest.overlong.digest == md5(b"".join(left_out), usedforsecurity=False).hexdigest()


def test_a_few_bad_lines_have_each_their_own() -> None:
    walked, going = walk(content([b"\n"] * MAX_BAD_LINES))
    assert (len(walked), going.bad, going.unlisted) == (MAX_BAD_LINES, MAX_BAD_LINES, None)


def test_an_overlong_line_beyond_the_limit_counts_with_its_length() -> None:
    _, going = walk(content([b"\n"] * MAX_BAD_LINES + [b"x" * (MAX_LINE_BYTES + 9) + b"\n"]))
    assert going.unlisted is not None
    assert going.unlisted.overlong is not None
    assert going.unlisted.overlong.length == MAX_LINE_BYTES + 10


def test_a_million_empty_lines_cost_little() -> None:
    began = time.process_time()
    walked, going = walk(content([b"\n"] * 1_000_000))
    assert (len(walked), going.bad) == (MAX_BAD_LINES, 1_000_000)
    assert time.process_time() - began < 5  # 0.6; with a row and a reason for each, 9


def test_lines_about_gaps_do_not_wait_for_ever() -> None:
    gaps = [gap_line(number, number, (1,)) for number in range(1, MAX_UNDATED + 11)]
    going = Walk(Lines([content([*gaps, *lines([MAX_UNDATED + 11])])]), strict=True)
    walked = []
    waiting = 0
    for line in going:
        walked.append(line)
        waiting = max(waiting, going.last_index - len(walked))
    assert [line.at for line in walked] == [*range(1, MAX_UNDATED + 12)]
    assert waiting < MAX_UNDATED
    times = [line.received_ms for line in walked]
    assert times == [at(1)] * MAX_UNDATED + [at(MAX_UNDATED + 11) + 40] * 11
