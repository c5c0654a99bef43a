"""Versions of a published set: its `published`, which must rise from one publisher to the next."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gf_i2p.farm.record.status_record import StatusRecord

if TYPE_CHECKING:
    from gf_i2p.farm.state import FarmState

MAX_AHEAD_MS: Final = 30_000
"""How far ahead of farm time an announced version counts, in ms. A publisher may choose a version twice as far ahead of
its own clock (`MAX_TAKEN_AHEAD_MS`). So no server can keep the others from publishing by versions in the future."""
MAX_TAKEN_AHEAD_MS: Final = 60_000
"""How far a version may be ahead of a Java router's own clock, in ms."""


def newest_announced(last_ms: int, records: Iterable[StatusRecord], farm_ms: int, publisher: int | None = None) -> int:
    """Return the greatest version that counts, in ms. `last_ms`: the greatest so far; `farm_ms`: farm time.

    A version too far ahead counts later, when its time has come, if a record still reports the version then. The
    version of `publisher` counts as far ahead as routers accept a set: that set may be in the netDb, and the next
    publisher needs a greater version.
    """
    newest_ms = last_ms
    for record in records:
        if record.meta is not None:
            ahead_ms = MAX_TAKEN_AHEAD_MS if record.id == publisher else MAX_AHEAD_MS
            if record.meta.last_published_ms <= farm_ms + ahead_ms:
                newest_ms = max(newest_ms, record.meta.last_published_ms)
    return newest_ms


def next_version(state: "FarmState", now_ms: int) -> int:
    """Return the version of a new set, `published` in seconds since the epoch.

    `now_ms`: the publisher's own clock, in ms since the epoch. The new version is greater than every announced one. The
    present publisher's version counts also when it is ahead of farm time, by as much as routers accept.
    """
    newest = state.last_published_ms
    record = None if state.publisher is None else state.records.get(state.publisher)
    if record is not None and record.meta is not None:
        last_ms = record.meta.last_published_ms
        if last_ms <= now_ms + MAX_TAKEN_AHEAD_MS:
            newest = max(newest, last_ms)
    return rising_version(newest // 1000, now_ms)


def rising_version(newest: int, now_ms: int) -> int:
    """Return the version of a set that follows the version `newest`; both are in seconds since the epoch.

    `now_ms`: the signer's own clock, in ms since the epoch. The version is the time, or the least greater version.
    """
    return max(now_ms // 1000, newest + 1)
