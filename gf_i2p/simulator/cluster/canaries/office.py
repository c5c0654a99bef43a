"""The canaries of a leader's office: a leader that keeps silent, clings to its office, or gives it away.

The invariants of `invariants/office.py` notice these mistakes. To add a canary: write the function with the mistake,
and add a line to `office_canaries`.
"""

from collections.abc import Iterator

from gf_i2p.raft.core import Core
from gf_i2p.raft.effects import Token
from gf_i2p.raft.leader import Leader
from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.canary import core_canary as core
from gf_i2p.wire.messages import NOBODY

_advance_commit = Leader._advance_commit


def _stays(core: Core) -> None:
    pass


def _stands_again(core: Core) -> None:
    if core.is_leader:
        core._follow(NOBODY)


def _believes_in_no_leader_but_another(core: Core) -> bool:
    return core.leader not in {NOBODY, core.id} and core._now < core._heard_at + core._timeout.patience


def _refuses_reads(leader: Leader, token: Token, now: float) -> None:
    leader._state.effects.reads_refused.append(token)


def _forgets_a_client(leader: Leader, now: float) -> None:
    waiting = len(leader._waiting)
    _advance_commit(leader, now)
    if len(leader._waiting) < waiting:
        leader._state.effects.replies.pop()


def _waits_for_the_heartbeat(leader: Leader, peer: int, now: float) -> None:
    leader.changes.reachable(peer, now)
    if peer in leader.progress:
        leader.progress[peer].lost()


def office_canaries() -> Iterator[Canary]:
    """Yield the canaries of this module."""
    yield core("stays-in-office", "does not step down when told to", (Core, "_step_down", _stays))
    yield core(
        "stands-again",
        "leaves no time to others when it has stepped down",
        (Core, "_step_down", _stands_again),
        nodes=1,  # with other servers, one of these soon asks for a vote
    )
    yield core(
        "deposed-by-votes",
        "lets a vote request end its leadership",
        (Core, "_leader_is_live", _believes_in_no_leader_but_another),
    )
    yield core("refuses-reads", "refuses each read", (Leader, "read", _refuses_reads))
    yield core("forgets-clients", "forgets a client at each commit", (Leader, "_advance_commit", _forgets_a_client))
    yield core("greets-nobody", "says nothing on a new connection", (Leader, "reachable", _waits_for_the_heartbeat))
