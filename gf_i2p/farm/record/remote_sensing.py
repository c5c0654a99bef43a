"""A server's reports about other routers, other leaves and the farm's set, in its status record.

Proposal 150 calls these remote router sensing, remote destination sensing and Meta LS sensing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import MAX_DATE_MS, a_hash, flag, integer, integer_or_none, without_none
from gf_i2p.netdb.encoding import to_base64

MAX_SERVER_ID: Final = 2**32 - 2
"""The highest id of a server, or of a leaf member."""


@dataclass(frozen=True, slots=True)
class RemoteRouter:
    """The leader's report about one other server: whether the leader still hears that server.

    The leader reports a silent server at once, before that server's own record is too old. Times in ms; None: not
    told.
    """

    id: int
    reachable: bool
    router_info_ms: int | None = None
    """`published` of the newest known router info of that server's router, in ms since the epoch."""
    fetch_ms: int | None = None
    """Time until that router info was found."""
    connect_ms: int | None = None
    """Time until the first answer from that server."""

    def encode(self) -> dict[str, Any]:
        """Return the report as a JSON object, for a record."""
        times = {"lastRIVersion": self.router_info_ms, "fetchTime": self.fetch_ms, "connectTime": self.connect_ms}
        return {"id": self.id, "reachable": self.reachable, **without_none(times)}

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Read one report from its JSON object. Raises `RecordError`."""
        return cls(
            integer(fields, "id", MAX_SERVER_ID),
            flag(fields, "reachable"),
            integer_or_none(fields, "lastRIVersion"),
            integer_or_none(fields, "fetchTime"),
            integer_or_none(fields, "connectTime"),
        )


@dataclass(frozen=True, slots=True)
class RemoteDestination:
    """Result of a try to reach a leaf through the network. Times in ms; None: not found, or not reached."""

    hash: bytes
    reachable: bool
    lease_set_ms: int | None = None
    """Time until the lease set was found."""
    connect_ms: int | None = None
    """Time until the first answer from the leaf."""
    date_ms: int = 0
    """Date of the try, since the epoch."""
    last_version_ms: int | None = None
    """`published` of the found lease set, since the epoch; None: not found, or not told."""

    def encode(self) -> dict[str, Any]:
        """Return the result as a JSON object, for a record."""
        times = {
            "lastLSVersion": self.last_version_ms,
            "lsFetchTime": self.lease_set_ms,
            "connectTime": self.connect_ms,
        }
        return {
            "hash": to_base64(self.hash),
            "reachable": self.reachable,
            **without_none(times),
            "date": self.date_ms,
        }

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Read one result from its JSON object. Raises `RecordError`."""
        return cls(
            a_hash(fields.get("hash"), "the hash of a remote destination"),
            flag(fields, "reachable"),
            integer_or_none(fields, "lsFetchTime"),
            integer_or_none(fields, "connectTime"),
            integer(fields, "date", MAX_DATE_MS),
            integer_or_none(fields, "lastLSVersion"),
        )


@dataclass(frozen=True, slots=True)
class MetaSensing:
    """Result of a search for the farm's own set in the netDb. Times in ms; None: not found, or not told."""

    last_version_ms: int | None
    """`published` of the found set, since the epoch."""
    fetch_ms: int | None
    date_ms: int
    """Date of the search, since the epoch."""

    def encode(self) -> dict[str, Any]:
        """Return the result as a JSON object, for a record."""
        return {**without_none({"lastVersion": self.last_version_ms, "fetchTime": self.fetch_ms}), "date": self.date_ms}

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Read one result from its JSON object. Raises `RecordError`."""
        return cls(
            integer_or_none(fields, "lastVersion"),
            integer_or_none(fields, "fetchTime"),
            integer(fields, "date", MAX_DATE_MS),
        )
