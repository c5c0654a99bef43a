"""The leader's part in changing the servers, one at a time (Raft thesis 4; proposal 150, "Establishment").

Join: the leader accepts AddServer, and invites the new server (JoinCluster). The leader then sends the committed log in
LogPacks (SyncLog), after a snapshot if the log's beginning is dropped. Only at the end does the leader append the
Configuration with the new server. So a slow new server delays no commit. The leader gives up a server that never
catches up.

Leave: the leader accepts RemoveServer, and tells the server (LeaveCluster). After the server's answer or a time-out,
the leader appends the Configuration without the server. The leader still sends that server the log until the
server knows that this Configuration is committed.

A change begins only when the previous change and an entry of the leader's own term are committed. Otherwise two leaders
could commit by majorities that share no server (Ongaro's correction of 2015 to the thesis).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gf_i2p.raft.effects import Token
from gf_i2p.raft.follower_progress import SnapshotSending
from gf_i2p.raft.state import State
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.log_values import (
    ClusterServer,
    LogPack,
    SnapshotSyncRequest,
    decode_server_id,
    record_bytes,
)
from gf_i2p.wire.messages import MessageType, Request, Response

JOIN_PATIENCE: Final = 10
"""The leader gives a joining server up after a silence of this many times `Timing.election_max`."""
MAX_ROUNDS: Final = 10
"""The leader gives a joining server up after this many rounds without progress (thesis 4.2.1): the server took nothing,
or took longer than `Timing.election_max` for a round."""
_ALMOST: Final = 5
"""A server that lacks fewer entries than this becomes a voter at once. JRaft uses the same number."""

SetServers = Callable[[tuple[ClusterServer, ...], int, float], None]
"""Appends a Configuration. Arguments: the servers, the first index that a new server lacks, and the time."""


@dataclass(slots=True)
class Joining:
    """A server that is joining, and how far the server has caught up."""

    server: ClusterServer
    heard_at: float
    invited: bool = False
    """Whether the server has accepted the invitation."""
    next: int = 1
    """Index of the next entry that the server lacks."""
    offset: int = 0
    """`record_bytes` of all entries sent in packs so far; the next pack's `LogPack.base`."""
    sending: SnapshotSending | None = None
    tag: int | None = None
    """Tag of the unanswered request, or None."""
    sent_at: float = float("-inf")
    pack: tuple[Entry, ...] = ()
    """Entries of the unanswered LogPack."""
    sent_end: int = 0
    """Index of the last entry in the latest pack, or the offset after the latest block."""
    target: int = 0
    """The commit index when the latest pack left."""
    rounds: int = 0
    """Number of rounds without progress, see `MAX_ROUNDS`."""


@dataclass(slots=True)
class Leaving:
    """A server that has been told to leave."""

    server_id: int
    since: float
    tag: int


class MembershipChange:
    """The membership change in preparation, if any. At its end, `set_servers` appends the Configuration."""

    def __init__(self, state: State, first_index: int, set_servers: SetServers) -> None:
        """`first_index`: index of the first entry of the leader's term."""
        self._state = state
        self._first_index = first_index
        self._set_servers = set_servers
        self.joining: Joining | None = None
        self.leaving: Leaving | None = None

    @property
    def obstacle(self) -> str | None:
        """The reason, in words, why no change can begin now. None: a change can begin."""
        state = self._state
        if state.commit < self._first_index:
            return "this leader has not committed anything yet: try again in a moment"
        if state.configurations.current_index > state.commit:
            return "the change before this one is not committed yet: try again in a moment"
        if self.joining is not None:
            return f"server {self.joining.server.id} is joining: try again when that change is over"
        if self.leaving is not None:
            return f"server {self.leaving.server_id} is leaving: try again in a moment"
        return None

    # Beginning -------------------------------------------------------------------------------------------------------

    def add(self, token: Token, request: Request, now: float) -> None:
        """Answer an AddServerRequest, and begin to add the server unless it is a voter with this endpoint."""
        state = self._state
        try:
            server = ClusterServer.decode(request.entries[0].value)
        except RemoteProtocolError as error:
            state.violated(token, f"an AddServerRequest that cannot be read: {error}")
            return
        voters = {each.id: each for each in state.configurations.current.servers}
        accepted = voters.get(server.id) == server or (
            server.id not in voters
            and self.obstacle is None
            and server.endpoint not in {each.endpoint for each in voters.values()}
        )
        self._answer(token, MessageType.ADD_SERVER_RESPONSE, accepted=accepted)
        if accepted and server.id not in voters:
            self.joining = Joining(server, now)
            self._send_next(now)

    def remove(self, token: Token, request: Request, now: float) -> None:
        """Answer a RemoveServerRequest, and begin to remove the server, which may be this leader.

        The only server of a farm cannot be removed.
        """
        state = self._state
        try:
            server_id = decode_server_id(request.entries[0].value)
        except RemoteProtocolError as error:
            state.violated(token, f"a RemoveServerRequest that cannot be read: {error}")
            return
        voters = state.configurations.voters
        accepted = server_id in voters and len(voters) > 1 and self.obstacle is None
        self._answer(token, MessageType.REMOVE_SERVER_RESPONSE, accepted=accepted)
        if not accepted:
            return
        if server_id == state.id:
            self._remove(server_id, now)
        else:
            last = (state.log.last_index, 0)
            tag = state.send_about(server_id, MessageType.LEAVE_CLUSTER_REQUEST, last, state.commit)
            self.leaving = Leaving(server_id, now, tag)

    def _answer(self, token: Token, message_type: MessageType, *, accepted: bool) -> None:
        next_index = self._state.log.last_index + 1
        self._state.answer_client(token, accepted=accepted, next_index=next_index, message_type=message_type)

    def _remove(self, server_id: int, now: float) -> None:
        servers = self._state.configurations.current.servers
        self.leaving = None
        self._set_servers(tuple(server for server in servers if server.id != server_id), 1, now)

    # Inputs ----------------------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        """Return when `tick` has work to do; infinity when no change is in preparation."""
        timing = self._state.timing
        if self.leaving is not None:
            return self.leaving.since + timing.election_min
        if self.joining is not None:
            patience = self.joining.heard_at + JOIN_PATIENCE * timing.election_max
            return patience if self.joining.tag is not None else min(patience, self.joining.sent_at + timing.heartbeat)
        return float("inf")

    def tick(self, now: float) -> None:
        """Send the request that is due; end a change whose server has been silent too long."""
        leaving, joining = self.leaving, self.joining
        timing = self._state.timing
        if leaving is not None and now >= leaving.since + timing.election_min:
            self._remove(leaving.server_id, now)
        elif joining is not None:
            if now >= joining.heard_at + JOIN_PATIENCE * timing.election_max:
                self._give_up(
                    "nothing was heard from the server; check that its node runs, and that this leader can connect and "
                    "log in"
                )
            elif joining.tag is None and now >= joining.sent_at + timing.heartbeat:
                self._send_next(now)

    def reachable(self, peer: int, now: float) -> None:
        """Note a new connection to a peer; repeat the lost request if the peer is joining."""
        if self.joining is not None and peer == self.joining.server.id:
            self._request_lost(self.joining)
            self._send_next(now)

    def failed(self, peer: int, tag: int, now: float) -> None:
        """Note a lost request. `tick` repeats a request to a joining server; a leaving server is removed at once."""
        if self.joining is not None and (peer, tag) == (self.joining.server.id, self.joining.tag):
            self._request_lost(self.joining)
        elif self.leaving is not None and tag == self.leaving.tag:
            self._remove(self.leaving.server_id, now)

    def _request_lost(self, joining: Joining) -> None:
        if joining.tag is not None:
            joining.tag = None
            joining.offset -= record_bytes(joining.pack)
            joining.pack = ()

    def answered(self, tag: int, response: Response, now: float) -> None:
        """Handle a response if it answers a request of this change."""
        if self.leaving is not None and tag == self.leaving.tag:
            self._remove(self.leaving.server_id, now)
        elif self.joining is not None and tag == self.joining.tag:
            self.joining.tag = None
            self.joining.heard_at = now
            match response.type:
                case MessageType.JOIN_CLUSTER_RESPONSE:
                    self._invitation_answered(response, now)
                case MessageType.INSTALL_SNAPSHOT_RESPONSE:
                    self._block_answered(response, now)
                case _:
                    self._pack_answered(response, now)

    # Catching up -----------------------------------------------------------------------------------------------------

    def _send_next(self, now: float) -> None:
        """Send the next request to the joining server."""
        joining, state = self.joining, self._state
        assert joining is not None
        joining.sent_at = now
        if not joining.invited:
            current = state.configurations.current
            entry = Entry(state.term, ValueType.CONFIGURATION, current.encode())
            joining.tag = state.send_about(
                joining.server.id,
                MessageType.JOIN_CLUSTER_REQUEST,
                (state.log.last_index, 0),
                state.commit,
                (entry,),
            )
        elif joining.sending is not None:
            self._send_block(joining, joining.sending)
        elif joining.next <= state.log.base:
            self._begin_snapshot(joining)
        else:
            self._send_pack(joining)

    def _begin_snapshot(self, joining: Joining) -> None:
        if self._state.snapshot is None:
            self._state.effects.snapshot_wanted = True  # the next tick tries again
            return
        joining.sending = SnapshotSending(self._state.snapshot)
        self._send_block(joining, joining.sending)

    def _send_block(self, joining: Joining, sending: SnapshotSending) -> None:
        joining.tag, joining.sent_end = send_block(self._state, joining.server.id, sending)

    def _send_pack(self, joining: Joining) -> None:
        state = self._state
        flow = state.flow
        # A JRaft server commits all entries of a pack at once, so a pack has committed entries only.
        entries = state.log.slice(
            joining.next, state.commit, max_entries=flow.append_entries, max_bytes=flow.append_bytes
        )
        joining.target = state.commit
        joining.sent_end = joining.next + len(entries) - 1
        joining.pack = entries
        pack = Entry(state.term, ValueType.LOG_PACK, LogPack(entries, joining.offset).encode())
        joining.tag = state.send_about(
            joining.server.id, MessageType.SYNC_LOG_REQUEST, (joining.next - 1, 0), state.commit, (pack,)
        )
        joining.offset += record_bytes(entries)

    def _invitation_answered(self, response: Response, now: float) -> None:
        if not response.accepted:
            self._give_up(
                "the server refuses: its log is not empty, or an earlier invitation is still under way. Begin with an "
                "empty log"
            )
            return
        self._joining.invited = True
        self._send_next_or_end(now)

    def _block_answered(self, response: Response, now: float) -> None:
        joining = self._joining
        sending = joining.sending
        if sending is None:
            return
        if response.accepted and response.next_index >= len(sending.snapshot.data):
            joining.next = sending.snapshot.index + 1
            joining.sending = None
            self._send_next_or_end(now)
        elif response.next_index < len(sending.snapshot.data) and response.next_index != sending.offset:
            sending.offset = response.next_index
            self._send_next(now)
        else:
            self._give_up("the server refuses the leader's snapshot; see its node's messages")

    def _pack_answered(self, response: Response, now: float) -> None:
        joining = self._joining
        if 1 <= response.next_index <= joining.next:
            self._pack_refused(joining, now)
            return
        if response.next_index != joining.sent_end + 1:
            if not joining.next <= response.next_index <= joining.sent_end:
                self._give_up(f"the server asks for entry {response.next_index}, which this leader has not offered")
                return
            # The server took a part of the pack, and names the next entry.
            joining.offset -= record_bytes(joining.pack[response.next_index - joining.next :])
        elif joining.sent_end >= joining.target and now - joining.sent_at > self._state.timing.election_max:
            joining.rounds += 1
            if joining.rounds == MAX_ROUNDS:
                self._give_up(
                    "the connection to the server is too slow: the farm commits entries faster than they arrive"
                )
                return
        joining.next = response.next_index
        joining.pack = ()
        self._send_next_or_end(now, fast=now - joining.sent_at <= self._state.timing.election_max)

    def _pack_refused(self, joining: Joining, now: float) -> None:
        """Handle a joining server that took nothing of a pack. To send the pack again at once could loop for ever."""
        if self._state.configurations.ever_has(joining.server.id):
            # A JRaft server takes packs only until it has read a Configuration, even an old one, with itself as a
            # voter. From then on it takes AppendEntries.
            self._append_configuration(joining, now)
            return
        joining.rounds += 1
        if joining.rounds == MAX_ROUNDS:
            self._give_up("the server takes no entries; see its node's messages")
            return
        # A restart may have made the server forget the invitation. So the next tick invites the server again.
        joining.invited = False
        joining.next, joining.offset, joining.pack = 1, 0, ()

    def _send_next_or_end(self, now: float, *, fast: bool = False) -> None:
        """Append the Configuration if the server lacks so little that it delays no commit; else send the next request.

        `fast`: whether a pack has arrived within an election time-out. The entries since that pack delay no commit.
        A snapshot shows nothing of that kind: many entries may lie behind the snapshot's index.

        One pack or the snapshot must have arrived first. A JRaft server elects itself before it is invited, so it has
        an entry 1 of its own. AppendEntries would leave that entry in place if the leader's entry 1 has the same term.
        """
        joining = self._joining
        missing = self._state.commit + 1 - joining.next
        near = missing < _ALMOST or (fast and joining.next > joining.target)
        if joining.next > max(self._state.log.base, 1) and near:
            self._append_configuration(joining, now)
        else:
            self._send_next(now)

    def _append_configuration(self, joining: Joining, now: float) -> None:
        servers = (*self._state.configurations.current.servers, joining.server)
        self.joining = None
        self._set_servers(servers, joining.next, now)

    @property
    def _joining(self) -> Joining:
        assert self.joining is not None
        return self.joining

    def _give_up(self, reason: str) -> None:
        self._state.effects.notice = f"server {self._joining.server.id} has not joined: {reason}"
        self.joining = None


def send_block(state: State, peer: int, sending: SnapshotSending) -> tuple[int, int]:
    """Send a peer the next block of a snapshot; return the request's tag and the offset after the block."""
    snapshot = sending.snapshot
    end = min(sending.offset + state.flow.snapshot_bytes, len(snapshot.data))
    block = SnapshotSyncRequest(
        snapshot.index,
        snapshot.term,
        snapshot.configuration,
        sending.offset,
        snapshot.data[sending.offset : end],
        end == len(snapshot.data),
    )
    entry = Entry(state.term, ValueType.SNAPSHOT_SYNC_REQUEST, block.encode())
    last = (snapshot.index, snapshot.term)
    return state.send_about(peer, MessageType.INSTALL_SNAPSHOT_REQUEST, last, state.commit, (entry,)), end
