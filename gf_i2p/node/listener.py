"""The listener of a process: one listening socket and one gate, for one farm or for several.

Farms whose directories have the same `node.listen` share a listener. The path of the HTTP request names the farm
(docs/design/access.md). Until a connection has authenticated, the connection belongs to no farm. So the listener has
one certificate, one limit for all such connections, and one deadline.

Farms that share a listener must have the same certificate, or the same destination inside I2P. The server sends its
certificate before the peer names a farm. TLS could name the farm earlier, by SNI, but an observer could read that name.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.netdb.destination import Destination
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.transport.connection_gate import Gate
from gf_i2p.transport.interface import Listener, Transport
from gf_i2p.transport.served import Served
from gf_i2p.transport.server import Server
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.endpoint import Endpoint

MAX_FARMS: Final = 64
"""Most farms in one process: each farm has a log, threads for the disk, and connections to all its servers."""


class SharedListener:
    """One listening socket for the farms of the given names.

    The first `open` or `enter` opens the socket. The socket closes when each of the farms has left.
    """

    def __init__(self, transport: Transport, farms: Collection[str], *, tls: TlsTransport | None = None) -> None:
        """`tls`: the TLS transport, if `reload` is to change its certificate.

        None without TLS, and when a node that is alone at this listener reloads the transport itself.
        """
        self.gate = Gate()
        self.server = Server(transport, gate=self.gate)
        self._expected = set(farms)
        self._patience: dict[str, float] = {}
        self._tls = tls

    async def open(self) -> Listener:
        """Listen, if not yet listening. Raises `TransportError` when listening is not possible."""
        return self.server.listener or await self.server.start()

    def wait_for(self, cluster: str, seconds: float) -> None:
        """Set the seconds within which the peers of a farm must authenticate.

        The gate uses the longest time of all farms, because before authentication a connection belongs to no farm.
        """
        self._patience[cluster] = seconds
        self.gate.handshake_seconds = max(self._patience.values())

    async def enter(self, cluster: str, served: Served) -> Listener:
        """Serve a farm from now on. Raises `TransportError` when listening is not possible."""
        listener = await self.open()
        self.server.serve(cluster, served)
        return listener

    async def leave(self, cluster: str, grace: float) -> None:
        """Stop serving a farm, even one that never entered. After the last farm, close the socket.

        Requests under way are answered, for at most `grace` seconds.
        """
        self._expected.discard(cluster)
        self._patience.pop(cluster, None)
        if self._expected:
            await self.server.withdraw(cluster, grace)
            self.gate.handshake_seconds = max(self._patience.values(), default=self.gate.handshake_seconds)
        else:
            await self.server.close(grace)

    def reload(self, settings: TlsSettings) -> None:
        """Use another certificate from now on. Raises `TransportError` when it cannot be used; the old one then stays.

        Does nothing without `tls`: a farm that listens alone reloads its own transport.
        """
        if self._tls is not None and settings.certificate is not None:
            self._tls.reload(TlsSettings(settings.certificate, settings.key))


# Sharing a listener -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tenant:
    """A node's directory. The node is to run in this process."""

    directory: Path
    config: Config
    master: Destination | None = None
    """The master for which the directory's node may publish."""

    @property
    def place(self) -> Endpoint:
        """The endpoint at which the node listens, with its host in lower case."""
        listen = Endpoint.parse(self.config.node.listen)
        return Endpoint(listen.host.lower(), listen.port)

    @property
    def session(self) -> str | None:
        """The address inside I2P of the node's own router session; None when the node has no such session."""
        config = self.config
        if config.router is None or config.router.inbound != "sam" or not config.own_endpoint.is_i2p:
            return None
        return config.own_endpoint.host.lower()


def tenants_by_listener(tenants: Sequence[Tenant]) -> list[list[Tenant]]:
    """Return the tenants in groups: each group shares a listener. The order stays as given.

    Raises `ConfigError` when the tenants cannot run in one process.
    """
    if len(tenants) > MAX_FARMS:
        raise ConfigError(f"One process runs up to {MAX_FARMS} farms, not {len(tenants)}: run the others in another.")
    _check_apart(tenants)
    listeners: dict[Endpoint, list[Tenant]] = {}
    for tenant in tenants:
        listeners.setdefault(tenant.place, []).append(tenant)
    for listener in listeners.values():
        for other in listener[1:]:
            _check_together(listener[0], other)
        _check_names(listener)
    sessions: dict[str, Tenant] = {}
    for tenant in tenants:
        address = tenant.session
        if address is not None and (first := sessions.setdefault(address, tenant)).place != tenant.place:
            raise ConfigError(
                f"{first.directory} and {tenant.directory} have the same destination, {address}, and listen at "
                "different places: a router keeps one session for a destination. Give them the same node.listen, or "
                "each a destination of its own."
            )
    return list(listeners.values())


def _check_apart(tenants: Sequence[Tenant]) -> None:
    """Refuse a directory named twice, and two directories that would publish for one master."""
    directories: dict[Path, Path] = {}
    masters: dict[bytes, Path] = {}
    for tenant in tenants:
        directory = tenant.directory.resolve()
        if directory in directories:
            raise ConfigError(f"{directories[directory]} and {tenant.directory} are the same directory: name it once.")
        directories[directory] = tenant.directory
        if tenant.master is not None:
            other = masters.setdefault(tenant.master.hash, tenant.directory)
            if other != tenant.directory:
                raise ConfigError(
                    f"{other} and {tenant.directory} would both publish for {tenant.master.b32}: the netDb has one "
                    "place for a destination, and each farm would replace the other's set. Give each farm its own "
                    'master, or set publish.mode = "off" in one.'
                )


def _check_names(listener: Iterable[Tenant]) -> None:
    names: dict[str, Tenant] = {}
    for tenant in listener:
        cluster = tenant.config.node.cluster
        other = names.setdefault(cluster, tenant)
        if other is not tenant:
            raise ConfigError(
                f"{other.directory} and {tenant.directory} are both of a farm {cluster!r} and listen at "
                f"{tenant.place}: a request names only the farm, and could mean either. Give one of them another "
                "node.listen."
            )


def _check_together(first: Tenant, second: Tenant) -> None:
    """Refuse two tenants that have the same `node.listen` and cannot share a listener."""
    conflict = f"{first.directory} and {second.directory} both listen at {first.place}"
    if first.config.own_endpoint.is_i2p != second.config.own_endpoint.is_i2p:
        raise ConfigError(
            f"{conflict}, one for a router's streams and one for TLS: give one of them another node.listen."
        )
    if not first.config.own_endpoint.is_i2p:
        first_certificate, second_certificate = (_certificate(tenant) for tenant in (first, second))
        if first_certificate != second_certificate:
            raise ConfigError(
                f"{conflict}, and have different certificates, but a peer gets one before the peer names a farm. Give "
                "both the same tls.certificate and tls.key (its fingerprint stands in the files of both farms' "
                "servers and clients), or one of them another node.listen."
            )
        return
    if first.session != second.session:
        raise ConfigError(
            f"{conflict}, and have different addresses inside I2P: give one of them another node.listen on this "
            "machine, which costs nothing, or both the same destination file and address."
        )
    if first.session is not None and _router(first) != _router(second):
        raise ConfigError(
            f"{conflict} with the same destination, which can have only one session: give both the same [router] table "
            "(all but i2cp, i2pcontrol and the file's path), or one of them another node.listen and destination."
        )


def _certificate(tenant: Tenant) -> tuple[bytes, bytes]:
    tls = tenant.config.tls
    try:
        return (tenant.directory / tls.certificate).read_bytes(), (tenant.directory / tls.key).read_bytes()
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _router(tenant: Tenant) -> tuple[object, ...]:
    """Return the router settings that determine the session and the outbound connections, to compare two tenants."""
    router = tenant.config.router
    assert router is not None
    return router.sam, router.sam_user, dict(router.session), router.proxy, router.proxy_user, router.way
