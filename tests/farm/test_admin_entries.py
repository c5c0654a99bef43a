"""Entries of administrators: read as written, in the ranges, and remembered with author and time."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.farm.admin_entries import (
    ACTIONS,
    MAX_EXCLUDED,
    MAX_LOG,
    MAX_SERVER_KEYS,
    AdminEntry,
    Administration,
    ServerKey,
)
from gf_i2p.farm.parameters import NAMES, Parameters
from gf_i2p.farm.record.status_record import RecordError
from gf_i2p.netdb.encoding import to_base64

LEAF = bytes(range(32))


def admin_entry(action: str, **values: Any) -> AdminEntry:
    return AdminEntry("farm", 1000, "admin-a", action, **values)


def text(**changes: Any) -> bytes:
    fields = {"cluster": "farm", "date": 1000, "by": "admin-a", "action": "exclude", "hash": to_base64(LEAF), **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


entries = st.one_of(
    st.builds(admin_entry, st.sampled_from(["exclude", "include"]), hash=st.binary(min_size=32, max_size=32)),
    st.builds(admin_entry, st.just("cost"), hash=st.just(LEAF), cost=st.none() | st.integers(0, 255)),
    st.builds(admin_entry, st.sampled_from(["move", "drain", "undrain"]), server=st.integers(0, 2**31)),
    st.builds(admin_entry, st.just("release"), reason=st.none() | st.text(max_size=20)),
    st.builds(
        admin_entry, st.just("set"), parameters=st.fixed_dictionaries({"margin": st.none() | st.integers(0, 1000)})
    ),
)


@given(st.lists(entries, max_size=20))
def test_what_is_said_is_read_and_kept(given_: list[AdminEntry]) -> None:
    state = Administration()
    for index, entry in enumerate(given_, 1):
        assert AdminEntry.parse(entry.encode()) == entry
        state.apply(entry, index)
    again = Administration.parse(json.loads(json.dumps(state.encode())))
    assert again.encode() == state.encode()
    assert [change.what for change in again.log] == [entry.what for entry in given_]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (text(action="burn"), "action is one of"),
        (text(hash=None), "the hash is a text"),
        (text(by=""), "by has up to"),
        (text(by="x" * 101), "by has up to"),
        (text(reason="x" * 201), "reason up to 200"),
        (text(action="cost", cost=256), "cost is a whole number from 0 to 255"),
        (text(action="cost", cost=True), "cost is a whole number"),
        (text(action="move"), "server is a whole number"),
        (text(action="set"), "set names at least one"),
        (text(action="set", parameters={}), "set names at least one"),
        (text(action="set", parameters={"margin": 1001}), "margin is a whole number from 0 to 1000"),
        (text(action="set", parameters={"marginal": 1}), "is no parameter of a farm; choose from aheadMs"),
        (text(action="set", parameters={"tree": "oak"}), "tree is one of best, tree"),
        (text(x="y" * 9000), "up to 8192 bytes"),
        (text(x=[[]] * 32), "up to 32 lists and objects"),
        (b"hello", "JSON object in UTF-8"),
    ],
)
def test_refused(data: bytes, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        AdminEntry.parse(data)


def test_each_action_does_what_it_says() -> None:
    state = Administration()
    state.apply(admin_entry("exclude", hash=LEAF, reason="broken"), 1)
    state.apply(admin_entry("cost", hash=LEAF, cost=7), 2)
    state.apply(admin_entry("move", server=2), 3)
    state.apply(admin_entry("drain", server=3), 4)
    state.apply(admin_entry("set", parameters={"margin": 5, "tree": "tree"}), 5)
    assert state.excluded[LEAF].reason == "broken"
    assert state.excluded[LEAF].index == 1
    assert (state.costs, state.moved_to, set(state.drained)) == ({LEAF: 7}, 2, {3})
    assert (state.parameters.margin, state.parameters.tree) == (5, "tree")
    for number, entry in enumerate(
        [
            admin_entry("include", hash=LEAF),
            admin_entry("cost", hash=LEAF),
            admin_entry("release"),
            admin_entry("undrain", server=3),
            admin_entry("set", parameters={"margin": None}),
        ],
        6,
    ):
        state.apply(entry, number)
    assert (state.excluded, state.costs, state.moved_to, state.drained) == ({}, {}, None, {})
    assert state.parameters == Parameters(tree="tree")
    assert {name: change.index for name, change in state.changed.items()} == {"margin": 10, "tree": 5}


def test_what_concerns_a_server_goes_with_it() -> None:
    state = Administration()
    state.apply(admin_entry("move", server=2), 1)
    state.apply(admin_entry("drain", server=3), 2)
    state.forget({1})
    assert (state.moved_to, state.drained) == (None, {})


def test_there_is_an_end_to_what_is_remembered() -> None:
    state = Administration()
    for number in range(MAX_EXCLUDED + 1):
        state.apply(admin_entry("exclude", hash=number.to_bytes(32)), number + 1)
        state.apply(admin_entry("drain", server=number), number + 1)
    assert len(state.excluded) == MAX_EXCLUDED
    assert len(state.drained) == 64
    assert len(state.log) == MAX_LOG


def test_parameters_that_clash_are_left_out() -> None:
    state = Administration()
    state.apply(admin_entry("set", parameters={"republishMaxMs": 60_000}), 1)
    state.apply(admin_entry("set", parameters={"republishMinMs": 90_000}), 2)
    assert state.parameters == Parameters(republish_max_ms=60_000)
    assert list(state.changed) == ["republishMaxMs"]


def test_each_parameter_has_a_range_and_a_default_that_is_in_it() -> None:
    assert Parameters().changed(Parameters().all()) == Parameters()
    assert Parameters().encode() == {}
    for name in NAMES:
        with pytest.raises(RecordError, match=name):
            Parameters().changed({name: -1})


def test_all_actions_are_tried_here() -> None:
    tried = {"exclude", "include", "cost", "move", "release", "drain", "undrain", "set", "sensed", "serverKey"}
    assert tried | {"publishNow", "admit"} == set(ACTIONS), "admit: see test_admission"


def test_an_order_to_publish_changes_no_choice_and_is_kept_in_snapshots() -> None:
    entry = AdminEntry.parse(admin_entry("publishNow", reason="the floodfill was renewed").encode())
    assert (entry.what, entry.changes_no_choice) == ("publish a new set now", True)
    state = Administration()
    assert "publishNow" not in state.encode(), "older nodes know no such field"
    state.apply(entry, 7)
    assert state.publish_now is not None
    assert (state.publish_now.index, state.log[-1].reason) == (7, "the floodfill was renewed")
    assert Administration.parse(state.encode()).publish_now == state.publish_now


def test_a_servers_key_is_replaced_and_goes_with_the_server() -> None:
    entry = admin_entry("serverKey", server=2, key=bytes(range(32)))
    assert AdminEntry.parse(entry.encode()) == entry
    assert (entry.changes_no_choice, admin_entry("move", server=2).changes_no_choice, entry.what) == (
        True,
        False,
        "serverKey 2",
    )
    state = Administration()
    state.apply(entry, 7)
    state.apply(admin_entry("serverKey", server=3, key=bytes(32)), 8)
    state.apply(admin_entry("serverKey", server=2, key=bytes(32)), 9)
    assert state.server_keys == {2: ServerKey(bytes(32), 9), 3: ServerKey(bytes(32), 8)}
    assert Administration.parse(state.encode()).server_keys == state.server_keys
    assert [change.what for change in state.log] == ["serverKey 2", "serverKey 3", "serverKey 2"]
    state.forget({1, 3})
    assert list(state.server_keys) == [3]
    state.forget(set())
    assert "serverKeys" not in state.encode(), "a state without keys has the bytes of older versions"


@pytest.mark.parametrize(
    "change", [{"key": None}, {"key": "short"}, {"key": 5}, {"server": None}, {"server": -1}], ids=str
)
def test_a_servers_key_needs_a_server_and_32_bytes(change: dict[str, Any]) -> None:
    fields = json.loads(admin_entry("serverKey", server=2, key=bytes(32)).encode())
    with pytest.raises(RecordError):
        AdminEntry.parse(json.dumps(fields | change).encode())


def test_there_is_an_end_to_the_keys() -> None:
    state = Administration()
    for server in range(MAX_SERVER_KEYS + 1):
        state.apply(admin_entry("serverKey", server=server, key=bytes(32)), server + 1)
    state.apply(admin_entry("serverKey", server=0, key=bytes(range(32))), MAX_SERVER_KEYS + 2)
    assert len(state.server_keys) == MAX_SERVER_KEYS
    assert state.server_keys[0].key == bytes(range(32)), "a key that is known can be replaced"
