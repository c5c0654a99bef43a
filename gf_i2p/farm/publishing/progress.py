"""How far a set has come: attempted, sent, confirmed; each only when it is true, with its time.

*Attempted*: its announcement is committed in the farm's log, and it is about to be given. *Sent*: our router has taken
it. *Confirmed*: somebody has found it in the netDb, as far as a router lets us see that.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Progress:
    """One set's. Times in ms since the epoch, 0: not yet."""

    published_ms: int
    """Its version."""
    data: bytes
    """All of it, as the router gets it."""
    attempted_ms: int = 0
    sent_ms: int = 0
    confirmed_ms: int = 0
    confirmed_by: int | None = None
    """The server whose router has found it."""
    unconfirmed: str | None = None
    """Why it is not confirmed although it is sent, a clause for people."""

    @property
    def word(self) -> str:
        """The last of the words that is true of it."""
        if self.confirmed_ms:
            return "confirmed"
        if self.sent_ms:
            return "sent"
        return "attempted" if self.attempted_ms else "announced"


class PublishProgress:
    """That of the newest set. `on_change` is called when a word has become true."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.current: Progress | None = None
        """None before the first set."""
        self._on_change = on_change

    def announced(self, published: int, data: bytes) -> None:
        """A set of this version, in seconds since the epoch, is about to be written into the log."""
        self.current = Progress(published * 1000, data)

    def attempted(self, now_ms: int) -> None:
        """It is in the log, committed."""
        self._turn(attempted_ms=now_ms)

    def sent(self, now_ms: int) -> None:
        """The router has taken it."""
        self._turn(sent_ms=now_ms)

    def confirmed(self, now_ms: int, by: int) -> None:
        """That server's router has found it, or one that is later, at this time."""
        if self.current is not None and not self.current.confirmed_ms:
            self._turn(confirmed_ms=now_ms, confirmed_by=by, unconfirmed=None)

    def unconfirmed(self, why: str) -> None:
        """It is not confirmed, for this reason; no word of its own, so nobody is told."""
        if self.current is not None and not self.current.confirmed_ms:
            self.current = replace(self.current, unconfirmed=why)

    def _turn(self, **changes: int | str | None) -> None:
        assert self.current is not None, "announced first"
        self.current = replace(self.current, **changes)  # type: ignore[arg-type]
        self._on_change()
