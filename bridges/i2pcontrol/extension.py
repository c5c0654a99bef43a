"""The six calls of `RouterBridge` as methods of i2pcontrol: names, parameters, results and errors, for both sides.

docs/reference/router-interface.md describes these methods; proposal 150 leaves them to "a separate proposal". All
values that this module makes or reads have JSON's types.
"""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from typing import Final

from bridges.errors import RouterError
from bridges.i2pcontrol.strict_json import Json, clip
from bridges.router_protocol import Publication
from gf_i2p.farm.record.router_facts import LeafStatus, MeasuredStatus, RouterStatus
from gf_i2p.netdb.encoding import from_b32_address, from_base64, to_b32_address, to_base64
from gf_i2p.netdb.errors import NetDbError, StructureError
from gf_i2p.netdb.limits import MAX_DESTINATION_BYTES, MAX_LEASE_SET_BYTES, MAX_MAPPING_BYTES, MAX_META_ENTRIES
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease, MetaLeaseSet
from gf_i2p.netdb.session_config import SessionConfig
from gf_i2p.netdb.signing import SIGNATURE_BYTES

MAX_REQUEST_BYTES: Final = 16 * 1024
"""Most bytes of a request's JSON. The largest lease set and two session configs have some 12,700 base64 characters."""
MAX_TIMEOUT: Final = 300.0
"""Longest time limit of one call, in seconds."""
MAX_PLACE: Final = 255
"""Highest place of a leaf that a caller may ask for: a status record has up to 256 destinations."""
MAX_REASON_CHARACTERS: Final = 1000
"""Most characters of the other side's reason."""

_HASH_BYTES: Final = 32
_SESSION_BYTES: Final = MAX_DESTINATION_BYTES + 2 + MAX_MAPPING_BYTES + 8 + SIGNATURE_BYTES
_MAX_SECONDS: Final = 2**32 - 1
_MAX_COST: Final = 255
_SIGNED: Final = ("LeaseSet", "SessionConfig", "SignedSessionConfig")
"""Parameters of PublishMetaLS with a signature of the caller."""


class Method(StrEnum):
    """The methods of the extension."""

    ROUTER_STATUS = "GetLocalRouterStatus"
    LEAF_HASH = "GetLocalLeafHash"
    LEAF_STATUS = "GetLocalLeafStatus"
    MEASURE = "GetRemoteMeasuredStatus"
    PUBLISH = "PublishMetaLS"
    STOP = "StopPublishingMetaLS"
    PUBLICATION = "GetMetaLSStatus"
    """Status of a publication. Callers need it after PublishMetaLS; the proposal has no such method."""


class Code(IntEnum):
    """Error codes of JSON-RPC 2 and of i2pcontrol's API 1. The codes from -32010 down belong to this extension."""

    PARSE = -32700
    REQUEST = -32600
    METHOD = -32601
    PARAMETERS = -32602
    DEFECT = -32603
    PASSWORD = -32001
    NO_TOKEN = -32002
    UNKNOWN_TOKEN = -32003
    EXPIRED_TOKEN = -32004
    NO_API = -32005
    OTHER_API = -32006
    REFUSED = -32010
    """The router refuses, or this endpoint refuses for the router: sending the same request again will not help."""
    UNREACHABLE = -32011
    """The router or the needed interface does not answer: the router may come back."""
    ROUTER = -32012
    """The router's answer is unusable."""
    TIMEOUT = -32013
    """Not done within the time limit of the call."""
    BUSY = -32014
    """Too many such calls are running already."""


class ParameterError(ValueError):
    """A parameter is missing, unknown or wrong. `str()` names the parameter and says why."""


class PublicationPhase(StrEnum):
    """Progress of a master's publication."""

    IDLE = "idle"
    """Nothing is published, and nothing should be."""
    OPENING = "opening"
    """The router is about to get the first set: tunnels may still have to be built."""
    SENT = "sent"
    """The router has the last set. The endpoint sends the set again when the router asks."""
    LOST = "lost"
    """The router does not have the set, and the endpoint does not try again: publish a fresh set."""


@dataclass(frozen=True, slots=True)
class PublicationState:
    """One master's publication at the endpoint."""

    state: PublicationPhase = PublicationPhase.IDLE
    reason: str | None = None
    """Why the publication is lost: a text for the operator."""
    published: int | None = None
    """`published` of the last set that the router got; seconds since the epoch."""
    expires: int | None = None
    """End of that set's last entry; seconds since the epoch."""


# Results ------------------------------------------------------------------------------------------------------------


def encode_status(status: RouterStatus | LeafStatus | MeasuredStatus | PublicationState) -> dict[str, Json]:
    """Return the fields of a status by their i2pcontrol names: `uptime_ms` becomes UptimeMs."""
    return {_camel(field.name): getattr(status, field.name) for field in fields(status)}


def encode_leaf(leaf: bytes | None) -> dict[str, Json]:
    """Return members for a destination's hash and address; both are None when `leaf`, the hash, is None."""
    if leaf is None:
        return {"LeafHash": None, "Address": None}
    return {"LeafHash": to_base64(leaf), "Address": to_b32_address(leaf)}


def decode_publication_state(result: Mapping[str, Json]) -> PublicationState:
    """Read the endpoint's answer about a publication; unknown members are ignored. Raises `RouterError`."""
    try:
        state = PublicationPhase(str(result.get("State")))
    except ValueError as error:
        raise RouterError(
            f"the endpoint says that the publication is {clip(str(result.get('State')), 20)}, which is an unknown state"
        ) from error
    reason = result.get("Reason")
    return PublicationState(
        state,
        clip(reason, MAX_REASON_CHARACTERS) if isinstance(reason, str) and reason else None,
        _seconds(result.get("Published")),
        _seconds(result.get("Expires")),
    )


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _seconds(value: Json) -> int | None:
    return value if type(value) is int and 0 <= value <= _MAX_SECONDS else None


# Parameters ---------------------------------------------------------------------------------------------------------


def encode_publication(publication: Publication, timeout: float) -> dict[str, Json]:
    """Return the parameters of PublishMetaLS."""
    signed = publication.signed_session
    return {
        "MasterHash": to_base64(publication.lease_set.destination.hash),
        "LeaseSet": to_base64(publication.lease_set.data),
        "SessionConfig": to_base64(publication.session),
        **({} if signed is None else {"SignedSessionConfig": to_base64(signed)}),
        "Timeout": timeout,
    }


class CallParameters:
    """The parameters of one call. Take them one by one, then call `finish`. Raises `ParameterError`."""

    def __init__(self, params: Mapping[str, Json]) -> None:
        self._params = dict(params)

    def hash(self, name: str) -> bytes:
        """Take a destination's hash, in I2P base64 or as a b32 address."""
        text = self._text(name)
        try:
            digest = from_b32_address(text) if text.lower().endswith(".i2p") else from_base64(text, _HASH_BYTES)
        except StructureError as error:
            raise ParameterError(f"{name}: {error}") from error
        if len(digest) != _HASH_BYTES:
            raise ParameterError(f"{name}: a hash has {_HASH_BYTES} bytes, not {len(digest)}")
        return digest

    def publication(self) -> Publication:
        """Take the parameters of PublishMetaLS, and verify the set's signature."""
        master = self.hash("MasterHash")
        try:
            lease_set = MetaLeaseSet.parse(self._bytes("LeaseSet", MAX_LEASE_SET_BYTES))
        except NetDbError as error:
            raise ParameterError(f"LeaseSet: {error}") from error
        if lease_set.destination.hash != master:
            raise ParameterError(f"LeaseSet: it belongs to {lease_set.destination.b32}, not to MasterHash")
        session = self._session("SessionConfig", lease_set)
        signed = self._session("SignedSessionConfig", lease_set) if "SignedSessionConfig" in self._params else None
        return Publication(lease_set, session, signed)

    @property
    def has_entries(self) -> bool:
        """Whether PublishMetaLS got plain entries, which the endpoint has to sign."""
        return "Entries" in self._params

    def entries(self) -> list[MetaLease]:
        """Take the plain entries of PublishMetaLS, 1 to 16. The signer, and not this method, checks their end times.

        Entries cannot stand beside a signed set.
        """
        for name in _SIGNED:
            if name in self._params:
                raise ParameterError(f"{name}: cannot stand beside Entries: give a signed set, or plain entries")
        items = self._params.pop("Entries", None)
        if not isinstance(items, list) or not 1 <= len(items) <= MAX_META_ENTRIES:
            raise ParameterError(f"Entries: expected a list of 1 to {MAX_META_ENTRIES} objects")
        leases: list[MetaLease] = []
        for number, item in enumerate(items, 1):
            if not isinstance(item, dict):
                raise ParameterError(f"Entries: entry {number}: expected an object")
            try:
                lease = CallParameters(item).entry()
            except ParameterError as error:
                raise ParameterError(f"Entries: entry {number}: {error}") from error
            if any(lease.hash == other.hash for other in leases):
                raise ParameterError(f"Entries: entry {number}: Hash: an entry before has the same destination")
            leases.append(lease)
        return leases

    def entry(self) -> MetaLease:
        """Take the members of one plain entry: Hash, Type, Cost and Expires. Raises for any other member."""
        hash_ = self.hash("Hash")
        kind = self._whole("Type", (LeaseType.LEASE_SET2, LeaseType.META), "3 or 7", default=int(LeaseType.LEASE_SET2))
        cost = self._whole("Cost", range(_MAX_COST + 1), f"a whole number from 0 to {_MAX_COST}")
        end = self._whole("Expires", range(_MAX_SECONDS + 1), "whole seconds since the epoch")
        self.finish()
        return MetaLease(hash_, end, cost, LeaseType(kind))

    def place(self) -> int:
        """Take the place of a leaf among the router's leaves, from 0; the parameter is optional."""
        value = self._params.pop("Place", 0)
        if type(value) is not int or not 0 <= value <= MAX_PLACE:
            raise ParameterError(f"Place: expected an integer from 0 to {MAX_PLACE}")
        return value

    def timeout(self, default: float) -> float:
        """Take the time limit of the call, in seconds; the parameter is optional."""
        value = self._params.pop("Timeout", default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_TIMEOUT:
            raise ParameterError(f"Timeout: expected seconds, a number from 0 to {MAX_TIMEOUT:g}")
        assert math.isfinite(value)
        return float(value)

    def finish(self) -> None:
        """Raise for any parameter that was not taken: a misspelt name would otherwise go unnoticed."""
        if self._params:
            raise ParameterError(f"{clip(next(iter(self._params)), 40)}: there is no such parameter here")

    def _whole(self, name: str, allowed: Container[int], expected: str, default: int | None = None) -> int:
        value = self._params.pop(name, default)
        if type(value) is not int or value not in allowed:
            raise ParameterError(f"{name}: {'is missing' if value is None else f'expected {expected}'}")
        return value

    def _session(self, name: str, lease_set: MetaLeaseSet) -> bytes:
        try:
            config = SessionConfig.parse(self._bytes(name, _SESSION_BYTES))
        except NetDbError as error:
            raise ParameterError(f"{name}: {error}") from error
        if config.destination != lease_set.destination:
            raise ParameterError(f"{name}: it belongs to {config.destination.b32}, not to MasterHash")
        return config.data

    def _text(self, name: str) -> str:
        value = self._params.pop(name, None)
        if not isinstance(value, str):
            raise ParameterError(f"{name}: {'is missing' if value is None else 'expected a text'}")
        return value

    def _bytes(self, name: str, max_bytes: int) -> bytes:
        return from_base64(self._text(name), max_bytes)
