"""The follower role: how a server handles a leader's requests (Raft 5.3, 7; docs/design/jraft.md).

Before a call, `Core` has checked that the sender leads the present term.
"""

from collections.abc import Sequence

from gf_i2p.raft.allowance import INDEXES_A_SECOND, INDEXES_AT_ONCE, LAST_INDEX, Allowance
from gf_i2p.raft.effects import CheckSnapshot, Snapshot, Token
from gf_i2p.raft.state import State
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.limits import MAX_SNAPSHOT_BYTES
from gf_i2p.wire.log_values import LogPack, SnapshotSyncRequest
from gf_i2p.wire.messages import MessageType, OversizedRequest, Request


class JoiningServer:
    """The state of this server's own invitation (JoinCluster): by which leader, in which term, and how far it got.

    Only SyncLogRequests of that leader in that term belong to the invitation.
    """

    def __init__(self, state: State, leader: int, term: int) -> None:
        self._state = state
        self.leader = leader
        self.term = term
        self.agreed = state.commit
        """Index up to which the log is known to match the leader's. A LogPack carries no previous term to compare."""

    def take(self, request: Request) -> tuple[int, Sequence[Entry]] | int:
        """Read a SyncLogRequest; return the index of its first entry, and its entries.

        When there is nothing to append, return only an index: the next needed index if the pack would leave a gap, or
        the index after a pack that brings nothing new. Raises `RemoteProtocolError` when the LogPack cannot be decoded.
        """
        first = request.last_log_index + 1
        if first > self.agreed + 1:
            return self.agreed + 1
        entries = LogPack.decode(request.entries[0].value).entries
        last = request.last_log_index + len(entries)
        if last <= self.agreed:
            return last + 1
        return first, entries


def check_terms(before: int, entries: Sequence[Entry], term: int) -> None:
    """Raise `RemoteProtocolError` if a term in `entries` is below the term before it or above `term`, the sender's.

    `before`: the term of the entry before the first.
    """
    terms = [max(before, 1), *(entry.term for entry in entries), term]
    if terms != sorted(terms):
        raise RemoteProtocolError("a term is below the term before it, or above the sender's term")


class SnapshotReceiver:
    """Collects the blocks of a snapshot.

    The received blocks outlive a lost connection. After a change of the leader or the snapshot, the blocks begin again
    at offset 0.
    """

    def __init__(self, check: CheckSnapshot) -> None:
        self._check = check
        self._covers: tuple[int, int, int] | None = None
        self._data = bytearray()

    def take(self, source: int, block: SnapshotSyncRequest) -> int | Snapshot:
        """Take a block that server `source` sent; return the next needed offset, or the whole snapshot.

        The returned offset is the block's end if the block was taken. Raises `RemoteProtocolError` when the snapshot
        exceeds `MAX_SNAPSHOT_BYTES`, is empty, covers no entry, or has data that the check refuses.
        """
        covers = source, block.last_log_index, block.last_log_term
        if block.offset == 0 and (covers != self._covers or not self._contains(block)):
            self._covers = covers
            self._data.clear()
        if covers != self._covers:
            return 0
        if self._contains(block):
            end = block.offset + len(block.data)
            if not block.done:
                return end  # a block that was sent twice
            del self._data[end:]
        elif block.offset == len(self._data):
            if len(self._data) + len(block.data) > MAX_SNAPSHOT_BYTES:
                self.forget()
                raise RemoteProtocolError(f"the snapshot has more than {MAX_SNAPSHOT_BYTES} bytes")
            self._data += block.data
        else:
            return len(self._data)
        if not block.done:
            return len(self._data)
        snapshot = Snapshot(block.last_log_index, block.last_log_term, block.configuration, bytes(self._data))
        self.forget()
        if not snapshot.data or snapshot.index < 1:
            raise RemoteProtocolError("the snapshot has no data, or covers no entry")
        if (fault := self._check(snapshot.data)) is not None:
            raise RemoteProtocolError(fault)
        return snapshot

    def forget(self) -> None:
        """Drop the blocks received so far."""
        self._covers = None
        self._data.clear()

    def _contains(self, block: SnapshotSyncRequest) -> bool:
        """Return whether the data received so far contains this block."""
        end = block.offset + len(block.data)
        return end <= len(self._data) and self._data[block.offset : end] == block.data and bool(block.data)


class Follower:
    """Applies the requests of leaders to this server's log."""

    def __init__(self, state: State, check_snapshot: CheckSnapshot, now: float) -> None:
        self._state = state
        self._index_allowance = Allowance(INDEXES_AT_ONCE, INDEXES_A_SECOND, now)
        self._receiver = SnapshotReceiver(check_snapshot)
        self._newcomer: JoiningServer | None = None
        self.needs_snapshot = state.snapshot is None and state.log.base > 0
        """Whether the log has dropped entries whose state is lost. This server then needs a leader's snapshot first."""
        self.obstacle: str | None = None
        """Why this server cannot follow the leader, in words: entries over a limit. None: this server can follow."""

    def pass_over(self, token: Token, request: OversizedRequest) -> None:
        """Answer a request whose entries exceed a limit: treat an AppendEntries as empty, and refuse any other request.

        So an accepted AppendEntries only confirms the entries before the request's. A JRaft leader then sends the same
        request again. At each refusal a JRaft leader would step back by one entry, and at last before the log's first
        entry.
        """
        self.obstacle = f"the leader, server {request.source}, sends entries over the limit ({request.fault})"
        if request.type is MessageType.APPEND_ENTRIES_REQUEST:
            self._append_entries(token, request)
        else:
            installs = request.type is MessageType.INSTALL_SNAPSHOT_REQUEST
            next_index = 0 if installs else self._state.log.last_index + 1
            self._state.promise(token, request, accepted=False, next_index=next_index)

    def append_entries(self, token: Token, request: Request) -> None:
        """Append the entries; or refuse, and name the index from which the leader should send (Raft 5.3)."""
        if self._append_entries(token, request):
            self.obstacle = None

    def _append_entries(self, token: Token, request: Request) -> bool:
        """See `append_entries`; return whether the request was accepted."""
        state, log = self._state, self._state.log
        if self.needs_snapshot:
            state.promise(token, request, accepted=False, next_index=0)
            return False
        previous = request.last_log_index
        if not log.matches(previous, request.last_log_term):
            next_index = log.back_off(previous, request.last_log_term)
            # Never ask for entry 1: a JRaft leader that has dropped entry 1 would not speak to this server again. Asked
            # for entry 2, such a leader sends its snapshot. A leader that has entry 1 then steps back by itself
            # (docs/design/jraft.md).
            state.promise(token, request, accepted=False, next_index=max(next_index, state.commit + 1, 2))
            return False
        overlap = log.request_overlap(request)
        problem = self._take_entries(request, previous + 1 + overlap, request.entries[overlap:])
        if problem is not None:
            state.violated(token, problem)
            return False
        last = previous + len(request.entries)
        state.commit = max(state.commit, min(request.commit_index, last))
        state.promise(token, request, accepted=True, next_index=last + 1)
        return True

    def _take_entries(self, request: Request, first: int, new: Sequence[Entry]) -> str | None:
        """Cut conflicting entries and append the new ones (Raft 5.3); return the request's fault in words, or None."""
        state = self._state
        if not new:
            return None
        if first <= state.commit:
            return (
                f"server {request.source} wants to replace entry {first}, but entries up to {state.commit} are "
                "committed: some server has lost its data"
            )
        try:
            check_terms(state.log.term(first - 1), new, request.term)
            state.replace_from(first, new)
        except RemoteProtocolError as error:
            return f"server {request.source} sent entries that cannot be in a log: {error}"
        return None

    def install_snapshot(self, token: Token, request: Request, now: float) -> None:
        """Take one block of a snapshot; after the last block, install the snapshot (Raft 7).

        The snapshot replaces nothing before its content is checked. docs/design/consensus.md says what the check cannot
        find.
        """
        state = self._state
        try:
            block = SnapshotSyncRequest.decode(request.entries[0].value)
            end = block.offset + len(block.data)
            if block.last_log_index <= (state.log.base - 1 if self.needs_snapshot else state.commit):
                # This snapshot is too old to help. After an acceptance the leader goes on with the log; after a refusal
                # the leader makes a newer snapshot.
                next_index = block.offset if self.needs_snapshot else end
                state.promise(token, request, accepted=not self.needs_snapshot, next_index=next_index)
                return
            self._check_block(block, request.term, now)
            snapshot = self._receiver.take(request.source, block)
        except RemoteProtocolError as error:
            state.violated(token, f"server {request.source} sent a snapshot that cannot be used: {error}")
            return
        if isinstance(snapshot, int):  # the offset of the next block
            state.promise(token, request, accepted=snapshot == end, next_index=snapshot)
            return
        self._install(snapshot, now)
        state.promise(token, request, accepted=True, next_index=end)

    def _check_block(self, block: SnapshotSyncRequest, term: int, now: float) -> None:
        """Raise `RemoteProtocolError` if no leader of `term` can have such a snapshot, or if it ends too far ahead."""
        state, index = self._state, block.last_log_index
        known = min(index, state.commit)
        known_term = state.log.term(known)
        # Terms never fall along a log, so the snapshot's last term is at least that of any committed entry before.
        if not known_term <= block.last_log_term <= term or (known == index and block.last_log_term != known_term):
            raise RemoteProtocolError(
                f"it ends in term {block.last_log_term}, but entry {known} is of term {known_term}, and the sender "
                f"leads in term {term}"
            )
        if not block.configuration.servers or block.configuration.log_index > index:
            raise RemoteProtocolError("its Configuration is empty, or from an entry after the snapshot")
        if state.is_newcomer:
            is_too_far = index > LAST_INDEX
        else:
            is_too_far = not self._index_allowance.has(index - state.commit, now)
        if is_too_far:
            raise RemoteProtocolError(
                f"it ends at entry {index}, too far after entry {state.commit}. If the farm has so many entries, "
                "remove this server, and invite this server again with an empty directory"
            )

    def _install(self, snapshot: Snapshot, now: float) -> None:
        """Install a checked snapshot. If the log has the snapshot's last entry, later entries stay; else none stays."""
        state, log = self._state, self._state.log
        if not state.is_newcomer:
            self._index_allowance.take(snapshot.index - state.commit, now)
        self.needs_snapshot = False
        self.obstacle = None
        if log.base <= snapshot.index <= log.last_index and log.term(snapshot.index) == snapshot.term:
            state.take_snapshot(snapshot, snapshot.index)  # entries after the snapshot stay (Raft 7)
            state.configurations.begin(snapshot.index, snapshot.configuration)
        else:
            state.install_snapshot(snapshot)
        state.commit = max(state.commit, snapshot.index)
        if self._newcomer is not None:
            self._newcomer.agreed = snapshot.index
        state.effects.restore = snapshot

    def join_cluster(self, token: Token, request: Request) -> None:
        """Accept an invitation. SyncLogRequests of the leader follow."""
        self._newcomer = JoiningServer(self._state, request.source, request.term)
        self._state.promise(token, request, accepted=True, next_index=self._state.log.last_index + 1)

    def sync_log(self, token: Token, request: Request) -> None:
        """Append the committed entries of a LogPack. A voter refuses, unless the sender has invited the voter."""
        state, newcomer = self._state, self._newcomer
        if newcomer is None or (newcomer.leader, newcomer.term) != (request.source, request.term):
            if state.id in state.configurations.voters:
                state.promise(token, request, accepted=False, next_index=state.log.last_index + 1)
                return
            # A restart made this server forget the invitation. A JRaft leader invites once, then sends packs for ever.
            newcomer = self._newcomer = JoiningServer(state, request.source, request.term)
        try:
            pack = newcomer.take(request)
        except RemoteProtocolError as error:
            state.violated(token, f"server {request.source} sent a LogPack that cannot be used: {error}")
            return
        if isinstance(pack, int):  # the index of the next entry
            state.promise(token, request, accepted=pack == request.last_log_index + 1, next_index=pack)
            return
        first, entries = pack
        last = first + len(entries) - 1
        overlap = self._state.log.overlap(first, entries)
        problem = self._take_entries(request, first + overlap, entries[overlap:])
        if problem is not None:
            state.violated(token, problem)
            return
        newcomer.agreed = last
        self.obstacle = None
        state.promise(token, request, accepted=True, next_index=last + 1)
