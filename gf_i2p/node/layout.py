"""The files in a node's directory."""

from typing import Final

CONFIG_FILE: Final = "gf-i2p.toml"
SECRETS_FILE: Final = "secrets.toml"
DATABASE_FILE: Final = "log.sqlite"
SOCKET_FILE: Final = "node.sock"
