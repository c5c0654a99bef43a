"""The versions of a published set: its `published`, which must rise from one publisher to the next."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gf_i2p.farm.record.status_record import StatusRecord

if TYPE_CHECKING:
    from gf_i2p.farm.state import FarmState

MAX_AHEAD_MS: Final = 30_000
"""How far ahead of farm time an announced set counts. Half of what a publisher may be ahead of its own clock: so nobody
can, by announcing sets of the future, keep the others from publishing."""
MAX_TAKEN_AHEAD_MS: Final = 60_000
"""How far ahead of its own clock a Java router takes a set."""


def newest_announced(last_ms: int, records: Iterable[StatusRecord], farm_ms: int, publisher: int | None = None) -> int:
    """Return the greatest version that counts, in ms. `last_ms`: what was so far; `farm_ms`: farm time.

    What is ahead of its time counts when its time has come, if its server still says it then. What the `publisher` says
    counts as far as routers take it: its set is in the netDb, and whoever follows must have a greater one.
    """
    found = last_ms
    for record in records:
        if record.meta is not None:
            ahead_ms = MAX_TAKEN_AHEAD_MS if record.id == publisher else MAX_AHEAD_MS
            if record.meta.last_published_ms <= farm_ms + ahead_ms:
                found = max(found, record.meta.last_published_ms)
    return found


def next_version(state: "FarmState", now_ms: int) -> int:
    """Return what a new set is to say that it was published, in seconds since the epoch.

    `now_ms`: the publisher's own clock, in ms since the epoch. More than all that was announced; of the present
    publisher also what is ahead of farm time, as far ahead as routers would have taken it.
    """
    newest = state.last_published_ms
    present = None if state.publisher is None else state.records.get(state.publisher)
    if present is not None and present.meta is not None:
        last_ms = present.meta.last_published_ms
        if last_ms <= now_ms + MAX_TAKEN_AHEAD_MS:
            newest = max(newest, last_ms)
    return max(now_ms // 1000, newest // 1000 + 1)
