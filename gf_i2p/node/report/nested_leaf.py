"""A farm's master as this server's leaf in another farm (`publish.leaf_farm`): which one, and whether it serves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from bridges.protocol import RouterBridge
from gf_i2p.farm.choice.nested_farms import MAX_DEPTH, as_leaf, beneath, depth, loop
from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.record.destinations import META_TYPE, Leaf
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.netdb.encoding import from_b32_address, to_b32_address
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.router_config import is_b32_address
from gf_i2p.node.listener import Tenant

LISTED_MS: Final = 1_800_000
"""How long what a farm has published is good for: the entries of its set end then."""


class LeafFarm(Protocol):
    """A farm of whose master this server makes a leaf."""

    @property
    def trouble(self) -> str | None:
        """Why that master does not serve, None while it does; as of the last `leaf`."""
        ...

    async def leaf(self) -> Leaf | None:
        """Say how that master does; None when it is not known who it is. Raises `RouterError`."""
        ...


class Farm(Protocol):
    """What is known here of a farm that runs in this process; a `Node` is one."""

    @property
    def records(self) -> Mapping[int, StatusRecord]:
        """Its servers' newest."""
        ...

    @property
    def choice(self) -> Choice:
        """Who publishes what there."""
        ...

    @property
    def has_leader(self) -> bool:
        """Whether anything is committed there now, as far as this server knows."""
        ...

    @property
    def master(self) -> bytes | None:
        """The hash of its master, when this server may publish for it."""
        ...


class HostedFarm:
    """A farm that this process runs a server of, which is asked in place of any router."""

    def __init__(self, name: str, farm: Callable[[], Farm | None]) -> None:
        """`farm`: returns what runs, None while it does not. `name`: for people."""
        self.trouble: str | None = None
        """See `LeafFarm`."""
        self._name = name
        self._farm = farm
        self._master: bytes | None = None  # the last that was known: a farm that has stopped is a leaf that is down
        self._sent_ms = 0

    async def leaf(self) -> Leaf | None:
        """See `LeafFarm`. Its log says whether it publishes; what lies below it goes along, so that no loop is listed.

        What a router has taken is good for a while, whoever publishes next: a farm whose publisher changes stays up.
        In the mode `failover` the master is an ordinary destination, with nothing below it.
        """
        farm = self._farm()
        self._master = self._master if farm is None else _master(farm) or self._master
        if self._master is None:
            self.trouble = f"who the master of the farm in {self._name} is is not known yet: none of its servers says"
            return None
        if farm is None:
            self.trouble = f"the farm in {self._name} does not run here now"
            return Leaf(self._master, up=False, type=META_TYPE)
        self._sent_ms = max(self._sent_ms, _sent_ms(farm))
        objection = _objection(farm, self._sent_ms)
        if _mode(farm) == "failover":
            leaf = Leaf(self._master, objection is None)
        else:
            found = beneath(farm.records.values())
            objection = objection or found.objection
            leaf = as_leaf(self._master, found, up=objection is None)
        self.trouble = None if objection is None else f"the farm in {self._name}: {objection}"
        return leaf


class ElsewhereFarm:
    """A farm that runs in other processes only: nothing is known of it but whether our router finds its master's set.

    What lies below it is not known here, either. It is to whoever runs servers of both farms, and what that one posts
    counts for all.
    """

    def __init__(self, address: str, bridge: RouterBridge) -> None:
        """`address`: the master's, in base 32. Raises `StructureError` when it is none."""
        self.trouble: str | None = None
        """See `LeafFarm`."""
        self._hash = from_b32_address(address)
        self._bridge = bridge

    async def leaf(self) -> Leaf | None:
        """See `LeafFarm`."""
        found = (await self._bridge.local_leaf_status(self._hash)).up
        self.trouble = (
            None
            if found
            else f"our router does not find {to_b32_address(self._hash)}. i2pd finds no Meta lease set for anybody: "
            "there only a server of that farm in this process can tell (publish.leaf_farm = its directory)"
        )
        return Leaf(self._hash, found, type=META_TYPE)


def check_nesting(tenants: Sequence[Tenant]) -> None:
    """Refuse what leads in a circle, or too deep, as far as this process's own configuration says.

    Raises `ConfigError`, with the way round.
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
    circle = loop(below)
    if circle is not None:
        raise ConfigError(
            f"publish.leaf_farm: {' → '.join(names[farm] for farm in circle)} is a circle: the sets would lead to each "
            "other and to no service. Take leaf_farm out of one of them."
        )
    if depth(below) > MAX_DEPTH:
        raise ConfigError(
            f"publish.leaf_farm: more than {MAX_DEPTH} farms lie one below another. Clients resolve one set after the "
            "other: list some of the lower ones further up."
        )


def target_of(tenant: Tenant, tenants: Sequence[Tenant]) -> Tenant | str | None:
    """Return whose master is this one's leaf: who is in this process, or a b32 address; None: nobody's.

    Raises `ConfigError` for a directory that is not run here.
    """
    named = tenant.config.publish.leaf_farm
    if named is None:
        return None
    if is_b32_address(named):
        address = named.lower()
        return next((each for each in tenants if each.master is not None and each.master.b32 == address), address)
    where = (tenant.directory / named).resolve()
    found = next((each for each in tenants if each.directory.resolve() == where), None)
    if found is None:
        raise ConfigError(
            f"publish.leaf_farm of {tenant.directory}: {where} does not run in this process: name it, too, as in "
            f"`gf-i2p run {tenant.directory} {where}`, or give the b32 address of that farm's master."
        )
    return found


def _key(tenant: Tenant) -> object:
    """What a farm is known by: its master, where it is known; two servers of one farm may run here."""
    return tenant.directory.resolve() if tenant.master is None else tenant.master.hash


def _publisher(farm: Farm) -> StatusRecord | None:
    publisher = farm.choice.publisher
    return None if publisher is None else farm.records.get(publisher)


def _master(farm: Farm) -> bytes | None:
    """Who it is, by our keys, or by what the publisher says."""
    record = _publisher(farm)
    told = None if record is None or record.meta is None else record.meta.hash
    return farm.master or told


def _mode(farm: Farm) -> str | None:
    record = _publisher(farm)
    return None if record is None or record.config is None else record.config.mode


def _sent_ms(farm: Farm) -> int:
    """Return the version of the newest set that a router has taken, in ms since the epoch; 0 when none is known.

    One that is only announced may still wait for its session's tunnels.
    """
    metas = (record.meta for record in farm.records.values())
    return max((meta.last_published_ms for meta in metas if meta is not None and meta.sent_ms), default=0)


def _objection(farm: Farm, sent_ms: int) -> str | None:
    """Say why its master leads nowhere now; None when it serves, as far as its log says. `sent_ms`: of its last set."""
    if not farm.has_leader:
        return "it has no leader, so nobody knows whether anything is published"
    record = _publisher(farm)
    if record is None or record.meta is None:
        return "it has no publisher"
    failover = _mode(farm) == "failover"
    if not farm.choice.leaves and not failover:
        return "none of its leaves is up"
    if not sent_ms or (failover and not record.meta.publishing):
        return "nothing is published yet"
    if record.date_ms - sent_ms > LISTED_MS:
        return "what was published last has run out"
    return None
