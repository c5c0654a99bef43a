"""Where a router's i2pcontrol is, and what it takes to be let in: address, password, certificate."""

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

DEFAULT_URL: Final = "https://127.0.0.1:7650/"

_PRINTABLE: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"(?![\d.]+$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
"""A host's name, as DNS takes it; one of digits alone would be a broken address."""
_MAX_NAME: Final = 253
_FINGERPRINT_BYTES: Final = 32
_NO_FINGERPRINT: Final = bytes(_FINGERPRINT_BYTES)
"""No certificate has it: to be told which one the router has, and send nothing."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one router. Raises `ValueError` on what cannot be, and on what would tell others the password.

    Plain HTTP is for loopback only, where Java's console has it: http://127.0.0.1:7657/jsonrpc/.
    """

    url: str
    password: str = field(repr=False)
    fingerprint: str | None = None
    """SHA-256 of the router's certificate: 64 hexadecimal digits, with "sha256:" before or colons between or not."""
    any_certificate: bool = False
    """Take whatever certificate comes: anybody between us and the router may read the password."""

    def __post_init__(self) -> None:
        place = _place(self.url)
        if not self.password:
            raise ValueError(f"i2pcontrol at {self.url} needs a password")
        if place.scheme == "http" and (self.fingerprint is not None or self.any_certificate):
            raise ValueError(f"{self.url} is plain HTTP: leave the certificate settings out, or write https://")
        if self.fingerprint is not None and self.any_certificate:
            raise ValueError("either a fingerprint, or any certificate: not both")
        self.pin()

    def pin(self) -> bytes | None:
        """Give the digest that the certificate must have; None: none is looked at."""
        if self.any_certificate or _place(self.url).scheme == "http":
            return None
        if self.fingerprint is None:
            return _NO_FINGERPRINT
        try:
            digest = bytes.fromhex(self.fingerprint.strip().lower().removeprefix("sha256:").replace(":", ""))
        except ValueError:
            digest = b""
        if len(digest) != _FINGERPRINT_BYTES:
            raise ValueError(f"{self.fingerprint!r} is no fingerprint: expected 64 hexadecimal digits (SHA-256)")
        return digest


def check_url(url: str) -> str:
    """Give back a URL of i2pcontrol that we would go to. Raises `ValueError` on any other."""
    _place(url)
    return url


def _place(url: str) -> SplitResult:
    """Take the URL apart. Raises `ValueError` when we would not go there."""
    if "@" in url:  # first, since the other messages show the URL
        raise ValueError("a URL of i2pcontrol has no user name and no password in it; the password has its own setting")
    try:
        place = urlsplit(url)
        host = place.hostname or ""
        place.port  # noqa: B018 - reading it checks it
    except ValueError as error:
        raise ValueError(f"{url!r} is no URL: expected something like {DEFAULT_URL}") from error
    if host.rstrip(".").endswith(".i2p"):
        raise ValueError(f"{url!r} lies inside I2P, where this does not reach: use the router's own address")
    if place.scheme not in {"https", "http"} or not _is_host(host) or not _PRINTABLE.fullmatch(url):
        raise ValueError(f"{url!r} is no URL of i2pcontrol: expected something like {DEFAULT_URL}")
    if place.scheme == "http" and not _is_loopback(host):
        raise ValueError(f"{url!r} would send the password in the clear: use https://, or an address of this machine")
    return place


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return len(host) <= _MAX_NAME and _NAME.fullmatch(host) is not None
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
