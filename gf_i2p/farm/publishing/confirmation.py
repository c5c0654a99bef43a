"""Confirmation: whether other servers have found in the netDb a set that this server's router has taken.

The publisher's own router answers from its own copy, which proves nothing. Other servers report their finds in their
records ("metaSensing"), when a server looks for the set and its router is able to find the set. i2pd finds no set of
type 7.

A set is *confirmed* when a server has found this version or a newer one. Where the router does not tell the version, a
set is only *found*: the set in the netDb may be an older one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gf_i2p.farm.record.status_record import StatusRecord

GRACE_MS: Final = 60_000
"""Time for a set to reach the floodfills: an earlier failure to find the set means nothing."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The result of the other servers' searches in the netDb."""

    confirmed_by: int | None = None
    """The server that has found this version or a newer one."""
    confirmed_ms: int = 0
    """When the set was found, in ms since the epoch, by that server's clock."""
    found_by: int | None = None
    """The server that has found a set of an unknown version."""
    found_ms: int = 0
    """When that set was found, in ms since the epoch, by that server's clock."""
    missed: bool = False
    """Whether a server that could have found the set has looked, and no server has found the set."""
    why: str | None = None
    """Why the set is not confirmed, as a clause."""


def look_for_confirmation(
    records: Mapping[int, StatusRecord], own_id: int, *, published_ms: int, sent_ms: int
) -> Confirmation:
    """Judge the set of this version, which the router took at `sent_ms` (both in ms since the epoch)."""
    misses = []
    searchers = 0
    found_by, found_ms = None, 0
    for server, record in sorted(records.items()):
        sensing = record.meta_sensing
        if server == own_id or sensing is None:
            continue
        searchers += 1
        version_ms = sensing.last_version_ms
        is_older = version_ms is not None and version_ms < published_ms
        if sensing.date_ms > sent_ms and sensing.fetch_ms is not None and not is_older:
            if version_ms is not None:
                return Confirmation(server, sensing.date_ms)
            found_by, found_ms = server, sensing.date_ms
            continue
        if sensing.date_ms > sent_ms + GRACE_MS:
            finding = "finds an older set" if sensing.fetch_ms is not None else "does not find the set"
            misses.append(f"server {server} {finding}")
    if found_by is not None:
        why = "the router of the server that found the set does not tell the version"
        return Confirmation(found_by=found_by, found_ms=found_ms, why=why)
    if misses:
        return Confirmation(missed=True, why=", ".join(misses))
    if searchers:
        return Confirmation(why="no server has looked since")
    return Confirmation(
        why="no other server looks for sets, or its router cannot (publish.sense_minutes; i2pd finds no Meta)"
    )
