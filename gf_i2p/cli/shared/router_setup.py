"""Builds a node's access to the I2P router beside it, from the node's configuration."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from bridges.hosting_protocol import ServiceHosting
from bridges.i2cp.ping_session import OPTIONS, PingSession
from bridges.i2cp.publisher import I2cpPublisher
from bridges.i2cp.service_hosting import I2cpHosting
from bridges.i2cp.settings import I2cpSettings, RouterKind
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.router_status import I2pControl
from bridges.leaf_liveness import LeafLiveness
from bridges.publisher_choice import PublisherChoice
from bridges.router import LocalRouter
from bridges.sam.client import Sam
from bridges.sam.inbound_session import SamInbound
from gf_i2p.netdb.encoding import from_b32_address
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets, check_private
from gf_i2p.node.files.router_logins import RouterLogins, RouterPasswords, proxy_settings
from gf_i2p.node.files.router_settings import LeavesTable, RouterTable, host_and_port, is_b32_address
from gf_i2p.node.publish.publishing_keys import PublishingKeys, load_publishing_keys
from gf_i2p.transport.i2p.i2p_listener import ConfiguredTunnel, Inbound
from gf_i2p.transport.i2p.i2p_transport import I2pTransport
from gf_i2p.transport.i2p.session_dialler import TwoWayTransport
from gf_i2p.transport.interface import Transport
from gf_i2p.wire.endpoint import Endpoint


def i2p_transport(directory: Path, config: Config, secrets: Secrets) -> Transport | None:
    """Make the transport through I2P; None without a router.

    When the node's own endpoint is inside I2P, the transport also takes incoming connections. Raises `ConfigError`.
    """
    router = config.router
    if router is None:
        return None
    inbound: Inbound | None = None
    session: SamInbound | None = None
    if config.own_endpoint.is_i2p:
        if router.inbound == "sam":
            keys = own_keys(directory, config, router)
            inbound = session = SamInbound(
                sam(router, secrets), keys, router.session, i2cp=i2cp_settings(router, secrets)
            )
        else:
            inbound = ConfiguredTunnel()
    listen = Endpoint.parse(config.node.listen)
    proxy = proxy_settings(router, RouterLogins.of(router, secrets))
    transport = I2pTransport(proxy, inbound=inbound, host=listen.host, port=listen.port)
    return transport if session is None else TwoWayTransport(transport, session, config.node.cluster)


def master_keys(directory: Path, config: Config) -> PublishingKeys | None:
    """Read the keys with which this node may publish; None when the node never publishes. Raises `ConfigError`."""
    if config.publish.mode == "off":
        return None
    path = directory / config.publish.keys
    if config.publish.publish == "off" and not path.exists():
        return None  # this node never signs a set
    if not path.exists():
        raise ConfigError(
            f"{path} does not exist, and publish.mode is {config.publish.mode!r}: put there the file that `gf-i2p keys "
            "delegate` makes for this server, or the private key file of the master's destination, with mode 0600."
        )
    keys = load_publishing_keys(path)
    if keys.destination.b32 in {(each.leaf or "").lower() for each in config.publish.all_leaves}:
        raise ConfigError(
            "publish.leaf: this is the address of the master, so the set would lead to itself: give the address that "
            "the service has on this router."
        )
    return keys


def master_hash(directory: Path, config: Config) -> bytes | None:
    """Return the hash of the master that this node's leaf serves; None: not known. Raises `ConfigError`."""
    if config.publish.master is not None:
        return from_b32_address(config.publish.master)
    path = directory / config.publish.keys
    return load_publishing_keys(path).destination.hash if path.exists() else None


def router_bridge(config: Config, secrets: Secrets) -> LocalRouter | None:
    """Make the bridge that asks the router and publishes; None without a router. Raises `ConfigError`."""
    router = config.router
    if router is None:
        return None
    control = i2pcontrol(router, secrets)
    settings = i2cp_settings(router, secrets)
    i2cp = I2cpPublisher(settings)
    publisher = i2cp if control is None else PublisherChoice(control, i2cp)
    publish = config.publish
    leaves = names_of(publish)
    liveness = leaf_liveness(leaves, router, settings)
    if publish.leaf_farm is not None and is_b32_address(publish.leaf_farm):
        leaves = (publish.leaf_farm,)  # the master of a farm elsewhere; a master answers no pings
    return LocalRouter(sam(router, secrets), publisher, settings, control, leaves, liveness=liveness)


def names_of(publish: LeavesTable) -> tuple[str, ...]:
    """Return the configured leaves: addresses, or names of tunnels."""
    return tuple(each.leaf for each in publish.all_leaves if each.leaf is not None)


def leaf_liveness(leaves: Iterable[str], router: RouterTable, settings: I2cpSettings) -> dict[str, LeafLiveness]:
    """Make for each leaf the object that pings the leaf; return these objects by leaf.

    The tunnels of the pings have the options that the operator has set for the node's own session.
    """
    options = {**OPTIONS, **router.session}
    return {leaf: LeafLiveness(PingSession(settings, options=options)) for leaf in leaves}


def service_hosting(config: Config, secrets: Secrets) -> ServiceHosting | None:
    """Make the hosting of the master's address in mode `failover`; None in other modes. Raises `ConfigError`."""
    if config.router is None or config.publish.mode != "failover":
        return None
    return I2cpHosting(i2cp_settings(config.router, secrets))


def check_logins(router: RouterTable | None, passwords: RouterPasswords) -> None:
    """Raise `ConfigError` when the users and the passwords of a router do not fit together."""
    if router is None:
        return
    proxy_settings(router, RouterLogins.of(router, passwords))
    sam(router, passwords)
    i2cp_settings(router, passwords)


def check_login(name: str, router: RouterTable, passwords: RouterPasswords) -> None:
    """Raise `ConfigError` when one login cannot be used: its user and its password do not fit together, or to a router.

    `name`: of the interface, one of `LOGINS`. The other logins are not looked at.
    """
    others = {each for each in LOGINS if each != name}
    router = router.model_copy(update={f"{each}_user": None for each in others - {"i2pcontrol"}})
    passwords = passwords.model_copy(update={f"{each}_password": None for each in others})
    _LOGIN_CHECKS[name](router, passwords)


def is_password_at_fault(name: str, router: RouterTable, passwords: RouterPasswords) -> bool:
    """Whether a login that `check_login` refuses would be fine with another password."""
    try:
        check_login(name, router, passwords.model_copy(update={f"{name}_password": SecretStr("another")}))
    except ConfigError:
        return False
    return True


def i2pcontrol(router: RouterTable, passwords: RouterPasswords) -> I2pControl | None:
    """Make the client of the router's i2pcontrol; None when i2pcontrol is not configured. Raises `ConfigError`."""
    if router.i2pcontrol is None:
        return None
    password = passwords.i2pcontrol_password
    if password is None:
        raise ConfigError(f"{passwords.file_name}: i2pcontrol_password: is missing, and router.i2pcontrol needs it")
    try:
        access = I2pControlAccess(
            router.i2pcontrol,
            password.get_secret_value(),
            fingerprint=router.i2pcontrol_fingerprint,
            any_certificate=router.i2pcontrol_accept_any,
        )
    except ValueError as error:
        raise ConfigError(f"router: {error}") from error
    return I2pControl(access, ask_for_tunnels=router.i2pcontrol_few_tunnels)


def sam(router: RouterTable, passwords: RouterPasswords) -> Sam:
    """Make the client of the router's SAM, with the login, if one is configured. Raises `ConfigError`."""
    login = RouterLogins.of(router, passwords).sam
    try:
        if login is None:
            return Sam(*host_and_port(router.sam))
        return Sam(*host_and_port(router.sam), login.user, login.password)
    except ValueError as error:
        raise ConfigError(f"router: {error}") from error


def i2cp_settings(router: RouterTable, passwords: RouterPasswords) -> I2cpSettings:
    """Return the settings for the router's I2CP, with the login, if one is configured. Raises `ConfigError`."""
    host, port = host_and_port(router.i2cp)
    login = RouterLogins.of(router, passwords).i2cp
    try:
        return I2cpSettings(
            host,
            port,
            RouterKind(router.kind),
            fingerprint=router.i2cp_fingerprint,
            system_ca=router.i2cp_tls == "system",
            tls_name=router.i2cp_tls_name,
            username=None if login is None else login.user,
            password=None if login is None else login.password,
            allow_plain=router.beyond_loopback,
        )
    except ValueError as error:
        raise ConfigError(f"router: {error}") from error


def own_keys(directory: Path, config: Config, router: RouterTable) -> DestinationKeys:
    """Read the keys of this node's address inside I2P. Raises `ConfigError`, also for the keys of another address."""
    path = directory / router.destination
    keys = read_keys(path)
    if keys.destination.b32 != config.own_endpoint.host:
        raise ConfigError(
            f"{path} holds the keys of {keys.destination.b32}, but by the list of servers this node is "
            f"{config.own_endpoint.host}: put the right file or the right address there."
        )
    return keys


def read_keys(path: Path) -> DestinationKeys:
    """Read a router's private key file. Raises `ConfigError`, also when others could read the file."""
    check_private(path)
    try:
        return DestinationKeys.parse(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except NetDbError as error:
        raise ConfigError(f"{path} is not a private key file of an I2P destination: {error}.") from error


_LOGIN_CHECKS: Final[Mapping[str, Callable[[RouterTable, RouterPasswords], object]]] = {
    "proxy": lambda router, passwords: proxy_settings(router, RouterLogins.of(router, passwords)),
    "sam": sam,
    "i2cp": i2cp_settings,
    "i2pcontrol": i2pcontrol,
}
LOGINS: Final = tuple(_LOGIN_CHECKS)
"""Names of the interfaces that may ask for a login."""
