import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.storage import entry_chunks
from gf_i2p.storage.entry_chunks import Chunk, TermRun, pack_chunk, pack_entries, term_at, unpack_chunk
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES, Entry, ValueType


def entry(term: int = 1, size: int = 10, kind: ValueType = ValueType.APPLICATION) -> Entry:
    return Entry(term, kind, bytes(size))


def unpacked(rows: list[Chunk]) -> list[Entry]:
    return [entry for row in rows for entry in unpack_chunk(row)]


@given(
    st.lists(
        st.builds(Entry, st.just(5), st.sampled_from(ValueType), st.binary(max_size=40)),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 2**40),
    st.integers(1, 120),
    st.integers(1, 10),
)
def test_rows_follow_one_another_and_hold_every_entry(
    entries: list[Entry], first: int, max_bytes: int, max_entries: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry_chunks, "MAX_CHUNK_BYTES", max_bytes)
        patch.setattr(entry_chunks, "MAX_CHUNK_ENTRIES", max_entries)
        packed = pack_entries(first, entries, 5)
    assert unpacked(packed.chunks) == entries
    index = first
    for row in packed.chunks:
        assert row.first == index
        assert 1 <= row.length <= max_entries
        assert len(row.data) <= max_bytes or row.length == 1
        index = row.end
    assert packed.runs == []
    assert packed.configurations == [
        (index, each.value) for index, each in enumerate(entries, first) if each.value_type == ValueType.CONFIGURATION
    ]


def test_a_row_is_cut_at_256_kib_or_1024_entries() -> None:
    kib = entry(size=1024 - ENTRY_HEADER_BYTES)
    assert [row.length for row in pack_entries(1, [kib] * 600, 1).chunks] == [256, 256, 88]
    assert [row.length for row in pack_entries(1, [entry(size=0)] * 2049, 1).chunks] == [1024, 1024, 1]
    large = entry(size=1 << 20)
    assert [row.length for row in pack_entries(1, [kib, large, kib, kib], 1).chunks] == [1, 1, 2]


def test_runs_begin_where_the_term_changes() -> None:
    entries = [entry(2), entry(2), entry(3), entry(7), entry(7)]
    assert pack_entries(10, entries, 1).runs == [TermRun(10, 2), TermRun(12, 3), TermRun(13, 7)]
    assert pack_entries(10, entries, 2).runs == [TermRun(12, 3), TermRun(13, 7)]


@pytest.mark.parametrize(("before", "terms"), [(4, (3,)), (1, (3, 2)), (0, (1, 1, 0))])
def test_a_falling_term_is_refused(before: int, terms: tuple[int, ...]) -> None:
    with pytest.raises(StorageError, match="defect"):
        pack_entries(1, [entry(term) for term in terms], before)


def test_term_at() -> None:
    runs = [(1, 2), (5, 3), (6, 9)]
    assert [term_at(runs, index) for index in range(8)] == [0, 2, 2, 2, 2, 3, 9, 9]
    assert term_at([], 3) == 0


def test_any_changed_bit_is_noticed() -> None:
    row = pack_chunk(1000, [entry(3, 5), entry(3, 0)])
    assert unpack_chunk(row) == (entry(3, 5), entry(3, 0))
    for bit in range(8 * len(row.data)):
        data = bytearray(row.data)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="checksum"):
            unpack_chunk(row._replace(data=bytes(data)))


@pytest.mark.parametrize(
    ("change", "message"),
    [((1001, 2), "checksum"), ((1000, 1), "2 entries"), ((1000, 3), "2 entries")],
)
def test_a_row_in_the_wrong_place_or_of_the_wrong_length_is_noticed(change: tuple[int, int], message: str) -> None:
    row = pack_chunk(1000, [entry(), entry()])
    with pytest.raises(ValueError, match=message):
        unpack_chunk(Chunk(*change, row.checksum, row.data))


def test_bytes_that_are_no_entries_are_noticed_even_with_a_right_checksum() -> None:
    good = pack_chunk(3, [entry()])
    cut = good.data[:-1]
    row = good._replace(data=cut, checksum=entry_chunks._checksum(3, cut))
    with pytest.raises(ValueError, match="cannot be decoded"):
        unpack_chunk(row)
    with pytest.raises(ValueError, match="0 entries"):
        unpack_chunk(Chunk(3, 0, entry_chunks._checksum(3, b""), b""))
