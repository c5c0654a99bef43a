"""Confirmation: whether other servers have found in the netDb a set that this server's router has taken.

The publisher's own router answers from its own copy, which proves nothing. Another server reports in its record
("metaSensing") whether the set was found, if that server searches for the set and its router can find sets of type 7.
i2pd cannot.

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
    """Id of the server that has found this version or a newer one; None: no such server."""
    confirmed_ms: int = 0
    """When `confirmed_by` found the set, in ms since the epoch, by the clock of `confirmed_by`."""
    found_by: int | None = None
    """Id of the server that has found a set of an unknown version; None: no such server."""
    found_ms: int = 0
    """When `found_by` found that set, in ms since the epoch, by the clock of `found_by`."""
    missed: bool = False
    """Whether a server that could have found the set has looked, and no server has found the set."""
    why: str | None = None
    """Why the set is not confirmed, as a clause."""


def look_for_confirmation(
    records: Mapping[int, StatusRecord], own_id: int, *, published_ms: int, sent_ms: int
) -> Confirmation:
    """Return whether other servers have found the set that the router of this server took at `sent_ms`.

    Args:
        records: the newest records of the servers, by server id.
        own_id: id of this server, whose own record does not count.
        published_ms: the set's version, in ms since the epoch.
        sent_ms: when the router took the set, in ms since the epoch.
    """
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
            found_older = sensing.fetch_ms is not None
            misses.append(
                f"server {server} finds an older set" if found_older else f"server {server} does not find the set"
            )
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
