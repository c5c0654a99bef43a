"""A snapshot on its way to us, block by block (Raft 7; jraft-facts, "InstallSnapshot")."""

from gf_i2p.raft.effects import Snapshot
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.limits import MAX_SNAPSHOT_BYTES
from gf_i2p.wire.log_values import SnapshotSyncRequest


class Receiving:
    """Puts blocks together, and goes on after a lost connection; another leader's snapshot begins anew."""

    def __init__(self) -> None:
        self._covers: tuple[int, int, int] | None = None
        self._data = bytearray()

    def take(self, source: int, block: SnapshotSyncRequest) -> int | Snapshot:
        """Take a block from this server; return the offset that is due next, or the whole snapshot.

        The offset is the end of this block when it fitted. Raises `RemoteProtocolError` when no snapshot looks so.
        """
        covers = source, block.last_log_index, block.last_log_term
        if block.offset == 0 and (covers != self._covers or not self._has(block)):
            self._covers = covers
            self._data.clear()
        if covers != self._covers:
            return 0
        if self._has(block):
            end = block.offset + len(block.data)
            if not block.done:
                return end  # it was sent twice
            del self._data[end:]
        elif block.offset == len(self._data):
            if len(self._data) + len(block.data) > MAX_SNAPSHOT_BYTES:
                raise RemoteProtocolError(f"a snapshot of more than {MAX_SNAPSHOT_BYTES} bytes")
            self._data += block.data
        else:
            return len(self._data)
        if not block.done:
            return len(self._data)
        snapshot = Snapshot(block.last_log_index, block.last_log_term, block.configuration, bytes(self._data))
        self.forget()
        if not snapshot.data or snapshot.index < 1:
            raise RemoteProtocolError("a snapshot without data, or of nothing")
        return snapshot

    def forget(self) -> None:
        """Let go of what has come so far."""
        self._covers = None
        self._data.clear()

    def _has(self, block: SnapshotSyncRequest) -> bool:
        """Whether these very bytes are here already."""
        end = block.offset + len(block.data)
        return end <= len(self._data) and self._data[block.offset : end] == block.data and bool(block.data)
