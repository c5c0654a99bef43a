"""Closest floodfills seen in the netDb: read as written, bounded, kept in snapshots, without influence on anything."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.cli.shared.answer_text import sensed_lines
from gf_i2p.farm.admin_entries import MAX_ENTRY_BYTES, AdminEntry, Administration
from gf_i2p.farm.explanation import explaining
from gf_i2p.farm.pieces import whole
from gf_i2p.farm.sensed_floodfills import (
    MAX_CLOSEST,
    MAX_DAYS,
    MAX_FIGURE_NAME,
    MAX_FIGURES,
    MAX_HASHES,
    Floodfill,
    Sensed,
)
from gf_i2p.farm.state import FarmState
from gf_i2p.farm.strict_json import MAX_DATE_MS, RecordError
from gf_i2p.netdb.encoding import to_b32_address, to_base64
from gf_i2p.node.status.admin_status import describing
from tests.farm.strategies import leaf, record

LEAF = bytes(range(32))
FULL = tuple(
    Floodfill(
        bytes([rank]) * 32,
        rank.to_bytes(32),
        {f"{number}".rjust(MAX_FIGURE_NAME, "x"): -MAX_DATE_MS + 0.5 for number in range(MAX_FIGURES)},
    )
    for rank in range(MAX_CLOSEST)
)


def entry(hash_: bytes = LEAF, day: str = "2026-07-02", closest: tuple[Floodfill, ...] = FULL[:1]) -> AdminEntry:
    return AdminEntry("farm", 1000, "admin-a", "sensed", hash=hash_, sensed=Sensed(day, closest))


def text(**changes: Any) -> bytes:
    fields = json.loads(entry().encode()) | changes
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


figures = st.dictionaries(
    st.from_regex(r"[A-Za-z0-9_]{1,32}", fullmatch=True),
    st.integers(-MAX_DATE_MS, MAX_DATE_MS) | st.floats(-1e15, 1e15),
    max_size=MAX_FIGURES,
)
floodfills = st.builds(Floodfill, st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), figures)
closest = st.lists(floodfills, min_size=1, max_size=MAX_CLOSEST).map(
    lambda found: tuple(sorted(found, key=lambda each: each.distance))
)


@given(closest, st.dates().filter(lambda day: day.year >= 2000))
def test_what_is_said_is_read_and_kept(floodfills: tuple[Floodfill, ...], day: Any) -> None:
    posted = entry(day=day.isoformat(), closest=floodfills)
    assert AdminEntry.parse(posted.encode()) == posted
    state = Administration()
    state.apply(posted, 7)
    again = Administration.parse(json.loads(json.dumps(state.encode())))
    assert again.encode() == state.encode()
    [post] = again.sensing.all()
    assert (post.hash, post.sensed, post.index, post.date_ms, post.by) == (LEAF, posted.sensed, 7, 1000, "admin-a")


def test_the_longest_that_is_allowed_fits_into_an_entry() -> None:
    longest = entry(closest=FULL)
    assert len(longest.encode()) < MAX_ENTRY_BYTES
    assert AdminEntry.parse(longest.encode()) == longest


def one_floodfill(**changes: Any) -> list[dict[str, Any]]:
    return [{**FULL[1].encode(), **changes}]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (text(hash=None), "the hash is a text"),
        (text(day=None), "day is a text"),
        *(
            (text(day=day), "day is a date")
            for day in ["2026-7-2", "2026-02-29", "2026-13-01", "0001-01-01", "٢026-07-02"]
        ),
        (text(closest=None), "closest has 1 to 8"),
        (text(closest=[]), "closest has 1 to 8"),
        (text(closest=[FULL[1].encode(), FULL[0].encode()]), "the closest first"),
        (text(closest=[FULL[0].encode()] * 9), "closest is a list of up to 8"),
        (text(closest={}), "closest is a list"),
        (text(closest=[7]), "a floodfill is an object"),
        (text(closest=one_floodfill(hash="x")), "the hash of a floodfill"),
        (text(closest=one_floodfill(distance="1f")), "distance has 64 digits"),
        (text(closest=one_floodfill(distance="F" * 64)), "distance has 64 digits"),
        (text(closest=one_floodfill(profile=[])), "profile is an object"),
        (text(closest=one_floodfill(profile={str(number): 1 for number in range(9)})), "profile has up to 8 figures"),
        (text(closest=one_floodfill(profile={"a b": 1})), "profile has up to 8 figures"),
        *(
            (text(closest=one_floodfill(profile={"a": wrong})), "a is a number")
            for wrong in [True, "1", None, 2**53, 1e300]
        ),
        (text(x="y" * 9000), "up to 8192 bytes"),
        (text(x=[[]] * 32), "up to 32 lists and objects"),
    ],
)
def test_refused(data: bytes, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        AdminEntry.parse(data)


def test_how_close_one_is() -> None:
    assert [each.equal_bits for each in FULL[:3]] == [256, 255, 254]
    assert Floodfill(LEAF, b"\xff" * 32).equal_bits == 0
    assert entry(closest=(Floodfill(LEAF, b"\x01" * 32),)).what.endswith(
        "1 floodfill on 2026-07-02, the closest shares 7 bits"
    )


def test_what_was_told_longest_ago_goes_first() -> None:
    state = Administration()
    for index, day in enumerate(["2999-01-01", "2026-07-01", "2026-07-02", "2026-07-03", "2026-07-01"], 1):
        state.apply(entry(day=day), index)
    assert [(post.sensed.day, post.index) for post in state.sensing.all()] == [
        ("2026-07-01", 5),
        ("2026-07-02", 3),
        ("2026-07-03", 4),
    ]
    others = [number.to_bytes(32) for number in range(1, MAX_HASHES)]
    for index, hash_ in enumerate(others, 6):
        state.apply(entry(hash_), index)
    assert len({post.hash for post in state.sensing.all()}) == MAX_HASHES
    state.apply(entry(day="2026-07-03"), 100)  # a newer post about LEAF: another hash is now the oldest
    state.apply(entry(b"\xff" * 32), 101)
    hashes = {post.hash for post in state.sensing.all()}
    assert hashes == {LEAF, *others[1:], b"\xff" * 32}
    again = Administration.parse(json.loads(json.dumps(state.encode())))
    for each in (state, again):  # the order of telling is in the snapshot
        each.apply(entry(b"\xfe" * 32), 102)
    assert again.encode() == state.encode()


def test_the_most_that_is_kept_is_far_from_a_snapshots_limit() -> None:
    state = Administration()
    for number in range(2 * MAX_HASHES):
        for day in range(1, 2 * MAX_DAYS):
            state.apply(entry(number.to_bytes(32), f"2026-07-0{day}", FULL), 1)
    assert len(state.sensing.all()) == MAX_HASHES * MAX_DAYS
    assert len(json.dumps(state.encode())) < 2 << 20


def farm() -> FarmState:
    state = FarmState("farm")
    state.configure([1, 2])
    state.apply(record(1, leaf(1)).encode(), 2)
    state.apply(record(2, leaf(2)).encode(), 3)
    return state


def test_it_decides_nothing_and_is_no_change() -> None:
    state, other = farm(), farm()
    state.apply(entry().encode(), 4)
    assert state.administration.log == []
    assert state.choice == other.choice
    without = json.loads(state.encode())
    assert [each["hash"] for each in without["administration"].pop("sensed")] == [to_base64(LEAF)]
    assert without == json.loads(other.encode())
    state.apply(AdminEntry("other", 1, "admin-a", "sensed", hash=bytes(32), sensed=entry().sensed).encode(), 5)
    assert len(state.administration.sensing.all()) == 1


def test_a_snapshot_has_it_only_when_something_was_sensed() -> None:
    state = farm()
    assert "sensed" not in json.loads(state.encode())["administration"]
    assert FarmState.decode("farm", state.encode()).encode() == state.encode()
    state.apply(entry().encode(), 4)
    again = FarmState.decode("farm", state.encode())
    assert again.encode() == state.encode()
    assert again.administration.sensing.all() == state.administration.sensing.all()


def test_it_is_shown_and_explained() -> None:
    state = farm()
    for number in range(5):
        state.apply(entry(number.to_bytes(32)).encode(), 4 + number)
    shown = whole(describing(state))["sensed"]
    assert whole(explaining(state))["administration"]["sensed"] == shown
    assert shown[0]["address"] == to_b32_address(bytes(32))
    lines = sensed_lines(shown)
    assert lines[0] == "closest floodfills sensed for 5 hashes, last at index 8, the first 3 shown here (all: --json)"
    assert len(lines) == 4
    assert lines[1].startswith(f"{to_b32_address(bytes(32))}  1 floodfill on 2026-07-02, the closest shares 256 bits")
    assert sensed_lines([]) == []
