"""Holds a core's promises back until they are kept: whoever drives a core needs one, whatever its disk is."""

from collections import deque

from gf_i2p.raft.effects import Effects, Reply, Send


class DurabilityGate:
    """Says which messages of one core may leave (Raft, figure 2)."""

    def __init__(self) -> None:
        self._issued = 0  # number of the last write
        self._durable = 0
        self._held: deque[tuple[int, Send | Reply]] = deque()  # with the write that each waits for, ascending

    @property
    def held(self) -> int:
        """How many messages wait for the disk."""
        return len(self._held)

    def take(self, effects: Effects) -> list[Send | Reply]:
        """Take in the effects of the next step, whose write has gone to the disk; return what may leave now, in order.

        To be called for every step, in the order of the steps.
        """
        if effects.write is not None:
            self._issued = effects.write.number
        gated: list[Send | Reply] = [*effects.gated_sends, *effects.gated_replies]
        if self._durable >= self._issued:
            return [*effects.sends, *effects.replies, *gated]
        self._held.extend((self._issued, item) for item in gated)
        return [*effects.sends, *effects.replies]

    def stored(self, number: int) -> list[Send | Reply]:
        """All writes up to `number` are durable: return what has waited for no more than them, in order."""
        assert number >= self._durable, "a disk does not take back what it has stored"
        self._durable = number
        free: list[Send | Reply] = []
        while self._held and self._held[0][0] <= number:
            free.append(self._held.popleft()[1])
        return free
