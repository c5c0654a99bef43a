"""The blocks of a snapshot, one by one: in order, twice, out of order, and of another snapshot."""

import pytest

from gf_i2p.raft import follower
from gf_i2p.raft.effects import Snapshot
from gf_i2p.raft.follower import SnapshotReceiver
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.log_values import SnapshotSyncRequest
from tests.raft.lab import configuration

SERVERS = configuration([1, 2, 3])


def block(offset: int, data: bytes, *, done: bool = False, index: int = 9) -> SnapshotSyncRequest:
    return SnapshotSyncRequest(index, 2, SERVERS, offset, data, done)


def receiver() -> SnapshotReceiver:
    return SnapshotReceiver(lambda data: None)


def test_blocks_in_order_make_the_snapshot() -> None:
    blocks = receiver()
    assert blocks.take(2, block(0, b"one")) == 3
    assert blocks.take(2, block(3, b"two")) == 6
    assert blocks.take(2, block(6, b"end", done=True)) == Snapshot(9, 2, SERVERS, b"onetwoend")


def test_a_block_that_comes_twice_is_taken_once() -> None:
    blocks = receiver()
    blocks.take(2, block(0, b"one"))
    assert blocks.take(2, block(0, b"one")) == 3
    assert blocks.take(2, block(3, b"two")) == 6
    assert blocks.take(2, block(0, b"one")) == 3
    assert blocks.take(2, block(3, b"two")) == 6
    assert blocks.take(2, block(3, b"two", done=True)) == Snapshot(9, 2, SERVERS, b"onetwo")


def test_a_block_after_a_hole_is_not_taken() -> None:
    blocks = receiver()
    blocks.take(2, block(0, b"one"))
    assert blocks.take(2, block(4, b"wo")) == 3
    assert blocks.take(2, block(2, b"e two")) == 3, "the end of the block is beyond the hole"
    assert blocks.take(2, block(3, b"two", done=True)) == Snapshot(9, 2, SERVERS, b"onetwo")


def test_another_first_block_begins_again() -> None:
    blocks = receiver()
    blocks.take(2, block(0, b"one"))
    assert blocks.take(2, block(0, b"ONE")) == 3
    assert blocks.take(2, block(3, b"two", done=True)) == Snapshot(9, 2, SERVERS, b"ONEtwo")


@pytest.mark.parametrize("other", [(3, block(0, b"ONE")), (2, block(0, b"ONE", index=10))])
def test_another_senders_or_snapshots_first_block_begins_again(other: tuple[int, SnapshotSyncRequest]) -> None:
    blocks = receiver()
    blocks.take(2, block(0, b"first"))
    source, first = other
    assert blocks.take(source, first) == 3
    assert blocks.take(2, block(5, b"second")) == 0, "these bytes belong to the snapshot before"
    whole = blocks.take(source, block(3, b"two", done=True, index=first.last_log_index))
    assert whole == Snapshot(first.last_log_index, 2, SERVERS, b"ONEtwo")


def test_the_same_first_block_of_another_snapshot_begins_again() -> None:
    blocks = receiver()
    blocks.take(2, block(0, b"one"))
    blocks.take(2, block(3, b"two"))
    assert blocks.take(3, block(0, b"one")) == 3
    assert blocks.take(3, block(3, b"TWO", done=True)) == Snapshot(9, 2, SERVERS, b"oneTWO")


def test_a_snapshot_may_be_as_large_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "MAX_SNAPSHOT_BYTES", 6)
    blocks = receiver()
    blocks.take(2, block(0, b"one"))
    assert blocks.take(2, block(3, b"two", done=True)) == Snapshot(9, 2, SERVERS, b"onetwo")
    blocks.take(2, block(0, b"one"))
    with pytest.raises(RemoteProtocolError, match="more than 6 bytes"):
        blocks.take(2, block(3, b"four"))


@pytest.mark.parametrize(("index", "data"), [(9, b""), (0, b"one")])
def test_a_snapshot_without_data_or_entries_is_refused(index: int, data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="has no data, or covers no entry"):
        receiver().take(2, block(0, data, done=True, index=index))


def test_the_last_block_is_the_end_also_when_more_has_come_before() -> None:
    blocks = receiver()
    blocks.take(2, block(0, b"one"))
    blocks.take(2, block(3, b"two"))
    assert blocks.take(2, block(3, b"tw", done=True)) == Snapshot(9, 2, SERVERS, b"onetw")
