"""A farm of real node processes on the private I2P network around us, each beside a router of its own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gf_i2p.netdb.keys import DestinationKeys
from gf_i2p.node.layout import CONFIG_FILE, DESTINATION_FILE, MASTER_FILE, SECRETS_FILE
from gf_i2p.node.setup import make_farm
from integration.localfarm import LocalFarm
from integration.processes import tail
from integration.testnet.client import RouterPlace
from integration.testnet.router import I2CP_PORT, I2PCONTROL_PORT, PROXY_PORT, SAM_PORT

_LISTEN_PORT: Final = 4150
_BESIDE_PORTS: Final = 100
_SESSION: Final = """\
[router.session]
"inbound.length" = "1"
"outbound.length" = "1"
"inbound.quantity" = "4"
"outbound.quantity" = "2"
"""
_SERVICE: Final = """\
[publish.service.session]
"inbound.length" = "1"
"outbound.length" = "1"
"""


class I2pFarm(LocalFarm):
    """Servers 1 to n, one beside each of the routers.

    Beside another farm, that one's master is each server's leaf. Call `place` once the routers run, and before the
    first server is started.
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
    ) -> None:
        """`password`: of the routers' i2pcontrol. `beside`: a farm, placed already, that runs in the same processes."""
        self.routers: Mapping[int, RouterPlace] = dict(enumerate(routers, 1))
        self.master = DestinationKeys.generate()
        self.leaves: dict[int, DestinationKeys] = {number: DestinationKeys.generate() for number in self.routers}
        self._password = password
        self._cluster = cluster
        self._admins = admins
        self._beside = beside
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
        """Say where each server's router is: all are on this machine, at addresses of their own.

        `themselves`: the nodes' own addresses are the leaves. Otherwise somebody has to run `leaves` on the routers.
        `targets`: the ports of the servers' local web services, to which the master leads in `failover` mode.
        `i2cp`: where servers find it ("host:port") that do not at their routers.
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
        """The ends of the servers' logs, for people."""
        return "\n".join(f"server {number}:\n{tail(self.log(number), 3000)}" for number in self.ids)

    def _lead(self, server_id: int, port: int) -> None:
        self._replace(
            server_id,
            {
                'mode = "meta"': 'mode = "failover"',
                "# [publish.service] ": "[publish.service] ",
                '# target = "127.0.0.1:8080"': f'target = "127.0.0.1:{port}"',
                "# http = true                 # it speaks HTTP, and is told who asks": f"http = true\n{_SERVICE}",
            },
        )

    def _replace(self, server_id: int, changes: Mapping[str, str]) -> None:
        path = self.node(server_id) / CONFIG_FILE
        text = path.read_text()
        for old, new in changes.items():
            assert old in text, f"the configuration that init writes has no {old}"
            text = text.replace(old, new)
        path.write_text(text)

    def _leaf(self, server_id: int, line: str) -> None:
        self._replace(server_id, {'# leaf = "....b32.i2p"': line})

    def _place(self, server_id: int, router: RouterPlace, i2cp: str | None) -> None:
        changes = {
            f"127.0.0.1:{PROXY_PORT}": f"{router.address}:{PROXY_PORT}",
            f"127.0.0.1:{SAM_PORT}": f"{router.address}:{SAM_PORT}",
            f"127.0.0.1:{I2CP_PORT}": i2cp or f"{router.address}:{I2CP_PORT}",
            f'# i2pcontrol = "https://127.0.0.1:{I2PCONTROL_PORT}/"': (
                f'i2pcontrol = "https://{router.address}:{I2PCONTROL_PORT}/"\n'
                f'i2pcontrol_fingerprint = "{router.fingerprint}"'
            ),
            'mode = "off"': 'mode = "meta"',
            "# [router.session]": _SESSION + "\n# [router.session]",
        }
        port = _LISTEN_PORT + server_id
        if self._beside is None:
            changes[f"127.0.0.1:{_LISTEN_PORT}"] = f"127.0.0.1:{port}"
        else:  # `init` has it listen at the next port, which may be another server's here
            changes[f"127.0.0.1:{port + 1}"] = f"127.0.0.1:{port + _BESIDE_PORTS}"
        self._replace(server_id, changes)
        secrets = self.node(server_id) / SECRETS_FILE
        secrets.write_text(f'i2pcontrol_password = "{self._password}"\n{secrets.read_text()}')
        master = self.node(server_id) / MASTER_FILE
        master.touch(mode=0o600)
        master.write_bytes(self.master.encode())
