"""Made-up netDbs: directories of correctly signed RouterInfos, the same ones for the same settings."""

import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.mapping import encode_mapping
from gf_i2p.netdb.router_info import RouterAddress, RouterInfo
from gf_i2p.netdb.signing import SigningKey

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-~"
_VERSIONS: Final = ("0.9.62", "0.9.63", "0.9.64", "0.9.65", "0.9.66")
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class NetDb:
    """The settings of a made-up netDb."""

    count: int
    seed: int
    now_ms: int
    """The RouterInfos are published within the day before this time."""
    floodfills: float = 0.25
    """The share of floodfills: higher than in the live netDb."""
    net_id: int = 2


def identity(signing_key: bytes, crypto_key: bytes, filler: bytes) -> bytes:
    """Make the identity of an Ed25519 and an X25519 public key, 32 bytes each, with 32 random bytes (proposal 161)."""
    certificate = struct.pack(">BHHH", 5, 4, 7, 4)
    return crypto_key + filler * 10 + signing_key + certificate


def encode_address(address: RouterAddress) -> bytes:
    """Return the bytes of an address."""
    style = address.style.encode()
    return struct.pack(">BQB", address.cost, 0, len(style)) + style + encode_mapping(address.options)


def build(
    key: SigningKey,
    *,
    crypto_key: bytes,
    filler: bytes,
    published: int,
    addresses: Sequence[RouterAddress],
    options: Mapping[str, str],
) -> RouterInfo:
    """Build and sign a RouterInfo, as routers do. `published`: milliseconds since the epoch."""
    body = b"".join(
        [
            identity(key.public, crypto_key, filler),
            struct.pack(">QB", published, len(addresses)),
            *map(encode_address, addresses),
            b"\0",
            encode_mapping(options),
        ]
    )
    return RouterInfo.parse(body + key.sign(body))


def infos(netdb: NetDb) -> Iterator[RouterInfo]:
    """Make the RouterInfos, one after the other."""
    chance = random.Random(netdb.seed)
    for _ in range(netdb.count):
        caps = chance.choice("LNOPX") + ("f" if chance.random() < netdb.floodfills else "") + chance.choice("RU")
        host = f"198.{chance.choice((18, 19))}.{chance.randrange(256)}.{chance.randrange(1, 255)}"
        port = str(chance.randrange(9111, 30778))
        key = to_base64(chance.randbytes(32))
        yield build(
            SigningKey(chance.randbytes(32)),
            crypto_key=chance.randbytes(32),
            filler=chance.randbytes(32),
            published=netdb.now_ms - chance.randrange(_DAY_MS),
            addresses=[
                RouterAddress(
                    "NTCP2",
                    {"host": host, "i": to_base64(chance.randbytes(16)), "port": port, "s": key, "v": "2"},
                    3,
                ),
                RouterAddress(
                    "SSU2",
                    {
                        "caps": "BC",
                        "host": host,
                        "i": to_base64(chance.randbytes(32)),
                        "port": port,
                        "s": key,
                        "v": "2",
                    },
                    8,
                ),
            ],
            options={"caps": caps, "netId": str(netdb.net_id), "router.version": chance.choice(_VERSIONS)},
        )


def router_info_path(directory: Path, info: RouterInfo) -> Path:
    """Return the path of a RouterInfo below a netDb directory, as i2pd and Java I2P name it."""
    name = to_base64(info.hash)
    return directory / f"r{name[0]}" / f"routerInfo-{name}.dat"


@dataclass(frozen=True, slots=True)
class WrittenNetDb:
    """A netDb directory that was written."""

    size: int
    """Bytes of all files."""
    floodfills: list[bytes]
    """The hashes of the floodfills."""


def write(directory: Path, netdb: NetDb) -> WrittenNetDb:
    """Write a netDb directory."""
    for letter in _LETTERS:
        (directory / f"r{letter}").mkdir(parents=True, exist_ok=True)
    size, floodfills = 0, []
    for info in infos(netdb):
        size += router_info_path(directory, info).write_bytes(info.data)
        if info.floodfill:
            floodfills.append(info.hash)
    return WrittenNetDb(size, floodfills)
