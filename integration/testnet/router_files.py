"""Puts a farm's new server beside a router: edits the files of `gf-i2p init` as an operator would."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.file_names import CONFIG_FILE, MASTER_FILE, SECRETS_FILE
from integration.testnet.router import I2CP_PORT, I2PCONTROL_PORT, PROXY_PORT, SAM_PORT

LISTEN_PORT: Final = 4150
"""Default port of a node for the streams that the router brings."""
LEAF_LINE: Final = '# leaf = "....b32.i2p"'
"""The line of a new configuration that the leaf replaces."""
SESSION: Final = {
    "inbound.length": "1",
    "outbound.length": "1",
    "inbound.quantity": "4",
    "outbound.quantity": "2",
}
"""The options of each node's session at its router."""
_SESSION_TABLE: Final = "[router.session]\n" + "".join(f'"{name}" = "{value}"\n' for name, value in SESSION.items())
_PROXY_LINE: Final = f'proxy = "127.0.0.1:{PROXY_PORT}"'


@dataclass(frozen=True, slots=True)
class Beside:
    """A router of the private network, as the node beside the router sees it."""

    address: str
    """Address of the interfaces."""
    fingerprint: str
    """Fingerprint of i2pcontrol's certificate."""
    i2cp: str | None = None
    """"HOST:PORT" of I2CP. None: I2CP is at `address`, as all other interfaces."""


def replace(directory: Path, changes: Mapping[str, str]) -> None:
    """Replace lines, or parts of lines, in a server's configuration.

    `changes`: the new text by the old text. Raises `AssertionError` when the old text is missing, or when the new file
    is not TOML.
    """
    path = directory / CONFIG_FILE
    text = path.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text, f"the configuration that init writes has no {old}"
        text = text.replace(old, new)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AssertionError(f"{path} with {list(changes)} replaced is not TOML: {error}") from None
    path.write_text(text, encoding="utf-8")


def place(
    directory: Path,
    router: Beside,
    *,
    password: str,
    master: DestinationKeys,
    listen: str,
    before: int = LISTEN_PORT,
    beyond_loopback: bool = False,
) -> None:
    """Let a new server use this router, and publish through this router.

    `password`: of the router's i2pcontrol. `master`: the farm's keys. `listen`: "HOST:PORT" for the router's streams.
    `before`: the port that `init` wrote. `beyond_loopback`: the router is not on this machine, or not in this
    container.
    """
    beyond = "\nbeyond_loopback = true" if beyond_loopback else ""
    replace(
        directory,
        {
            _PROXY_LINE: f'proxy = "{router.address}:{PROXY_PORT}"{beyond}',
            f"127.0.0.1:{SAM_PORT}": f"{router.address}:{SAM_PORT}",
            f"127.0.0.1:{I2CP_PORT}": router.i2cp or f"{router.address}:{I2CP_PORT}",
            f'# i2pcontrol = "https://127.0.0.1:{I2PCONTROL_PORT}/"': (
                f'i2pcontrol = "https://{router.address}:{I2PCONTROL_PORT}/"\n'
                f'i2pcontrol_fingerprint = "{router.fingerprint}"'
            ),
            'mode = "off"': 'mode = "meta"',
            "# [router.session]": _SESSION_TABLE + "\n# [router.session]",
            f"127.0.0.1:{before}": listen,
        },
    )
    secrets = directory / SECRETS_FILE
    secrets.write_text(f'i2pcontrol_password = "{password}"\n{secrets.read_text(encoding="utf-8")}', encoding="utf-8")
    file = directory / MASTER_FILE
    file.touch(mode=0o600)
    file.write_bytes(master.encode())
