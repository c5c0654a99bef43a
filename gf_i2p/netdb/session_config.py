"""SessionConfig: a client's proof to a router that the client may act as a destination (I2CP, "SessionConfig")."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.errors import LimitError
from gf_i2p.netdb.mapping import encode_mapping, read_mapping
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.signing import SIGNATURE_BYTES

META_OPTIONS: Final = {
    "i2cp.fastReceive": "true",
    "i2cp.leaseSetType": "7",
    "i2cp.messageReliability": "none",
    "inbound.length": "1",
    "inbound.nickname": "gf-i2p",
    "inbound.quantity": "4",
    "outbound.length": "1",
    "outbound.quantity": "2",
}
"""Options of a session that publishes a Meta lease set and carries no traffic. Java sets the lengths to 0.

i2pd may publish the set in vain when the first inbound tunnels are ready, and publishes again when a further tunnel is.
i2pd builds two or three inbound tunnels at a time. So the session asks for four tunnels, which come in two rounds.
"""
SERVICE_OPTIONS: Final = {
    "i2cp.fastReceive": "true",
    "i2cp.leaseSetEncType": "4",
    "i2cp.leaseSetType": "3",
    "i2cp.messageReliability": "none",
    "inbound.length": "3",
    "inbound.nickname": "gf-i2p",
    "inbound.quantity": "4",
    "outbound.length": "3",
    "outbound.quantity": "4",
}
"""Options of a session that serves a destination: routers' default lengths; of four tunnels each way, one may die."""
_TRANSIENT_KEY: Final = "i2cp.leaseSetTransientPublicKey"


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """A SessionConfig, kept as its bytes. Make one with `parse`, or with the function `session_config`."""

    data: bytes = field(repr=False)
    """The whole config, the signature last."""
    destination: Destination
    options: Mapping[str, str] = field(repr=False)
    """I2CP's options; a password may be among them."""
    date_ms: int
    """Date of the signature, in milliseconds since the epoch."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a config that is all of `data`. Raises `StructureError`; nothing is verified."""
        reader = Reader(data, "a SessionConfig")
        destination, options, date_ms = Destination.read(reader), read_mapping(reader), reader.number(8)
        reader.take(SIGNATURE_BYTES)
        reader.finish()
        return cls(data, destination, options, date_ms)

    @property
    def delegated(self) -> bool:
        """Whether the options name a transient key, which then has signed the config."""
        return _TRANSIENT_KEY in self.options

    def verify(self) -> None:
        """Check the signature of the destination's own key. Raises `SignatureError`."""
        self.destination.verify(self.data[-SIGNATURE_BYTES:], self.data[:-SIGNATURE_BYTES])


def session_config(keys: DestinationKeys, date_ms: int, options: Mapping[str, str] = META_OPTIONS) -> bytes:
    """Build and sign a SessionConfig.

    With delegated keys, the transient key signs, and the options show its authorisation. Java accepts such a config.
    i2pd 2.45 accepts only a config that the destination's own key has signed.

    Args:
        keys: the signing keys.
        date_ms: now, in milliseconds since the epoch. Java allows 180 s of difference from its own clock.
        options: I2CP's options.

    Raises:
        LimitError: an option is too long, or `date_ms` has more than eight bytes.
    """
    if not 0 <= date_ms < 2**64:
        raise LimitError(f"a date of {date_ms} ms does not fit into eight bytes")
    offline = keys.offline
    authorisation: dict[str, str] = {}
    if offline is not None:
        authorisation = {
            "i2cp.leaseSetOfflineExpiration": str(offline.expires),
            "i2cp.leaseSetOfflineSignature": to_base64(offline.signature),
            _TRANSIENT_KEY: f"{offline.type}:{to_base64(offline.key)}",
        }
    body = keys.destination.data + encode_mapping({**options, **authorisation}) + date_ms.to_bytes(8)
    return body + keys.key.sign(body)
