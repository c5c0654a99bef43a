"""Reports about others in a status record: remote router, remote destination and Meta LS sensing (proposal 150)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import MAX_DATE_MS, a_hash, flag, known, whole, whole_or_none
from gf_i2p.netdb.encoding import to_base64

MAX_SERVER_ID: Final = 2**32 - 2
"""The highest id of a server, or of a leaf-only member."""


@dataclass(frozen=True, slots=True)
class RemoteRouter:
    """Whether another server is heard. The leader reports a silence at once, before that server's record is too old."""

    id: int
    reachable: bool

    def encode(self) -> dict[str, Any]:
        """Give the JSON object."""
        return {"id": self.id, "reachable": self.reachable}

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read one report. Raises `RecordError`."""
        return cls(whole(found, "id", MAX_SERVER_ID), flag(found, "reachable"))


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

    def encode(self) -> dict[str, Any]:
        """Give the JSON object."""
        return {
            "hash": to_base64(self.hash),
            "reachable": self.reachable,
            **known({"lsFetchTime": self.lease_set_ms, "connectTime": self.connect_ms}),
            "date": self.date_ms,
        }

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read one result. Raises `RecordError`."""
        return cls(
            a_hash(found.get("hash"), "the hash of a remote destination"),
            flag(found, "reachable"),
            whole_or_none(found, "lsFetchTime"),
            whole_or_none(found, "connectTime"),
            whole(found, "date", MAX_DATE_MS),
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
        """Give the JSON object."""
        return {**known({"lastVersion": self.last_version_ms, "fetchTime": self.fetch_ms}), "date": self.date_ms}

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read one result. Raises `RecordError`."""
        return cls(
            whole_or_none(found, "lastVersion"), whole_or_none(found, "fetchTime"), whole(found, "date", MAX_DATE_MS)
        )
