"""The files in a node's directory."""

import os
from pathlib import Path
from typing import Final

CONFIG_FILE: Final = "gf-i2p.toml"
SECRETS_FILE: Final = "secrets.toml"
DATABASE_FILE: Final = "log.sqlite"
DESTINATION_FILE: Final = "destination.dat"
MASTER_FILE: Final = "master.dat"
BRIDGE_CERTIFICATE_FILE: Final = "bridge-certificate.pem"
BRIDGE_KEY_FILE: Final = "bridge-key.pem"
SOCKET_FILE: Final = "node.sock"
HISTORY_DIRECTORY: Final = "history"

SOCKET_PATH_BYTES: Final = 107
"""Linux takes no longer path for a Unix socket (unix(7))."""


def socket_path_fault(path: Path) -> str | None:
    """Say what is wrong with a path for a Unix socket, or None."""
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
        return None
    return f"{path} is longer than {SOCKET_PATH_BYTES} bytes, too long for a socket: use a shorter directory"
