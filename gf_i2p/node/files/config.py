"""The configuration of a node: `gf-i2p.toml` and `secrets.toml` in its directory."""

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from gf_i2p.node.access.budgets import Limits
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.consensus.timing import RANGE_INSIDE_I2P, RANGE_OUTSIDE_I2P, Range, TimingPlan
from gf_i2p.node.files import admitted
from gf_i2p.node.files.admitted import AdmittedServer
from gf_i2p.node.files.checked_read import (
    ConfigError,
    NoNodeDirectoryError,
    PathText,
    Table,
    check_mode,
    load_table,
    read_text,
    table_of,
)
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.node.files.router_logins import RouterPasswords
from gf_i2p.node.files.router_settings import (
    BridgeTable,
    PublishTable,
    RouterTable,
    check_leaves,
    host_and_port,
)
from gf_i2p.node.files.server_tables import (
    RemovedTable,
    ServerId,
    ServerTable,
    UserTable,
    check_endpoint,
    check_name_of_user,
)
from gf_i2p.raft import settings
from gf_i2p.storage.history_writer import Rotation
from gf_i2p.wire.digest import Secret, Verifier
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.key_credentials import Login
from gf_i2p.wire.key_proof import PublicKey
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.names import check_name


def check_name_of_cluster(text: str) -> str:
    """Return the text if it can name a cluster; raises `ValueError` otherwise."""
    return check_name("cluster name", text)


def _private_key(text: SecretStr) -> SecretStr:
    LoginKey.parse(text.get_secret_value())
    return text


PrivateKeyText = Annotated[SecretStr, AfterValidator(_private_key)]
"""The text of a private key, see `LoginKey`."""


def check_login(key: SecretStr | None, password: SecretStr | None) -> None:
    """Raise `ValueError` unless there is a key, or a password that is not empty."""
    if key is None and password is None:
        raise ValueError("key: is missing, or for peers that know Digest only, password")
    if password is not None and not password.get_secret_value():
        raise ValueError("password: is empty")


def login_of(user: str, keys: tuple[LoginKey, ...], password: SecretStr | None) -> Login:
    """Return all by which a user logs in, from the values of the user's file."""
    return Login(user, None if password is None else password.get_secret_value(), keys)


Seconds = Annotated[float, Field(ge=0.01, le=3600)]  # timers and disks are no more exact than 0.01 s


MAX_FORMER_KEYS: Final = 8
MIN_PASSWORD: Final = 16
"""Least characters of the bridge's password: a stranger may try as many passwords as the endpoint can answer."""


LOG_MIB: Final = 512
"""MiB of the disk budget that are kept for the log: `view.KEPT_BYTES` twice, a snapshot, and SQLite's companions."""


class NodeTable(Table):
    """The table `[node]`: id, farm, endpoint and listening address of this node."""

    id: ServerId
    """Id of this server in the farm. A new directory, or an older copy, needs a new id."""
    cluster: Annotated[str, AfterValidator(check_name_of_cluster)] = "farm"
    """Name of the farm, the same on all servers."""
    listen: Annotated[str, AfterValidator(check_endpoint)]
    """Endpoint on this machine at which the node takes connections, as `tcp://0.0.0.0:4150`. With an I2P router, the
    router brings the connections of the others there."""
    join: bool = False
    """Whether this server asks to join an existing farm."""


class TimingTable(Table):
    """The table `[timing]`: a profile of time-outs. Each other value, in seconds, replaces the profile's value."""

    profile: Literal["auto", "lan", "i2p"] = "auto"
    """With "lan" the heartbeat is 0.1 s, and an election begins after 0.5 to 1 s. "i2p": 5 s, and 20 to 50 s. "auto":
    between the two, as the node measures. All servers of a farm should have the same profile."""
    heartbeat: Seconds | None = None
    """Seconds between two heartbeats of a leader."""
    election_min: Seconds | None = None
    """Least seconds without a leader before an election: at least twice the heartbeat."""
    election_max: Seconds | None = None
    """Most such seconds: at least 1.2 times `election_min`."""

    @model_validator(mode="after")
    def _can_work(self) -> Self:
        self.plan(RANGE_OUTSIDE_I2P)
        return self

    def plan(self, limits: Range) -> TimingPlan:
        """Return the plan of the time-outs within these limits of the farm."""
        return TimingPlan(
            self.profile,
            limits,
            fixed={"auto": None, "lan": settings.LAN, "i2p": settings.I2P}[self.profile],
            heartbeat=self.heartbeat,
            election_min=self.election_min,
            election_max=self.election_max,
        )


class TlsTable(Table):
    """The node's own certificate, and the CA for other servers. Paths are relative to the node's directory."""

    certificate: PathText = "certificate.pem"
    """File with the node's certificate."""
    key: PathText = "key.pem"
    """File with the private key of that certificate, mode 0600."""
    ca: PathText | None = None
    """File with the CA certificates that vouch for servers without a fingerprint."""


class LoggingTable(Table):
    """Level and format of log messages."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level of the lines that are written."""
    format: Literal["text", "json"] = "text"
    """Form of a line: text for people, or one JSON object."""


class MonitoringTable(Table):
    """The table `[monitoring]`: health and figures for a monitoring system, without a login."""

    listen: str | None = None
    """IP address and port; absent: nothing listens."""
    beyond_loopback: bool = False
    """Whether the address may be other than loopback: then everybody who reaches the address can read the figures."""

    @model_validator(mode="after")
    def _on_loopback(self) -> Self:
        if self.listen is not None:
            host, _ = host_and_port(self.listen, "127.0.0.1:9150")
            if not self.beyond_loopback and not ip_address(host).is_loopback:
                raise ValueError(
                    f"monitoring.listen: everybody who reaches {host} could read the figures: use 127.0.0.1, or set "
                    "monitoring.beyond_loopback = true if only your machines reach that address"
                )
        return self

    @property
    def address(self) -> tuple[str, int] | None:
        """The address and the port to listen on; None: nothing listens."""
        return None if self.listen is None else host_and_port(self.listen)


class HistoryTable(Table):
    """The table `[history]`: the export of committed entries to files."""

    enabled: bool = True
    """Whether the node writes the history."""
    rotate_mib: Annotated[int, Field(ge=1, le=65_536)] = 64
    """MiB of a file at which the file is packed, and a new file begins."""
    rotate_hours: Annotated[int, Field(ge=1, le=8_760)] = 24
    """Hours after which the same happens."""
    keep_days: Annotated[int, Field(ge=0, le=36_500)] = 0
    """Days until packed files are removed; 0: never."""
    max_mib: Annotated[int, Field(ge=0, le=1 << 24)] = 16_384
    """Most MiB of log and history together; 0: no limit."""
    when_full: Literal["refuse", "remove"] = "refuse"
    """At that limit, clients' posts are refused, or the oldest packed files are removed."""

    @property
    def rotation(self) -> Rotation:
        """The limits of each file and of all files together, in bytes and ms."""
        return Rotation(
            bytes=self.rotate_mib << 20,
            ms=self.rotate_hours * 3_600_000,
            keep_ms=self.keep_days * 24 * 3_600_000,
            keep_bytes=max(self.max_mib - LOG_MIB, 1) << 20 if self.max_mib and self.when_full == "remove" else 0,
        )

    @model_validator(mode="after")
    def _room_for_the_log(self) -> Self:
        if 0 < self.max_mib < 2 * LOG_MIB:
            raise ValueError(f"history.max_mib: the log alone needs up to {LOG_MIB} MiB: give {2 * LOG_MIB} at least")
        return self


class LimitsTable(Table):
    """Limits for the posts of each user."""

    client_kib_per_second: Annotated[int, Field(ge=0, le=1 << 20)] = 1024
    """KiB per second of a client, an administrator or a leaf member, on average; 0: no limit."""
    server_kib_per_second: Annotated[int, Field(ge=0, le=1 << 20)] = 8192
    """KiB per second of another server, on average; 0: no limit."""
    burst_mib: Annotated[int, Field(ge=1, le=1024)] = 32
    """MiB that a user may save up, and post at once."""
    in_flight_mib: Annotated[int, Field(ge=1, le=1024)] = 32
    """MiB of a user's posts that are not answered yet."""

    @property
    def in_bytes(self) -> Limits:
        """The same limits in bytes."""
        return Limits(
            client_rate=self.client_kib_per_second << 10,
            server_rate=self.server_kib_per_second << 10,
            burst=self.burst_mib << 20,
            in_flight=self.in_flight_mib << 20,
        )


class CompatTable(Table):
    """The table `[compat]`: exceptions from the rules, for peers that are not nodes of this program."""

    digest_without_qop: bool = False
    """Whether users may log in by the Digest of RFC 2069 (MD5), which knows no qop."""


class Config(Table):
    """All settings of a node's `gf-i2p.toml`."""

    node: NodeTable
    timing: TimingTable = TimingTable()
    tls: TlsTable = TlsTable()
    logging: LoggingTable = LoggingTable()
    monitoring: MonitoringTable = MonitoringTable()
    history: HistoryTable = HistoryTable()
    limits: LimitsTable = LimitsTable()
    router: RouterTable | None = None
    publish: PublishTable = PublishTable()
    bridge: BridgeTable = BridgeTable()
    compat: CompatTable = CompatTable()
    servers: Annotated[tuple[ServerTable, ...], Field(strict=False)]
    """Tables `[[servers]]`: the servers of the farm, this one included."""
    removed: Annotated[tuple[RemovedTable, ...], Field(strict=False)] = ()
    """Tables `[[removed]]`: servers that have left the farm."""

    @model_validator(mode="after")
    def _servers_fit(self) -> Self:
        ids = [server.id for server in self.servers]
        if len(set(ids)) != len(ids):
            raise ValueError("servers: two of them have the same id")
        at: dict[str, int] = {}
        for server in self.servers:
            if (other := at.setdefault(server.endpoint, server.id)) != server.id:
                raise ValueError(
                    f"servers: two servers have the same endpoint, {server.endpoint}: {other} and {server.id}. Take "
                    "out the table of the server that has left the farm, or correct an endpoint"
                )
        if self.node.id not in ids:
            raise ValueError(f"servers: this node's id, {self.node.id}, is not among them")
        return self

    @model_validator(mode="after")
    def _router_fits(self) -> Self:
        router, listen = self.router, Endpoint.parse(self.node.listen)
        if listen.is_i2p:
            raise ValueError(
                f"node.listen: {listen.host} lies inside I2P: give an address of this machine, where the router brings "
                "incoming streams, as tcp://127.0.0.1:4150"
            )
        for number, server in enumerate(self.servers, 1):
            if server.fingerprint is not None and Endpoint.parse(server.endpoint).is_i2p:
                raise ValueError(f"servers[{number}].fingerprint: inside I2P the address is enough; leave it out")
        if router is None:
            inside = [server.endpoint for server in self.servers if Endpoint.parse(server.endpoint).is_i2p]
            if inside:
                raise ValueError(f"router: is missing, and {inside[0]} can be reached through an I2P router only")
            if self.publish.mode != "off":
                raise ValueError(
                    f'router: is missing, and publish.mode = "{self.publish.mode}" needs the I2P router beside '
                    "this node: add the table [router]; an empty table means a router with its usual ports"
                )
            leaf_settings = ("leaf_farm", "leaf", "leaves", "leaf_service", "leaf_forward")
            needs = next((name for name in leaf_settings if getattr(self.publish, name)), None)
            if needs is not None:
                raise ValueError(
                    f"router: is missing, and publish.{needs} needs it: add the table [router]; an empty table "
                    f"means a router with its usual ports. Without a router this node posts no status: else remove "
                    f"publish.{needs}"
                )
            return self
        if self.publish.leaf_farm is not None and self.publish.all_leaves:
            other = "leaves" if self.publish.leaf is None else "leaf"
            raise ValueError(f"publish.leaf_farm: cannot stand beside publish.{other}: remove one of the two")
        taken = {"node.listen": (listen.host, listen.port), "bridge.listen": host_and_port(self.bridge.listen)}
        check_leaves(self.publish, router, taken=taken)
        if self.own_endpoint.is_i2p and not router.beyond_loopback and listen.host not in {"127.0.0.1", "::1"}:
            raise ValueError(
                f"node.listen: the router would bring streams to {listen.host} without encryption: use 127.0.0.1, or "
                "set router.beyond_loopback = true if nobody else can see that network"
            )
        return self

    @model_validator(mode="after")
    def _one_publishes(self) -> Self:
        if self.bridge.sign_entries and self.publish.mode in {"meta", "failover"}:
            raise ValueError(
                f'bridge.sign_entries: cannot stand beside publish.mode = "{self.publish.mode}": the netDb has one '
                "place for the master, and the farm publishes there. Remove sign_entries, or set publish.mode to "
                '"off" or "dry-run" on all servers'
            )
        return self

    @property
    def own_endpoint(self) -> Endpoint:
        """The endpoint at which other servers reach this node."""
        return Endpoint.parse(next(server.endpoint for server in self.servers if server.id == self.node.id))

    @property
    def plan(self) -> TimingPlan:
        """The plan of the node's time-outs; any endpoint inside I2P makes the time-outs longer."""
        inside = any(Endpoint.parse(server.endpoint).is_i2p for server in self.servers)
        return self.timing.plan(RANGE_INSIDE_I2P if inside else RANGE_OUTSIDE_I2P)

    @property
    def bootstrap(self) -> Configuration:
        """The first Configuration of a new farm; empty on a server that is to join."""
        founders = () if self.node.join else tuple(server for server in self.servers if server.founder)
        return Configuration(0, 0, tuple(ClusterServer(server.id, server.endpoint) for server in founders))

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read and check `gf-i2p.toml` in the directory, and add the servers that the log has admitted.

        Raises `ConfigError`.
        """
        path = directory / CONFIG_FILE
        if not path.exists():
            raise NoNodeDirectoryError(directory, CONFIG_FILE)
        return load_table(cls, path).with_admitted(admitted.load(directory))

    def with_admitted(self, servers: Sequence[AdmittedServer]) -> Self:
        """Return these settings with the admitted servers that nothing here contradicts.

        The servers whose places they have are removed servers.
        """
        gone = admitted.replaced(servers)
        kept = tuple(server for server in self.servers if server.id not in gone)
        more_removed = sorted(gone - {table.id for table in self.removed})
        removed = (*self.removed, *(RemovedTable(id=each) for each in more_removed))
        more = admitted.tables(kept, removed, servers)
        return self.model_copy(update={"servers": (*kept, *more), "removed": removed}) if more or gone else self


class Secrets(RouterPasswords):
    """`secrets.toml`: this node's key, the router's passwords, and the verifiers of other users."""

    key: PrivateKeyText | None = None
    """This server's private key."""
    new_key: PrivateKeyText | None = None
    """The key that is to replace `key`, after `gf-i2p members rotate-key`."""
    former_keys: Annotated[tuple[PrivateKeyText, ...], Field(strict=False, max_length=MAX_FORMER_KEYS)] = ()
    """Keys that were replaced, the latest first, for servers that do not have the newest entries of the log yet."""
    password: SecretStr | None = None
    """This server's password at foreign peers, which know Digest only."""
    bridge_password: Annotated[SecretStr, Field(min_length=MIN_PASSWORD)] | None = None
    """Password for callers of `gf-i2p bridge serve`; must differ from the router's."""
    users: dict[Annotated[str, AfterValidator(check_name_of_user)], UserTable]
    """Tables `[users.NAME]`: each user who may log in here, with the user's verifier."""

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        check_login(self.key, self.password)
        return self

    @property
    def verifiers(self) -> dict[str, Verifier]:
        """The verifiers, by user name."""
        return {name: user.verifier for name, user in self.users.items()}

    def login(self, server: int, committed: PublicKey | None = None) -> Login:
        """Return all by which this node, the server of this id, logs in at the other servers.

        `committed`: the public half that the log has for this server, if any; its key comes first.
        """
        return login_of(f"server-{server}", self.login_keys(committed), self.password)

    def login_keys(self, committed: PublicKey | None = None) -> tuple[LoginKey, ...]:
        """Return all private keys of this server, in the order in which to try the keys. `committed`: see `login`."""
        texts = (self.key, self.new_key, *self.former_keys)
        keys = tuple(dict.fromkeys(LoginKey.parse(text.get_secret_value()) for text in texts if text is not None))
        return tuple(sorted(keys, key=lambda key: key.public != committed))

    def own_verifier(self, server: int, cluster: str) -> Verifier:
        """Return the value by which another server verifies this node, the server of this id."""
        if self.key is not None:
            return LoginKey.parse(self.key.get_secret_value()).public
        assert self.password is not None
        return Secret.derive(f"server-{server}", cluster, self.password.get_secret_value())

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read and check `secrets.toml` in the directory, and add the servers that the log has admitted.

        Raises `ConfigError`, also when other users could read the file.
        """
        path = directory / SECRETS_FILE
        check_private(path)
        return cls.of_text(read_text(path), path).with_admitted(admitted.load(directory))

    def with_admitted(self, servers: Sequence[AdmittedServer]) -> Self:
        """Return these secrets with the keys of the admitted servers that have no user here.

        The servers whose places they have cannot log in.
        """
        gone = {f"server-{each}" for each in admitted.replaced(servers)}
        users = {**admitted.users(servers), **self.users}
        return self.model_copy(update={"users": {name: user for name, user in users.items() if name not in gone}})

    @classmethod
    def of_text(cls, text: str, path: Path) -> Self:
        """Parse and check the text of a `secrets.toml`. Raises `ConfigError`, which names `path`."""
        secrets = table_of(cls, text, path)
        try:
            _ = secrets.verifiers
        except ValueError as error:
            raise ConfigError(f"{path}: users: {error}") from error
        return secrets


def check_private(path: Path) -> None:
    """Refuse a secret that other users on this machine can read; raises `ConfigError`."""
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. The node needs this file: run as its owner, or restore the file."
        ) from error
    check_mode(path, status)
