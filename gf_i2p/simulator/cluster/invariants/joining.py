"""Invariants about a server that joins: the leader goes on with the newcomer at each answer (Raft thesis 4.2)."""

from dataclasses import dataclass
from typing import Final

from gf_i2p.raft.effects import Effects, Send
from gf_i2p.raft.inputs import Answered, Failed, Input, Reachable
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.facts import Facts, ServerFacts
from gf_i2p.wire.messages import MessageType, Request, Response

_STEPS: Final = frozenset(
    {MessageType.JOIN_CLUSTER_REQUEST, MessageType.SYNC_LOG_REQUEST, MessageType.INSTALL_SNAPSHOT_REQUEST}
)


@dataclass(slots=True)
class _Joining:
    """A server that a leader has invited in one term."""

    peer: int
    term: int
    tag: int | None = None
    """Tag of the request on the way; None: nothing is on the way."""
    request: Request | None = None
    """The latest request."""
    anew: bool = False
    """Whether the newcomer took nothing of a pack, so that the next request is another invitation."""

    def answered(self, event: Input) -> bool:
        """Take in an answer or a loss. Return whether the leader must go on at once."""
        if not isinstance(event, Answered | Failed | Reachable) or event.peer != self.peer:
            return False
        if not isinstance(event, Reachable) and event.tag != self.tag:
            return False
        self.tag = None
        if not isinstance(event, Answered) or event.response.term != self.term:
            return False
        self.anew = _took_nothing(self.request, event.response)
        return not self.anew

    def sent(self, send: Send) -> None:
        """Take in a request to the newcomer."""
        self.tag, self.request, self.anew = send.tag, send.request, False


class JoinGoesOn(Invariant):
    """A leader that gets a newcomer's answer sends at once what the newcomer needs next, or ends the join.

    Otherwise the join would wait for the end of the leader's patience. A newcomer that took nothing of a pack may have
    forgotten the invitation. So the leader invites that newcomer again, at a later tick.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._joining: dict[int, _Joining] = {}

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        joining = self._joining.get(server.id)
        if joining is not None and (not server.leads or server.term != joining.term or joining.peer in server.voters):
            del self._joining[server.id]
            joining = None
        if not server.leads:
            return
        owed = joining is not None and joining.answered(event)
        for send in effects.sends:
            if send.request.type is MessageType.JOIN_CLUSTER_REQUEST and (joining is None or joining.peer != send.peer):
                joining = self._joining[server.id] = _Joining(send.peer, server.term)
            if joining is not None and send.peer == joining.peer and send.request.type in _STEPS:
                if joining.anew and send.request.type is not MessageType.JOIN_CLUSTER_REQUEST:
                    raise self.violated(
                        f"newcomer {send.peer} took nothing of a pack, and leader {server.id} sends no new invitation"
                    )
                joining.sent(send)
        if effects.notice is not None:
            self._joining.pop(server.id, None)
        elif owed and joining is not None and joining.tag is None and not effects.snapshot_wanted:
            raise self.violated(f"leader {server.id} has an answer of newcomer {joining.peer}, and does not go on")


def _took_nothing(request: Request | None, response: Response) -> bool:
    """Whether a newcomer asks for the first entry of a pack, or for an earlier entry."""
    return (
        request is not None
        and request.type is MessageType.SYNC_LOG_REQUEST
        and 1 <= response.next_index <= request.last_log_index + 1
    )
