"""The first container of docker/compose.yaml: makes a farm for nodes and routers that are in containers.

Each node and each router has a volume. A node's volume gets the node's directory. A router's volume gets the password
and the certificate of i2pcontrol, and the keys of the leaf that the router offers. No secret is in a file of the
repository or in a variable. Existing files stay as they are.
"""

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.farm_setup import make_farm, new_password
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.storage.private_files import write_private
from gf_i2p.transport.tls.certificates import fingerprint, make_certificate
from gf_i2p.wire.endpoint import Endpoint
from integration.testnet.router import CERTIFICATE_FILE, CERTIFICATE_KEY_FILE, TUNNELS_FILE, server_tunnel
from integration.testnet.router_files import LEAF_LINE, LISTEN_PORT, Beside, place, replace

PASSWORD_FILE: Final = "i2pcontrol.password"
"""Name in a router's volume. docker/router.sh reads this file."""
_LEAF_FILE: Final = "leaf.dat"
_NEW_CONFIG_FILE: Final = f"{CONFIG_FILE}.new"
"""Name of a node's configuration until all files of the farm are in place."""
_CLUSTER: Final = "farm"
_CLIENT: Final = "load"


@dataclass(frozen=True, slots=True)
class Pair:
    """A node and the router beside the node, with the addresses in a network of these two alone."""

    id: int
    node: str
    router: str

    @classmethod
    def parse(cls, text: str) -> "Pair":
        """Read "ID=NODE,ROUTER". Raises `ValueError`."""
        number, _, addresses = text.partition("=")
        node, _, router = addresses.partition(",")
        if not node or not router:
            raise ValueError(text)
        return cls(int(number), node, router)


def make(directory: Path, pairs: list[Pair], service: Endpoint) -> None:
    """Fill the empty folders node-ID/ and router-ID/ below the directory, for each pair."""
    master = DestinationKeys.generate()
    with tempfile.TemporaryDirectory() as name:
        farm = Path(name) / "farm"
        make_farm(farm, {pair.id: None for pair in pairs}, cluster=_CLUSTER, profile="auto", clients=[_CLIENT])
        for pair in pairs:
            server, volume = farm / f"server-{pair.id}", _router(directory, pair)
            _empty(volume)
            password, leaf = new_password(), DestinationKeys.generate()
            certificate, key = make_certificate("router")
            (volume / CERTIFICATE_FILE).write_bytes(certificate)
            write_private(volume / CERTIFICATE_KEY_FILE, key)
            write_private(volume / PASSWORD_FILE, password)
            write_private(volume / _LEAF_FILE, leaf.encode())
            (volume / TUNNELS_FILE).write_text(server_tunnel("leaf", service.host, service.port, _LEAF_FILE))
            place(
                server,
                Beside(pair.router, fingerprint(certificate)),
                password=password,
                master=master,
                listen=f"{pair.node}:{LISTEN_PORT}",
                beyond_loopback=True,  # node and router are alone in that network
            )
            replace(server, {LEAF_LINE: f'leaf = "{leaf.destination.b32}"'})
            _empty(_node(directory, pair))
            for file in server.iterdir():
                if file.name != CONFIG_FILE:
                    shutil.copy2(file, _node(directory, pair))
        for pair in pairs:
            shutil.copy2(farm / f"server-{pair.id}" / CONFIG_FILE, _node(directory, pair) / _NEW_CONFIG_FILE)
    _finish(directory, pairs)


def _finish(directory: Path, pairs: list[Pair]) -> None:
    """Give each node the configuration, last of all. A start that stops before the first one begins anew."""
    for pair in pairs:
        new = _node(directory, pair) / _NEW_CONFIG_FILE
        if new.exists():
            new.rename(new.with_name(CONFIG_FILE))


def _has_config(directory: Path, pair: Pair) -> bool:
    return (_node(directory, pair) / CONFIG_FILE).exists()


def _router_has_all(directory: Path, pair: Pair) -> bool:
    files = (PASSWORD_FILE, CERTIFICATE_FILE, CERTIFICATE_KEY_FILE, _LEAF_FILE)
    return all((_router(directory, pair) / name).exists() for name in files)


def _router(directory: Path, pair: Pair) -> Path:
    return directory / f"router-{pair.id}"


def _node(directory: Path, pair: Pair) -> Path:
    return directory / f"node-{pair.id}"


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="has node-ID/ and router-ID/ for each server")
    parser.add_argument(
        "--server", type=Pair.parse, action="append", required=True, metavar="ID=NODE,ROUTER", help="two addresses"
    )
    parser.add_argument(
        "--service", type=Endpoint.parse, required=True, metavar="tcp://HOST:PORT", help="the farm's local service"
    )
    return parser


def ensure(directory: Path, pairs: list[Pair], service: Endpoint) -> None:
    """Make the farm unless there is one, and print the result. Raises `OSError`."""
    if not any(_has_config(directory, pair) for pair in pairs):
        make(directory, pairs, service)
        print(f"A new farm of {len(pairs)} servers.")
        return
    _finish(directory, pairs)  # after a start that was stopped
    print("The farm is there already.")
    lost = [f"of server {pair.id}" for pair in pairs if not _has_config(directory, pair)]
    lost += [f"of the router beside server {pair.id}" for pair in pairs if not _router_has_all(directory, pair)]
    if lost:
        print(
            f"Nothing is left {', '.join(lost)}. The others go on without it. To have all of them again, with new "
            "keys: docker compose down --volumes, then up.",
            file=sys.stderr,
        )


def main() -> int:
    """Make the farm unless there is one. Return 0 in both cases."""
    options = arguments().parse_args()
    try:
        ensure(options.directory, options.server, options.service)
    except OSError as error:
        print(
            f"{error}: the volumes must belong to user {os.geteuid()} and have free space. "
            "To begin with new ones: docker compose down --volumes, then up.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
