"""The settings of a node about the I2P router beside it, and about publishing."""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from bridges.hosting_protocol import MAX_STREAMS, MAX_STREAMS_PER_DESTINATION
from bridges.i2pcontrol.access import check_url
from gf_i2p.netdb.encoding import from_b32_address
from gf_i2p.netdb.errors import StructureError
from gf_i2p.node.files.checked_read import PathText, Table
from gf_i2p.node.files.file_names import BRIDGE_CERTIFICATE_FILE, BRIDGE_KEY_FILE, DESTINATION_FILE, MASTER_FILE
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.i2p.i2p_transport import ProxyMethod, ProxySettings
from gf_i2p.transport.tls.certificates import parse_fingerprint

MAX_LEAVES: Final = 16
"""Most leaves of one server: as many as one Meta lease set lists. Each leaf costs the router four tunnels for pings."""
_OPTION: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
"""Every I2CP option has a dot in its name; SAM's own parameters have none."""


def is_b32_address(text: str) -> bool:
    """Whether a text is the b32 address of a destination, and not the name of a tunnel."""
    try:
        from_b32_address(text)
    except StructureError:
        return False
    return True


def host_and_port(text: str, example: str = "127.0.0.1:7656") -> tuple[str, int]:
    """Split "IP:PORT", with an IPv6 address in brackets. Raises `ValueError`, which shows the example."""
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


def _checked_host_port(text: str) -> str:
    host_and_port(text)
    return text


def _checked_target(text: str) -> str:
    host_and_port(text, "127.0.0.1:8080")
    return text


def _checked_address(text: str) -> str:
    from_b32_address(text)
    return text


def check_fingerprint(text: str) -> str:
    """Bring a certificate's fingerprint into the usual form; raises `ValueError`."""
    try:
        return parse_fingerprint(text)
    except TransportError as error:
        raise ValueError(str(error)) from error


def check_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options if they have the form of I2CP options. Raises `ValueError` otherwise."""
    for name, value in options.items():
        if not _OPTION.fullmatch(name):
            raise ValueError(f'{name[:80]!r} is no option of I2CP: expected something like "inbound.length", quoted')
        if not value or not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError(
                f"{name}: {value[:80]!r} has a character that cannot be sent to the router, or none at all"
            )
    return options


def check_pair(user: str | None, password: str | None, user_key: str, password_key: str) -> None:
    """Raise `ValueError` when only one of user and password is set. `..._key`: names of the settings."""
    if user is not None and password is None:
        raise ValueError(f"{password_key}: is missing, and {user_key} needs it")
    if user is None and password is not None:
        raise ValueError(f"{user_key}: is missing, and {password_key} needs it: set the user, or remove the password")


HostPort = Annotated[str, AfterValidator(_checked_host_port)]


class ProxyTable(Table):
    """The proxy of the I2P router on this machine: the only interface that a client needs."""

    proxy: HostPort = "127.0.0.1:4444"
    """Address of the router's HTTP proxy, by which others are reached; with `way = "socks5"`, of the SOCKS proxy."""
    way: Literal["get", "connect", "socks5"] = "get"
    """Way through the proxy. "get": as proposal 150 says. "connect": HTTP CONNECT. "socks5": SOCKS."""
    proxy_user: str | None = None
    """User for a proxy that asks for a login: Basic or Digest, or SOCKS5's own. The password is in a private file."""
    beyond_loopback: bool = False
    """Whether the proxy may be on another machine: anybody who sees that network can then read along."""

    @property
    def _plain_interfaces(self) -> tuple[str, ...]:
        """Names of the interfaces to which traffic is not encrypted."""
        return ("proxy",)

    @model_validator(mode="after")
    def _must_be_local(self) -> Self:
        for name in self._plain_interfaces:
            host, _ = host_and_port(getattr(self, name))
            if not self.beyond_loopback and not ip_address(host).is_loopback:
                raise ValueError(
                    f"{name}: {host} is another machine, and traffic to it is not encrypted: run the router on this "
                    "machine, or set beyond_loopback = true if nobody else can see that network"
                )
        return self

    def settings(self, password: str | None) -> ProxySettings:
        """Return endpoint and kind of the proxy, and the login there.

        Raises `TransportError` for a login that the proxy cannot take. `password`: the password of `proxy_user`; None
        without a user.
        """
        return ProxySettings(*host_and_port(self.proxy), ProxyMethod(self.way), self.proxy_user, password)


class ClientProxyTable(ProxyTable):
    """The proxy in a client's file, which is private and has the password, too."""

    proxy_password: SecretStr | None = None
    """Password of `proxy_user`."""

    @model_validator(mode="after")
    def _login_fits(self) -> Self:
        check_pair(self.proxy_user, self.password, "proxy_user", "proxy_password")
        try:
            self.settings(self.password)
        except TransportError as error:
            raise ValueError(str(error).rstrip(".")) from error
        return self

    @property
    def password(self) -> str | None:
        """The password; None without a user. A secret."""
        return None if self.proxy_password is None else self.proxy_password.get_secret_value()


class RouterTable(ProxyTable):
    """The I2P router beside this node. The router's interfaces are plain TCP, so loopback is required by default.

    Only I2CP can have TLS, and can then be on another machine. Passwords are in `secrets.toml`, or in `leaf.toml`.
    """

    inbound: Literal["sam", "tunnel"] = "sam"
    """The way by which streams reach this node. "sam": the node opens a SAM session. "tunnel": the operator has
    configured a server tunnel in the router, to `node.listen`."""
    sam: HostPort = "127.0.0.1:7656"
    """Address of the router's SAM interface."""
    sam_user: str | None = None
    """User for a Java router whose SAM asks for a login."""
    destination: PathText = DESTINATION_FILE
    """File of this node's keys inside I2P; for `inbound = "sam"`."""
    session: Annotated[Mapping[str, str], AfterValidator(check_options)] = Field(default={})
    """I2CP options of the session's tunnels."""
    i2cp: HostPort = "127.0.0.1:7654"
    """Address of the router's I2CP interface, for publishing and for the lease sets of leaves."""
    i2cp_user: str | None = None
    """User for a Java router with `i2cp.auth`."""
    i2cp_tls: Literal["off", "fingerprint", "system"] | None = None
    """For a Java router with `i2cp.SSL`. "fingerprint": I2CP's certificate has the `i2cp_fingerprint`. "system": this
    system's CAs vouch for the certificate. Absent: "fingerprint" if `i2cp_fingerprint` is set, otherwise no TLS."""
    i2cp_fingerprint: Annotated[str, AfterValidator(check_fingerprint)] | None = None
    """SHA-256 of I2CP's certificate."""
    i2cp_tls_name: str | None = None
    """The name in the certificate with `i2cp_tls = "system"`, when the address is not in the certificate."""
    kind: Literal["auto", "i2pd", "java"] = "auto"
    """The router's program. "auto": the node asks the router."""
    i2pcontrol: Annotated[str, AfterValidator(check_url)] | None = None
    """URL of the router's i2pcontrol (JSON-RPC); absent: the node does not ask the router for figures."""
    i2pcontrol_fingerprint: Annotated[str, AfterValidator(check_fingerprint)] | None = None
    """SHA-256 of the certificate of the `i2pcontrol` URL."""
    i2pcontrol_accept_any: bool = False
    """Whether the node accepts any certificate of the `i2pcontrol` URL."""
    i2pcontrol_few_tunnels: bool = False
    """Whether this i2pd has so few tunnels that a list of them does not crash the router."""

    info_file: PathText | None = None
    """The router's own file `router.info`, for the node's records. Absent: the records do not have the router info, by
    which every reader of the farm's log would know the router and its IP addresses."""

    @property
    def has_i2cp_tls(self) -> bool:
        """Whether I2CP runs over TLS."""
        return self.i2cp_fingerprint is not None or self.i2cp_tls == "system"

    @property
    def _plain_interfaces(self) -> tuple[str, ...]:
        return ("proxy", "sam") if self.has_i2cp_tls else ("proxy", "sam", "i2cp")

    @model_validator(mode="after")
    def _tls_fits(self) -> Self:
        if self.i2cp_tls == "fingerprint" and self.i2cp_fingerprint is None:
            raise ValueError(
                'i2cp_fingerprint: is missing, and i2cp_tls = "fingerprint" needs it: set it, or leave i2cp_tls out '
                "and run `gf-i2p doctor`, which shows the fingerprint of the router's certificate"
            )
        if self.i2cp_tls in {"off", "system"} and self.i2cp_fingerprint is not None:
            raise ValueError(
                f'i2cp_fingerprint: cannot stand beside i2cp_tls = "{self.i2cp_tls}": remove one of the two'
            )
        if self.i2cp_tls_name is not None and self.i2cp_tls != "system":
            raise ValueError('i2cp_tls_name: counts only with i2cp_tls = "system": remove the name, or set that')
        return self


class LeafSettings(Table):
    """One leaf that a server or a leaf member reports."""

    leaf: str | None = None
    """The service's destination on this router: a b32 address, or with i2pcontrol the name of its tunnel."""
    leaf_service: Annotated[str, AfterValidator(_checked_target)] | None = None
    """Address of the service behind `leaf`, plain TCP. The leaf is down while the service does not answer."""
    leaf_forward: Annotated[str, AfterValidator(_checked_target)] | None = None
    """Address at which the node takes the connections of the router's tunnel, counts them and passes them on."""
    leaf_connections: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Most connections through `leaf_forward` at a time; further ones are closed."""
    leaf_bandwidth_kib: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    """Bandwidth in KiB a second, of both directions, that counts as full for the leaf's cost."""


class LeavesTable(LeafSettings):
    """All leaves of a server or a leaf member: the usual one, and further leaves with the same settings."""

    leaves: Annotated[tuple[LeafSettings, ...], Field(strict=False)] = ()
    """Tables `[[publish.leaves]]`: further leaves."""

    @property
    def all_leaves(self) -> tuple[LeafSettings, ...]:
        """The settings of each leaf, the usual leaf first."""
        return self.leaves if self.leaf is None else (self, *self.leaves)


def check_leaves(
    publish: LeavesTable,
    router: RouterTable,
    *,
    most: int = MAX_LEAVES,
    taken: Mapping[str, tuple[str, int]] | None = None,
) -> None:
    """Raise `ValueError` when the settings of leaves do not fit together, or do not fit this router.

    `most`: greatest number of leaves. `taken`: host and port of this program's other listeners, by name of the setting.
    """
    tables = {"publish": publish, **{f"publish.leaves[{each}]": one for each, one in enumerate(publish.leaves, 1)}}
    if len(publish.all_leaves) > most:
        raise ValueError(f"publish.leaves: there are {len(publish.all_leaves)} leaves, and the most are {most}")
    leaves: dict[str | bytes, str] = {}
    listeners = {name: _place(host, port) for name, (host, port) in (taken or {}).items()}
    interfaces = _interfaces(router)
    forwards: dict[str, _Place] = {}
    for table, settings in tables.items():
        if settings.leaf is None and settings is not publish:
            raise ValueError(f"{table}.leaf: is missing: give the address of this leaf, or remove the table")
        _check_leaf(table, settings, router)
        if settings.leaf is not None and (other := leaves.setdefault(_identity(settings.leaf), table)) != table:
            raise ValueError(f"{table}.leaf: {other}.leaf is the same leaf: remove one of the two")
        if settings.leaf_forward is not None:
            setting, place = f"{table}.leaf_forward", _place(*host_and_port(settings.leaf_forward))
            here = {**listeners, **forwards}
            met = [name for name, one in here.items() if _meet(place, one, here=True)]
            met += [name for name, one in interfaces.items() if _meet(place, one)]
            if met:
                raise ValueError(f"{setting}: is the address of {met[0]}: name another port")
            forwards[setting] = place
    for table, settings in tables.items():
        if settings.leaf_service is None:
            continue
        service = _place(*host_and_port(settings.leaf_service))
        forward = next((name for name, place in forwards.items() if _meet(place, service)), None)
        if forward is not None:
            raise ValueError(f"{table}.leaf_service: is the address of {forward}: name the service's own address")


def _identity(leaf: str) -> str | bytes:
    """Return the same value for the same leaf. Upper and lower case count in a tunnel's name, not in an address."""
    return from_b32_address(leaf) if is_b32_address(leaf) else leaf


_Address = IPv4Address | IPv6Address
_Place = tuple[_Address, int]
"""IP address and port, however the address is written."""


def _address(host: str) -> _Address | None:
    """Return the IP address; None for a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _place(host: str, port: int) -> _Place:
    """Return the place of a listener. A name's addresses are not known here, so a name stands for all addresses."""
    return _address(host) or IPv4Address(0), port


def _meet(forward: _Place, other: _Place, *, here: bool = False) -> bool:
    """Whether a forwarder at `forward` would take the connections for `other`.

    `here`: whether `other` is surely on this machine.
    """
    (address, port), (other_address, other_port) = forward, other
    if port != other_port:
        return False
    if address == other_address or other_address.is_unspecified:
        return True
    return address.is_unspecified and (here or other_address.is_loopback)


def _interfaces(router: RouterTable) -> dict[str, _Place]:
    """Return the places of the router's interfaces, by the name of the setting."""
    places = {f"router.{name}": _place(*host_and_port(getattr(router, name))) for name in ("proxy", "sam", "i2cp")}
    if router.i2pcontrol is not None:
        url = urlsplit(router.i2pcontrol)
        host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        if host == "localhost" or _address(host) is not None:
            places["router.i2pcontrol"] = _place(host, port)
    return places


def _check_leaf(table: str, settings: LeafSettings, router: RouterTable) -> None:
    leaf, service = settings.leaf, settings.leaf_service
    if settings.leaf_forward is not None and service is None:
        raise ValueError(f"{table}.leaf_forward: leads to {table}.leaf_service, which is missing: set it, too")
    if service is not None:
        if leaf is None:
            raise ValueError(f"{table}.leaf_service: is the service behind {table}.leaf, which is missing: set it, too")
        for name, address in (("leaf_service", service), ("leaf_forward", settings.leaf_forward)):
            if address is None or router.beyond_loopback or ip_address(host_and_port(address)[0]).is_loopback:
                continue
            raise ValueError(
                f"{table}.{name}: {address} is on another machine: name an address of this machine, or set "
                "router.beyond_loopback = true if nobody else can see the network between"
            )
    if leaf is None or is_b32_address(leaf):
        return
    if router.i2pcontrol is None:
        raise ValueError(
            f"{table}.leaf: {leaf[:80]!r} is no b32 address. Only i2pd can give the address of a tunnel of this name, "
            "by router.i2pcontrol, which is not set: give the address"
        )
    if not router.i2pcontrol_few_tunnels:
        raise ValueError(
            f"{table}.leaf: {leaf[:80]!r} is no b32 address, and a question for its tunnels can kill an i2pd that has "
            "more than a few: give the address, or set router.i2pcontrol_few_tunnels = true"
        )


class ServiceTable(Table):
    """The local service behind the master's address, with `mode = "failover"`."""

    target: Annotated[str, AfterValidator(_checked_target)]
    """Address of the service: plain TCP."""
    http: bool = False
    """Whether the service speaks HTTP and is told the client's address, as by the routers' own HTTP server tunnels."""
    max_streams: Annotated[int, Field(ge=1, le=2048)] = MAX_STREAMS
    """Most streams of clients at a time. When there are more, streams of the most crowded destination give way."""
    max_streams_per_destination: Annotated[int, Field(ge=1, le=2048)] = MAX_STREAMS_PER_DESTINATION
    """Most streams of one client destination at a time."""
    beyond_loopback: bool = False
    """Whether the service may be on another machine: anybody who sees that network can then read along."""
    session: Annotated[Mapping[str, str], AfterValidator(check_options)] = Field(default={})
    """I2CP options of the session's tunnels."""

    @model_validator(mode="after")
    def _must_be_local(self) -> Self:
        host, _ = host_and_port(self.target)
        if not self.beyond_loopback and not ip_address(host).is_loopback:
            raise ValueError(
                f"target: {host} is another machine, and traffic to it is not encrypted: run the service on this "
                "machine, or set beyond_loopback = true if nobody else can see that network"
            )
        return self


class PublishTable(LeavesTable):
    """Publishing for the farm's master, and the leaves that this server reports."""

    mode: Literal["off", "dry-run", "meta", "failover"] = "off"
    """Mode of publishing when this server is chosen; the same on all servers of a farm."""
    publish: Literal["auto", "on", "off"] = "auto"
    """Whether this server may be chosen. "on": before servers with "auto"; "off": never, but its leaf is listed."""
    keys: PathText = MASTER_FILE
    """The master's private keys, or delegated ones, in the file format of both routers."""
    master: Annotated[str, AfterValidator(_checked_address)] | None = None
    """The master's b32 address, for `gf-i2p bridge serve` on a server that has no keys of the master."""
    leaf_farm: PathText | None = None
    """In the place of `leaf`, a nested farm, whose master is this server's leaf. Either the directory of that farm's
    server in this process, relative to this node's directory, or that master's b32 address."""
    status_seconds: Annotated[float, Field(ge=1, le=30)] = 30.0
    """Seconds between two status records when nothing changes. At most 30: other servers take a silent server for dead
    after 105 s, unless an administrator has set another time."""
    sense_minutes: Annotated[int, Field(ge=0, le=1440)] = 0
    """Minutes in which each destination of the farm is tried once through the network; 0: never."""
    service: ServiceTable | None = None
    """The table `[publish.service]`: needed with `mode = "failover"`."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.mode == "failover" and self.service is None:
            raise ValueError(
                'service: is missing, and with mode = "failover" the master leads to a service on this machine: add '
                '[publish.service] with target = "127.0.0.1:8080", or the address of your service'
            )
        return self


class BridgeTable(Table):
    """The table `[bridge]`: settings of `gf-i2p bridge serve`. Paths are relative to the node's directory."""

    listen: HostPort = "127.0.0.1:7651"
    """Address at which the endpoint takes calls."""
    plain: bool = False
    """Whether the endpoint speaks HTTP without TLS; for loopback only."""
    certificate: PathText = BRIDGE_CERTIFICATE_FILE
    """File with the endpoint's certificate."""
    key: PathText = BRIDGE_KEY_FILE
    """File with the private key. Certificate and key are made at the first start if neither is there."""
    sign_entries: bool = False
    """Whether callers may publish plain entries, which the endpoint signs with `publish.keys`."""

    @model_validator(mode="after")
    def _plain_must_be_local(self) -> Self:
        host, _ = host_and_port(self.listen)
        if self.plain and not ip_address(host).is_loopback:
            raise ValueError(
                f"listen: {host} can be reached from other machines, and plain HTTP would show them the password: "
                "remove plain = true, or listen on 127.0.0.1"
            )
        return self
