"""Snapshots that another server has made up: refused with a reason, or a state like any other."""

import json
import random
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gf_i2p.farm.state import FarmState, SnapshotError
from gf_i2p.netdb.encoding import to_base64
from tests.farm.made_up_logs import log, take
from tests.farm.strategies import leaf, record
from tests.tier import examples

seeds = st.integers(0, 2**32 - 1)
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    3,
    77,
    2**31,
    2**53,
    2**64,
    10**400,
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "1",
    "\ud800",
    "x" * 5000,
    [],
    [[]],
    [1],
    {},
    {"format": []},
]


@cache
def encoded(seed: int) -> bytes:
    state = FarmState("farm")
    state.configure([1, 2, 3])
    for index, entry in enumerate(log(seed, 60), 1):
        take(state, index, entry)
    return state.encode()


def real(seed: int) -> Any:
    """Give a snapshot after one of seven made-up logs, as JSON."""
    return json.loads(encoded(seed % 7))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Give every place in a JSON value, as container and key."""
    found = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        found.append((value, key))
        found += places(each)
    return found


def mutated(seed: int) -> bytes:
    """Give a real snapshot after one to three changes."""
    rng = random.Random(seed)
    snapshot = real(seed)
    for _ in range(rng.randint(1, 3)):
        spots = places(snapshot)
        sections = [spot for spot in spots if spot[0] is snapshot]
        container, key = rng.choice(sections if rng.random() < 0.05 else spots)
        change = rng.random()
        if change < 0.1:
            del container[key]
        elif change < 0.2 and isinstance(container, list):
            container.append(deepcopy(container[key]))
        elif change < 0.4:
            other, its_key = rng.choice(spots)
            try:
                container[key] = deepcopy(other[its_key])
            except (LookupError, TypeError):  # an earlier change has taken that place
                continue
        else:
            container[key] = rng.choice(ODD)
    return json.dumps(snapshot).encode()


def check(data: bytes) -> None:
    """Only `SnapshotError` comes out of a decoding; a state that is read takes further entries."""
    try:
        state = FarmState.decode("farm", data)
    except SnapshotError as error:
        str(error).encode()
        return
    _ = state.choice
    again = FarmState.decode("farm", state.encode())
    for each in (state, again):
        each.apply(record(1, leaf(1)).encode(), 1000)
        each.configure([1, 2])
        _ = each.choice
        each.encode()


@settings(max_examples=examples(150), deadline=None)
@given(seeds)
def test_a_changed_snapshot_is_refused_or_read(seed: int) -> None:
    check(mutated(seed))


@settings(max_examples=examples(50), deadline=None)
@given(seeds, st.binary(max_size=3))
@example(0, b"[" * 100_000)
def test_changed_bytes_of_a_snapshot_are_refused_or_read(seed: int, piece: bytes) -> None:
    rng = random.Random(seed)
    data = json.dumps(real(seed)).encode()
    at = rng.randrange(len(data))
    check(data[:at] + piece + data[at + rng.randint(0, 3) :])


def test_a_publisher_that_is_no_server_is_refused() -> None:
    snapshot = real(1)
    snapshot["election"]["publisher"] = 77
    with pytest.raises(SnapshotError, match="the publisher 77, which is no server"):
        FarmState.decode("farm", json.dumps(snapshot).encode())


def test_a_publisher_that_cannot_publish_is_read_and_replaced_at_the_next_record() -> None:
    for publisher in (1, 2, 3, 4, 5):
        snapshot = real(1)
        snapshot["servers"] = [1, 2, 3, 4, 5]
        snapshot["election"]["publisher"] = publisher
        state = FarmState.decode("farm", json.dumps(snapshot).encode())
        assert state.choice.publisher == publisher
        state.apply(record(1, leaf(1)).encode(), 1000)
        assert state.choice.publisher in {None, *state.merits()}


def test_other_errors_than_expected_are_refusals_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise IndexError("a defect")

    monkeypatch.setattr(FarmState, "_make_choice", fails)
    with pytest.raises(SnapshotError, match="IndexError: a defect"):
        FarmState.decode("farm", encoded(1))


@pytest.mark.parametrize("form", ["[]", "{}", "null", "true", "2.5", '"2"', "1e999", '"\\ud800"'])
def test_any_format_but_this_programs_is_refused(form: str) -> None:
    with pytest.raises(SnapshotError):
        FarmState.decode("farm", f'{{"format":{form}}}'.encode())


LISTED = ["A" * 43 + "=", 1, 3, 0, 0]


@pytest.mark.parametrize(
    ("column", "number"),
    [(1, -1), (1, 2**32), (1, True), (2, 5), (2, 3.0), (3, 256), (3, -1), (3, "1"), (4, 256), (4, -1), (4, 10**30)],
)
def test_a_listed_leaf_that_no_set_can_hold_is_refused(column: int, number: object) -> None:
    """Before, such a state was read, and the publisher failed at its next set."""
    snapshot = real(1)
    snapshot["listing"]["listed"] = [LISTED]
    FarmState.decode("farm", json.dumps(snapshot).encode())
    snapshot["listing"]["listed"] = [[*LISTED[:column], number, *LISTED[column + 1 :]]]
    with pytest.raises(SnapshotError):
        FarmState.decode("farm", json.dumps(snapshot).encode())


def test_a_place_beyond_the_room_of_the_sets_is_refused() -> None:
    snapshot = real(1)
    snapshot["administration"]["parameters"] = {"tree": "tree", "maxEntries": 4}
    snapshot["listing"]["listed"] = [[*LISTED[:4], 15]]
    FarmState.decode("farm", json.dumps(snapshot).encode())
    snapshot["listing"]["listed"] = [[*LISTED[:4], 16]]
    with pytest.raises(SnapshotError, match="beyond the 16 places"):
        FarmState.decode("farm", json.dumps(snapshot).encode())


def test_more_listed_leaves_than_a_tree_has_are_refused() -> None:
    snapshot = real(1)
    snapshot["listing"]["listed"] = [
        [to_base64(bytes([n % 256, n // 256, *bytes(30)])), 1, 3, 0, 0] for n in range(257)
    ]
    with pytest.raises(SnapshotError, match="up to 256"):
        FarmState.decode("farm", json.dumps(snapshot).encode())


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        (("accused",), [[1, 2, 0.5]]),
        (("accused",), [[1, "2", 3]]),
        (("accused",), [[2**32, 2, 3]]),
        (("election", "able"), [[1, -1]]),
        (("election", "able"), [[1.0, 5]]),
        (("election", "able"), [[1, 10**30]]),
    ],
)
def test_numbers_of_servers_and_times_are_whole_and_in_range(path: tuple[str, ...], rows: list[Any]) -> None:
    snapshot = real(1)
    part = snapshot
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = rows
    with pytest.raises(SnapshotError):
        FarmState.decode("farm", json.dumps(snapshot).encode())
