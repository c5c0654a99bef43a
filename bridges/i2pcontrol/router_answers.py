"""Answers of i2pcontrol's RouterInfo, NetworkSetting and ClientServicesInfo, and their meaning with each router.

Both routers leave unknown names out of their answers, so the names in an answer show the kind of router. Java and i2pd
number the states of the network differently. Java's numbers are in RouterInfoHandler. i2pd's numbers are in
`RouterStatus` of RouterContext.h. They changed in 2.44.0 and 2.49.0, and only the version tells which numbers are used.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridges.i2pcontrol.strict_json import Json, clip
from gf_i2p.farm.record.router_facts import Reachability
from gf_i2p.netdb.encoding import from_b32_address
from gf_i2p.netdb.errors import StructureError

UPTIME: Final = "i2p.router.uptime"
VERSION: Final = "i2p.router.version"
NET_STATUS: Final = "i2p.router.net.status"
NET_STATUS_V6: Final = "i2p.router.net.status.v6"
NET_ERROR: Final = "i2p.router.net.error"
NET_TESTING: Final = "i2p.router.net.testing"
INBOUND: Final = "i2p.router.net.bw.inbound.15s"
OUTBOUND: Final = "i2p.router.net.bw.outbound.15s"
PARTICIPATING: Final = "i2p.router.net.tunnels.participating"
KNOWN_PEERS: Final = "i2p.router.netdb.knownpeers"
ACTIVE_PEERS: Final = "i2p.router.netdb.activepeers"
ONLY_I2PD: Final = "i2p.router.net.tunnels.successrate"
ONLY_JAVA: Final = "i2p.router.netdb.fastpeers"
NEWER_I2PD: Final = (NET_STATUS_V6, NET_ERROR, NET_TESTING)
"""Names that i2pd answers since December 2025."""
KEYS: Final = (
    UPTIME, VERSION, NET_STATUS, INBOUND, OUTBOUND, PARTICIPATING, KNOWN_PEERS, ACTIVE_PEERS,
    ONLY_I2PD, ONLY_JAVA, *NEWER_I2PD,
)  # fmt: skip
"""All names that the bridge ever asks of RouterInfo."""

LIMIT_IN: Final = "i2p.router.net.bw.in"
LIMIT_OUT: Final = "i2p.router.net.bw.out"
"""Names in NetworkSetting. The value null reads a setting; any other value would change the setting."""
LIMIT_UNIT: Final = 1024
"""Bytes in a KB of both routers."""

_MOST: Final = 2**53
"""No count of a router is larger; JSON's numbers are exact up to here."""
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})")
_MAX_TEXT: Final = 64


class RouterProgram(StrEnum):
    """The kind of router."""

    I2PD = "i2pd"
    JAVA = "Java I2P"


def kind(info: Mapping[str, Json]) -> RouterProgram | None:
    """Recognise the router by the names in an answer about all of `KEYS`; None when the names do not show the kind."""
    i2pd, java = ONLY_I2PD in info, ONLY_JAVA in info
    if i2pd == java:
        return None
    return RouterProgram.I2PD if i2pd else RouterProgram.JAVA


class CheckedAnswer:
    """The values of one answer, checked. For a missing or odd value, a method calls `note`, and returns None."""

    def __init__(self, values: Mapping[str, Json], note: Callable[[str], None]) -> None:
        self._values = values
        self._note = note

    def has(self, name: str) -> bool:
        """Whether the answer has this name."""
        return name in self._values

    def count(self, name: str) -> int | None:
        """Return the value of this name as a whole number, 0 or more. The routers print some numbers as texts."""
        number = self.amount(name)
        return None if number is None else int(number)

    def amount(self, name: str) -> float | None:
        """Return the value of this name as a number, 0 or more."""
        value = self._value(name)
        if value is None:
            return None
        try:
            number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
        except ValueError:
            number = math.nan
        if not 0 <= number <= _MOST:
            self._note_odd(name, value)
            return None
        return number

    def text(self, name: str) -> str | None:
        """Return the value of this name, a printable text of up to 64 characters."""
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT or not value.isprintable():
            self._note_odd(name, value)
            return None
        return value

    def _value(self, name: str) -> Json:
        if name not in self._values:
            self._note(f"the router does not tell {name}")
        return self._values.get(name)

    def _note_odd(self, name: str, value: Json) -> None:
        self._note(f"the router's value for {name} is odd, and is left out: {clip(str(value))}")


# Reachability ---------------------------------------------------------------------------------------------------------

_OK, _TESTING, _FIREWALLED, _UNKNOWN = (
    Reachability.OK, Reachability.TESTING, Reachability.FIREWALLED, Reachability.UNKNOWN,
)  # fmt: skip
_HIDDEN, _WARNING, _ERROR = Reachability.HIDDEN, Reachability.WARNING, Reachability.ERROR

_JAVA: Final = (_OK, _TESTING, _FIREWALLED, _HIDDEN, *[_WARNING] * 4, *[_ERROR] * 7)
# i2pd's Proxy (a router behind a proxy) and Stan (a router that must not be seen) publish no address: hidden. Mesh, a
# router in Yggdrasil only, can be reached there.
_I2PD: Final = (
    ((2, 49), (_OK, _FIREWALLED, _UNKNOWN, _HIDDEN, _OK, _HIDDEN)),
    ((2, 44), (_OK, _TESTING, _FIREWALLED, _UNKNOWN, _HIDDEN, _OK)),
    ((0, 0), (_OK, _TESTING, _FIREWALLED, _ERROR, _UNKNOWN, _HIDDEN, _OK)),
)
"""The meaning of the numbers, by the first version that uses them."""
_I2PD_ERRORS: Final = {
    1: "its clock is wrong",
    2: "it is offline",
    3: "it is behind a symmetric NAT",
    4: "it is behind a full cone NAT",
    5: "it has no file descriptors left",
}
_HARMLESS_ERRORS: Final = frozenset({3, 4})
"""The kinds of NAT: the status shows their effect."""


def reachability(
    router: RouterProgram | None, answer: CheckedAnswer, note: Callable[[str], None]
) -> Reachability | None:
    """Return the reachability that the router tells; None when there is no number, or its meaning is unknown."""
    number = answer.count(NET_STATUS)
    if number is None:
        return None
    if number == 0:  # the one number with the same meaning everywhere
        return _with_error(_OK, answer, note)
    if router is RouterProgram.JAVA:
        return _look_up(_JAVA, number, router, note)
    version = _VERSION.match(answer.text(VERSION) or "")
    if router is None or version is None:
        note(f"the router's network status is {number}, whose meaning depends on the kind of router: left out")
        return None
    release = int(version[1]), int(version[2])
    table = next(table for first, table in _I2PD if release >= first)
    status = _look_up(table, number, router, note)
    if answer.has(NET_STATUS_V6):
        v6 = answer.count(NET_STATUS_V6)
        v6_status = None if v6 is None else _look_up(table, v6, router, note)
        if v6_status is _OK or status is _UNKNOWN:
            status = v6_status  # one working network is enough
    if status is _UNKNOWN and answer.has(NET_TESTING) and answer.count(NET_TESTING):
        status = _TESTING
    return None if status is None else _with_error(status, answer, note)


def _look_up(
    table: tuple[Reachability, ...], number: int, router: RouterProgram, note: Callable[[str], None]
) -> Reachability | None:
    if number < len(table):
        return table[number]
    note(f"{router} says network status {number}, which is unknown: left out")
    return None


def _with_error(status: Reachability, answer: CheckedAnswer, note: Callable[[str], None]) -> Reachability:
    if not answer.has(NET_ERROR):
        return status
    error = answer.count(NET_ERROR)
    if not error:
        return status
    note(f"the router says that {_I2PD_ERRORS.get(error, f'it has the error {error}')}")
    return status if error in _HARMLESS_ERRORS else _ERROR


@dataclass(frozen=True, slots=True)
class I2pdTunnel:
    """One server tunnel of i2pd's tunnels.conf."""

    name: str
    address: str
    """As in i2pd's answer: a b32 address, or a name of the address book."""

    def hash(self) -> bytes | None:
        """Return the hash of the tunnel's destination; None when the address is no b32 address."""
        try:
            return from_b32_address(self.address)
        except StructureError:
            return None


def server_tunnels(services: Mapping[str, Json]) -> list[I2pdTunnel]:
    """Read the answer to ClientServicesInfo with I2PTunnel. Entries that are no tunnel are left out."""
    tunnels = services.get("I2PTunnel")
    return list(_tunnels(tunnels.get("server"), "")) if isinstance(tunnels, dict) else []


def _tunnels(branch: Json, prefix: str) -> Iterator[I2pdTunnel]:
    if not isinstance(branch, dict):
        return  # i2pd writes "" for no tunnels
    for name, value in branch.items():
        if isinstance(value, dict):
            address = value.get("address")
            if isinstance(address, str):
                yield I2pdTunnel(prefix + name, address)
            # A tunnel "web" can contain a tunnel "web.test"; the tunnel's own values are texts and yield nothing.
            yield from _tunnels(value, f"{prefix}{name}.")
