"""The master of a nested farm as this server's leaf (`publish.leaf_farm`): address and status of that master."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from bridges.router_protocol import RouterBridge
from gf_i2p.farm.choice.nested_farms import MAX_DEPTH, as_leaf, chain_length, find_loop, find_masters_below
from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.record.destinations import META_TYPE, Leaf
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.netdb.encoding import from_b32_address, to_b32_address
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.router_settings import is_b32_address
from gf_i2p.node.listener import Tenant

LISTED_MS: Final = 1_800_000
"""Milliseconds after which the entries of a published set have expired."""


class LeafFarm(Protocol):
    """A nested farm whose master is this server's leaf."""

    @property
    def trouble(self) -> str | None:
        """Why the nested farm's master did not serve at the last call of `leaf`; None if the master served."""
        ...

    async def leaf(self) -> Leaf | None:
        """Return the status of the nested farm's master; None when the master is not known. Raises `RouterError`."""
        ...


class NestedFarm(Protocol):
    """The part of a farm in this process that the farm above needs; a `Node` has this part."""

    @property
    def records(self) -> Mapping[int, StatusRecord]:
        """The newest record of each server."""
        ...

    @property
    def choice(self) -> Choice:
        """The farm's choice of publisher and leaves."""
        ...

    @property
    def has_leader(self) -> bool:
        """Whether the farm can commit entries now, as far as this server knows."""
        ...

    @property
    def master(self) -> bytes | None:
        """Hash of the farm's master, when this server may publish for the master."""
        ...


class HostedFarm:
    """A nested farm with a server in this process: that server answers in place of the router."""

    def __init__(self, name: str, farm: Callable[[], NestedFarm | None]) -> None:
        """`farm` returns the running farm, None while the farm does not run. `name`: the farm's name in messages."""
        self.trouble: str | None = None
        """Why the nested farm's master did not serve at the last call of `leaf`; None if the master served."""
        self._name = name
        self._farm = farm
        self._master: bytes | None = None  # the last known one: the leaf of a stopped farm is reported as down
        self._sent_ms = 0

    async def leaf(self) -> Leaf | None:
        """Return the status of the nested farm's master, by that farm's log; None when the master is not known.

        The leaf names the masters of the farms below, so that loops are noticed. A published set stays valid for a
        while, so a farm that changes its publisher stays up. In mode `failover` the master is an ordinary destination,
        with no farm below.
        """
        farm = self._farm()
        self._master = self._master if farm is None else _master(farm) or self._master
        if self._master is None:
            self.trouble = f"the master of the farm in {self._name} is not known yet: no server of that farm names it"
            return None
        if farm is None:
            self.trouble = f"the farm in {self._name} does not run here now"
            return Leaf(self._master, up=False, type=META_TYPE)
        self._sent_ms = max(self._sent_ms, _sent_ms(farm))
        objection = _objection(farm, self._sent_ms)
        if _mode(farm) == "failover":
            leaf = Leaf(self._master, objection is None)
        else:
            below = find_masters_below(farm.records.values())
            objection = objection or below.objection
            leaf = as_leaf(self._master, below, up=objection is None)
        self.trouble = None if objection is None else f"the farm in {self._name}: {objection}"
        return leaf


class ElsewhereFarm:
    """A nested farm that runs only in other processes: this server asks its router whether the master's set exists.

    This server does not know the masters below the nested farm. A server of both farms knows these masters, and writes
    them into its record. That record is enough for the other servers.
    """

    def __init__(self, address: str, bridge: RouterBridge) -> None:
        """`address`: the master's b32 address. Raises `StructureError` for any other text."""
        self.trouble: str | None = None
        """Why the router did not find the master's set at the last call of `leaf`; None if it did."""
        self._hash = from_b32_address(address)
        self._bridge = bridge

    async def leaf(self) -> Leaf | None:
        """Ask the router for the master's set, and return the status of the master. Raises `RouterError`."""
        up = (await self._bridge.local_leaf_status(self._hash)).up
        self.trouble = (
            None
            if up
            else f"this server's router does not find {to_b32_address(self._hash)}. i2pd finds no Meta lease set for "
            "any client. With i2pd, run a server of that farm in this process (publish.leaf_farm = its directory)"
        )
        return Leaf(self._hash, up, type=META_TYPE)


def check_nesting(tenants: Sequence[Tenant]) -> None:
    """Refuse farms that are nested in a circle or too deep, as far as this process's configuration shows.

    Raises `ConfigError`, which names the farms of the circle.
    """
    names: dict[object, str] = {}
    below: dict[object, list[object]] = {}
    for tenant in tenants:
        names.setdefault(_key(tenant), str(tenant.directory))
    for tenant in tenants:
        target = target_of(tenant, tenants)
        if isinstance(target, Tenant):
            below.setdefault(_key(tenant), []).append(_key(target))
        elif target is not None:
            master = from_b32_address(target)
            names.setdefault(master, target)
            below.setdefault(_key(tenant), []).append(master)
    circle = find_loop(below)
    if circle is not None:
        raise ConfigError(
            f"publish.leaf_farm: {' → '.join(names[farm] for farm in circle)} is a circle: the sets would lead to each "
            "other and to no service. Take leaf_farm out of one of them."
        )
    if chain_length(below) > MAX_DEPTH:
        raise ConfigError(
            f"publish.leaf_farm: more than {MAX_DEPTH} farms lie one below another, and clients resolve one set after "
            "the other. List some of the lower farms further up."
        )


def target_of(tenant: Tenant, tenants: Sequence[Tenant]) -> Tenant | str | None:
    """Return the nested farm of this tenant: a tenant of this process or a b32 address; None without a nested farm.

    Raises `ConfigError` for a directory that this process does not run.
    """
    leaf_farm = tenant.config.publish.leaf_farm
    if leaf_farm is None:
        return None
    if is_b32_address(leaf_farm):
        address = leaf_farm.lower()
        return next((other for other in tenants if other.master is not None and other.master.b32 == address), address)
    directory = (tenant.directory / leaf_farm).resolve()
    hosted = next((other for other in tenants if other.directory.resolve() == directory), None)
    if hosted is None:
        raise ConfigError(
            f"publish.leaf_farm of {tenant.directory}: {directory} does not run in this process: name it, too, as in "
            f"`gf-i2p run {tenant.directory} {directory}`, or give the b32 address of that farm's master."
        )
    return hosted


def _key(tenant: Tenant) -> object:
    """Return a key of the farm: the master's hash, or the tenant's directory while the master is not known.

    Two servers of one farm may run in this process. Both must have the same key, so the directory is the second choice.
    """
    return tenant.directory.resolve() if tenant.master is None else tenant.master.hash


def _publisher_record(farm: NestedFarm) -> StatusRecord | None:
    publisher = farm.choice.publisher
    return None if publisher is None else farm.records.get(publisher)


def _master(farm: NestedFarm) -> bytes | None:
    """Return the hash of the farm's master, from this server's keys or from the publisher's record."""
    record = _publisher_record(farm)
    reported = None if record is None or record.meta is None else record.meta.hash
    return farm.master or reported


def _mode(farm: NestedFarm) -> str | None:
    record = _publisher_record(farm)
    return None if record is None or record.config is None else record.config.mode


def _sent_ms(farm: NestedFarm) -> int:
    """Return the newest version of a set that a router has taken, in ms since the epoch; 0 when none is known.

    A set that is only announced may still wait for its session's tunnels, and does not count.
    """
    metas = (record.meta for record in farm.records.values())
    return max((meta.last_published_ms for meta in metas if meta is not None and meta.sent_ms), default=0)


def _objection(farm: NestedFarm, sent_ms: int) -> str | None:
    """Say why the farm's master leads nowhere; None when the master serves. `sent_ms`: version of the last set sent."""
    if not farm.has_leader:
        return "it has no leader, so it is not known whether anything is published"
    record = _publisher_record(farm)
    if record is None or record.meta is None:
        return "it has no publisher"
    failover = _mode(farm) == "failover"
    if not farm.choice.leaves and not failover:
        return "none of its leaves is up"
    if not sent_ms or (failover and not record.meta.publishing):
        return "nothing is published yet"
    if record.date_ms - sent_ms > LISTED_MS:
        return "the set that was published last has expired"
    return None
