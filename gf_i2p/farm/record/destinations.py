"""The part "destinations" of a status record: a server's leaves, the destinations that serve the farm's service."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import (
    MAX_DATE_MS,
    RecordError,
    a_hash,
    a_list,
    an_object,
    flag,
    integer_error,
    text_or_none,
    without_none,
)
from gf_i2p.netdb.encoding import to_base64

LEAF_TYPE: Final = 3
"""Type of a destination that has its own LeaseSet2: netDb store type 3."""
META_TYPE: Final = 7
"""Type of another farm's master, which has a Meta LeaseSet2: netDb store type 7."""
MAX_BELOW: Final = 16
_TYPES: Final = (LEAF_TYPE, META_TYPE)

# Python's names, and the names in the record. Bandwidths are bytes per second.
_NUMBERS: Final = {
    "depth": "depth",
    "uptime_ms": "uptime",
    "configured_tunnels": "configuredTunnels",
    "current_tunnels": "currentTunnels",
    "configured_bandwidth": "configuredBandwidth",
    "current_bandwidth": "currentBandwidth",
    "configured_connections": "configuredConnections",
    "current_connections": "currentConnections",
    "blacklisted": "blacklisted",
}
_ATTRIBUTES: Final = {name: attribute for attribute, name in _NUMBERS.items()}
_KNOWN: Final = frozenset({"hash", "up", "destination", "type", "below", *_NUMBERS.values()})


@dataclass(slots=True)  # not frozen: reading a frozen one takes three times as long
class Leaf:
    """One leaf destination of a server. A field is None when the router does not report its value."""

    hash: bytes
    """Hash of the destination, 32 bytes."""
    up: bool
    destination: str | None = None
    """The destination in base64, where the router reports the destination."""
    type: int = LEAF_TYPE
    """Type of the entry in a Meta lease set: 3, or 7 for the master of another farm."""
    below: tuple[bytes, ...] = ()
    """For type 7, hashes of the known masters below the leaf: no farm lists a leaf that leads back to the farm."""
    depth: int | None = None
    """For type 7, the length of the longest known chain of farms, from the leaf's own farm down."""
    uptime_ms: int | None = None
    configured_tunnels: int | None = None
    current_tunnels: int | None = None
    configured_bandwidth: int | None = None
    """Limit in bytes per second."""
    current_bandwidth: int | None = None
    configured_connections: int | None = None
    """Most streams at a time."""
    current_connections: int | None = None
    blacklisted: int | None = None
    """Number of clients that the destination refuses."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that this version does not know."""

    def encode(self) -> dict[str, Any]:
        """Return the leaf as a JSON object, for a record."""
        return {
            **self.extra,
            **without_none({"destination": self.destination}),
            "hash": to_base64(self.hash),
            "up": self.up,
            **({} if self.type == LEAF_TYPE else {"type": self.type}),
            **({} if not self.below else {"below": [to_base64(master) for master in self.below]}),
            **without_none({name: getattr(self, attribute) for attribute, name in _NUMBERS.items()}),
        }

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Read one destination from its JSON object. Raises `RecordError`."""
        kind = fields.get("type", LEAF_TYPE)
        if type(kind) is not int or kind not in _TYPES:
            raise RecordError(f"the type of a destination is one of {_TYPES}")
        # One pass through the present fields: this runs for every leaf of every record.
        numbers: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in fields.items():
            attribute = _ATTRIBUTES.get(name)
            if attribute is None:
                if name not in _KNOWN:
                    extra[name] = value
            elif type(value) is int and 0 <= value <= MAX_DATE_MS:
                numbers[attribute] = value
            elif value is not None:
                raise integer_error(name, MAX_DATE_MS)
        return cls(
            a_hash(fields.get("hash"), "the hash of a destination"),
            flag(fields, "up"),
            text_or_none(fields, "destination"),
            kind,
            _masters_below(fields) if "below" in fields else (),
            extra=extra,
            **numbers,
        )


def _masters_below(fields: Mapping[str, Any]) -> tuple[bytes, ...]:
    return tuple(a_hash(master, "a master below a destination") for master in a_list(fields, "below", MAX_BELOW))


def parse_all(record: Mapping[str, Any], limit: int) -> tuple[Leaf, ...]:
    """Read the list "destinations" of a record, of up to `limit` destinations. Raises `RecordError`."""
    return tuple(Leaf.parse(an_object(each, "a destination")) for each in a_list(record, "destinations", limit))
