"""A server tunnel in the configuration of a running network's router, as an operator would write it."""

from dataclasses import dataclass
from pathlib import Path

from gf_i2p.netdb.private_keys import DestinationKeys
from integration.testnet import java_router, router
from integration.testnet.router_network import RouterPlace


@dataclass(frozen=True, slots=True)
class ServerTunnel:
    """A tunnel that brings a destination's streams to a port of this namespace. The router's next start counts."""

    router: RouterPlace
    keys: DestinationKeys
    port: int
    """TCP port at `RouterPlace.programs`."""
    name: str = "leaf"
    """Letters only."""

    @property
    def _file(self) -> Path:
        is_java = self.router.kind == "java"
        return self.router.directory / (java_router.TUNNELS_FILE if is_java else router.TUNNELS_FILE)

    @property
    def _lines(self) -> str:
        keys = f"{self.name}.dat"
        if self.router.kind == "java":
            return java_router.server_tunnel(1, self.name, self.router.programs, self.port, keys)
        return router.server_tunnel(self.name, self.router.programs, self.port, keys)

    def add(self) -> None:
        """Write the keys and the tunnel. A Java router takes only one tunnel."""
        path = self.router.directory / f"{self.name}.dat"
        path.touch(mode=0o600)
        path.write_bytes(self.keys.encode())
        with self._file.open("a") as file:
            file.write(self._lines)

    def remove(self) -> None:
        """Remove the tunnel from the configuration."""
        self._file.write_text(self._file.read_text().replace(self._lines, ""))
