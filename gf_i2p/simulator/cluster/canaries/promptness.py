"""The canaries that forget an act, or tell a wrong index: the farm only becomes slower, or JRaft would stumble.

The invariants of `promptness` and `messages` notice these mistakes. To add a canary: write the
function with the mistake, and add a line to `promptness_canaries`.
"""

from collections.abc import Iterator
from typing import Any, cast

from gf_i2p.raft.core import Core
from gf_i2p.raft.effects import Snapshot, Token
from gf_i2p.raft.election_timeout import ElectionTimeout
from gf_i2p.raft.follower import Follower
from gf_i2p.raft.inquiry import Inquiry
from gf_i2p.raft.leader import Leader
from gf_i2p.raft.membership_change import Joining, MembershipChange
from gf_i2p.raft.state import State
from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.canary import core_canary as core
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response

# The original methods, for canaries that add a mistake before or after.
_answered = Leader.answered
_change_answered = MembershipChange.answered
_change_tick = MembershipChange.tick
_advance_commit = Leader._advance_commit
_doubt = ElectionTimeout.doubt
_install = Follower._install
_obstacle: Any = MembershipChange.obstacle
_promise = State.promise
_send_about = State.send_about


def _waits_for_its_time_out(inquiry: Inquiry, peer: int, tag: int, response: Response, now: float) -> bool:
    inquiry.answered(peer, tag, response)
    return False


def _gives_no_answer(follower: Follower, token: Token, request: Request) -> None:
    pass


def _names_the_last_entry(state: State, token: Token, request: Request, *, accepted: bool, next_index: int = 0) -> None:
    if accepted and request.type is MessageType.APPEND_ENTRIES_REQUEST:
        next_index = max(next_index - 1, 1)
    _promise(state, token, request, accepted=accepted, next_index=next_index)


def _waits_for_the_heartbeat(leader: Leader, peer: int, now: float) -> None:
    if leader.progress[peer].flights:
        return
    leader.progress[peer].probing = True


def _lets_newcomers_wait(change: MembershipChange, tag: int, response: Response, now: float) -> None:
    if change.joining is None:
        _change_answered(change, tag, response, now)


def _has_a_change_under_way(change: MembershipChange) -> str | None:
    if change._state.configurations.current_index == change._state.commit:
        return "the change before this one is not committed yet"
    return cast("str | None", _obstacle.fget(change))


def _never_yields(_: ElectionTimeout) -> int:
    return 1


def _removes_at_once(change: MembershipChange, now: float) -> None:
    if change.leaving is not None:
        change._remove(change.leaving.server_id, now)
    else:
        _change_tick(change, now)


def _never_lets_go(leader: Leader, peer: int, tag: int, response: Response, now: float) -> None:
    before = dict(leader.progress)
    _answered(leader, peer, tag, response, now)
    for leaver in before.keys() - leader.progress.keys():
        leader.progress[leaver] = before[leaver]


def _commits_at_heartbeats(leader: Leader, now: float) -> None:
    if now >= max((progress.sent_at for progress in leader.progress.values()), default=0.0) + 1e-3:
        _advance_commit(leader, now)


def _keeps_its_wait(core: Core, now: float) -> None:
    pass


def _stays_patient(timeout: ElectionTimeout, now: float, heard_at: float, *, refused: bool) -> float:
    at = timeout.at
    first = _doubt(timeout, now, heard_at, refused=refused)
    timeout.at = at
    return first


def _takes_refusals_for_silence(timeout: ElectionTimeout, now: float, heard_at: float, *, refused: bool) -> float:
    return _doubt(timeout, now, heard_at, refused=False)


def _asks_all_the_time(inquiry: Inquiry, now: float, pause: float) -> None:
    inquiry._since = now
    inquiry.next_at = now
    inquiry.is_due = False


def _forgets_reads(leader: Leader, token: Token, now: float) -> None:
    leader._reads.append(token)


def _keeps_no_snapshot(core: Core, last_index: int, data: bytes, drop: int) -> None:
    pass


def _names_a_term(
    state: State,
    peer: int,
    message_type: MessageType,
    last: tuple[int, int],
    commit: int,
    entries: tuple[object, ...] = (),
    *,
    gated: bool = False,
) -> int:
    if message_type is MessageType.LEAVE_CLUSTER_REQUEST:
        last = (last[0], state.term)
    return _send_about(state, peer, message_type, last, commit, entries, gated=gated)  # type: ignore[arg-type]


def _forgets_the_offset(change: MembershipChange, joining: Joining) -> None:
    joining.tag = None
    joining.pack = ()


def _gives_up_silently(change: MembershipChange, reason: str) -> None:
    del reason
    change.joining = None


def _believes_names(inquiry: Inquiry, answer: Any, now: float) -> bool:
    if answer is None or answer.leads or not inquiry._is_valid(answer, now):
        return False
    return answer.leader in {NOBODY, inquiry._state.id}


def _tells_nobody(_: Leader, __: float) -> None:
    return


def _forgets_the_invitation(follower: Follower, snapshot: Snapshot, now: float) -> None:
    newcomer, follower._newcomer = follower._newcomer, None
    _install(follower, snapshot, now)
    follower._newcomer = newcomer


def _forgives_a_loss(leader: Leader, peer: int, tag: int, response: Response, now: float) -> None:
    for progress in leader.progress.values():
        progress.forgetful = True
    _answered(leader, peer, tag, response, now)


def promptness_canaries() -> Iterator[Canary]:
    """Yield the canaries of this module."""
    yield core("no-answer", "gives an invitation no answer", (Follower, "join_cluster", _gives_no_answer))
    yield core("last-entry", "names the last entry in place of the next", (State, "promise", _names_the_last_entry))
    yield core("slow-leader", "leaves new entries to the heartbeat", (Leader, "_replicate", _waits_for_the_heartbeat))
    yield core("no-doubt", "waits for a leader that cannot be dialled", (ElectionTimeout, "doubt", _stays_patient))
    yield core(
        "deaf-to-refusals",
        "waits as long for a leader whose machine refuses connections",
        (ElectionTimeout, "doubt", _takes_refusals_for_silence),
    )
    yield core(
        "asks-early", "asks for the leader as soon as the leader is heard", (Inquiry, "begin_anew", _asks_all_the_time)
    )
    yield core("forgets-reads", "takes reads and begins no round", (Leader, "read", _forgets_reads))
    yield core("no-snapshot", "keeps no snapshot", (Core, "_snapshotted", _keeps_no_snapshot))
    yield core("leaves-term", "names a term when it tells a server to leave", (State, "send_about", _names_a_term))
    yield core("forgets-newcomer", "leaves a newcomer waiting", (MembershipChange, "answered", _lets_newcomers_wait))
    yield core(
        "no-change",
        "refuses a change after a change",
        (MembershipChange, "obstacle", property(_has_a_change_under_way)),
    )
    yield core(
        "never-yields", "stands again soon after refusals", (ElectionTimeout, "_factor", property(_never_yields))
    )
    yield core("keeps-its-wait", "ignores new time-outs until the next wait", (Core, "redraw", _keeps_its_wait))
    yield core("never-lets-go", "sends on to servers that left", (Leader, "answered", _never_lets_go))
    yield core("commits-late", "commits at a quiet moment", (Leader, "_advance_commit", _commits_at_heartbeats))
    yield core("removes-at-once", "removes a server at the next tick", (MembershipChange, "tick", _removes_at_once))
    yield core("lost-offset", "counts a lost pack as sent", (MembershipChange, "_request_lost", _forgets_the_offset))
    yield core("quits-silently", "gives newcomers up silently", (MembershipChange, "_give_up", _gives_up_silently))
    yield core("leaves-silently", "tells nobody of its own removal", (Leader, "tell_commit", _tells_nobody))
    yield core(
        "forgets-snapshot",
        "refuses what follows the snapshot of an invitation",
        (Follower, "_install", _forgets_the_invitation),
    )
    yield core("forgives-loss", "does not report a server that lost its log", (Leader, "answered", _forgives_a_loss))
    yield core("waits-on", "stands at the end of a time-out only", (Inquiry, "completes", _waits_for_its_time_out))
    yield core("believes-names", "takes a leader of long ago for a live one", (Inquiry, "_agrees", _believes_names))
