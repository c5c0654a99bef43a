"""Estimate of the round trip to a peer, and from it the time before a packet is sent again (RFC 6298)."""

from bridges.streaming.limits import FIRST_TIMEOUT, MAX_TIMEOUT, MIN_TIMEOUT


class RoundTripEstimate:
    """Estimates the round trip from samples, in seconds. A packet that was sent twice is no sample (Karn's rule)."""

    __slots__ = ("_backoff", "_variation", "smoothed")

    def __init__(self) -> None:
        self.smoothed: float | None = None
        """None before the first sample."""
        self._variation = 0.0
        self._backoff = 1

    @property
    def timeout(self) -> float:
        """Seconds to wait for an acknowledgement."""
        base = FIRST_TIMEOUT
        if self.smoothed is not None:
            base = max(self.smoothed + 4 * self._variation, MIN_TIMEOUT)
        return min(base * self._backoff, MAX_TIMEOUT)

    def sample(self, seconds: float) -> None:
        """Take in a measured round trip."""
        if self.smoothed is None:
            self.smoothed, self._variation = seconds, seconds / 2
        else:
            self._variation += (abs(self.smoothed - seconds) - self._variation) / 4
            self.smoothed += (seconds - self.smoothed) / 8
        self._backoff = 1

    def heard(self) -> None:
        """End the doubling of the timeout: the peer has acknowledged a new packet, even one that was sent twice."""
        self._backoff = 1

    def missed(self) -> None:
        """Double the timeout, because no acknowledgement came in time."""
        self._backoff = min(self._backoff * 2, 64)
