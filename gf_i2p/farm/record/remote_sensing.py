"""What a status record says of others: remote router, remote destination and Meta LS sensing (proposal 150)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import MAX_DATE_MS, a_hash, flag, known, whole, whole_or_none
from gf_i2p.netdb.encoding import to_base64

MAX_SERVER_ID: Final = 2**32 - 2
"""The highest id of a server, or of a leaf-only member."""


@dataclass(frozen=True, slots=True)
class RemoteRouter:
    """Whether another server is heard. Its leader says so at once; until then its newest record would count for it."""

    id: int
    reachable: bool

    def encode(self) -> dict[str, Any]:
        """Give the JSON object."""
        return {"id": self.id, "reachable": self.reachable}

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read one. Raises `RecordError`."""
        return cls(whole(found, "id", MAX_SERVER_ID), flag(found, "reachable"))


@dataclass(frozen=True, slots=True)
class RemoteDestination:
    """What came of trying to reach a leaf through the network. Times in ms; None: it was not found, or not reached."""

    hash: bytes
    reachable: bool
    lease_set_ms: int | None = None
    """How long it took to find its lease set."""
    connect_ms: int | None = None
    """How long until something was heard from there."""
    date_ms: int = 0
    """When, since the epoch."""

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
        """Read one. Raises `RecordError`."""
        return cls(
            a_hash(found.get("hash"), "the hash of a remote destination"),
            flag(found, "reachable"),
            whole_or_none(found, "lsFetchTime"),
            whole_or_none(found, "connectTime"),
            whole(found, "date", MAX_DATE_MS),
        )


@dataclass(frozen=True, slots=True)
class MetaSensing:
    """What came of looking for the farm's own set in the netDb. Times in ms; None: it was not found."""

    last_version_ms: int | None
    """The `published` of the set that was found, since the epoch."""
    fetch_ms: int | None
    date_ms: int
    """When, since the epoch."""

    def encode(self) -> dict[str, Any]:
        """Give the JSON object."""
        return {**known({"lastVersion": self.last_version_ms, "fetchTime": self.fetch_ms}), "date": self.date_ms}

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read one. Raises `RecordError`."""
        return cls(
            whole_or_none(found, "lastVersion"), whole_or_none(found, "fetchTime"), whole(found, "date", MAX_DATE_MS)
        )
