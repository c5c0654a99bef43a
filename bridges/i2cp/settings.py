"""Settings of a router's I2CP: address, kind of router, TLS, login, deadlines."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from gf_i2p.netdb.limits import MAX_STRING_BYTES

DEFAULT_PORT: Final = 7654
_NAME: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*", re.ASCII)


class RouterKind(StrEnum):
    """The kind of router. The two kinds read one message differently, so a wrong kind here loses lease sets."""

    AUTO = "auto"
    """Ask the router, by one more connection before each session."""
    I2PD = "i2pd"
    JAVA = "java"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Time limits, in seconds."""

    connect: float = 10.0
    """To connect, by TCP and TLS."""
    answer: float = 30.0
    """For an answer that the router can give at once, and for the router to take sent data."""
    tunnels: float = 120.0
    """From a session's start to the router's first request for a lease set: the router builds tunnels in between."""
    goodbye: float = 5.0
    """For the router to hang up at the end of a session. After this time the bridge hangs up."""


@dataclass(frozen=True, slots=True)
class I2cpSettings:
    """Settings of I2CP. Raises `ValueError` with a sentence for the operator, without secrets."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    kind: RouterKind = RouterKind.AUTO
    fingerprint: str | None = None
    """Fingerprint of the certificate of a Java router with `i2cp.SSL`: "sha256:" and 64 hexadecimal digits.

    With a fingerprint, I2CP runs over TLS, and nothing is sent to a router with another certificate. i2pd has no TLS
    here.
    """
    system_ca: bool = False
    """Speak TLS, and trust a certificate that this system's CAs vouch for, with `tls_name` or the host's address in it.
    Not together with `fingerprint`."""
    tls_name: str | None = None
    """The name in that certificate, when the certificate does not have the host's address. Never looked up."""
    username: str | None = None
    """With `password`, for a Java router with `i2cp.auth`. i2pd asks for neither."""
    password: str | None = field(default=None, repr=False)
    allow_plain: bool = False
    """Speak without TLS to another machine. Only for a network that no other machine can read."""
    deadlines: Deadlines = Deadlines()

    def __post_init__(self) -> None:
        if self.host.lower().rstrip(".").endswith(".i2p"):
            raise ValueError(f"I2CP's host {self.host} lies inside I2P: give the address of the node's own router")
        if (self.username is None) != (self.password is None):
            raise ValueError("I2CP's user name and password belong together: set both or neither")
        if self.fingerprint is not None and self.system_ca:
            raise ValueError(
                "I2CP's certificate is checked by its fingerprint or by the system's CAs: choose one of the two"
            )
        if self.tls_name is not None and not self.system_ca:
            raise ValueError("I2CP's TLS name counts only with the system's CAs: set those, too, or leave the name out")
        if self.tls_name is not None and _NAME.fullmatch(self.tls_name) is None:
            raise ValueError(f"{self.tls_name[:80]!r} is no name of a certificate: expected one like router.example")
        if self.username is not None and self.password is not None and not self.is_encrypted and not self._is_local:
            raise ValueError(f"I2CP's password would go to {self.host} in the clear: set the certificate's fingerprint")
        for name, text in (("user name", self.username), ("password", self.password)):
            if text is not None and not _is_valid_text(text):
                raise ValueError(
                    f"I2CP's {name} must have 1 to {MAX_STRING_BYTES} printable ASCII characters and no semicolon: "
                    f"choose another {name}, here and in the router"
                )
        if not self.is_encrypted and not self.allow_plain and not self._is_local:
            raise ValueError(
                f"I2CP at {self.host} is not on this machine, and plain I2CP has no protection: everybody who "
                "reaches the port can use the router. Run the node beside its router. Or use TLS: set i2cp.SSL=true in "
                "Java, and the fingerprint here; i2pd has no TLS. Or set allow_plain, if nobody else uses the network "
                "between node and router"
            )

    @property
    def login(self) -> tuple[str, str] | None:
        """User name and password; None without them. A secret."""
        return None if self.username is None or self.password is None else (self.username, self.password)

    @property
    def is_encrypted(self) -> bool:
        """Whether I2CP runs over TLS."""
        return self.fingerprint is not None or self.system_ca

    @property
    def _is_local(self) -> bool:
        """Whether the host is surely this machine. A name other than localhost may lead anywhere."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"I2CP at {host}:{self.port}"


def _is_valid_text(text: str) -> bool:
    return 0 < len(text) <= MAX_STRING_BYTES and text.isascii() and text.isprintable() and ";" not in text
