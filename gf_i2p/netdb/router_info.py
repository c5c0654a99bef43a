"""RouterInfos, which describe routers (common structures, "RouterIdentity", "RouterAddress", "RouterInfo")."""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.errors import StructureError
from gf_i2p.netdb.limits import (
    MAX_CERTIFICATE_BYTES,
    MAX_ROUTER_ADDRESSES,
    MAX_ROUTER_INFO_BYTES,
)
from gf_i2p.netdb.mapping import read_mapping
from gf_i2p.netdb.signing import PUBLIC_KEY_BYTES, SignatureType, verify

FLOODFILL: Final = "f"
"""The letter in `caps` of a floodfill, a router that keeps a part of the netDb for all."""
_KEYS_BYTES: Final = 384
_NO_CERTIFICATE: Final = 0
_KEY_CERTIFICATE: Final = 5
_KEY_TYPES_BYTES: Final = 4
_DSA: Final = 0
_SIGNATURE_BYTES: Final = {0: 40, 1: 64, 2: 96, 3: 132, 4: 256, 5: 384, 6: 512, 7: 64, 8: 64, 9: 64, 10: 128, 11: 64}
"""Bytes of a signature by signature type (common structures, "Certificate")."""
_VERIFIABLE: Final = frozenset(int(each) for each in SignatureType)
_ADDRESS_HEAD: Final = struct.Struct(">BQ")
_PUBLISHED: Final = struct.Struct(">Q")
_PEER_BYTES: Final = 32
_MAX_NET_ID_CHARS: Final = 3


@dataclass(frozen=True)
class RouterIdentity:
    """The identity of a router: its bytes, and the fields in these bytes. Use `read`."""

    data: bytes = field(repr=False)
    signature_type: int
    """Number of the type; this program may be unable to verify the type."""
    crypto_type: int
    signing_key: bytes | None
    """32 bytes; None for a type that this program cannot verify."""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read an identity at the reader's position. Raises `StructureError`."""
        start = reader.position
        keys = reader.take(_KEYS_BYTES)
        kind, length = reader.number(1), reader.number(2)
        if length > MAX_CERTIFICATE_BYTES:
            raise StructureError(f"a certificate has up to {MAX_CERTIFICATE_BYTES} bytes, not {length}")
        signing, crypto = _DSA, 0
        if kind == _KEY_CERTIFICATE:
            if length < _KEY_TYPES_BYTES:
                raise StructureError(f"a key certificate has {_KEY_TYPES_BYTES} bytes at least, not {length}")
            signing, crypto = reader.number(2), reader.number(2)
            reader.take(length - _KEY_TYPES_BYTES)  # the rest of longer keys
        elif kind != _NO_CERTIFICATE or length:
            raise StructureError(f"certificate type {kind} is not used by routers: expected {_KEY_CERTIFICATE} or none")
        key = keys[-PUBLIC_KEY_BYTES:] if signing in _VERIFIABLE else None
        return cls(reader.data[start : reader.position], signing, crypto, key)

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of the whole identity, 32 bytes: the router's name, and a floodfill's position in the netDb."""
        return hashlib.sha256(self.data).digest()


@dataclass(frozen=True, slots=True)
class RouterAddress:
    """One way to reach a router."""

    style: str
    """NTCP2, SSU2, or an older transport."""
    options: Mapping[str, str]
    cost: int = 5
    """0 to 255; the lower, the better."""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read an address at the reader's position. Raises `StructureError`."""
        cost, _ = _ADDRESS_HEAD.unpack(
            reader.take(_ADDRESS_HEAD.size)
        )  # the rest: an expiration that is no longer used
        raw = reader.take(reader.number(1))
        try:
            style = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise StructureError("the style of an address is not UTF-8") from error
        return cls(style, read_mapping(reader, max_bytes=MAX_ROUTER_INFO_BYTES, in_order=False), cost)


@dataclass(frozen=True)
class RouterInfo:
    """A RouterInfo. Its signature is valid, or of a type that this program cannot verify. Use `parse`."""

    data: bytes = field(repr=False)
    """The whole RouterInfo, the signature last."""
    identity: RouterIdentity
    published: int
    """Time of publication, in milliseconds since the epoch."""
    addresses: tuple[RouterAddress, ...]
    options: Mapping[str, str]
    verified: bool
    """False when the signature is of a type that this program cannot verify."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a RouterInfo, and verify a signature of a known type. Raises `StructureError` or `SignatureError`."""
        if len(data) > MAX_ROUTER_INFO_BYTES:
            raise StructureError(f"a RouterInfo has up to {MAX_ROUTER_INFO_BYTES} bytes, not {len(data)}")
        reader = Reader(data, "a RouterInfo")
        identity = RouterIdentity.read(reader)
        (published,) = _PUBLISHED.unpack(reader.take(_PUBLISHED.size))
        count = reader.number(1)
        if count > MAX_ROUTER_ADDRESSES:
            raise StructureError(f"a RouterInfo has up to {MAX_ROUTER_ADDRESSES} addresses, not {count}")
        addresses = tuple(RouterAddress.read(reader) for _ in range(count))
        reader.take(reader.number(1) * _PEER_BYTES)  # peers: the count is always 0 now, and routers skip peers
        options = read_mapping(reader, max_bytes=MAX_ROUTER_INFO_BYTES, in_order=False)
        signed = data[: reader.position]
        signature = reader.take(_SIGNATURE_BYTES.get(identity.signature_type, len(data) - reader.position))
        reader.finish()
        if identity.signing_key is not None:
            verify(identity.signing_key, signature, signed)
        return cls(data, identity, published, addresses, options, identity.signing_key is not None)

    @property
    def hash(self) -> bytes:
        """Hash of the router, 32 bytes."""
        return self.identity.hash

    @property
    def caps(self) -> str:
        """Capability letters: f floodfill, R reachable, U unreachable, H hidden, K to X bandwidth, D E G congestion."""
        return self.options.get("caps", "")

    @property
    def floodfill(self) -> bool:
        """Whether the router declares itself a floodfill."""
        return FLOODFILL in self.caps

    @property
    def version(self) -> str:
        """Version of the router's API, such as 0.9.65; empty when the RouterInfo has none."""
        return self.options.get("router.version", "")

    @property
    def net_id(self) -> int | None:
        """Number of the router's network: 2 is the public I2P. None when the option is missing or malformed."""
        text = self.options.get("netId", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_NET_ID_CHARS else None
