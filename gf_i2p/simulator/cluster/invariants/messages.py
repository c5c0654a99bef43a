"""Invariants about the content of messages between servers: each says what follows from the log, and nothing else.

A wrong index or header does no harm while other rules of the core make up for it. JRaft has fewer such rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gf_i2p.raft.effects import Effects, Send, Snapshot
from gf_i2p.raft.inputs import Incoming, Input
from gf_i2p.simulator.cluster.invariants.invariant import OF_LEADERS, Invariant
from gf_i2p.simulator.facts import Facts, ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.log_values import LogPack, SnapshotSyncRequest, record_bytes
from gf_i2p.wire.messages import NOBODY, MessageType, OversizedRequest, Request, Response

_WITHOUT_TERM: Final = {
    MessageType.JOIN_CLUSTER_REQUEST,
    MessageType.LEAVE_CLUSTER_REQUEST,
    MessageType.SYNC_LOG_REQUEST,
    MessageType.CLIENT_REQUEST,
}
"""Requests whose header names no term of an entry (docs/design/jraft.md)."""


class RequestsAreTheLog(Invariant):
    """An AppendEntries has the entries of the leader's log, and a commit index that the entries prove (Raft, figure 2).

    A block of the leader's snapshot has bytes of that snapshot.

    The header of a request to a joining or leaving server names no term, as JRaft's does not. A question for the leader
    has zeros only.
    """

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        for send in effects.sends:
            self._check(server, send.request)

    def _check(self, server: ServerFacts, request: Request) -> None:
        previous, entries = request.last_log_index, request.entries
        if request.type is MessageType.CLIENT_REQUEST:
            wrong = (request.term, request.last_log_term, previous, request.commit_index, entries) != (0, 0, 0, 0, ())
        elif request.type in _WITHOUT_TERM:
            wrong = request.last_log_term != 0
        elif request.type is MessageType.APPEND_ENTRIES_REQUEST:
            log = server.memory
            wrong = (
                request.last_log_term != log.term(previous)
                or request.commit_index > min(server.commit, previous + len(entries))
                or tuple(log.slice(previous + 1, previous + len(entries))) != entries
            )
        elif request.type is MessageType.INSTALL_SNAPSHOT_REQUEST:
            snapshot, block = server.memory.snapshot, SnapshotSyncRequest.decode(entries[0].value)
            if snapshot is not None and block.last_log_index == snapshot.index:
                end = block.offset + len(block.data)
                is_part = bool(block.data) and snapshot.data[block.offset : end] == block.data
                if not is_part or block.done != (end == len(snapshot.data)):
                    raise self.violated(
                        f"server {server.id} sends {len(block.data)} bytes of its snapshot, from byte {block.offset}, "
                        f"{'' if block.done else 'not '}as the last of {len(snapshot.data)}"
                    )
            return
        else:
            return
        if wrong:
            raise self.violated(
                f"server {server.id} sends a {request.type.name} after entry {previous} of term "
                f"{request.last_log_term}, with {len(entries)} entries and the commit index {request.commit_index}"
            )


class HonestIndexes(Invariant):
    """A follower tells the index that follows from its log and the request (proposal 150, "Responses"; Raft 5.3).

    Accepted: the index after the request's entries. An invitation, and a request to leave, are accepted, and the answer
    tells the index after the log. Refused: 0 when the follower needs a snapshot; otherwise an index after the committed
    entries, which never differ, and not after the entry that the leader named. The follower's entry at that index is of
    a later term than the entry that the leader named, or of the term of the follower's entry that differs. Refused
    because the sender's term is over: the index after the log. A block of a snapshot: the offset behind the block if
    accepted; otherwise an offset behind blocks of this very snapshot, or the block's own offset when the snapshot does
    not help. Entries over a limit are passed over: an AppendEntries is answered as if it were empty. Any other such
    request is refused, a snapshot with 0. Then the server says that it cannot follow its leader, until it has taken
    entries or a snapshot. A question for the leader: the index after the log if the server leads, or hears the leader
    that it names; otherwise 0, and nobody is named.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._blocks: dict[int, tuple[tuple[int, int, int], int]] = {}
        """By server: the sender, index and term of the snapshot whose blocks the server takes, and the bytes so far."""
        self._stuck: dict[int, bool] = {}  # by server: whether it could not follow its leader after the last step

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._blocks.pop(server.id, None)
        self._stuck[server.id] = False

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        could_not_follow = self._stuck.get(server.id, False)
        self._stuck[server.id] = server.cannot_follow
        if not isinstance(event, Incoming):
            return
        request = event.request
        accepts = any(reply.response.accepted for reply in effects.gated_replies)
        if could_not_follow and not server.cannot_follow and not accepts and effects.restore is None:
            raise self.violated(f"server {server.id} can follow its leader again, and has taken nothing")
        takes_entries = accepts and request.type is MessageType.APPEND_ENTRIES_REQUEST
        if server.cannot_follow and (
            effects.restore is not None or (takes_entries and not isinstance(request, OversizedRequest))
        ):
            raise self.violated(f"server {server.id} has followed its leader, and says that it cannot")
        if request.type is MessageType.CLIENT_REQUEST and not request.entries:
            for reply in effects.replies:
                self._check_question(server, reply.response)
        for reply in effects.gated_replies:
            if reply.token is event.token and request.type in OF_LEADERS:
                self._check(server, request, reply.response)

    def _check_question(self, server: ServerFacts, response: Response) -> None:
        hears = response.next_index > 0
        named = response.destination
        right = response.accepted or (not server.leads and named == (server.leader if hears else NOBODY))
        is_index = response.next_index == (server.memory.last_index + 1 if hears or response.accepted else 0)
        if not right or response.accepted != server.leads or not is_index or (hears and named == NOBODY):
            raise self.violated(
                f"server {server.id} {'leads' if response.accepted else 'does not lead'} by its answer, hears server "
                f"{named}, and names the index {response.next_index}"
            )

    def _check(self, server: ServerFacts, request: Request, response: Response) -> None:
        index, after_log = response.next_index, server.memory.last_index + 1
        if response.term > request.term:
            wrong = index != after_log
        elif isinstance(request, OversizedRequest) and not server.cannot_follow:
            raise self.violated(f"server {server.id} takes a request over a limit, and says that it can follow")
        elif isinstance(request, OversizedRequest) and request.type is not MessageType.APPEND_ENTRIES_REQUEST:
            installs = request.type is MessageType.INSTALL_SNAPSHOT_REQUEST
            wrong = response.accepted or index != (0 if installs else after_log)
        elif request.type is MessageType.APPEND_ENTRIES_REQUEST and response.accepted:
            wrong = index != request.last_log_index + len(request.entries) + 1
        elif request.type is MessageType.APPEND_ENTRIES_REQUEST:
            latest = max(min(request.last_log_index, after_log), server.commit + 1, 2)
            wrong = 0 < index <= server.commit or index > latest or _may_agree(server, request, index)
        elif request.type in {MessageType.JOIN_CLUSTER_REQUEST, MessageType.LEAVE_CLUSTER_REQUEST}:
            wrong = index != after_log or not response.accepted
        elif request.type is MessageType.SYNC_LOG_REQUEST and response.accepted:
            pack = LogPack.decode(request.entries[0].value)
            wrong = index != request.last_log_index + len(pack.entries) + 1
        elif request.type is MessageType.INSTALL_SNAPSHOT_REQUEST:
            wrong = self._is_wrong_offset(server, request, response)
        else:
            return
        if wrong:
            wanted = "byte" if request.type is MessageType.INSTALL_SNAPSHOT_REQUEST else "entry"
            raise self.violated(
                f"server {server.id} {'accepts' if response.accepted else 'refuses'} a {request.type.name} after entry "
                f"{request.last_log_index}, and asks for {wanted} {index}"
            )

    def _is_wrong_offset(self, server: ServerFacts, request: Request, response: Response) -> bool:
        block = SnapshotSyncRequest.decode(request.entries[0].value)
        covers, offset = (request.source, block.last_log_index, block.last_log_term), response.next_index
        known, taken = self._blocks.get(server.id, (covers, 0))
        taken = taken if known == covers else 0
        if not response.accepted:
            if offset == 0:
                self._blocks[server.id] = covers, 0  # another snapshot, perhaps a forged one, has ended this one
            return offset not in {0, block.offset, taken}
        self._blocks[server.id] = covers, max(taken, offset)
        return offset != block.offset + len(block.data)


def _may_agree(server: ServerFacts, request: Request, index: int) -> bool:
    """Whether a follower that refuses entries asks for an entry of its own that the leader's log may have (Raft 5.3).

    Up to the entry that the leader named, the leader's log has no entry of a later term. The term of the entry that
    differs is skipped as a whole (Raft 5.3, end).
    """
    log, named = server.memory, request.last_log_index
    if not 2 < index <= min(named, log.last_index):  # a follower never asks for entry 1
        return False
    return log.term(index) <= request.last_log_term and log.term(index) != log.term(named)


@dataclass(slots=True)
class _Blocks:
    """The blocks of one snapshot that a server has taken, without a gap."""

    covers: tuple[int, int, int]
    """The sender, and the index and the term at which the snapshot ends."""
    data: bytearray = field(default_factory=bytearray)

    def take(self, block: SnapshotSyncRequest) -> bool:
        """Take in a block that leaves no gap. Return whether the block is the last one."""
        if block.done or not self.has(block):
            self.data[block.offset :] = block.data
        return block.done

    def has(self, block: SnapshotSyncRequest) -> bool:
        """Return whether the block came before."""
        end = block.offset + len(block.data)
        return block.offset < end <= len(self.data) and self.data[block.offset : end] == block.data


class BlocksTaken(Invariant):
    """A server takes each block that continues a snapshot, and at the last block installs just these bytes (Raft 7).

    The first block begins at offset 0, also when another snapshot has begun before. A server without a sound snapshot
    refuses one that ends before its log. A snapshot that the server does not need changes nothing.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._blocks: dict[int, _Blocks] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._blocks.pop(server.id, None)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        if not isinstance(event, Incoming) or event.request.type is not MessageType.INSTALL_SNAPSHOT_REQUEST:
            return
        request, blocks = event.request, self._blocks.pop(server.id, None)
        replies = [reply.response for reply in effects.gated_replies if reply.token is event.token]
        if isinstance(request, OversizedRequest) or not replies or replies[0].term > request.term:
            return  # the server has looked at no block of this sender's, or has refused a forged one
        block = SnapshotSyncRequest.decode(request.entries[0].value)
        covers = request.source, block.last_log_index, block.last_log_term
        if effects.restore is not None and not block.done:
            raise self.violated(f"server {server.id} installs a snapshot before its last block")
        if blocks is None or (blocks.covers != covers and block.offset == 0):
            blocks = _Blocks(covers)
        if blocks.covers != covers or block.offset > len(blocks.data):
            return  # the server has other blocks, or none that a rule could know
        if not replies[0].accepted:
            self._check_refusal(server, block, blocks)
        elif blocks.take(block):
            self._check_end(server, block, bytes(blocks.data), effects.restore)
        else:
            self._blocks[server.id] = blocks

    def _check_refusal(self, server: ServerFacts, block: SnapshotSyncRequest, blocks: _Blocks) -> None:
        is_damaged = server.memory.base > 0 and server.memory.snapshot is None
        is_next = block.offset == len(blocks.data) or blocks.has(block)
        if is_next and not (is_damaged and block.last_log_index < server.memory.base):
            raise self.violated(
                f"server {server.id} refuses the block from byte {block.offset} on of a snapshot up to "
                f"{block.last_log_index}, and has all bytes before"
            )

    def _check_end(
        self, server: ServerFacts, block: SnapshotSyncRequest, data: bytes, restored: Snapshot | None
    ) -> None:
        wanted = Snapshot(block.last_log_index, block.last_log_term, block.configuration, data)
        if restored is None and server.commit < block.last_log_index:
            raise self.violated(f"server {server.id} has all of a snapshot up to {wanted.index}, and installs nothing")
        if restored is not None and restored != wanted:
            raise self.violated(
                f"server {server.id} has {len(data)} bytes of a snapshot up to {wanted.index}, and installs "
                f"{len(restored.data)} bytes up to {restored.index}"
            )


class PacksTaken(Invariant):
    """A newcomer takes each pack that continues what it took of the same leader before (docs/design/jraft.md).

    A newcomer that has installed the leader's snapshot takes the pack after the snapshot. A newcomer that lacks the
    entries before a pack asks for the entry after those that it took.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._taken: dict[int, tuple[int, int, int]] = {}
        """By newcomer: the leader that has invited it, the leader's term, and the last index that it took."""

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._taken.pop(server.id, None)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        if not isinstance(event, Incoming) or isinstance(event.request, OversizedRequest):
            return
        request = event.request
        if effects.restore is not None and server.id in self._taken:
            self._taken[server.id] = *self._taken[server.id][:2], effects.restore.index
        for reply in effects.gated_replies:
            if reply.token is event.token and reply.response.term == request.term:
                is_taken = effects.write is not None and len(effects.write.entries) > 0
                if is_taken and not reply.response.accepted:
                    raise self.violated(f"newcomer {server.id} appends the entries of a pack that it refuses")
                self._take(server, request, reply.response)

    def _take(self, server: ServerFacts, request: Request, response: Response) -> None:
        if request.type is MessageType.JOIN_CLUSTER_REQUEST and response.accepted:
            self._taken[server.id] = request.source, request.term, server.commit
        if request.type is not MessageType.SYNC_LOG_REQUEST:
            return
        *sender, taken = self._taken.get(server.id, (NOBODY, 0, 0))
        if sender != [request.source, request.term]:
            if server.id in server.voters:
                return  # a voter refuses packs without an invitation
            taken = server.commit
        self._taken[server.id] = request.source, request.term, taken
        if response.accepted:
            self._taken[server.id] = request.source, request.term, max(taken, response.next_index - 1)
            return
        is_gap = request.last_log_index != taken and response.next_index == taken + 1
        if response.next_index <= request.last_log_index + 1 and not is_gap:
            raise self.violated(
                f"newcomer {server.id} has taken the entries up to {taken} of leader {request.source}, refuses the "
                f"pack after entry {request.last_log_index}, and asks for entry {response.next_index}"
            )


class PacksContinue(Invariant):
    """The offset in a LogPack is the number of record bytes in the packs before it (docs/design/jraft.md)."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._offsets: dict[tuple[int, int, int], dict[int, int]] = {}  # by leader, term, peer: offsets by first index

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        for send in effects.sends:
            place = (server.id, server.term, send.peer)
            if send.request.type is MessageType.JOIN_CLUSTER_REQUEST:
                self._offsets[place] = {}
            elif send.request.type is MessageType.SYNC_LOG_REQUEST:
                self._check(server, send, self._offsets.setdefault(place, {}))

    def _check(self, server: ServerFacts, send: Send, offsets: dict[int, int]) -> None:
        pack = LogPack.decode(send.request.entries[0].value)
        index, offset = send.request.last_log_index + 1, pack.base
        if offset != (expected := offsets.get(index, offset if offsets else 0)):
            raise self.violated(
                f"leader {server.id} sends server {send.peer} a pack from entry {index} on with the offset {offset} "
                f"instead of {expected}"
            )
        offsets[index] = offset
        for entry in pack.entries:
            offset += record_bytes((entry,))
            index += 1
            offsets[index] = offset
