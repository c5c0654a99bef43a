"""Whether a set that our router has taken was found in the netDb: judged by what other servers have looked for.

The router of the publisher answers from its own copy, and proves nothing. Other servers report what they found in
their records ("metaSensing"), where they look and where their routers can. An i2pd finds no set of type 7 at all, and
few ways of looking tell the version that was found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gf_i2p.farm.record.status_record import StatusRecord

GRACE_MS: Final = 60_000
"""So long a set may take to reach the floodfills: who does not find it earlier says nothing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What others have found."""

    confirmed_by: int | None = None
    confirmed_ms: int = 0
    """When, since the epoch, by that server's clock."""
    missed: bool = False
    """Whether somebody looked who could have found it, and nobody has."""
    why: str | None = None
    """Why it is not confirmed, a clause."""


def judge(records: Mapping[int, StatusRecord], own: int, *, published_ms: int, sent_ms: int) -> Verdict:
    """Judge the set of this version that the router took then (ms since the epoch)."""
    missed = []
    lookers = 0
    for server, record in sorted(records.items()):
        sensing = record.meta_sensing
        if server == own or sensing is None:
            continue
        lookers += 1
        older = sensing.last_version_ms is not None and sensing.last_version_ms < published_ms
        if sensing.date_ms > sent_ms and sensing.fetch_ms is not None and not older:
            return Verdict(server, sensing.date_ms)
        if sensing.date_ms > sent_ms + GRACE_MS:
            what = "finds an older one" if sensing.fetch_ms is not None else "does not find it"
            missed.append(f"server {server} {what}")
    if missed:
        return Verdict(missed=True, why=", ".join(missed))
    if lookers:
        return Verdict(why="nobody has looked since")
    return Verdict(why="no other server looks for it, or its router cannot (publish.sense_minutes; i2pd finds no Meta)")
