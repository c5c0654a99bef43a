"""Admissions: how a new server becomes known to all servers of a farm by the farm's log.

An administrator signs a *ticket* for one server: its id, where it may be reached, until when the ticket is good, and
the public half of a key that was made for this ticket alone. The new server signs its own *admission*, its endpoint and
its login key, with the ticket's key. The log carries both. Each server of the farm checks both signatures by itself, so
no server can admit another one, not even the leader: only an administrator's key can.

A ticket is good for one server: the first admission with an id counts, and later ones with this id have no effect.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from gf_i2p.farm.record.remote_sensing import MAX_SERVER_ID
from gf_i2p.farm.strict_json import (
    MAX_DATE_MS,
    RecordError,
    a_hash,
    an_object,
    integer,
    text,
    text_or_none,
    without_none,
)
from gf_i2p.netdb.encoding import from_base64url, to_base64, to_base64url

INSIDE: Final = "i2p"
"""The endpoint of a ticket for a server that makes its own address inside I2P."""
USER_PREFIX: Final = "newcomer-"
"""Begins the user name by which a newcomer logs in. The ticket follows, in base64url."""
MAX_ENDPOINT: Final = 265
"""Most characters of an endpoint: "tcp://", a host name of 253, and a port."""
MAX_BY: Final = 64
_NAME: Final = re.compile(rf"admin-[A-Za-z0-9._-]{{1,{MAX_BY - len('admin-')}}}", re.ASCII)
_ENDPOINT: Final = re.compile(rf"[!-~]{{1,{MAX_ENDPOINT}}}", re.ASCII)
_FINGERPRINT: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_VERSION: Final = 1
_HEAD: Final = struct.Struct(">BIQ32s64sB")
"""Version, server, end in ms, key, signature, and the length of the administrator's name; name and endpoint follow."""
_TICKET_PURPOSE: Final = b"gf-i2p: ticket for a new server, version 1"
_ADMISSION_PURPOSE: Final = b"gf-i2p: admission of a new server, version 1"


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to join as one server, signed by an administrator. A ticket is no secret: its private key is.

    Raises:
        ValueError: a number or a text is out of range.
    """

    server: int
    endpoint: str
    """`INSIDE`, or the endpoint that the server must have."""
    until_ms: int
    """End of the ticket, in ms since the epoch."""
    by: str
    """The administrator's user name."""
    key: bytes
    """Public half of the ticket's key (Ed25519, 32 bytes)."""
    signature: bytes = field(default=bytes(64), repr=False)
    """The administrator's signature over `signed_text` (RFC 8032, 64 bytes)."""

    def __post_init__(self) -> None:
        if not 0 <= self.server <= MAX_SERVER_ID or not 0 <= self.until_ms <= MAX_DATE_MS:
            raise ValueError("a ticket's server or end is out of range")
        if _NAME.fullmatch(self.by) is None or _ENDPOINT.fullmatch(self.endpoint) is None:
            raise ValueError("a ticket names no administrator, or no endpoint")
        if len(self.key) != 32 or len(self.signature) != 64:
            raise ValueError("a ticket's key or signature has a wrong length")

    def signed_text(self, cluster: str) -> bytes:
        """Return the bytes that the administrator signs, for this farm."""
        numbers = struct.pack(">IQ", self.server, self.until_ms)
        return _joined(_TICKET_PURPOSE, cluster.encode(), self.by.encode(), self.endpoint.encode(), numbers, self.key)

    def encode(self) -> bytes:
        """Return the ticket as bytes."""
        by = self.by.encode()
        head = _HEAD.pack(_VERSION, self.server, self.until_ms, self.key, self.signature, len(by))
        return head + by + self.endpoint.encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a ticket. Raises `ValueError`."""
        if not _HEAD.size < len(data) <= _HEAD.size + MAX_BY + MAX_ENDPOINT:
            raise ValueError("a ticket has another length")
        version, server, until_ms, key, signature, length = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise ValueError(f"a ticket of version {version} is not known here: use the newest gf-i2p")
        names = data[_HEAD.size :].decode("ascii")
        return cls(server, names[length:], until_ms, names[:length], key, signature)

    @property
    def user(self) -> str:
        """The user name by which the ticket's holder logs in."""
        return USER_PREFIX + to_base64url(self.encode())

    @classmethod
    def of_user(cls, name: str) -> Self:
        """Read the ticket in a user name. Raises `ValueError` for any other name."""
        ticket = cls.decode(from_base64url(name.removeprefix(USER_PREFIX)))
        if ticket.user != name:  # one ticket has one name
            raise ValueError("a newcomer's user name begins with newcomer-")
        return ticket


@dataclass(frozen=True, slots=True)
class Admission:
    """A new server's own data, signed with its ticket's key."""

    ticket: Ticket
    endpoint: str
    """The endpoint at which the new server is reached."""
    fingerprint: str | None
    """Fingerprint of its certificate, "sha256:" and 64 digits; None inside I2P."""
    key: bytes
    """Public half of the server's login key (Ed25519, 32 bytes)."""
    signature: bytes = field(default=bytes(64), repr=False)

    def signed_text(self, cluster: str) -> bytes:
        """Return the bytes that the new server signs with the ticket's key, for this farm."""
        return _joined(
            _ADMISSION_PURPOSE,
            cluster.encode(),
            self.ticket.encode(),
            self.endpoint.encode(),
            (self.fingerprint or "").encode(),
            self.key,
        )

    def encode(self) -> dict[str, Any]:
        """Return the admission as a JSON object."""
        return {"ticket": self.ticket.user.removeprefix(USER_PREFIX), **self.own_fields()}

    def own_fields(self) -> dict[str, Any]:
        """Return what the new server says of itself, without the ticket, as a JSON object."""
        own = {"endpoint": self.endpoint, "fingerprint": self.fingerprint, "key": to_base64(self.key)}
        return without_none(own) | {"signature": self.signature.hex()}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the JSON object of `encode`. Raises `RecordError`."""
        fields = an_object(value, "admission")
        try:
            ticket = Ticket.of_user(USER_PREFIX + text(fields, "ticket"))
        except ValueError as error:
            raise RecordError(str(error)) from error
        return cls.of_own_fields(ticket, fields)

    @classmethod
    def of_own_fields(cls, ticket: Ticket, fields: Mapping[str, Any]) -> Self:
        """Read the JSON object of `own_fields`. Raises `RecordError`."""
        endpoint, fingerprint = text(fields, "endpoint"), text_or_none(fields, "fingerprint")
        if _ENDPOINT.fullmatch(endpoint) is None or (fingerprint and _FINGERPRINT.fullmatch(fingerprint) is None):
            raise RecordError("an admission has an endpoint, and outside I2P a fingerprint, sha256: and 64 digits")
        try:
            signature = bytes.fromhex(text(fields, "signature"))
        except ValueError as error:
            raise RecordError("signature is hexadecimal") from error
        if len(signature) != 64:
            raise RecordError("signature has 64 bytes")
        return cls(ticket, endpoint, fingerprint, a_hash(fields.get("key"), "the key"), signature)


@dataclass(frozen=True, slots=True)
class Admitted:
    """An admission in the log, with its index and the date of its entry."""

    admission: Admission
    index: int
    date_ms: int

    def encode(self) -> dict[str, Any]:
        """Return the JSON object for a snapshot."""
        return {**self.admission.encode(), "index": self.index, "date": self.date_ms}

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Read the JSON object of a snapshot. Raises `RecordError`."""
        index, date_ms = integer(fields, "index", MAX_DATE_MS), integer(fields, "date", MAX_DATE_MS)
        return cls(Admission.parse(fields), index, date_ms)


def _joined(*parts: bytes) -> bytes:
    """Return the parts, each with its length before it, so that no two lists of parts are the same bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
