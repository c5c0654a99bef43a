"""Load of the session that serves the master in mode `failover`: some fields of "meta" in a status record.

The fields have the same names as the fields for a leaf's load, which stand in "destinations". The master is not one of
the leaves, so the fields for the master's load stand in "meta".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import integer_or_none, without_none

# Python's names, and the names in the record.
_NUMBERS: Final = {
    "uptime_ms": "uptime",
    "configured_tunnels": "configuredTunnels",
    "current_tunnels": "currentTunnels",
    "configured_connections": "configuredConnections",
    "current_connections": "currentConnections",
    "current_bandwidth": "currentBandwidth",
}
NAMES: Final = frozenset(_NUMBERS.values())
"""The names of the numbers in the record's "meta"."""


@dataclass(slots=True)  # not frozen: reading a frozen one takes three times as long
class MasterLoad:
    """Load of the session that serves the master. None: not known."""

    uptime_ms: int | None = None
    """Milliseconds since the session had its first lease set."""
    configured_tunnels: int | None = None
    """Inbound tunnels that the session asks the router for."""
    current_tunnels: int | None = None
    """Inbound tunnels that the router has offered for the lease set, and that have not ended."""
    configured_connections: int | None = None
    """Most streams at a time."""
    current_connections: int | None = None
    """Open streams."""
    current_bandwidth: int | None = None
    """Payload of the streams in both directions, in bytes per second."""

    def encode(self) -> dict[str, Any]:
        """Return the known numbers, as fields for "meta"."""
        return without_none({name: getattr(self, attribute) for attribute, name in _NUMBERS.items()})

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self | None:
        """Read the load from the fields of "meta"; None when "meta" has no field of the load. Raises `RecordError`."""
        if NAMES.isdisjoint(fields):  # as in most records
            return None
        return cls(**{attribute: integer_or_none(fields, name) for attribute, name in _NUMBERS.items()})
