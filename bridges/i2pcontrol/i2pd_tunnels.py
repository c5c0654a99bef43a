"""What i2pd's ClientServicesInfo says of its server tunnels: names, and the addresses behind them.

It prints everything as a text, an empty list as "", and a tunnel whose name has dots as objects inside each other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bridges.i2pcontrol.strict_json import Json
from gf_i2p.netdb.encoding import from_b32_address
from gf_i2p.netdb.errors import StructureError


@dataclass(frozen=True, slots=True)
class ServerTunnel:
    """One server tunnel of i2pd's tunnels.conf."""

    name: str
    address: str
    """As i2pd gives it: a b32 address, or a name of its address book."""

    def hash(self) -> bytes | None:
        """Give the hash of its destination; None when the address does not tell."""
        try:
            return from_b32_address(self.address)
        except StructureError:
            return None


def server_tunnels(services: Mapping[str, Json]) -> list[ServerTunnel]:
    """Read the answer to ClientServicesInfo with I2PTunnel. What is no tunnel in it is left out."""
    tunnels = services.get("I2PTunnel")
    return list(_tunnels(tunnels.get("server"), "")) if isinstance(tunnels, dict) else []


def _tunnels(branch: Json, prefix: str) -> Iterator[ServerTunnel]:
    if not isinstance(branch, dict):
        return  # "" for none
    for name, value in branch.items():
        if isinstance(value, dict):
            address = value.get("address")
            if isinstance(address, str):
                yield ServerTunnel(prefix + name, address)
            # A tunnel "web" can have a tunnel "web.test" inside; its own values are texts and yield nothing.
            yield from _tunnels(value, f"{prefix}{name}.")
