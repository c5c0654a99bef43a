"""Checks of settings that work but may cause trouble: tunnel options, and interfaces that others can reach."""

import struct
from collections.abc import Iterable, Mapping
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from bridges.i2pcontrol.router_answers import RouterProgram
from gf_i2p.cli.doctor import remedies
from gf_i2p.cli.doctor.checks import Check, CheckResult, Remedy, fail, ok, warn
from gf_i2p.cli.doctor.router import I2CP, I2PCONTROL, PROXY, RouterChecks
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.router_settings import RouterTable, host_and_port
from gf_i2p.node.report.router_info_file import LACK, RouterInfoFile
from gf_i2p.wire.endpoint import Endpoint

LEAST_INBOUND: Final = 4
"""Fewest inbound tunnels with which i2pd publishes a new session soon.

i2pd builds 2 (2.45) or 3 (2.58) inbound tunnels at a time, and publishes only when an inbound tunnel comes after the
outbound tunnels. With fewer inbound tunnels the next such tunnel may come ten minutes later.
"""
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Files in which Linux lists the TCP sockets of this machine."""
_LISTENING: Final = "0A"


class SettingsChecks:
    """Checks of the settings that concern the router. One check also reads the list of this machine's sockets."""

    def __init__(self, directory: Path, config: Config, router: RouterTable, router_checks: RouterChecks) -> None:
        self._directory = directory
        self._config = config
        self._router = router
        self._router_checks = router_checks

    def checks(self) -> list[Check]:
        """List the checks."""
        checks = [Check("interfaces", self._interfaces)]
        if self._config.own_endpoint.is_i2p and self._router.inbound == "sam":
            checks.append(Check("session options", self._session, after=(PROXY, I2CP, I2PCONTROL)))
        if self._router.info_file is not None:
            checks.append(Check("router info", partial(self._router_info, self._directory / self._router.info_file)))
        return checks

    async def _router_info(self, path: Path) -> CheckResult:
        file = RouterInfoFile(path)
        await file.look()
        if file.trouble is not None:
            fault, _, advice = file.trouble.removeprefix(f"{LACK}: ").rpartition(": ")
            return fail(fault, Remedy.either(advice[:1].upper() + advice[1:]))
        return ok(f"{path}; every reader of the farm's log sees the router's IP addresses")

    async def _session(self) -> CheckResult:
        return session_result(self._router.session, self._router_checks.kind)

    async def _interfaces(self) -> CheckResult:
        listen = Endpoint.parse(self._config.node.listen)
        places = {name: host_and_port(getattr(self._router, name)) for name in ("proxy", "sam", "i2cp")}
        if self._config.own_endpoint.is_i2p:
            places["node.listen"] = listen.host, listen.port
        remote = [name for name, (host, _) in places.items() if not ip_address(host).is_loopback]
        if remote:
            return warn(
                f"{', '.join(remote)}: beyond this machine, and not encrypted: others on that network can read "
                "everything",
                Remedy.either("Run the router on this machine, or on a network that nobody else sees."),
            )
        public_ports = listening_anywhere(path.read_text() for path in _TABLES if path.exists())
        exposed = [f"{name} ({port})" for name, (_, port) in places.items() if port in public_ports]
        if exposed:
            return warn(
                f"{', '.join(exposed)}: the router takes connections from other machines, too, unless a firewall "
                "refuses them",
                remedies.ALL_ADDRESSES,
            )
        return ok("on this machine only")


def session_result(options: Mapping[str, str], kind: RouterProgram | None) -> CheckResult:
    """Judge the options of the node's own session. `kind`: the kind of the router, None when unknown."""
    spaced = [name for name, value in options.items() if " " in name or " " in value]
    if spaced:
        return fail(
            f"{spaced[0]}: has a space, and SAM cannot carry a space",
            Remedy.either("Remove that option from [router.session]."),
        )
    if kind is not RouterProgram.JAVA:
        if "i2cp.dontPublishLeaseSet" in options:
            return warn(
                "i2cp.dontPublishLeaseSet means the opposite to an i2pd: true publishes, false hides the node",
                Remedy(
                    "remove that option from [router.session]",
                    "remove that option from [router.session]: a Java router publishes without it",
                ),
            )
        quantity = options.get("inbound.quantity")
        if quantity is not None and quantity.isdigit() and int(quantity) < LEAST_INBOUND:
            return warn(
                f"inbound.quantity = {quantity}: i2pd may leave the node unpublished for ten minutes, because it "
                "publishes only when an inbound tunnel comes after the outbound ones",
                remedies.FEW_TUNNELS,
            )
    zero_hop = [name for name in ("inbound.length", "outbound.length") if options.get(name) == "0"]
    if zero_hop:
        return warn(
            f"{' and '.join(zero_hop)} = 0: peers see which router is this node's",
            Remedy.either("Remove the option from [router.session] unless you want that."),
        )
    return ok("no harmful option" if options else "the router's own options")


def listening_anywhere(tables: Iterable[str]) -> set[int]:
    """Return the TCP ports on which a program listens at all addresses of this machine.

    `tables`: the texts of /proc/net/tcp and /proc/net/tcp6.
    """
    ports = set()
    for table in tables:
        for line in table.splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == _LISTENING:
                address, _, port = fields[1].partition(":")
                if _address(address).is_unspecified:
                    ports.add(int(port, 16))
    return ports


def _address(digits: str) -> IPv4Address | IPv6Address:
    """Read an address as the kernel prints it: words of four bytes, each in the machine's byte order."""
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    return ip_address(struct.pack(f"={len(words)}I", *words))
