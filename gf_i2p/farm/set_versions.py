"""Versions of the farm's set: `published`, the set's date, must rise from set to set, even to the next publisher's."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gf_i2p.farm.record.status_record import StatusRecord

if TYPE_CHECKING:
    from gf_i2p.farm.state import FarmState

MAX_AHEAD_MS: Final = 30_000
"""How far an announced version may be ahead of farm time and still count, in ms. A publisher may choose a version twice
as far ahead of its own clock (`MAX_TAKEN_AHEAD_MS`). So a server that announces versions in the future cannot keep the
other servers from publishing."""
MAX_TAKEN_AHEAD_MS: Final = 60_000
"""How far a version may be ahead of a Java router's own clock, in ms."""


def newest_announced(last_ms: int, records: Iterable[StatusRecord], farm_ms: int, publisher: int | None = None) -> int:
    """Return the greatest announced version that counts, in ms since the epoch.

    A version that is too far ahead counts later, when its time has come, if a record still reports the version then.
    The version of `publisher` may be ahead by as much as routers accept: that set may be in the netDb, and the next
    publisher needs a greater version.

    Args:
        last_ms: the greatest version so far, in ms since the epoch.
        records: the newest records of the servers.
        farm_ms: farm time, in ms since the epoch.
        publisher: id of the present publisher; None without a publisher.
    """
    newest_ms = last_ms
    for record in records:
        if record.meta is not None:
            ahead_ms = MAX_TAKEN_AHEAD_MS if record.id == publisher else MAX_AHEAD_MS
            if record.meta.last_published_ms <= farm_ms + ahead_ms:
                newest_ms = max(newest_ms, record.meta.last_published_ms)
    return newest_ms


def next_version(state: "FarmState", now_ms: int) -> int:
    """Return the version of a new set, `published` in seconds since the epoch: greater than each version that counts.

    `now_ms`: the publisher's own clock, in ms since the epoch. The present publisher's newest version counts if it is
    ahead of this clock by no more than routers accept. `newest_announced` tells which other versions count.
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

    `now_ms`: the signer's own clock, in ms since the epoch. The version is the greater of this time and `newest` + 1.
    """
    return max(now_ms // 1000, newest + 1)
