from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.group import MAX_GROUP_BYTES, Group
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY
from tests.storage.history import State, writes


def entries(*names: str, term: int = 1) -> tuple[Entry, ...]:
    return tuple(Entry(term, ValueType.APPLICATION, name.encode()) for name in names)


def group(last_index: int = 0) -> Group:
    return Group(last_index, HardState(5, NOBODY))


def names(of: Group) -> list[str]:
    return [entry.value.decode() for entry in of.entries]


def test_an_empty_group_changes_nothing() -> None:
    new = group(9)
    assert (new.count, new.first_index, new.last_index, new.entries, new.hard_state_changed) == (0, 10, 9, [], False)


def test_writes_that_follow_one_another_are_joined() -> None:
    joined = group(2)
    joined.add(Write(None, 3, entries("c", "d")))
    joined.add(Write(None, 5, entries("e")))
    assert (joined.first_index, names(joined), joined.last_index, joined.count) == (3, ["c", "d", "e"], 5, 2)


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
    joined = Group(len(state.entries), state.hard_state)
    kept = list(state.entries)
    for write in history[before:]:
        joined.add(write)
        state.apply(write)
    assert kept[: joined.first_index - 1] + joined.entries == state.entries
    assert joined.last_index == len(state.entries)
    assert joined.hard_state == state.hard_state
    assert joined.count == count


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
        Group(0, HardState(5, 2)).add(Write(new, 1, ()))


@pytest.mark.parametrize("new", [HardState(5, 2), HardState(6, NOBODY), HardState(6, 3)])
def test_a_vote_may_be_repeated_and_a_new_term_has_none(new: HardState) -> None:
    Group(0, HardState(5, 2)).add(Write(new, 1, ()))


def test_an_entry_of_a_term_that_the_server_has_not_seen_is_refused() -> None:
    with pytest.raises(StorageError, match="term 6 was to be stored in term 5"):
        group().add(Write(None, 1, entries("x", term=6)))
    group().add(Write(HardState(6, NOBODY), 1, entries("x", term=6)))


def test_a_group_is_full_by_the_bytes_it_has_taken() -> None:
    joined = group()
    half = (Entry(1, ValueType.APPLICATION, bytes(MAX_GROUP_BYTES // 2 - 13)),)
    joined.add(Write(None, 1, half))
    assert not joined.full
    joined.add(Write(None, 1, half))  # the first half is removed again, but had its share of the memory
    assert joined.full
