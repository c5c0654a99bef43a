"""The canaries that act on too few answers, on old answers, or too early.

Each makes a mistake whose harm needs a rare chain of events. The invariants of `invariants/evidence.py` notice it.
To add a canary: write the function with the mistake, and add a line to `evidence_canaries`.
"""

from collections.abc import Iterator
from typing import Any

from gf_i2p.raft.candidate import Candidate
from gf_i2p.raft.core import Core
from gf_i2p.raft.effects import Effects, Token
from gf_i2p.raft.election_timeout import ElectionTimeout
from gf_i2p.raft.follower import Follower
from gf_i2p.raft.inputs import Answered, Input, Unreachable
from gf_i2p.raft.leader import Leader
from gf_i2p.raft.membership_change import MembershipChange
from gf_i2p.raft.state import State
from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.canary import core_canary as core
from gf_i2p.wire.messages import NOBODY, MessageType, Request

# The original methods, for canaries that add a mistake before or after.
_answered = Core._answered
_request_vote = Core._request_vote
_patience: Any = ElectionTimeout.patience.fget  # type: ignore[attr-defined]
_step = Core.step
_append_entries = Follower._append_entries


def _hears_any_follower(leader: Leader, now: float) -> float:
    return max((progress.heard_at for progress in leader.progress.values()), default=now)


def _votes_and_waits_no_longer(core: Core, token: Token, request: Request) -> None:
    vote, end = core._state.vote, core._timeout.at
    _request_vote(core, token, request)
    if core._state.vote == request.source != vote:
        core._timeout.at = end
        core._inquiry.next_at = min(core._inquiry.next_at, end)


def _counts_any_write(state: State) -> bool:
    return True


def _leaves_reads_unanswered(leader: Leader) -> None:
    leader._state.effects.dropped += [waiting.token for waiting in leader._waiting]
    leader._state.effects.reads_refused += leader._round_reads


def _counts_old_votes(core: Core, event: Answered) -> None:
    response, role = event.response, core._role
    is_vote = response.type is MessageType.REQUEST_VOTE_RESPONSE
    if is_vote and response.term < core.term and isinstance(role, Candidate):
        role.answered(event.peer, response)
        core._lead_if_won(role)
    _answered(core, event)


def _commits_to_the_end(follower: Follower, token: Token, request: Request) -> bool:
    accepted = _append_entries(follower, token, request)
    if accepted:
        state = follower._state
        state.commit = max(state.commit, min(request.commit_index, state.log.last_index))
    return accepted


def _joins_the_round(leader: Leader, token: Token, now: float) -> None:
    if leader._round_reads:
        leader._round_reads.append(token)
        return
    leader._reads.append(token)
    leader._begin_round(now)
    leader._advance_reads(now)


def _adds_after_one_answer(change: MembershipChange, now: float, *, fast: bool = False) -> None:
    joining = change._joining
    if joining.next > max(change._state.log.base, 1):
        change._append_configuration(joining, now)
    else:
        change._send_next(now)


def _doubts_at_any_peer(core: Core, event: Input, now: float) -> Effects:
    if isinstance(event, Unreachable) and core.leader != NOBODY:
        event = Unreachable(core.leader)
    return _step(core, event, now)


def _takes_refusals_for_the_end(timeout: ElectionTimeout) -> Any:
    return 0.0 if timeout._is_refused else _patience(timeout)


def evidence_canaries() -> Iterator[Canary]:
    """Yield the canaries of this module."""
    yield core(
        "one-is-quorum", "leads on while any one follower answers", (Leader, "quorum_heard_at", _hears_any_follower)
    )
    yield core(
        "restless-voter",
        "does not begin a new time-out when it has granted a vote",
        (Core, "_request_vote", _votes_and_waits_no_longer),
    )
    yield core(
        "any-write",
        "counts its own vote at the end of any write",
        (State, "vote_is_durable", property(_counts_any_write)),
        nodes=1,  # with other servers the mistake never shows: the vote requests leave when the own vote is durable
    )
    yield core("silent-reads", "refuses no waiting reads when it resigns", (Leader, "resign", _leaves_reads_unanswered))
    yield core("old-votes", "counts votes of earlier terms", (Core, "_answered", _counts_old_votes))
    yield core("to-the-end", "commits up to the end of its own log", (Follower, "_append_entries", _commits_to_the_end))
    yield core("joins-round", "adds a read to a round under way", (Leader, "read", _joins_the_round))
    yield core(
        "early-joiner",
        "makes a newcomer a voter after one pack or snapshot",
        (MembershipChange, "_send_next_or_end", _adds_after_one_answer),
    )
    yield core(
        "hasty-when-refused",
        "gives the leader up at once when its machine refuses a connection",
        (ElectionTimeout, "patience", property(_takes_refusals_for_the_end)),
    )
    yield core("doubts-anyone", "doubts the leader when any peer is unreachable", (Core, "step", _doubts_at_any_peer))
