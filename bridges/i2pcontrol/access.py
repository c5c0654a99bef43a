"""Access to a router's i2pcontrol: address, password, certificate."""

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

DEFAULT_URL: Final = "https://127.0.0.1:7650/"

_PRINTABLE: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"(?![\d.]+$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
"""A host name of DNS; a name of digits alone would be a broken address."""
_MAX_NAME: Final = 253
_FINGERPRINT_BYTES: Final = 32
_NO_FINGERPRINT: Final = bytes(_FINGERPRINT_BYTES)
"""A digest that no certificate has. The comparison fails, so that the error shows the router's fingerprint."""


@dataclass(frozen=True, slots=True)
class I2pControlAccess:
    """Access to one router. Raises `ValueError` for impossible and for unsafe settings.

    Plain HTTP is for loopback only, as with Java's console: http://127.0.0.1:7657/jsonrpc/.
    """

    url: str
    password: str = field(repr=False)
    fingerprint: str | None = None
    """SHA-256 of the router's certificate: 64 hexadecimal digits, "sha256:" before and colons between are allowed."""
    any_certificate: bool = False
    """Take any certificate. Then everybody on the way to the router can read the password."""

    def __post_init__(self) -> None:
        place = _split_url(self.url)
        if not self.password:
            raise ValueError(f"i2pcontrol at {self.url} needs a password")
        if place.scheme == "http" and (self.fingerprint is not None or self.any_certificate):
            raise ValueError(f"{self.url} is plain HTTP: leave the certificate settings out, or write https://")
        if self.fingerprint is not None and self.any_certificate:
            raise ValueError("both a fingerprint and any certificate are configured: choose one of the two")
        self.pin()

    def pin(self) -> bytes | None:
        """Return the digest that the certificate must have; None when the certificate is not checked."""
        if self.any_certificate or _split_url(self.url).scheme == "http":
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
    """Return the URL if it is allowed for i2pcontrol. Raises `ValueError` for any other URL."""
    _split_url(url)
    return url


def _split_url(url: str) -> SplitResult:
    """Take the URL apart. Raises `ValueError` when the URL is not allowed."""
    if "@" in url:  # first, since the other messages show the URL
        raise ValueError("a URL of i2pcontrol has no user name and no password; the password has its own setting")
    try:
        place = urlsplit(url)
        host = place.hostname or ""
        place.port  # noqa: B018 - reading it checks it
    except ValueError as error:
        raise ValueError(f"{url!r} is no URL: expected something like {DEFAULT_URL}") from error
    if host.rstrip(".").endswith(".i2p"):
        raise ValueError(f"{url!r} lies inside I2P, out of this client's reach: use the router's own address")
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
