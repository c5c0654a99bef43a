"""Places of leaves in sets below the first one."""

from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.farm.choice.tree import branch_of, branches, is_branched, places, room

leaves = st.integers(0, 99).map(lambda number: number.to_bytes(32))


def test_room() -> None:
    assert [room("best", 16), room("tree", 16), room("tree", 3), room("tree", 1)] == [16, 256, 9, 1]


@given(
    st.dictionaries(leaves, st.integers(0, 40)).filter(lambda current: len(set(current.values())) == len(current)),
    st.lists(leaves, max_size=30, unique=True),
    st.integers(30, 60),
)
def test_who_has_a_place_keeps_it_and_everybody_else_gets_one(
    current: dict[bytes, int], hashes: list[bytes], room: int
) -> None:
    assigned = places(current, hashes, room)
    assert set(assigned) == set(hashes)
    assert len(set(assigned.values())) == len(assigned)
    assert all(0 <= place < room for place in assigned.values())
    assert all(assigned[leaf] == current[leaf] for leaf in hashes if current.get(leaf, room) < room)


def test_the_first_free_places_are_taken() -> None:
    assert places({b"a": 0, b"b": 2}, [b"b", b"c", b"d"], 16) == {b"b": 2, b"c": 0, b"d": 1}


def test_branches() -> None:
    assert [branch_of(place, 16) for place in (0, 15, 16, 255)] == [0, 0, 1, 15]
    assert branches([255, 0, 3, 17], 16) == [0, 1, 15]
    assert [is_branched(count, 16, was_branched=False) for count in (16, 17)] == [False, True]
    assert [is_branched(count, 16, was_branched=True) for count in (12, 13)] == [False, True]
