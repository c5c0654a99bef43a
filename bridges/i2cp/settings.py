"""Where a router's I2CP is, and how it is to be spoken to."""

from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from gf_i2p.netdb.limits import MAX_STRING_BYTES

DEFAULT_PORT: Final = 7654


class RouterKind(StrEnum):
    """Which router it is. The two read one message differently, so that a wrong one here loses lease sets."""

    AUTO = "auto"
    """Ask: one more connection before each session."""
    I2PD = "i2pd"
    JAVA = "java"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long we wait, in seconds."""

    connect: float = 10.0
    """For TCP and TLS."""
    answer: float = 30.0
    """For what the router can answer at once, and for it to take what we send."""
    tunnels: float = 120.0
    """From a session's start to the router's first request for its lease set: tunnels are built in between."""
    goodbye: float = 5.0
    """For the router to hang up at the end of a session. Not longer: it is the end."""


@dataclass(frozen=True, slots=True)
class I2cpSettings:
    """Where I2CP is. Raises `ValueError` with a sentence for the operator, without secrets."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    kind: RouterKind = RouterKind.AUTO
    fingerprint: str | None = None
    """Of the certificate that Java shows when its `i2cp.SSL` is true: "sha256:" and 64 hexadecimal digits.

    With it, I2CP runs over TLS, and nothing is said to anybody with another certificate. i2pd has no TLS here.
    """
    username: str | None = None
    """With `password`, for a Java router whose `i2cp.auth` is true. i2pd asks for none."""
    password: str | None = field(default=None, repr=False)
    allow_plain: bool = False
    """Speak without TLS to another machine than this one. Only for a network that carries nothing but ours."""
    deadlines: Deadlines = Deadlines()

    def __post_init__(self) -> None:
        if self.host.lower().rstrip(".").endswith(".i2p"):
            raise ValueError(f"I2CP's host {self.host} lies inside I2P: it must be the address of our own router")
        if (self.username is None) != (self.password is None):
            raise ValueError("I2CP's user name and password are set together, or neither is")
        if self.username is not None and self.password is not None and self.fingerprint is None and not self._here:
            raise ValueError(f"I2CP's password would go to {self.host} in the clear: set its certificate's fingerprint")
        for name, text in (("user name", self.username), ("password", self.password)):
            if text is not None and not _fits(text):
                raise ValueError(
                    f"I2CP's {name} has 1 to {MAX_STRING_BYTES} printable ASCII characters without semicolon: choose "
                    "another one, here and in the router"
                )
        if self.fingerprint is None and not self.allow_plain and not self._here:
            raise ValueError(
                f"I2CP at {self.host} is not on this machine, and plain I2CP protects nothing on its way: whoever "
                "reaches it uses the router. Run the node beside its router; or use TLS (Java: i2cp.SSL=true, and set "
                "the fingerprint here; i2pd has none); or, where the network between the two is yours alone, set "
                "allow_plain"
            )

    @property
    def login(self) -> tuple[str, str] | None:
        """User name and password, if any. A secret."""
        return None if self.username is None or self.password is None else (self.username, self.password)

    @property
    def _here(self) -> bool:
        """Whether it is this machine for sure. Names but this one may lead anywhere."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"I2CP at {host}:{self.port}"


def _fits(text: str) -> bool:
    return 0 < len(text) <= MAX_STRING_BYTES and text.isascii() and text.isprintable() and ";" not in text
