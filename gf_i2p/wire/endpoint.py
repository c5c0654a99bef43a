"""The endpoint of a server: the text "tcp://host:port" of proposal 150, "ClusterServer".

The host decides whether the server is dialled through I2P or directly. So the check refuses every host that a resolver
could read in another way than this module. In particular, DNS never sees a host in `.i2p`.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Self

from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.limits import MAX_HOST_BYTES

_EXPECTED: Final = "expected tcp://host:port, with an IPv6 address in brackets"
_SCHEME: Final = "tcp://"
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
# Resolvers read a name whose last label has this form as an IPv4 address, even in odd notations such as 0x7f.1.
_NUMERIC: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a TCP port.

    `host`: a host name without trailing dot (ASCII, at most 253 bytes), an IPv4 address, or an IPv6 address
    without brackets and scope. `port`: 1 to 65,535. The texts are kept as written: "A.example" and
    "a.example" are different values. Raises `EndpointError` for any other host or port.
    """

    host: str
    port: int

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65_535:
            raise EndpointError(f"{self.port} is not a port: ports are 1 to 65535")
        if not _is_host(self.host):
            raise EndpointError(f"{self.host[:80]!r} is neither a host name nor an address; {_EXPECTED}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "tcp://host:port"; `str()` of the result returns the same text. Raises `EndpointError`."""
        host, colon, port = text.removeprefix(_SCHEME).rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if bracketed:
            host = host[1:-1]
        if not text.startswith(_SCHEME) or not colon or not _PORT.fullmatch(port) or bracketed != (":" in host):
            raise EndpointError(f"{text[:100]!r} is not an endpoint; {_EXPECTED}, port 1 to 65535")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{_SCHEME}[{self.host}]:{self.port}" if ":" in self.host else f"{_SCHEME}{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """Host and port as in the Host header of an HTTP request (RFC 9110, 7.2).

        A host in .i2p is put in lower case, because i2pd's proxy recognises only lower-case names in I2P.
        """
        text = str(self).removeprefix(_SCHEME)
        return text.lower() if self.is_i2p else text

    @property
    def is_i2p(self) -> bool:
        """Whether the host ends in .i2p. Such a host is never resolved by DNS, and dialled only through I2P."""
        return self.host.lower().endswith(".i2p")


def _is_host(host: str) -> bool:
    if len(host) > MAX_HOST_BYTES:
        return False
    if ":" in host:
        return "%" not in host and _is_address(host, IPv6Address)
    labels = host.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        return _is_address(host, IPv4Address)
    return all(_LABEL.fullmatch(label) for label in labels)


def _is_address(host: str, kind: type[IPv4Address | IPv6Address]) -> bool:
    try:
        kind(host)
    except ValueError:
        return False
    return True
