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
