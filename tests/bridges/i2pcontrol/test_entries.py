"""The plain entries of PublishMetaLS, as a caller gives them: bridges/i2pcontrol/extension.py."""

from typing import Any

import pytest

from bridges.i2pcontrol.extension import CallParameters, ParameterError
from gf_i2p.netdb.encoding import to_b32_address, to_base64
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease
from tests.netdb.strategies import NOW

LEAF = bytes(range(32))
GOOD: dict[str, Any] = {"Hash": to_base64(LEAF), "Type": 3, "Cost": 7, "Expires": NOW + 3600}


def taken(entries: Any, **more: Any) -> list[MetaLease]:
    return CallParameters({"Entries": entries, **more}).entries()


def refusal(entries: Any, **more: Any) -> str:
    with pytest.raises(ParameterError) as caught:
        taken(entries, **more)
    return str(caught.value)


def many(count: int) -> list[dict[str, Any]]:
    return [{**GOOD, "Hash": to_base64(number.to_bytes(32))} for number in range(count)]


def test_entries_keep_their_order_and_their_values() -> None:
    address = to_b32_address(bytes(32))
    assert taken([GOOD, {"Hash": address, "Type": 7, "Cost": 255, "Expires": 2**32 - 1}]) == [
        MetaLease(LEAF, NOW + 3600, 7, LeaseType.LEASE_SET2),
        MetaLease(bytes(32), 2**32 - 1, 255, LeaseType.META),
    ]
    assert taken([{name: GOOD[name] for name in ("Hash", "Cost", "Expires")}])[0].type is LeaseType.LEASE_SET2
    assert len(taken(many(16))) == 16


@pytest.mark.parametrize("entries", [None, {}, "x", 1, True, [], many(17), [None] * 100_000], ids=lambda each: "")
def test_a_list_of_one_to_sixteen(entries: Any) -> None:
    assert refusal(entries) == "Entries: expected a list of 1 to 16 objects"


@pytest.mark.parametrize("entry", [None, 1, True, "x", [], [GOOD], float("nan")])
def test_an_entry_is_an_object(entry: Any) -> None:
    assert refusal([GOOD, entry]) == "Entries: entry 2: expected an object"


WHOLE: tuple[Any, ...] = (True, False, 1.0, 3.0, 7.5, float("nan"), float("inf"), "3", "", [], {}, -1, 2**32, 10**30)
WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "Hash": ((None, 0, True, "", "x", "é", "A" * 42, "A" * 43 + "B", "A" * 10_000, [], {}, "a.b32.i2p"), ""),
    "Type": ((*WHOLE, None, 0, 1, 5, 8), "expected 3 or 7"),
    "Cost": ((*WHOLE, 256), "expected a whole number from 0 to 255"),
    "Expires": (WHOLE, "expected whole seconds since the epoch"),
}


@pytest.mark.parametrize("name", WRONG)
def test_members_of_wrong_types_or_ranges(name: str) -> None:
    wrongs, expected = WRONG[name]
    for wrong in wrongs:
        told = refusal([{**GOOD, "Hash": to_base64(bytes(32))}, {**GOOD, name: wrong}])
        assert told.startswith(f"Entries: entry 2: {name}: "), wrong
        assert told.endswith((expected, "is missing")), wrong


@pytest.mark.parametrize("name", ["Hash", "Cost", "Expires"])
def test_a_member_that_is_missing(name: str) -> None:
    assert refusal([{each: GOOD[each] for each in GOOD if each != name}]) == f"Entries: entry 1: {name}: is missing"


def test_a_member_that_is_unknown() -> None:
    assert refusal([{**GOOD, "Flags": 0}]) == "Entries: entry 1: 'Flags': there is no such parameter here"


def test_one_destination_twice_in_either_form() -> None:
    for form in (to_base64(LEAF), to_base64(LEAF).rstrip("="), to_b32_address(LEAF), to_b32_address(LEAF).upper()):
        assert "entry 2: Hash: an entry before has the same destination" in refusal([GOOD, {**GOOD, "Hash": form}])


@pytest.mark.parametrize("name", ["LeaseSet", "SessionConfig", "SignedSessionConfig"])
@pytest.mark.parametrize("value", [None, "AAAA"])
def test_a_signed_set_beside_entries(name: str, value: Any) -> None:
    assert refusal([GOOD], **{name: value}) == (
        f"{name}: cannot stand beside Entries: give a signed set, or plain entries"
    )
