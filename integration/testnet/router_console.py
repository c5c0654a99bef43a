"""Reads a router's web console, the only place where i2pd shows the lease sets in the netDb."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_TAGS: Final = re.compile(r"<[^>]+>")
_NUMBERS: Final = {
    "routers": re.compile(r"Routers:\s*(\d+)"),
    "floodfills": re.compile(r"Floodfills:\s*(\d+)"),
    "lease_sets": re.compile(r"LeaseSets:\s*(\d+)"),
    "client_tunnels": re.compile(r"Client Tunnels:\s*(\d+)"),
    "transit_tunnels": re.compile(r"Transit Tunnels:\s*(\d+)"),
}
_LEASE_SET: Final = re.compile(
    r'<label for="slide\d+">(?P<name>[a-z2-7]+)</label>.*?Store type:</b>\s*(?P<type>\d+).*?'
    r"Expires:</b>\s*(?P<expires>\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ConsoleSummary:
    """The numbers of the first page."""

    routers: int
    floodfills: int
    lease_sets: int
    client_tunnels: int
    transit_tunnels: int


@dataclass(frozen=True, slots=True)
class StoredLeaseSet:
    """One lease set in a floodfill's netDb."""

    b32: str
    """The address of the destination."""
    store_type: int
    """1, 3, 5, or 7 for a Meta lease set."""
    expires: datetime


def parse_summary(page: str) -> ConsoleSummary:
    """Read the first page. Raises `ValueError` when a number is missing, as on another page or version."""
    text = _TAGS.sub(" ", page)
    found = {name: pattern.search(text) for name, pattern in _NUMBERS.items()}
    missing = [name for name, match in found.items() if match is None]
    if missing:
        raise ValueError(f"the console's first page does not say: {', '.join(missing)}")
    return ConsoleSummary(**{name: int(match[1]) for name, match in found.items() if match is not None})


def parse_lease_sets(page: str) -> list[StoredLeaseSet]:
    """Read the page `?page=leasesets`."""
    return [
        StoredLeaseSet(
            f"{match['name']}.b32.i2p",
            int(match["type"]),
            datetime.strptime(match["expires"], "%d/%m/%Y %H:%M:%S").replace(tzinfo=UTC),
        )
        for match in _LEASE_SET.finditer(page)
    ]
