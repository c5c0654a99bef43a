"""What a node's configuration says of the I2P router beside it, and of publishing."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from bridges.i2pcontrol.access import check_url
from gf_i2p.netdb.encoding import from_b32_address
from gf_i2p.netdb.errors import StructureError
from gf_i2p.node.files.checked_read import Table
from gf_i2p.node.files.layout import BRIDGE_CERTIFICATE_FILE, BRIDGE_KEY_FILE, DESTINATION_FILE, MASTER_FILE
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.i2p.i2p_transport import ProxySettings, Way
from gf_i2p.transport.tls.certificates import parse_fingerprint

_OPTION: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
"""I2CP's options all have a dot in their names; SAM's own words have none."""


def is_b32_address(text: str) -> bool:
    """Whether a text is a destination's address, not only a name for it."""
    try:
        from_b32_address(text)
    except StructureError:
        return False
    return True


def place(text: str, example: str = "127.0.0.1:7656") -> tuple[str, int]:
    """Split "IP:PORT", an IPv6 address in brackets. Raises `ValueError`, with the example."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ip_address(host)
        number = int(port) if port.isascii() and port.isdigit() else 0
    except ValueError:
        number = 0
    if not colon or not 1 <= number <= 65_535:
        raise ValueError(f"{text[:80]!r}: expected an IP address and a port, as in {example}")
    return host, number


def _place(text: str) -> str:
    place(text)
    return text


def _target(text: str) -> str:
    place(text, "127.0.0.1:8080")
    return text


def _fingerprint(text: str) -> str:
    try:
        return parse_fingerprint(text)
    except TransportError as error:
        raise ValueError(str(error)) from error


def check_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return options that are I2CP's, as far as their form says. Raises `ValueError`."""
    for name, value in options.items():
        if not _OPTION.fullmatch(name):
            raise ValueError(f'{name[:80]!r} is no option of I2CP: expected something like "inbound.length", quoted')
        if not value or not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError(
                f"{name}: {value[:80]!r} has a character that cannot be sent to the router, or none at all"
            )
    return options


Place = Annotated[str, AfterValidator(_place)]


class ProxyTable(Table):
    """The proxy of the I2P router beside us, which is all that a client needs of it."""

    proxy: Place = "127.0.0.1:4444"
    way: Literal["get", "connect", "socks5"] = "get"
    beyond_loopback: bool = False
    """Whether it may be on another machine: whoever sees that network then reads along."""

    _interfaces: ClassVar[tuple[str, ...]] = ("proxy",)

    @model_validator(mode="after")
    def _stays_here(self) -> Self:
        for name in self._interfaces:
            host, _ = place(getattr(self, name))
            if not self.beyond_loopback and not ip_address(host).is_loopback:
                raise ValueError(
                    f"{name}: {host} is another machine, and what goes there is not encrypted: have the router on this "
                    "one, or set beyond_loopback = true if nobody else can see that network"
                )
        return self

    @property
    def settings(self) -> ProxySettings:
        """Where the proxy is, and how it is asked."""
        return ProxySettings(*place(self.proxy), Way(self.way))


class RouterTable(ProxyTable):
    """The I2P router beside this node. Its interfaces are plain TCP, and so on this machine only, unless told."""

    inbound: Literal["sam", "tunnel"] = "sam"
    """"tunnel": the operator has configured a server tunnel in the router, to `node.listen`."""
    sam: Place = "127.0.0.1:7656"
    destination: str = DESTINATION_FILE
    """Our keys in the farm, a file; for `inbound = "sam"`."""
    session: Annotated[Mapping[str, str], AfterValidator(check_options)] = Field(default={})
    """Options of the session's tunnels, in I2CP's words."""
    i2cp: Place = "127.0.0.1:7654"
    kind: Literal["auto", "i2pd", "java"] = "auto"
    i2pcontrol: Annotated[str, AfterValidator(check_url)] | None = None
    """The URL of its JSON-RPC; None: the router's numbers are not asked for."""
    i2pcontrol_fingerprint: Annotated[str, AfterValidator(_fingerprint)] | None = None
    i2pcontrol_accept_any: bool = False
    """Whether any certificate will do there."""
    i2pcontrol_few_tunnels: bool = False
    """Whether this i2pd has so few tunnels that asking for them does not kill it: `bridges.i2pcontrol`."""

    _interfaces: ClassVar[tuple[str, ...]] = ("proxy", "sam", "i2cp")


def check_leaf(leaf: str | None, router: RouterTable) -> None:
    """Raise `ValueError` when this router cannot tell which address a leaf has that is given by its name."""
    if leaf is None or is_b32_address(leaf):
        return
    if router.i2pcontrol is None:
        raise ValueError(
            f"publish.leaf: {leaf[:80]!r} is no b32 address, and what address a tunnel of this name has only an "
            "i2pd tells, by router.i2pcontrol: give the address"
        )
    if not router.i2pcontrol_few_tunnels:
        raise ValueError(
            f"publish.leaf: {leaf[:80]!r} is no b32 address, and asking i2pd for its tunnels can kill it when it "
            "has more than a few: give the address, or set router.i2pcontrol_few_tunnels = true"
        )


class ServiceTable(Table):
    """The service to which `mode = "failover"` leads, as the master's own."""

    target: Annotated[str, AfterValidator(_target)]
    """Where it listens: TCP, plain."""
    http: bool = False
    """Whether it speaks HTTP, and is told who asks, as the routers' own HTTP server tunnels do."""
    beyond_loopback: bool = False
    """Whether it may be on another machine: whoever sees that network then reads along."""
    session: Annotated[Mapping[str, str], AfterValidator(check_options)] = Field(default={})
    """Options of the session's tunnels, in I2CP's words."""

    @model_validator(mode="after")
    def _stays_here(self) -> Self:
        host, _ = place(self.target)
        if not self.beyond_loopback and not ip_address(host).is_loopback:
            raise ValueError(
                f"target: {host} is another machine, and what goes there is not encrypted: have the service on this "
                "one, or set beyond_loopback = true if nobody else can see that network"
            )
        return self


class PublishTable(Table):
    """Publishing the farm's Meta lease set."""

    mode: Literal["off", "dry-run", "meta", "failover"] = "off"
    """What this server does when it is chosen; the same on all servers of a farm."""
    publish: Literal["auto", "on", "off"] = "auto"
    """Whether it may be chosen: "on" comes before "auto"; "off" never, and its leaf is listed all the same."""
    keys: str = MASTER_FILE
    """The master's private keys, or delegated ones, in the file format of both routers."""
    leaf: str | None = None
    """Our router's destination that serves: a b32 address, or with i2pcontrol the name of its tunnel."""
    leaf_farm: str | None = None
    """In the place of `leaf`: another farm, whose master is our leaf. The directory of its server that runs in this
    process, relative to ours, or that master's b32 address."""
    status_seconds: Annotated[float, Field(ge=1, le=30)] = 30.0
    """Between two status records of ours, when nothing changes. 30 at most: the others may take one for dead that has
    posted nothing for some time, 105 s unless an administrator has set it (`Parameters.fresh_ms`)."""
    sense_minutes: Annotated[int, Field(ge=0, le=1440)] = 0
    """In so many minutes each destination of the farm is tried once through the network; 0: never."""
    service: ServiceTable | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.mode == "failover" and self.service is None:
            raise ValueError(
                'service: is missing, and with mode = "failover" the master leads to a service on this machine: add '
                '[publish.service] with target = "127.0.0.1:8080", or whatever its address is'
            )
        return self


class BridgeTable(Table):
    """What `gf-i2p bridge serve` needs beside the router's table. Paths are relative to the node's directory."""

    listen: Place = "127.0.0.1:7651"
    plain: bool = False
    """Speak HTTP without TLS; for loopback only."""
    certificate: str = BRIDGE_CERTIFICATE_FILE
    key: str = BRIDGE_KEY_FILE
    """Both are made at the first start if neither is there."""

    @model_validator(mode="after")
    def _plain_stays_here(self) -> Self:
        host, _ = place(self.listen)
        if self.plain and not ip_address(host).is_loopback:
            raise ValueError(
                f"listen: {host} can be reached from other machines, and plain HTTP would show them the password: "
                "remove plain = true, or listen on 127.0.0.1"
            )
        return self
