"""A budget that fills with time, up to a limit."""


class TokenBucket:
    """A budget of tokens, full at first. All times (`now`) are seconds by a clock that never goes back."""

    __slots__ = ("_content", "_filled_at", "most", "rate")

    def __init__(self, most: float, rate: float, now: float) -> None:
        self.most = most
        """Most tokens in the bucket."""
        self.rate = rate
        """Tokens that the bucket gains in a second."""
        self._content = float(most)
        self._filled_at = now

    def content(self, now: float) -> float:
        """Return the number of tokens in the bucket at `now`."""
        self._content = min(self._content + (now - self._filled_at) * self.rate, float(self.most))
        self._filled_at = now
        return self._content

    def spend(self, tokens: float) -> None:
        """Take tokens out, after a call of `content`. If the bucket has fewer tokens, its content falls below zero."""
        self._content -= tokens
