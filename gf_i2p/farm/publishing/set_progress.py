"""Progress of a set: attempted, sent, found, confirmed, each with its time.

*Attempted*: the set's announcement is committed in the farm's log, and the router is about to get the set. *Sent*: the
publisher's router has taken the set. *Found*: since then, another server has found a set of the same master in the
netDb, but that server's router does not tell the version. *Confirmed*: another server has found this version or a newer
one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SetProgress:
    """The progress of one set. Times in ms since the epoch, 0: not yet."""

    published_ms: int
    """The set's version."""
    data: bytes
    """The whole set, as the router gets it."""
    attempted_ms: int = 0
    sent_ms: int = 0
    found_ms: int = 0
    found_by: int | None = None
    """Id of the server whose router has found a set of an unknown version; None: no such server."""
    confirmed_ms: int = 0
    confirmed_by: int | None = None
    """Id of the server whose router has found this version or a newer one; None: no such server."""
    unconfirmed: str | None = None
    """Why a sent set is not confirmed: a clause for the operator."""

    @property
    def stage(self) -> str:
        """The last stage that the set has reached."""
        if self.confirmed_ms:
            return "confirmed"
        if self.found_ms:
            return "found"
        if self.sent_ms:
            return "sent"
        return "attempted" if self.attempted_ms else "announced"


class PublishProgress:
    """The progress of the newest set. `on_change` is called when the set has reached another stage."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.current: SetProgress | None = None
        """Progress of the newest set; None before the first set."""
        self._on_change = on_change

    def announced(self, published: int, data: bytes) -> None:
        """Note that a new set is about to be announced in the log. `published`: its version, in s since the epoch."""
        self.current = SetProgress(published * 1000, data)

    def attempted(self, now_ms: int) -> None:
        """Note that the announcement of the newest set is committed, and the router is about to get the set.

        `now_ms`: the present time, in ms since the epoch.
        """
        self._advance(attempted_ms=now_ms)

    def sent(self, now_ms: int) -> None:
        """Note that the router has taken the newest set. `now_ms`: the present time, in ms since the epoch."""
        self._advance(sent_ms=now_ms)

    def found(self, now_ms: int, by: int) -> None:
        """Note that the router of server `by` has found a set of an unknown version at this time."""
        if self.current is not None and not self.current.found_ms:
            self._advance(found_ms=now_ms, found_by=by)

    def confirmed(self, now_ms: int, by: int) -> None:
        """Note that the router of server `by` has found the newest set, or a newer one, at this time."""
        if self.current is not None and not self.current.confirmed_ms:
            self._advance(confirmed_ms=now_ms, confirmed_by=by, unconfirmed=None)

    def unconfirmed(self, why: str) -> None:
        """Note why the set is not confirmed. This is no stage, so `on_change` is not called."""
        if self.current is not None and not self.current.confirmed_ms:
            self.current = replace(self.current, unconfirmed=why)

    def _advance(self, **changes: int | str | None) -> None:
        assert self.current is not None, "announced first"
        self.current = replace(self.current, **changes)  # type: ignore[arg-type]
        self._on_change()
