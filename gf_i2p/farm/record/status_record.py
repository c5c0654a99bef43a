"""The status record: each server's or member's report about itself to the farm, as JSON in the farm's log.

Proposal 150, "Application Data Contents". Where the proposal gives no name, the name here follows the proposal's style,
camelCase. `schema/status.json` lists all names with their units. Fields that this version does not know are kept and
passed on.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Self

from gf_i2p.farm.record.bandwidth import bandwidth_used
from gf_i2p.farm.record.destinations import Leaf, parse_all
from gf_i2p.farm.record.master_load import NAMES as LOAD_NAMES
from gf_i2p.farm.record.master_load import MasterLoad
from gf_i2p.farm.record.remote_sensing import MAX_SERVER_ID, MetaSensing, RemoteDestination, RemoteRouter
from gf_i2p.farm.record.router_facts import RouterStatus
from gf_i2p.farm.strict_json import (
    MAX_DATE_MS,
    RecordError,
    a_list,
    an_object,
    decode_object,
    flag,
    integer,
    integer_or_none,
    text,
    text_or_none,
    unknown_fields,
    without_none,
)
from gf_i2p.netdb.encoding import from_base64
from gf_i2p.netdb.errors import NetDbError

__all__ = ["Leaf", "Meta", "RecordError", "ReportedConfig", "StatusRecord", "router_numbers"]

MAX_RECORD_BYTES: Final = 64 << 10
MAX_DESTINATIONS: Final = 256
MAX_REMOTE_ROUTERS: Final = 32
MAX_REMOTE_DESTINATIONS: Final = 32
MAX_OPENINGS: Final = MAX_DESTINATIONS + MAX_REMOTE_ROUTERS + MAX_REMOTE_DESTINATIONS + 64
"""Most lists and objects in one record."""
FIRST_LEAF_MEMBER_ID: Final = 2**31
"""Ids from this number on belong to leaf members, which post records and have no vote."""
_MAX_DESTINATION_BYTES: Final = 1024
_NOT_COMPUTED: Final = -1

# The attributes of `RouterStatus`, and their names in the record. Bandwidths are bytes per second.
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
    "last_published_ri": "lastPublishedRI",
}
_CONFIG: Final = frozenset({"mode", "interval", "version"})
_META: Final = frozenset(
    {
        "destination",
        "publishConfig",
        "publishing",
        "lastPublishedTime",
        "lastPublishedLS",
        "attemptedTime",
        "sentTime",
        "foundTime",
        "confirmedTime",
        *LOAD_NAMES,
    }
)
_RECORD: Final = frozenset(
    {
        "cluster",
        "date",
        "id",
        "config",
        "meta",
        "router",
        "destinations",
        "remoteRouters",
        "remoteDestinations",
        "metaSensing",
    }
)


@dataclass(slots=True)  # not frozen: reading a frozen one takes three times as long
class ReportedConfig:
    """Configuration of a server (the record's "config"). None: the record does not tell."""

    mode: str | None = None
    """Mode of the server as publisher: "off", "dry-run", "meta" or "failover"."""
    interval_ms: int | None = None
    """Time between two records of the server, in ms, when nothing changes."""
    version: str | None = None
    """Version of the program."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that this version does not know."""

    def encode(self) -> dict[str, Any]:
        """Return the configuration as a JSON object, for "config" in a record."""
        return {
            **self.extra,
            **without_none({"mode": self.mode, "interval": self.interval_ms, "version": self.version}),
        }

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Read the configuration from the fields of "config". Raises `RecordError`."""
        return cls(
            text_or_none(fields, "mode"),
            integer_or_none(fields, "interval"),
            text_or_none(fields, "version"),
            unknown_fields(fields, _CONFIG),
        )


@dataclass(slots=True)  # not frozen: reading a frozen one takes three times as long
class Meta:
    """State of a server as publisher (the record's "meta"). Times in ms since the epoch, 0: never, or not yet."""

    destination: str
    """The master's destination, in base64."""
    publish_config: str
    """Whether the server may publish: "off" (no), "on" (before servers with "auto") or "auto"."""
    publishing: bool
    last_published_ms: int = 0
    """Version of the newest set, its `published`. A record tells the version before the router gets the set."""
    last_published_set: str | None = None
    """The newest set, in base64."""
    attempted_ms: int = 0
    """When the announcement of the newest set was committed, and the router was about to get the set."""
    sent_ms: int = 0
    """When the router took the newest set."""
    found_ms: int = 0
    """When another server found a set of unknown version in the netDb, by that server's clock."""
    confirmed_ms: int = 0
    """When another server found the newest set in the netDb, or a newer one, by that server's clock."""
    load: MasterLoad | None = None
    """Load of the master's session in mode `failover`; None: this server runs no such session."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that this version does not know."""

    @property
    def hash(self) -> bytes | None:
        """The master's hash; None when its destination is not base64."""
        try:
            return _hash_of(self.destination)
        except NetDbError:
            return None

    def encode(self) -> dict[str, Any]:
        """Return the state as a JSON object, for "meta" in a record."""
        times = {
            "attemptedTime": self.attempted_ms,
            "sentTime": self.sent_ms,
            "foundTime": self.found_ms,
            "confirmedTime": self.confirmed_ms,
        }
        return {
            **self.extra,
            "destination": self.destination,
            "publishConfig": self.publish_config,
            "publishing": self.publishing,
            "lastPublishedTime": self.last_published_ms,
            **without_none({"lastPublishedLS": self.last_published_set}),
            **{name: time for name, time in times.items() if time},
            **({} if self.load is None else self.load.encode()),
        }

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Read the fields of "meta". Raises `RecordError`."""
        return cls(
            destination=text(fields, "destination"),
            publish_config=text(fields, "publishConfig"),
            publishing=flag(fields, "publishing"),
            last_published_ms=integer(fields, "lastPublishedTime", MAX_DATE_MS),
            last_published_set=text_or_none(fields, "lastPublishedLS"),
            attempted_ms=integer_or_none(fields, "attemptedTime") or 0,
            sent_ms=integer_or_none(fields, "sentTime") or 0,
            found_ms=integer_or_none(fields, "foundTime") or 0,
            confirmed_ms=integer_or_none(fields, "confirmedTime") or 0,
            load=MasterLoad.parse(fields),
            extra=unknown_fields(fields, _META),
        )


@dataclass(slots=True)  # not frozen: reading a frozen one takes three times as long
class StatusRecord:
    """The report of one server or leaf member at one time."""

    cluster: str
    date_ms: int
    id: int
    router_up: bool
    router: Mapping[str, Any] = field(default_factory=dict)
    """The router's numbers, by the names of the record."""
    meta: Meta | None = None
    leaves: tuple[Leaf, ...] = ()
    config: ReportedConfig | None = None
    remote_routers: tuple[RemoteRouter, ...] = ()
    remote_destinations: tuple[RemoteDestination, ...] = ()
    meta_sensing: MetaSensing | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that this version does not know."""
    _bandwidth_used: int | None = field(default=_NOT_COMPUTED, init=False, repr=False, compare=False)
    judgement: object = field(default=None, init=False, repr=False, compare=False)
    """A cache for `state`: results that follow from this record alone, and so are the same for every `FarmState`."""

    @property
    def bandwidth_used(self) -> int | None:
        """The function `bandwidth_used` for this record's router.

        The value is cached, because the choice of leaves needs it often for each leaf.
        """
        if self._bandwidth_used == _NOT_COMPUTED:
            self._bandwidth_used = bandwidth_used(self.router)
        return self._bandwidth_used

    def encode(self) -> bytes:
        """Return the JSON text of the log entry."""
        return json.dumps(self.fields(), separators=(",", ":")).encode()

    def fields(self) -> dict[str, Any]:
        """Return the JSON object of the log entry."""
        record: dict[str, Any] = {**self.extra, "cluster": self.cluster, "date": self.date_ms, "id": self.id}
        if self.config is not None:
            record["config"] = self.config.encode()
        if self.meta is not None:
            record["meta"] = self.meta.encode()
        record["router"] = {"up": self.router_up, **self.router}
        record["destinations"] = [leaf.encode() for leaf in self.leaves]
        if self.remote_routers:
            record["remoteRouters"] = [router.encode() for router in self.remote_routers]
        if self.remote_destinations:
            record["remoteDestinations"] = [destination.encode() for destination in self.remote_destinations]
        if self.meta_sensing is not None:
            record["metaSensing"] = self.meta_sensing.encode()
        return record

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a log entry's value. Raises `RecordError` for anything that is no status record."""
        return cls.of_fields(
            decode_object(data, "a status record", max_bytes=MAX_RECORD_BYTES, max_openings=MAX_OPENINGS)
        )

    @classmethod
    def of_fields(cls, record: Mapping[str, Any]) -> Self:
        """Read a record from its decoded JSON object. Raises `RecordError`.

        The caller has checked the limits, as `decode_object` does. The new record takes over parts of the object.
        """
        router = an_object(record.get("router", {}), "router")
        sensing = record.get("metaSensing")
        cluster, date_ms = text(record, "cluster"), integer(record, "date", MAX_DATE_MS)
        poster, router_up = integer(record, "id", MAX_SERVER_ID), flag(router, "up")
        del router["up"]
        return cls(
            cluster=cluster,
            date_ms=date_ms,
            id=poster,
            router_up=router_up,
            router=router,
            meta=None if "meta" not in record else Meta.parse(an_object(record["meta"], "meta")),
            leaves=parse_all(record, MAX_DESTINATIONS),
            config=None if "config" not in record else ReportedConfig.parse(an_object(record["config"], "config")),
            remote_routers=_remote_routers(record) if "remoteRouters" in record else (),
            remote_destinations=_remote_destinations(record) if "remoteDestinations" in record else (),
            meta_sensing=None if sensing is None else MetaSensing.parse(an_object(sensing, "metaSensing")),
            extra=unknown_fields(record, _RECORD),
        )


def _remote_routers(record: Mapping[str, Any]) -> tuple[RemoteRouter, ...]:
    reports = a_list(record, "remoteRouters", MAX_REMOTE_ROUTERS)
    return tuple(RemoteRouter.parse(an_object(each, "a remote router")) for each in reports)


def _remote_destinations(record: Mapping[str, Any]) -> tuple[RemoteDestination, ...]:
    results = a_list(record, "remoteDestinations", MAX_REMOTE_DESTINATIONS)
    return tuple(RemoteDestination.parse(an_object(each, "a remote destination")) for each in results)


@lru_cache(maxsize=256)  # all servers of a farm name the same destination, in each of their records
def _hash_of(destination: str) -> bytes:
    """Return the SHA-256 of a destination in base64. Raises `NetDbError`; an error is not cached."""
    return hashlib.sha256(from_base64(destination, _MAX_DESTINATION_BYTES)).digest()


def router_numbers(status: RouterStatus) -> dict[str, Any]:
    """Return the values that a router's status tells, by their names in the record."""
    facts = {name: getattr(status, attribute) for attribute, name in _ROUTER_NAMES.items()}
    return {
        name: value
        for name, value in facts.items()
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }
