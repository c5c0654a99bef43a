"""Faults that the check of a tortured farm notices, on made-up histories and logs."""

import random
from collections.abc import Callable

import pytest

from gf_i2p.simulator.cluster.linearizability import OperationKind
from integration.load.log_comparison import Export, compare_exports, compare_logs, judge_posts
from integration.load.register_clients import AccessHistory, RegisterAccess, judge_accesses

Log = dict[int, tuple[int, dict[str, int]]]


def write(history: AccessHistory, index: int | None, log: Log | None = None) -> RegisterAccess:
    """Add a write to `history` and, at `index`, to `log`. Without an index the write's outcome is unknown."""
    access = history.begin(random.Random(0), OperationKind.WRITE)
    if log is not None and index is not None:
        log[index] = (1, {"key": access.key, "value": access.value})
    if index is not None:
        history.done(access, index)
    return access


def read(history: AccessHistory, index: int) -> RegisterAccess:
    access = history.begin(random.Random(0), OperationKind.READ)
    history.done(access, index)
    return access


def good() -> tuple[AccessHistory, Log]:
    history, log = AccessHistory(), Log()
    write(history, 2, log)
    read(history, 2)
    write(history, 3, log)
    read(history, 3)
    write(history, None)
    return history, log


def test_a_good_history_is_good() -> None:
    history, log = good()
    assert judge_accesses(history, log, 3) == ([], 0)


def stale_read(history: AccessHistory, log: Log) -> None:
    read(history, 2)


def lost_write(history: AccessHistory, log: Log) -> None:
    del log[3]


def write_that_went_back(history: AccessHistory, log: Log) -> None:
    write(history, 1, log)


def refused_and_done(history: AccessHistory, log: Log) -> None:
    access = write(history, None)
    history.refused(access)
    log[4] = (1, {"key": access.key, "value": access.value})


def done_twice(history: AccessHistory, log: Log) -> None:
    log[4] = log[3]


def nobodys(history: AccessHistory, log: Log) -> None:
    log[4] = (1, {"key": 0, "value": 77})


def another_key(history: AccessHistory, log: Log) -> None:
    log[3] = (1, {"key": 9, "value": log[3][1]["value"]})


def page_that_was_never_committed(history: AccessHistory, log: Log) -> None:
    history.seen[3] = (1, '{"key":0,"value":99}')


@pytest.mark.parametrize(
    "spoil",
    [
        stale_read,
        lost_write,
        write_that_went_back,
        refused_and_done,
        done_twice,
        nobodys,
        another_key,
        page_that_was_never_committed,
    ],
)
def test_a_bad_history_is_noticed(spoil: Callable[[AccessHistory, Log], None]) -> None:
    history, log = good()
    spoil(history, log)
    wrong, _ = judge_accesses(history, log, max(log))
    assert wrong


def test_a_stale_read_is_noticed_for_its_register_alone() -> None:
    history, log = good()
    stale_read(history, log)
    wrong, _ = judge_accesses(history, log, 3)
    assert any(line.startswith("register") for line in wrong)


def test_a_register_gives_way_to_another_one_in_time() -> None:
    history, rng = AccessHistory(), random.Random(1)
    for number in range(2_000):
        history.done(history.begin(rng, OperationKind.WRITE), number + 1)
    keys = [access.key for access in history.accesses]
    assert max(keys.count(key) for key in set(keys)) <= 120


def test_what_a_history_lacks_or_has_too_much_is_noticed() -> None:
    whole = Export({1: (1, "a"), 2: (1, "b"), 3: (2, "c")})
    assert compare_exports({1: whole, 2: Export({1: (1, "a"), 3: (2, "c")}, [(2, 2)])}) == []
    assert compare_exports({1: whole, 2: Export({1: (1, "a"), 3: (2, "c")})}) != []
    assert compare_exports({1: whole, 2: Export({1: (1, "a"), 2: (1, "b")})}) != []
    assert compare_exports({1: whole, 2: Export({1: (1, "a"), 2: (1, "b")})}, ended={2}) == []
    assert compare_exports({1: whole, 2: Export({1: (1, "a"), 2: (1, "x"), 3: (2, "c")})}) != []
    assert compare_exports({1: whole, 2: Export({1: (1, "a"), 2: (1, "b")})}, until=2) == []
    assert compare_exports({1: whole, 2: Export({1: (1, "a"), 2: (1, "x")})}, until=2) != []


def test_logs_that_differ_are_noticed_where_both_have_the_entry() -> None:
    log = {2: (1, 1, b"a"), 3: (1, 1, b"b")}
    assert compare_logs({1: log, 2: {3: log[3]}}) == []
    assert compare_logs({1: log, 2: {**log, 3: (2, 1, b"b")}}) != []
    assert compare_logs({1: log, 2: {2: log[2]}}) != []


def test_posts_that_are_lost_doubled_or_out_of_order_are_noticed() -> None:
    keys = ["0:0", "1:0", "0:1"]
    assert judge_posts(keys, keys, {}) == []
    assert judge_posts(keys, [*keys, "0:2"], {}) != []
    assert judge_posts([*keys, "0:1"], keys, {}) != []
    assert judge_posts([*keys, "0:1"], keys, {"0:1": 1}) == []
    assert judge_posts(["0:1", "0:0"], keys, {}) != []
