"""Checks of publishing: the keys, the addresses that the node publishes, and whether the netDb has them."""

import time
from functools import partial
from pathlib import Path
from typing import Final

from bridges.errors import RouterError, RouterUnreachableError
from bridges.i2cp.host_lookup import LOOKUP_SECONDS, has_lease_set
from bridges.i2pcontrol.router_answers import RouterProgram
from gf_i2p.cli.doctor import remedies
from gf_i2p.cli.doctor.checks import Check, CheckResult, CheckState, Remedy, fail, fault_and_advice, ok, skip, warn
from gf_i2p.cli.doctor.failover import FailoverChecks
from gf_i2p.cli.doctor.leaf_services import LeafServiceChecks
from gf_i2p.cli.doctor.nested_sets import TreeCheck, look_at_leaf_farm
from gf_i2p.cli.doctor.node_directory import NODE, SECRETS, NodeFiles
from gf_i2p.cli.doctor.router import I2CP, I2PCONTROL, PROXY, ROUTER, RouterChecks
from gf_i2p.cli.shared.router_setup import i2cp_settings, i2pcontrol, names_of
from gf_i2p.netdb.encoding import from_b32_address, to_b32_address
from gf_i2p.netdb.errors import StructureError
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.router_logins import RouterPasswords
from gf_i2p.node.files.router_settings import RouterTable
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Stage, load_publishing_keys

SETTLING_SECONDS: Final = 180.0
"""Seconds after a node's start in which the netDb may lack the node's address: the router must first build tunnels."""
_LOOKUP_SECONDS: Final = LOOKUP_SECONDS + 5.0
"""Most seconds for a check that looks up one lease set."""
_MASTER: Final = "master keys"
_LATE: Final = Remedy.either("The router is slow: see the load and the tunnels on the router's console, and try again.")


async def off_without_router() -> CheckResult:
    """Return the result for a node without a router: the node never publishes. The operator may have wanted this."""
    return ok("off: this node never publishes, because gf-i2p.toml has no [router] (and no [publish] mode)")


class PublishingChecks:
    """Checks of the node's own address in the farm, of its leaves, and of the master's Meta lease set."""

    def __init__(
        self,
        directory: Path,
        config: Config,
        router: RouterTable,
        secrets: Secrets | None,
        *,
        files: NodeFiles,
        router_checks: RouterChecks,
    ) -> None:
        self._directory = directory
        self._config = config
        self._router = router
        self._secrets = secrets
        self._passwords = secrets or RouterPasswords()
        self._files = files
        self._router_checks = router_checks
        self._keys: PublishingKeys | None = None

    def checks(self) -> list[Check]:
        """List the checks for this configuration."""
        publish = self._config.publish
        checks = []
        if self._config.own_endpoint.is_i2p:
            checks.append(Check("own address", self._own_address, _LOOKUP_SECONDS, (I2CP,), after=(NODE,), late=_LATE))
        signs = publish.mode != "off" and publish.publish != "off"
        # With publish = "off" a server needs no keys; with keys there, it may publish after a reload.
        if signs or (publish.mode != "off" and (self._directory / publish.keys).exists()):
            checks.append(Check(_MASTER, self._master))
        needs_keys = (_MASTER,) if signs else ()
        checks.append(Check("publishing", self._publishing, needs=needs_keys, after=(PROXY, I2CP, I2PCONTROL)))
        if signs and publish.mode == "failover":
            failover = FailoverChecks(publish, lambda: self._keys, lambda: self._router_kind)
            checks += failover.checks(_MASTER)
        elif signs:
            tree = TreeCheck(self._directory, publish.keys, lambda: self._keys)
            checks.append(Check("branch keys", tree.look, needs=(_MASTER,), after=(NODE,)))
        if publish.leaf_farm is not None:
            checks.append(Check("leaf farm", partial(look_at_leaf_farm, self._directory, publish.leaf_farm)))
        leaves = names_of(publish)
        for number, leaf in enumerate(leaves, 1):
            by_name = _hash(leaf) is None
            needs = (ROUTER, SECRETS, I2PCONTROL, I2CP) if by_name else (I2CP,)
            name = "leaf" if len(leaves) == 1 else f"leaf {number}"
            checks.append(Check(name, partial(self._leaf, leaf), _LOOKUP_SECONDS, needs, late=_LATE))
        return checks + LeafServiceChecks(publish, lambda: self._files.forwarded).checks()

    async def _own_address(self) -> CheckResult:
        address = self._config.own_endpoint.host
        if self._router.inbound == "sam" and self._files.uptime is None:
            return skip("not looked for: the address exists while the node runs")
        began = time.monotonic()
        try:
            found = await has_lease_set(i2cp_settings(self._router, self._passwords), from_b32_address(address))
        except (RouterError, ConfigError) as error:
            if isinstance(error, RouterUnreachableError) and self._config.publish.mode == "off":
                return skip("not looked for: only I2CP shows whether its lease set is current")
            return fail(fault_and_advice(str(error))[0], _LATE)
        if found:
            return ok(f"{address} has a current lease set ({time.monotonic() - began:.1f} s)")
        text = f"{address} has no current lease set, so nobody reaches this node"
        uptime = self._files.uptime
        if uptime is not None and uptime < SETTLING_SECONDS:
            return warn(
                f"{text}; but the node has run for {uptime:.0f} s only", Remedy.either("Try again in some minutes.")
            )
        return fail(text, remedies.ADDRESS_UNKNOWN)

    async def _master(self) -> CheckResult:
        try:
            self._keys = keys = load_publishing_keys(self._directory / self._config.publish.keys)
        except ConfigError as error:
            fault, _, command = str(error).partition(" Run: ")
            fault, advice = fault_and_advice(fault)
            return fail(fault, Remedy.either(command or advice or "Put the right file there."))
        return keys_result(keys, int(time.time()), server=self._config.node.id)

    async def _publishing(self) -> CheckResult:
        result = self._own_publishing()
        if result.state is not CheckState.OK or not self._config.bridge.sign_entries:
            return result
        return ok(
            f"{result.text}; but gf-i2p bridge serve publishes the entries of programs (sign_entries in [bridge])"
        )

    def _own_publishing(self) -> CheckResult:
        """Judge the publishing by the node itself."""
        publish = self._config.publish
        if publish.mode == "off":
            return ok('off: this node never publishes (mode = "off")')
        if publish.publish == "off":
            return ok('off: this node never publishes (publish = "off"); its leaf is listed')
        keys = self._keys
        assert keys is not None
        if keys.objection(self._router_kind) is not None:
            return fail(
                "the keys are delegated, without the signed session config that i2pd needs", remedies.DELEGATED_ON_I2PD
            )
        if publish.mode == "failover":
            assert publish.service is not None, "by the configuration's own check"
            return ok(f"serves {keys.destination.b32} when chosen, by {publish.service.target}")
        leaves = names_of(publish)
        if not leaves and publish.leaf_farm is None:
            return warn(
                "may publish, but names no leaf: no client will come to this router",
                Remedy(
                    "[publish] leaf = the address of your server tunnel (i2pd's console, 'I2P tunnels')",
                    "[publish] leaf = the address of your hidden service (the Hidden Services Manager shows it)",
                ),
            )
        for leaf in leaves:
            unfit = self._unfit_leaf(leaf, keys.destination.b32)
            if unfit is not None:
                return unfit
        product = "dry run, this node publishes nothing: Meta set" if publish.mode == "dry-run" else "Meta set"
        return ok(f"{product} of {keys.destination.b32} when chosen")

    def _unfit_leaf(self, leaf: str, master: str) -> CheckResult | None:
        """Return a failure when the leaf can never be listed; otherwise None. `master`: address of the master."""
        leaf_hash = _hash(leaf)
        if leaf_hash is None:
            if self._router.i2pcontrol is not None and self._router_checks.kind is not RouterProgram.JAVA:
                return None
            return fail(
                f"the leaf {leaf!r} is no b32 address, and the router does not tell the address of a tunnel by name",
                Remedy(
                    f"[publish] leaf = the address itself; or configure i2pcontrol, by which i2pd tells the address "
                    f"of {leaf}",
                    "[publish] leaf = the address itself; Java does not tell a tunnel's address by i2pcontrol",
                ),
            )
        for name, other in (("the master", master), ("this node", self._config.own_endpoint.host)):
            if to_b32_address(leaf_hash) == other:
                return fail(
                    f"the leaf is {name} itself, and the netDb has one place for each address",
                    Remedy.either("[publish] leaf = the address of the service on this router, with keys of its own"),
                )
        return None

    async def _leaf(self, leaf: str) -> CheckResult:
        leaf_hash = _hash(leaf)
        try:
            if leaf_hash is None:
                leaf_hash = await self._tunnel_hash(leaf)
            began = time.monotonic()
            found = await has_lease_set(i2cp_settings(self._router, self._passwords), leaf_hash)
        except (RouterError, ConfigError) as error:
            fault, advice = fault_and_advice(str(error))
            return fail(fault, Remedy.either(advice) if advice else remedies.leaf_up(leaf))
        address = to_b32_address(leaf_hash)
        if not found:
            return fail(f"{address} has no current lease set: nobody reaches this leaf", remedies.leaf_up(leaf))
        return ok(f"{address} has a current lease set ({time.monotonic() - began:.1f} s)")

    async def _tunnel_hash(self, tunnel: str) -> bytes:
        assert self._secrets is not None
        control = i2pcontrol(self._router, self._secrets)
        if control is None:
            raise ConfigError(f"the leaf {tunnel!r} is no b32 address: configure the address, or i2pcontrol")
        try:
            return await control.local_leaf_hash(tunnel)
        finally:
            await control.close()

    @property
    def _router_kind(self) -> str:
        """The kind of the router, "i2pd" or "java", by the router's answers; else "kind" of the configuration."""
        if self._router_checks.kind is None:
            return self._router.kind
        return "i2pd" if self._router_checks.kind is RouterProgram.I2PD else "java"


def keys_result(keys: PublishingKeys, now: int, *, server: int) -> CheckResult:
    """Judge the keys by which this server publishes. `now`: seconds since the epoch."""
    text, stage = keys.described(now), keys.stage(now)
    remedy = Remedy.either(
        f"Where the master's own key is: gf-i2p keys delegate MASTERFILE --server {server}; put the new file in the "
        "place of the key file here. A running node takes the file over."
    )
    if stage is Stage.ENDED:
        return fail(text, remedy)
    if stage is Stage.ENDING:
        return warn(text, remedy)
    if keys.server not in {None, server}:
        return warn(f"{text}; but made for server {keys.server}, and this is server {server}", remedy)
    return ok(text)


def _hash(leaf: str) -> bytes | None:
    try:
        return from_b32_address(leaf)
    except StructureError:
        return None
