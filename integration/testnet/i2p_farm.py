"""A farm of real node processes on the surrounding private I2P network, each node beside a router of its own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import DESTINATION_FILE
from integration.harness.local_farm import LocalFarm
from integration.harness.processes import tail
from integration.testnet.router_files import LEAF_LINE, LISTEN_PORT, Beside, place, replace
from integration.testnet.router_network import RouterPlace

_BESIDE_PORTS: Final = 100
_SERVICE: Final = """\
[publish.service.session]
"inbound.length" = "1"
"outbound.length" = "1"
"""


class I2pFarm(LocalFarm):
    """Servers 1 to n, one beside each of the routers.

    A farm beside another farm uses the other farm's master as the leaf of each server. Call `place` when the routers
    run, before the first server starts.
    """

    def __init__(
        self,
        directory: Path,
        routers: list[RouterPlace],
        *,
        password: str,
        client: str = "load",
        cluster: str = "farm",
        admins: Sequence[str] = (),
        beside: "I2pFarm | None" = None,
        first_port: int = LISTEN_PORT,
    ) -> None:
        """`password`: of the routers' i2pcontrol. `beside`: a placed farm that runs in the same processes.

        `first_port`: server 1 listens on the next port for the router's streams, and so on. Farms that run at the same
        time need different ports.
        """
        self.routers: Mapping[int, RouterPlace] = dict(enumerate(routers, 1))
        self.master = DestinationKeys.generate()
        self.leaves: dict[int, DestinationKeys] = {number: DestinationKeys.generate() for number in self.routers}
        self._password = password
        self._cluster = cluster
        self._admins = admins
        self._beside = beside
        self._first_port = first_port
        super().__init__(directory, servers=len(routers), client=client)

    def _make(self, client: str) -> None:
        make_farm(
            self.directory,
            dict.fromkeys(self.ids),
            cluster=self._cluster,
            profile="auto",
            clients=[client],
            admins=self._admins,
            beside=None if self._beside is None else self._beside.directory,
        )

    def place(
        self,
        *,
        themselves: bool = False,
        targets: Mapping[int, int] | None = None,
        i2cp: Mapping[int, str] | None = None,
    ) -> None:
        """Write the address of each server's router. All routers are on this machine, at different addresses.

        `themselves`: the nodes' own addresses are the leaves. Otherwise somebody has to run `leaves` on the routers.
        `targets`: the ports of the servers' local web services, to which the master leads in `failover` mode.
        `i2cp`: the address of I2CP ("host:port") for servers that do not use the router's own.
        """
        places = i2cp or {}
        for server_id, router in self.routers.items():
            if targets is not None:
                self._place(server_id, router, places.get(server_id))
                self._lead(server_id, targets[server_id])
                continue
            self._place(server_id, router, places.get(server_id))
            if self._beside is not None:
                below = self._beside.node(server_id)
                self._leaf(server_id, f'leaf_farm = "{below}"')
                continue
            leaf = self.leaves[server_id].destination.b32
            if themselves:
                leaf = DestinationKeys.parse((self.node(server_id) / DESTINATION_FILE).read_bytes()).destination.b32
            self._leaf(server_id, f'leaf = "{leaf}"')

    def complaints(self) -> str:
        """Return the last 3,000 bytes of each server's log, for a message to a person."""
        return "\n".join(f"server {number}:\n{tail(self.log(number), 3000)}" for number in self.ids)

    def _lead(self, server_id: int, port: int) -> None:
        replace(
            self.node(server_id),
            {
                'mode = "meta"': 'mode = "failover"',
                "# [publish.service] ": "[publish.service] ",
                '# target = "127.0.0.1:8080"': f'target = "127.0.0.1:{port}"',
                "# http = true ": f"http = true\n{_SERVICE}# ",  # the rest of the line becomes a comment
            },
        )

    def _leaf(self, server_id: int, line: str) -> None:
        replace(self.node(server_id), {LEAF_LINE: line})

    def _place(self, server_id: int, router: RouterPlace, i2cp: str | None) -> None:
        port = self._first_port + server_id
        alone = self._beside is None
        is_java = router.kind == "java"
        place(
            self.node(server_id),
            Beside(router.address, router.fingerprint, i2cp),
            password=self._password,
            master=self.master,
            # Beside another farm `init` chooses the next port, which may be another server's here.
            before=LISTEN_PORT if alone else port + 1,
            listen=f"{router.programs}:{port if alone else port + _BESIDE_PORTS}",
            beyond_loopback=is_java,  # a Java router is in a namespace of its own, and nobody else is between
        )
