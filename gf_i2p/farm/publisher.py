"""Who publishes, and which leaves: the same answer on every server that has applied the same log.

A simple choice, by the log alone: a fresh record, a router that is up, publishing not turned off, then the lowest id.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gf_i2p.farm.record import Leaf, StatusRecord

FRESH_MS: Final = 35_000
"""How old, in farm time, a server's newest record may be. Servers post one every ten seconds."""
MAX_LEAVES: Final = 16
"""Entries in one Meta lease set that both routers take."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What follows from the log."""

    publisher: int | None
    leaves: tuple[Leaf, ...]
    why_not: Mapping[int, str]
    """By server id, why each other server does not publish, for people."""


def farm_time_ms(records: Mapping[int, StatusRecord], servers: Iterable[int]) -> int | None:
    """Return the upper median of the servers' newest dates; None while none has posted.

    One wrong clock cannot make the others look dead, as long as most are right.
    """
    dates = sorted(records[server].date_ms for server in servers if server in records)
    return dates[len(dates) // 2] if dates else None


def choose(records: Mapping[int, StatusRecord], servers: Iterable[int]) -> Choice:
    """Choose among the servers of the committed Configuration."""
    members = sorted(servers)
    now = farm_time_ms(records, members)
    why_not: dict[int, str] = {}
    publisher: int | None = None
    leaves: list[Leaf] = []
    for server in members:
        record = records.get(server)
        objection = _objection(record, now)
        if record is not None and (now is None or now - record.date_ms <= FRESH_MS) and record.router_up:
            leaves += [leaf for leaf in record.leaves if leaf.up and all(leaf.hash != one.hash for one in leaves)]
        if objection is None and publisher is None:
            publisher = server
        else:
            why_not[server] = objection or f"server {publisher} is as good, and its id is lower"
    return Choice(publisher, tuple(leaves[:MAX_LEAVES]), why_not)


def _objection(record: StatusRecord | None, now: int | None) -> str | None:
    if record is None or now is None:
        return "it has posted nothing yet"
    if now - record.date_ms > FRESH_MS:
        return f"its newest record is {(now - record.date_ms) / 1000:.0f} s old"
    if not record.router_up:
        return "its router is down"
    if record.meta is None or record.meta.publish_config == "off":
        return "publishing is off there"
    return None
