from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.write_group import MAX_GROUP_BYTES, Base, WriteGroup
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import MAX_SNAPSHOT_BYTES
from gf_i2p.wire.messages import NOBODY
from tests.storage.random_writes import State, snapshot, writes


def entries(*names: str, term: int = 1) -> tuple[Entry, ...]:
    return tuple(Entry(term, ValueType.APPLICATION, name.encode()) for name in names)


def group(last_index: int = 0) -> WriteGroup:
    return WriteGroup(last_index, HardState(5, NOBODY))


def names(of: WriteGroup) -> list[str]:
    return [entry.value.decode() for entry in of.entries]


def test_an_empty_group_changes_nothing() -> None:
    new = group(9)
    assert (new.number, new.first_index, new.last_index, new.entries, new.hard_state_changed) == (0, 10, 9, [], False)


def test_writes_that_follow_one_another_are_joined() -> None:
    joined = group(2)
    joined.add(Write(None, 3, entries("c", "d")))
    joined.add(Write(None, 5, entries("e"), number=7))
    assert (joined.first_index, names(joined), joined.last_index, joined.number) == (3, ["c", "d", "e"], 5, 7)


def test_a_later_write_removes_the_end_of_an_earlier_one() -> None:
    joined = group(2)
    joined.add(Write(None, 3, entries("c", "d", "e")))
    joined.add(Write(None, 4, entries("D", term=2)))
    assert (joined.first_index, names(joined), joined.last_index) == (3, ["c", "D"], 4)


def test_a_later_write_that_begins_before_an_earlier_one_replaces_it() -> None:
    joined = group(9)
    joined.add(Write(None, 10, entries("j", "k")))
    joined.add(Write(None, 4, entries("D", term=2)))
    joined.add(Write(None, 5, entries("E", term=2)))
    assert (joined.first_index, names(joined), joined.last_index) == (4, ["D", "E"], 5)


def test_a_write_without_entries_removes_nothing() -> None:
    joined = group(9)
    joined.add(Write(HardState(6, 2), 4, ()))
    assert (joined.first_index, joined.last_index, joined.hard_state) == (10, 9, HardState(6, 2))
    assert joined.hard_state_changed


def test_the_last_hard_state_counts() -> None:
    joined = group()
    joined.add(Write(HardState(6, NOBODY), 1, ()))
    joined.add(Write(HardState(6, 3), 1, ()))
    joined.add(Write(None, 1, entries("a")))
    joined.add(Write(HardState(7, 4), 1, ()))
    assert joined.hard_state == HardState(7, 4)


@given(st.integers(0, 2**32), st.integers(0, 30), st.integers(1, 30))
def test_a_group_does_what_its_writes_do_one_by_one(seed: int, before: int, count: int) -> None:
    history = list(islice(writes(seed, max_value=20), before + count))
    state = State()
    for write in history[:before]:
        state.apply(write)
    old = state.after(Write(None, 0, ()))
    joined = WriteGroup(old.last_index, old.hard_state, terms=old.terms, base=Base(*old.base), covered=old.final)
    for write in history[before:]:
        joined.add(write)
        state.apply(write)
    kept = [entry for index, entry in old.numbered if joined.base.last < index < joined.first_index]
    assert kept + joined.entries == state.entries
    assert joined.base == state.base
    assert joined.last_index == state.last_index
    assert joined.hard_state == state.hard_state
    assert (joined.snapshot or old.snapshot) == state.snapshot


@pytest.mark.parametrize("first", [0, -1, 11])
def test_a_gap_is_refused(first: int) -> None:
    with pytest.raises(StorageError, match=r"log that ends at 9.*defect"):
        group(9).add(Write(None, first, entries("x")))


def test_a_gap_is_refused_also_when_a_later_write_would_hide_it() -> None:
    joined = group(9)
    joined.add(Write(None, 5, entries("x")))
    with pytest.raises(StorageError, match="log that ends at 5"):
        joined.add(Write(None, 10, entries("y")))


@pytest.mark.parametrize("new", [HardState(4, 1), HardState(5, 3), HardState(5, NOBODY)])
def test_a_term_or_a_vote_is_not_taken_back(new: HardState) -> None:
    with pytest.raises(StorageError, match="defect"):
        WriteGroup(0, HardState(5, 2)).add(Write(new, 1, ()))


@pytest.mark.parametrize("new", [HardState(5, 2), HardState(6, NOBODY), HardState(6, 3)])
def test_a_vote_may_be_repeated_and_a_new_term_has_none(new: HardState) -> None:
    WriteGroup(0, HardState(5, 2)).add(Write(new, 1, ()))


def test_an_entry_of_a_term_that_the_server_has_not_seen_is_refused() -> None:
    with pytest.raises(StorageError, match="term 6 was to be stored in term 5"):
        group().add(Write(None, 1, entries("x", term=6)))
    group().add(Write(HardState(6, NOBODY), 1, entries("x", term=6)))


def test_a_group_is_full_by_the_bytes_it_has_taken() -> None:
    joined = group()
    half = (Entry(1, ValueType.APPLICATION, bytes(MAX_GROUP_BYTES // 2 - 13)),)
    joined.add(Write(None, 1, half))
    assert not joined.full
    joined.add(Write(None, 1, half))  # the first half is removed again, but had a share of the memory
    assert joined.full


# Snapshots ------------------------------------------------------------------------------------------------------------

TERMS = ((3, 1), (6, 2))


def compacted(**changes: Any) -> WriteGroup:
    """A log of the entries 4 to 9, 4 and 5 of term 1, the others of term 2, with a snapshot up to 5."""
    given: dict[str, Any] = {"terms": TERMS, "base": Base(3, 1), "covered": 5} | changes
    return WriteGroup(9, HardState(5, NOBODY), **given)


def test_a_drop_moves_the_base_and_leaves_the_rest() -> None:
    joined = compacted()
    joined.add(Write(None, 0, (), drop=5))
    assert (joined.base, joined.first_index, joined.last_index) == (Base(5, 1), 10, 9)
    joined.add(Write(None, 0, (), snapshot(8, 2), drop=8))
    assert (joined.base, joined.first_index, joined.last_index) == (Base(8, 2), 10, 9)
    assert joined.snapshot == snapshot(8, 2)


def test_what_is_stored_and_dropped_in_one_group_never_reaches_the_disk() -> None:
    joined = compacted()
    joined.add(Write(None, 8, entries("H", "I", "J", "K", term=3), snapshot(10, 3), drop=9))
    assert (joined.base, joined.first_index, names(joined), joined.last_index) == (Base(9, 3), 10, ["J", "K"], 11)
    joined.add(Write(None, 0, (), snapshot(11, 3), drop=11))
    assert (joined.base, joined.first_index, names(joined), joined.last_index) == (Base(11, 3), 12, [], 11)


def test_an_install_replaces_the_log_and_what_follows_it_is_appended() -> None:
    joined = compacted()
    joined.add(Write(None, 10, entries("j", term=2)))
    joined.add(Write(HardState(7, 1), 0, (), snapshot(20, 6), 20, install=True))
    assert (joined.base, joined.first_index, names(joined), joined.last_index) == (Base(20, 6), 21, [], 20)
    joined.add(Write(None, 21, entries("u", "v", term=6)))
    joined.add(Write(None, 22, entries("V", term=7)))
    assert (joined.base, joined.first_index, names(joined), joined.last_index) == (Base(20, 6), 21, ["u", "V"], 22)
    assert joined.snapshot == snapshot(20, 6)


def test_an_install_removes_entries_that_went_another_way() -> None:
    joined = compacted()
    joined.add(Write(None, 0, (), snapshot(7, 4), install=True))
    assert (joined.base, joined.first_index, joined.last_index) == (Base(7, 4), 8, 7)


def test_a_snapshot_counts_for_the_size_of_a_group() -> None:
    joined = compacted()
    joined.add(Write(None, 0, (), snapshot(9, 2, bytes(MAX_GROUP_BYTES))))
    assert joined.full


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (Write(None, 0, (), snapshot(5, 1)), "after one up to 5"),
        (Write(None, 0, (), snapshot(4, 1)), "after one up to 5"),
        (Write(None, 0, (), snapshot(4, 1), install=True), "after one up to 5"),
        (Write(None, 0, (), snapshot(8, 1)), "has no such entry"),
        (Write(None, 0, (), snapshot(10, 2)), "log that ends at 9 and has no such entry"),
        (Write(None, 0, (), snapshot(8, 2), install=True), "has that entry, and others up to 9"),
        (Write(None, 0, (), snapshot(12, 6), install=True), "in term 5"),
        (Write(None, 0, (), snapshot(12, 0), install=True), "in term 5"),
        (Write(None, 10, entries("j", term=2), snapshot(12, 5), install=True), "entries that came with it"),
        (Write(None, 0, (), snapshot(8, 2, b"")), "with 0 bytes"),
        (Write(None, 0, (), snapshot(8, 2, bytes(MAX_SNAPSHOT_BYTES + 1))), "bytes; 1 to 67108864 are legal"),
        (Write(None, 0, (), install=True), "replaced without a snapshot"),
        (Write(None, 0, (), drop=6), "snapshot of the entries up to 5"),
        (Write(None, 0, (), snapshot(8, 2), drop=9), "snapshot of the entries up to 8"),
        (Write(None, 0, (), drop=2), "begins after 3"),
        (Write(None, 0, (), drop=-1), "begins after 3"),
        (Write(None, 5, entries("e")), "covered up to 5 by a snapshot"),
        (Write(None, 3, entries("c")), "covered up to 5 by a snapshot"),
    ],
)
def test_what_no_core_issues_is_refused(write: Write, message: str) -> None:
    with pytest.raises(StorageError, match=f"{message}.*defect"):
        compacted().add(write)


@pytest.mark.parametrize(
    "write",
    [
        Write(None, 0, (), snapshot(9, 2), install=True),
        Write(None, 0, (), snapshot(6, 2)),
        Write(None, 0, (), drop=3),
        Write(None, 0, (), drop=5),
        Write(None, 6, entries("f", term=2)),
    ],
)
def test_what_is_only_just_right_is_taken(write: Write) -> None:
    compacted().add(write)


def test_a_snapshot_may_end_with_an_entry_of_its_own_group() -> None:
    joined = compacted()
    joined.add(Write(None, 9, entries("I", "J", term=3)))
    with pytest.raises(StorageError, match="no such entry"):
        joined.add(Write(None, 0, (), snapshot(9, 2)))
    joined.add(Write(None, 0, (), snapshot(10, 3)))
    with pytest.raises(StorageError, match="covered up to 10"):
        joined.add(Write(None, 10, entries("J", term=3)))


@pytest.mark.parametrize("index", [3, 4, 9, 20])
def test_a_damaged_snapshot_is_replaced_by_one_from_the_base_on(index: int) -> None:
    term = {3: 1, 4: 1, 9: 2, 20: 2}[index]
    joined = compacted(covered=0, lost=True)
    joined.add(Write(None, 0, (), snapshot(index, term), drop=index, install=index > 9))
    assert joined.base == (index, term)


@pytest.mark.parametrize(
    "write",
    [
        Write(None, 0, (), snapshot(2, 1)),
        Write(None, 0, (), snapshot(2, 1), install=True),
        Write(None, 0, (), snapshot(3, 2)),
        Write(None, 0, (), drop=4),
        Write(None, 3, entries("c")),
    ],
)
def test_a_damaged_snapshot_takes_back_no_promise(write: Write) -> None:
    with pytest.raises(StorageError, match="defect"):
        compacted(covered=0, lost=True).add(write)
