"""The log in memory, compared with a plain list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.raft.effects import Write
from gf_i2p.raft.log import Log
from gf_i2p.wire.entries import Entry
from tests.raft.lab import Disk, application

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5), st.integers(0, 2)),
        st.tuples(st.just("replace"), st.integers(0, 30), st.integers(1, 4)),
        st.tuples(st.just("store"), st.integers(1, 3), st.just(0)),
    ),
    max_size=40,
)


@given(steps, st.integers(0, 400), st.integers(1, 6), st.integers(1, 300))
def test_it_behaves_as_a_list(
    steps: list[tuple[str, int, int]], cache_bytes: int, max_entries: int, max_bytes: int
) -> None:
    disk = Disk()
    log = Log(disk, cache_bytes=cache_bytes)
    model: list[Entry] = []
    waiting: list[Write] = []
    number = 0
    for verb, one, two in steps:
        if verb == "store":
            for write in waiting[:one]:
                disk.write(write)
            number += len(waiting[:one])
            del waiting[:one]
            log.write_stored(number)
            assert model[: log.stored] == disk.entries[: log.stored], "what counts as stored is on the disk"
            if not waiting:
                assert log.stored == len(model)
            continue
        first = len(model) + 1 if verb == "append" else max(1, len(model) - one)
        term = max([entry.term for entry in model] or [1]) + (two if verb == "append" else 1)
        added = [application(f"{first + i}", term) for i in range(one if verb == "append" else two)]
        model[first - 1 :] = added
        log.replace_from(first, added)
        write = Write(None, first, tuple(added), number=number + len(waiting) + 1)
        log.write_issued(write)
        waiting.append(write)

    assert log.last_index == len(model)
    assert log.last_term == (model[-1].term if model else 0)
    assert [log.term(index) for index in range(len(model) + 1)] == [0, *(entry.term for entry in model)]
    for first in range(1, len(model) + 1):
        taken = log.slice(first, len(model), max_entries=max_entries, max_bytes=max_bytes)
        assert list(taken) == model[first - 1 : first - 1 + len(taken)]
        assert 1 <= len(taken) <= max_entries
        assert len(taken) == 1 or sum(13 + len(entry.value) for entry in taken) <= max_bytes
    assert log.slice(len(model) + 1, len(model), max_entries=9, max_bytes=9) == ()


def test_a_stored_log_is_opened_with_its_term_runs() -> None:
    disk = Disk()
    disk.entries = [application(str(i), term) for i, term in enumerate((1, 1, 3, 3, 3, 8))]
    log = Log(disk, last_index=6, terms=disk.terms())
    assert [log.term(index) for index in range(7)] == [0, 1, 1, 3, 3, 3, 8]
    assert log.stored == 6
    assert list(log.slice(2, 6, max_entries=10, max_bytes=1000)) == disk.entries[1:]


def test_a_write_that_a_later_one_overwrites_does_not_count_as_stored() -> None:
    log = Log(Disk())
    for term in (1, 2, 3):
        entries = [application("x", term)] * 3
        log.replace_from(1, entries)
        log.write_issued(Write(None, 1, tuple(entries), number=term))
    log.write_stored(1)
    assert log.stored == 0
    log.write_stored(2)
    assert log.stored == 0
    log.write_stored(3)
    assert log.stored == 3


@pytest.mark.parametrize(
    ("last", "terms", "expected"),
    [
        (5, ((5, 2),), [2]),
        (6, ((5, 2), (6, 3)), [2, 3]),
        (7, ((5, 2), (7, 4)), [2, 2, 4]),
        (7, ((1, 2), (7, 4)), [2, 2, 4]),
        (7, ((6, 3),), [2, 3, 3]),
    ],
)
def test_a_stored_log_whose_beginning_was_dropped(
    last: int, terms: tuple[tuple[int, int], ...], expected: list[int]
) -> None:
    log = Log(Disk(), last_index=last, terms=terms, base=(5, 2))
    assert [log.term(index) for index in range(5, last + 1)] == expected
    assert log.last_term == expected[-1]
    log.replace_from(last + 1, [application("x", expected[-1])])
    assert log.term(last + 1) == expected[-1]
    log.drop(last + 1)
    assert (log.base, log.base_term, log.last_term) == (last + 1, expected[-1], expected[-1])


# Memory ---------------------------------------------------------------------------------------------------------------

ENTRY_BYTES = 100
ENTRY = "x" * (ENTRY_BYTES - 13)


class WatchedDisk(Disk):
    """A disk that counts how often it is read."""

    reads = 0

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        self.reads += 1
        return super().read(first, last, max_bytes)


def stored(log: Log, disk: Disk, first: int, count: int, term: int = 1) -> None:
    """Let the log have `count` entries from `first` on, all of them durable."""
    entries = [application(ENTRY, term)] * count
    log.replace_from(first, entries)
    write = Write(None, first, tuple(entries), number=log.last_index + term)
    log.write_issued(write)
    disk.write(write)
    log.write_stored(write.number)


def reads_for(log: Log, disk: WatchedDisk, first: int, last: int) -> int:
    before = disk.reads
    assert len(log.slice(first, last, max_entries=100, max_bytes=1 << 20)) >= 1
    return disk.reads - before


def test_the_newest_entries_stay_in_memory_and_no_more_than_the_memory_holds() -> None:
    disk = WatchedDisk()
    log = Log(disk, cache_bytes=10 * ENTRY_BYTES)
    stored(log, disk, 1, 10)
    assert not reads_for(log, disk, 1, 10)
    stored(log, disk, 11, 1)
    assert not reads_for(log, disk, 7, 11)
    assert reads_for(log, disk, 6, 6)


def test_entries_that_were_replaced_or_dropped_take_no_memory() -> None:
    disk = WatchedDisk()
    log = Log(disk, cache_bytes=10 * ENTRY_BYTES)
    stored(log, disk, 1, 9)
    for term in (2, 3, 4):
        stored(log, disk, 5, 5, term)
    assert not reads_for(log, disk, 1, 9)
    log.drop(8)
    stored(log, disk, 10, 8, 4)
    assert not reads_for(log, disk, 9, 17)


def test_a_log_that_begins_anew_after_a_snapshot_has_its_new_entries_in_memory() -> None:
    log = Log(Disk())
    log.replace_from(1, [application("old", 1)] * 3)
    log.restart(10, 2)
    entries = (application("11", 2), application("12", 3))
    log.replace_from(11, entries)
    assert log.slice(11, 12, max_entries=9, max_bytes=1 << 20) == entries


def test_after_a_mismatch_the_whole_first_term_is_skipped_when_it_is_too_new() -> None:
    log = Log(Disk())
    log.replace_from(1, [application("x", 5)] * 3)
    assert log.back_off(9, 2) == 1
    assert log.back_off(9, 5) == 4


def test_a_mismatch_in_the_first_term_goes_back_to_the_beginning() -> None:
    log = Log(Disk())
    log.replace_from(1, [application("x", 2)] * 3 + [application("x", 4)] * 2)
    assert log.back_off(5, 4) == 4, "the whole term is skipped"
    assert log.back_off(3, 4) == 1
    log.drop(1)
    assert log.back_off(3, 4) == 2


def test_dropped_entries_match_and_the_last_of_them_by_its_term_only() -> None:
    log = Log(Disk(), last_index=7, terms=((5, 2), (7, 4)), base=(5, 2))
    assert log.matches(4, 9)
    assert log.matches(5, 2)
    assert not log.matches(5, 3)
    assert log.matches(7, 4)
    assert not log.matches(8, 4)


def test_entries_overlap_up_to_the_first_that_differs() -> None:
    log = Log(Disk(), last_index=8, terms=((5, 2), (7, 4)), base=(5, 2))
    assert log.overlap(6, [application("x", term) for term in (2, 4, 4)]) == 3
    assert log.overlap(6, [application("x", term) for term in (2, 3, 4)]) == 1
    assert log.overlap(6, [application("x", term) for term in (3, 4, 4)]) == 0
    assert log.overlap(4, [application("x", term) for term in (9, 9, 2, 4, 4, 4)]) == 5, "dropped entries count"


@pytest.mark.parametrize("dropped", [1, 2, 3])
def test_terms_and_values_after_a_drop_are_those_before(dropped: int) -> None:
    disk = Disk()
    log = Log(disk)
    stored(log, disk, 1, 3, term=1)
    stored(log, disk, 4, 2, term=2)
    log.drop(dropped)
    assert [log.term(index) for index in range(dropped, 6)] == [1] * (4 - dropped) + [2, 2]
    assert len(log.slice(dropped + 1, 5, max_entries=9, max_bytes=1 << 20)) == 5 - dropped


def test_dropping_one_entry_at_a_time_keeps_the_memory_right() -> None:
    disk = WatchedDisk()
    log = Log(disk, cache_bytes=10 * ENTRY_BYTES)
    first = 1
    for _ in range(30):
        stored(log, disk, first, 1)
        if first > 3:
            log.drop(first - 3)
        first += 1
    assert not reads_for(log, disk, log.base + 1, log.last_index)


def test_a_restarted_log_has_its_whole_memory_again() -> None:
    disk = WatchedDisk()
    log = Log(disk, cache_bytes=10 * ENTRY_BYTES)
    stored(log, disk, 1, 9)
    log.restart(9, 1)
    disk.entries.clear()
    disk.base = 9
    stored(log, disk, 10, 9)
    assert not reads_for(log, disk, 10, 18)


def test_entries_that_are_not_durable_stay_in_memory() -> None:
    disk = WatchedDisk()
    log = Log(disk, cache_bytes=4 * ENTRY_BYTES)
    stored(log, disk, 1, 3)
    pending = [application(ENTRY, 1)] * 8
    log.replace_from(4, pending)
    log.write_stored(log.last_index)  # a write without entries
    assert reads_for(log, disk, 3, 3)
    assert not reads_for(log, disk, 4, 11)


def test_a_cut_takes_the_copy_that_counted() -> None:
    disk = Disk()
    log = Log(disk)
    stored(log, disk, 1, 5)
    log.replace_from(4, [application("new", 2)])
    assert log.stored == 3


def test_a_cut_after_a_term_of_one_entry_keeps_that_term() -> None:
    log = Log(Disk())
    log.replace_from(1, [application("x", term) for term in (1, 2, 3)])
    log.replace_from(3, [application("x", 4)])
    assert [log.term(index) for index in range(1, 4)] == [1, 2, 4]


def test_a_write_counts_up_to_the_entry_that_a_later_one_overwrites() -> None:
    log = Log(Disk())
    entries = [application("x", 1)] * 5
    log.replace_from(1, entries)
    log.write_issued(Write(None, 1, tuple(entries), number=1))
    log.replace_from(4, [application("y", 2)])
    log.write_stored(1)
    assert log.stored == 3


def test_entries_that_a_snapshot_covers_count_as_stored() -> None:
    log = Log(Disk())
    log.replace_from(1, [application("x", 1)] * 5)
    log.drop(2)
    assert log.stored == 2


def test_a_write_from_before_a_restart_counts_no_more() -> None:
    log = Log(Disk())
    entries = [application("x", 1)] * 9
    log.replace_from(1, entries)
    log.write_issued(Write(None, 1, tuple(entries), number=1))
    log.restart(5, 1)
    log.write_stored(1)
    assert log.stored == 5


def test_entries_that_just_fit_are_taken_together() -> None:
    log = Log(Disk())
    log.replace_from(1, [application(ENTRY, 1)] * 3)
    assert len(log.slice(1, 3, max_entries=9, max_bytes=2 * ENTRY_BYTES)) == 2
    assert len(log.slice(1, 3, max_entries=9, max_bytes=2 * ENTRY_BYTES - 1)) == 1
    assert len(log.slice(1, 3, max_entries=9, max_bytes=1)) == 1


def test_a_slice_from_the_disk_ends_where_the_memory_begins() -> None:
    disk = WatchedDisk()
    log = Log(disk, cache_bytes=10 * ENTRY_BYTES)
    stored(log, disk, 1, 11)
    in_memory = next(index for index in range(1, 12) if not reads_for(log, disk, index, index))
    assert in_memory > 3
    taken = log.slice(in_memory - 2, 11, max_entries=99, max_bytes=1 << 20)
    assert len(taken) == 2
