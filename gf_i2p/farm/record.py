"""The status record: what each server tells the others about itself, as JSON in the farm's log.

Proposal 150, "Application Data Contents". Where that leaves a name open, ours is camelCase in the style of its own.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Self

from gf_i2p.farm.status import RouterStatus
from gf_i2p.netdb.encoding import from_base64, to_base64
from gf_i2p.netdb.errors import NetDbError

MAX_RECORD_BYTES: Final = 64 << 10
MAX_DESTINATIONS: Final = 256
MAX_OPENINGS: Final = MAX_DESTINATIONS + 64
"""Of lists and objects. Deeper nesting than this has room for would be read by one server and not by another: how deep
a JSON parser goes depends on who has called it."""
MAX_DIGITS: Final = 32
"""Of a number. How many more Python reads depends on its environment."""
MAX_DATE_MS: Final = 2**53 - 1
"""What JSON's numbers hold exactly everywhere."""
MAX_SERVER_ID: Final = 2**32 - 2
"""The highest id of a server."""
_HASH_BYTES: Final = 32
_MAX_DESTINATION_BYTES: Final = 1024

# RouterStatus' names in the record; bandwidths are bytes per second.
_ROUTER_NAMES: Final = {
    "uptime_ms": "uptime",
    "version": "version",
    "reachability": "reachability",
    "participating_tunnels": "participatingTunnels",
    "exploratory_tunnels": "exploratoryTunnels",
    "job_lag_ms": "jobLag",
    "configured_inbound": "configuredInboundBandwidth",
    "configured_outbound": "configuredOutboundBandwidth",
    "current_inbound": "currentInboundBandwidth",
    "current_outbound": "currentOutboundBandwidth",
    "known_peers": "knownPeers",
    "active_peers": "activePeers",
}


class RecordError(ValueError):
    """The bytes are no status record; `str()` says why."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Publishing (record's "meta")."""

    destination: str
    """The master's, in base64."""
    publish_config: str
    """"off", "on" or "auto"."""
    publishing: bool
    last_published_ms: int = 0
    """When the newest set says that it was published, in ms; 0: never. Written before that set is sent."""
    last_published_set: str | None = None
    """That set, in base64."""

    @property
    def hash(self) -> bytes | None:
        """The master's hash; None when its destination is no base64."""
        try:
            return hashlib.sha256(from_base64(self.destination, _MAX_DESTINATION_BYTES)).digest()
        except NetDbError:
            return None


@dataclass(frozen=True, slots=True)
class Leaf:
    """One destination that serves (an element of the record's "destinations")."""

    hash: bytes
    up: bool
    destination: str | None = None
    """In base64, where the router tells."""


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """One server, at one time."""

    cluster: str
    date_ms: int
    id: int
    router_up: bool
    router: Mapping[str, Any] = field(default_factory=dict)
    """The router's numbers, by the names of the record."""
    meta: Meta | None = None
    leaves: tuple[Leaf, ...] = ()

    def encode(self) -> bytes:
        """Give the JSON text of the log entry."""
        record: dict[str, Any] = {
            "cluster": self.cluster,
            "date": self.date_ms,
            "id": self.id,
            "router": {"up": self.router_up, **self.router},
            "destinations": [
                {
                    **({} if leaf.destination is None else {"destination": leaf.destination}),
                    "hash": to_base64(leaf.hash),
                    "up": leaf.up,
                }
                for leaf in self.leaves
            ],
        }
        if self.meta is not None:
            record["meta"] = {
                "destination": self.meta.destination,
                "publishConfig": self.meta.publish_config,
                "publishing": self.meta.publishing,
                "lastPublishedTime": self.meta.last_published_ms,
            }
            if self.meta.last_published_set is not None:
                record["meta"]["lastPublishedLS"] = self.meta.last_published_set
        return json.dumps(record, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a log entry's value. Raises `RecordError`, for whatever else somebody has posted."""
        if len(data) > MAX_RECORD_BYTES:
            raise RecordError(f"a status record has up to {MAX_RECORD_BYTES} bytes, not {len(data)}")
        if data.count(b"{") + data.count(b"[") > MAX_OPENINGS:
            raise RecordError(f"a status record has up to {MAX_OPENINGS} lists and objects")
        try:
            found = _JSON.decode(data.decode("utf-8"))
        except RecordError:
            raise
        except ValueError as error:
            raise RecordError("a status record is JSON in UTF-8") from error
        record = _object(found, "the record")
        router = _object(record.get("router", {}), "router")
        destinations = record.get("destinations", [])
        if not isinstance(destinations, list) or len(destinations) > MAX_DESTINATIONS:
            raise RecordError(f"destinations is a list of up to {MAX_DESTINATIONS}")
        return cls(
            cluster=_text(record, "cluster"),
            date_ms=_whole(record, "date", MAX_DATE_MS),
            id=_whole(record, "id", MAX_SERVER_ID),
            router_up=_flag(router, "up"),
            router={name: value for name, value in router.items() if name != "up"},
            meta=None if "meta" not in record else _meta(_object(record["meta"], "meta")),
            leaves=tuple(_leaf(_object(each, "a destination")) for each in destinations),
        )


def router_numbers(status: RouterStatus) -> dict[str, Any]:
    """Give what is known of a router, by the names of the record."""
    known = {name: getattr(status, attribute) for attribute, name in _ROUTER_NAMES.items()}
    return {
        name: value
        for name, value in known.items()
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }


def speaker(value: bytes, cluster: str) -> int | None:
    """Return the server for which an entry speaks, when it is a status record of this farm."""
    try:
        record = StatusRecord.parse(value)
    except RecordError:
        return None
    return record.id if record.cluster == cluster else None


def _number(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise RecordError(f"a number has up to {MAX_DIGITS} digits")
    return int(text)


def _fraction(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise RecordError("a number is too large")
    return number


def _no_number(name: str) -> NoReturn:
    raise RecordError(f"{name} is no number in JSON")


_JSON: Final = json.JSONDecoder(parse_int=_number, parse_float=_fraction, parse_constant=_no_number)


def _meta(found: dict[str, Any]) -> Meta:
    published_set = found.get("lastPublishedLS")
    if published_set is not None and not isinstance(published_set, str):
        raise RecordError("lastPublishedLS is a text")
    return Meta(
        destination=_text(found, "destination"),
        publish_config=_text(found, "publishConfig"),
        publishing=_flag(found, "publishing"),
        last_published_ms=_whole(found, "lastPublishedTime", MAX_DATE_MS),
        last_published_set=published_set,
    )


def _leaf(found: dict[str, Any]) -> Leaf:
    destination = found.get("destination")
    if destination is not None and not isinstance(destination, str):
        raise RecordError("a destination is a text")
    try:
        digest = from_base64(_text(found, "hash"), _HASH_BYTES)
    except NetDbError as error:
        raise RecordError(f"the hash of a destination: {error}") from error
    if len(digest) != _HASH_BYTES:
        raise RecordError(f"the hash of a destination has {_HASH_BYTES} bytes, not {len(digest)}")
    return Leaf(digest, _flag(found, "up"), destination)


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(f"{what} is an object")
    return value


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise RecordError(f"{name} is a text")
    return value


def _whole(found: Mapping[str, Any], name: str, high: int) -> int:
    value = found.get(name)
    if type(value) is not int or not 0 <= value <= high:
        raise RecordError(f"{name} is a whole number from 0 to {high}")
    return value


def _flag(found: Mapping[str, Any], name: str) -> bool:
    value = found.get(name)
    if type(value) is not bool:
        raise RecordError(f"{name} is true or false")
    return value
