"""The canaries that do too much, or refuse without a reason: the farm only becomes slower.

The invariants of `thrift` notice these mistakes. To add a canary: write the function with the mistake, and add a line
to `thrift_canaries`.
"""

from collections.abc import Iterator

from gf_i2p.raft.follower import SnapshotReceiver
from gf_i2p.raft.follower_progress import FollowerProgress
from gf_i2p.raft.inquiry import Inquiry
from gf_i2p.raft.leader import Leader
from gf_i2p.raft.log import Log
from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.canary import core_canary as core
from gf_i2p.wire.log_values import SnapshotSyncRequest

_advance_reads = Leader._advance_reads
_ask_peer = Inquiry.ask_peer
_tick = Leader.tick


def _forgets_the_time(leader: Leader, now: float) -> None:
    _tick(leader, now)
    for progress in leader.progress.values():
        progress.sent_at = float("-inf")


def _sends_all_heartbeats_together(leader: Leader, now: float) -> None:
    heartbeat = leader._state.timing.heartbeat
    if any(now >= progress.sent_at + heartbeat for progress in leader.progress.values()):
        for progress in leader.progress.values():
            progress.sent_at = float("-inf")
    _tick(leader, now)


def _goes_back_too_far(progress: FollowerProgress, next_index: int) -> None:
    progress.probing = True
    progress.next = max(min(next_index, progress.match), 1)
    progress.flights.clear()


def _wants_a_newer_log(log: Log, last_term: int, last_index: int) -> bool:
    return last_index == 0 or (last_term, last_index) > (log.last_term, log.last_index)


def _asks_on_and_on(inquiry: Inquiry, peer: int, now: float) -> None:
    inquiry._flights.pop(peer, None)
    _ask_peer(inquiry, peer, now)


def _keeps_answered_reads(leader: Leader, now: float) -> None:
    reads = leader._round_reads
    _advance_reads(leader, now)
    if leader._state.effects.reads_ready and not leader._round_reads:
        leader._round_reads = reads


def _goes_back_to_the_beginning(log: Log, _: int, __: int) -> int:
    return log.base + 1


def _knows_no_block(_: SnapshotReceiver, __: SnapshotSyncRequest) -> bool:
    return False


def thrift_canaries() -> Iterator[Canary]:
    """Yield the canaries of this module."""
    yield core("spins", "forgets when the last heartbeat left", (Leader, "tick", _forgets_the_time))
    yield core("all-at-once", "sends all heartbeats when one is due", (Leader, "tick", _sends_all_heartbeats_together))
    yield core(
        "sends-again", "probes with entries that are there", (FollowerProgress, "back_to_probing", _goes_back_too_far)
    )
    yield core(
        "begins-anew",
        "drops a snapshot's blocks when one comes twice",
        (SnapshotReceiver, "_contains", _knows_no_block),
    )
    yield core("starts-over", "asks for the whole log after a refusal", (Log, "back_off", _goes_back_to_the_beginning))
    yield core("asks-on", "asks again before the answer comes", (Inquiry, "ask_peer", _asks_on_and_on))
    yield core("reads-again", "answers a read in each round", (Leader, "_advance_reads", _keeps_answered_reads))
    yield core("picky-voter", "refuses a vote to an equal log", (Log, "is_up_to_date", _wants_a_newer_log))
