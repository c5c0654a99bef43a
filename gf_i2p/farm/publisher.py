"""Who publishes, and which leaves: the same answer on every server that has applied the same log.

A simple choice, by the log alone: a fresh record, a router that is up, publishing not turned off, then the lowest id.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

from gf_i2p.farm import nested
from gf_i2p.farm.record import Leaf, StatusRecord

FRESH_MS: Final = 35_000
"""How old, in farm time, a server's newest record may be. Servers post one every ten seconds."""
AHEAD_MS: Final = 60_000
"""How far ahead of farm time its date may be: without a limit, a server with such a clock would be fresh for as long
after its death. After a longer pause of the whole farm the first to post waits for the others."""
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
    members = sorted(set(servers))
    now = farm_time_ms(records, members)
    why_not: dict[int, str] = {}
    publisher: int | None = None
    alive: list[StatusRecord] = []
    for server in members:
        record = records.get(server)
        objection = _absence(record, now)
        if record is not None and objection is None:
            alive.append(record)
            if record.meta is None or record.meta.publish_config not in {"on", "auto"}:
                objection = "publishing is off there"
        if objection is None and publisher is None:
            publisher = server
        else:
            why_not[server] = objection or f"server {publisher} is as good, and its id is lower"
    meta = None if publisher is None else records[publisher].meta
    reach = nested.reach(records.values())
    return Choice(publisher, _leaves(alive, None if meta is None else meta.hash, reach), why_not)


def _absence(record: StatusRecord | None, now: int | None) -> str | None:
    """Say why a server and its leaves cannot be counted on, or None."""
    if record is None or now is None:
        return "it has posted nothing yet"
    if now - record.date_ms > FRESH_MS:
        return f"its newest record is {(now - record.date_ms) / 1000:.0f} s old"
    if record.date_ms - now > AHEAD_MS:
        return f"its clock is {(record.date_ms - now) / 1000:.0f} s ahead of the farm's"
    if not record.router_up:
        return "its router is down"
    return None


def _leaves(
    alive: Iterable[StatusRecord], master: bytes | None, reach: Mapping[bytes, frozenset[bytes]]
) -> tuple[Leaf, ...]:
    """Take one leaf of each server, then a second one of each: nobody's leaves leave no room for those of others."""
    rounds = zip_longest(*([leaf for leaf in record.leaves if leaf.up] for record in alive))
    chosen: dict[bytes, Leaf] = {}
    for leaf in chain.from_iterable(rounds):
        if leaf is not None and nested.objection(leaf, master, reach) is None and len(chosen) < MAX_LEAVES:
            chosen.setdefault(leaf.hash, leaf)
    return tuple(chosen.values())
