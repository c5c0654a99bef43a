"""Events of a farm, as sentences: changes of the servers, of the publisher, of the leaves, and by administrators.

The events follow from the log alone, so every server tells the same. A node adds its own events, such as a new leader.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gf_i2p.farm.explanation import why_publisher
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address

MOST: Final = 1000
"""Most events that are kept."""
LATE_MS: Final = 120_000
"""Longest time between an entry and its application on a node that is not away: the period of records, and a vote."""
_MANY: Final = 5
"""Changed leaves that are told one by one. More leaves are told as a number."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    number: int
    """1, 2, ... in the order in which this node has seen the events."""
    date_ms: int | None
    """ms since the epoch: by this node's clock, or by farm time for what the node has learned late; None: not known."""
    index: int
    """Index of the last log entry that was applied then."""
    text: str
    """A sentence."""

    def encode(self) -> dict[str, Any]:
        """Return the event as a JSON object."""
        return {"number": self.number, "date": self.date_ms, "index": self.index, "text": self.text}


@dataclass(frozen=True, slots=True)
class _Picture:
    """The parts of a farm's state that events tell about."""

    servers: frozenset[int] = frozenset()
    publisher: int | None = None
    mode: str = "off"
    leaves: Mapping[bytes, int] = field(default_factory=dict)
    """The owner of each listed leaf, by the leaf's hash."""
    changes: int = 0
    """Index of the administrators' last change."""


def _picture(state: FarmState) -> _Picture:
    """Take the picture without `FarmState.choice`, whose reasons are slow to find in a farm of many leaves."""
    log = state.administration.log
    return _Picture(
        frozenset(state.servers),
        state.publisher,
        state.mode,
        {hash_: leaf.owner for hash_, leaf in state.listing.listed.items()},
        log[-1].index if log else 0,
    )


def in_order(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return encoded events in the order of their dates. An event without a date stays behind the event before it.

    A node tells of a new leader before it has read the rest of its log.
    """
    dates, last = [], 0
    for event in events:
        last = last if event["date"] is None else event["date"]
        dates.append(last)
    return [event for _, event in sorted(zip(dates, events, strict=True), key=lambda each: each[0])]


class EventLog:
    """The last `MOST` events of a farm, as one node sees them."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=MOST)
        self._count = 0
        self._before = _Picture()

    def after(self, number: int) -> list[Event]:
        """Return the events after the event of this number; 0: all events that are kept."""
        return [event for event in self._events if event.number > number]

    def begin_from(self, state: FarmState) -> None:
        """Tell no changes up to this state, which comes from a snapshot."""
        self._before = _picture(state)

    def note(self, state: FarmState, index: int, now_ms: int | None) -> None:
        """Tell the changes since the last call. `index`: of the last entry that was applied.

        Farm time stands still while records are few, so what happens now has the node's time, `now_ms`. None: the
        entries were in the log before the node started. If farm time is more than `LATE_MS` away, the node was away
        when the entries were written, or the node's clock is wrong.
        """
        before, now = self._before, _picture(state)
        if now != before:
            self._before = now
            is_now = now_ms is not None and state.now_ms is not None and abs(now_ms - state.now_ms) <= LATE_MS
            for text in _changes(before, now, state):
                self.add(text, now_ms if is_now else state.now_ms, index)

    def add(self, text: str, date_ms: int | None, index: int) -> None:
        """Add an event."""
        self._count += 1
        self._events.append(Event(self._count, date_ms, index, text))


def _changes(before: _Picture, now: _Picture, state: FarmState) -> Iterator[str]:
    if not before.servers and now.servers:
        yield f"the farm has the servers {_ids(now.servers)}"
    else:
        if joined := now.servers - before.servers:
            yield f"server {_ids(joined)} joined the farm"
        if left := before.servers - now.servers:
            yield f"server {_ids(left)} left the farm"
    for change in state.administration.log:
        if change.index > before.changes:
            yield f"{change.by}: {change.what}" + ("" if change.reason is None else f" ({change.reason})")
    if (now.publisher, now.mode) != (before.publisher, before.mode):
        yield _new_publisher(before, now, state)
    yield from _leaves(before, now, state)


def _new_publisher(before: _Picture, now: _Picture, state: FarmState) -> str:
    if now.publisher is None:
        return f"nobody publishes: {why_publisher(state)}"
    old = before.publisher if before.mode == now.mode and before.publisher != now.publisher else None
    why_not = None if old is None else state.choice.why_not.get(old)
    if why_not is not None:
        if now.mode == "failover":
            return f"server {now.publisher} serves, and server {old} no longer does: {why_not}"
        if now.mode == "dry-run":
            return f"server {now.publisher} would publish, and server {old} would no longer publish: {why_not}"
        return f"server {now.publisher} publishes, and server {old} no longer does: {why_not}"
    why = why_publisher(state)
    if now.mode == "failover":
        return f"server {now.publisher} serves: {why}"
    if now.mode == "dry-run":
        return f"server {now.publisher} would publish: {why}"
    return f"server {now.publisher} publishes: {why}"


def _leaves(before: _Picture, now: _Picture, state: FarmState) -> Iterator[str]:
    new = [leaf for leaf in now.leaves if leaf not in before.leaves]
    gone = [leaf for leaf in before.leaves if leaf not in now.leaves]
    if len(new) > _MANY:
        yield f"{len(new)} leaves are listed now, {len(now.leaves)} in all"
    else:
        for leaf in new:
            yield f"leaf {to_b32_address(leaf)} of {now.leaves[leaf]} is listed"
    if len(gone) > _MANY:
        yield f"{len(gone)} leaves are no longer listed, {len(now.leaves)} are left"
    else:
        for leaf in gone:
            why = state.choice.left_out.get(leaf, "no server names it any more")
            yield f"leaf {to_b32_address(leaf)} of {before.leaves[leaf]} is no longer listed: {why}"


def _ids(servers: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(servers)))
