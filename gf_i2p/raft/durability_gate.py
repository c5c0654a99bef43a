"""The durability gate: holds back the messages that promise stored data, until the data is durable."""

from collections import deque

from gf_i2p.raft.effects import Effects, Send, SendReply


class DurabilityGate:
    """Orders the messages of one core after the writes that they depend on (Raft, figure 2)."""

    def __init__(self) -> None:
        self._issued = 0  # number of the last write
        self._durable = 0
        self._held: deque[tuple[int, Send | SendReply]] = deque()  # each with its write's number, in rising order

    @property
    def held(self) -> int:
        """Number of messages that wait for the disk."""
        return len(self._held)

    def take(self, effects: Effects) -> list[Send | SendReply]:
        """Take the effects of the next step, and return the messages that may be sent at once.

        Call this for every step, in the order of the steps, after the step's write was handed to the storage.
        """
        if effects.write is not None:
            self._issued = effects.write.number
        gated: list[Send | SendReply] = [*effects.gated_sends, *effects.gated_replies]
        if self._durable >= self._issued:
            return [*effects.sends, *effects.replies, *gated]
        self._held.extend((self._issued, item) for item in gated)
        return [*effects.sends, *effects.replies]

    def stored(self, number: int) -> list[Send | SendReply]:
        """Note that all writes up to `number` are durable; return the messages held for these writes, in order."""
        assert number >= self._durable, "a disk never takes back a durable write"
        self._durable = number
        free: list[Send | SendReply] = []
        while self._held and self._held[0][0] <= number:
            free.append(self._held.popleft()[1])
        return free
