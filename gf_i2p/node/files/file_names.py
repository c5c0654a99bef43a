"""The files in a node's directory."""

from typing import Final

CONFIG_FILE: Final = "gf-i2p.toml"
SECRETS_FILE: Final = "secrets.toml"
DATABASE_FILE: Final = "log.sqlite"
DESTINATION_FILE: Final = "destination.dat"
MASTER_FILE: Final = "master.dat"
BRIDGE_CERTIFICATE_FILE: Final = "bridge-certificate.pem"
BRIDGE_KEY_FILE: Final = "bridge-key.pem"
SERVER_KEYS_FILE: Final = "server-keys.json"
"""Public halves of the servers' keys, as the committed entries of the log have them; written by the node."""
ADMITTED_FILE: Final = "admitted.json"
"""Servers that the committed entries of the log have admitted; written by the node."""
SOCKET_FILE: Final = "node.sock"
FILES_LOCK: Final = "files-lock"
"""Lock of the command that changes files of the directory; contains only that command's process id."""
HISTORY_DIRECTORY: Final = "history"
