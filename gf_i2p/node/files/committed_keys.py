"""The servers' keys by the committed entries of the log (`serverKey`), kept in the node's directory.

After a start a node does not know which entries of its log are committed. Without this file the node would accept a
replaced key again until it hears from a leader. A removed server keeps its entry here, so its replaced key does not
count again, either. The file holds public halves only.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from gf_i2p.farm.admin_entries import ServerKey
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.node.files.checked_read import ConfigError, read_text
from gf_i2p.node.files.file_names import SERVER_KEYS_FILE
from gf_i2p.storage.private_files import sync_directory, write_durably
from gf_i2p.wire.digest import Verifier
from gf_i2p.wire.key_proof import PublicKey


def load(directory: Path) -> dict[int, ServerKey]:
    """Read the keys by server id; none without the file. Raises `ConfigError`."""
    path = directory / SERVER_KEYS_FILE
    if not path.exists():
        return {}
    try:
        return {int(server): ServerKey.parse(fields) for server, fields in json.loads(read_text(path)).items()}
    except (ValueError, AttributeError, RecordError, RecursionError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}): copy the file of another server, or remove it; without it, this server "
            "accepts replaced keys until it knows the newest entries of the log"
        ) from error


def save(directory: Path, keys: Mapping[int, ServerKey]) -> None:
    """Write the keys; the file is on the disk on return. Raises `OSError`."""
    text = json.dumps({str(server): key.encode() for server, key in sorted(keys.items())}, indent=1) + "\n"
    write_durably(directory / SERVER_KEYS_FILE, text.encode(), force=True)


def forget(directory: Path) -> None:
    """Forget all keys. In a farm that begins anew, ids and indexes may mean others. Raises `OSError`."""
    (directory / SERVER_KEYS_FILE).unlink(missing_ok=True)
    sync_directory(directory)


def newest(known: Mapping[int, ServerKey], more: Mapping[int, ServerKey]) -> dict[int, ServerKey]:
    """Return for each server the key of the later entry."""
    keys = dict(known)
    for server, key in more.items():
        if server not in keys or keys[server].index < key.index:
            keys[server] = key
    return keys


def in_force(verifiers: Mapping[str, Verifier], keys: Mapping[int, ServerKey]) -> dict[str, Verifier]:
    """Return the users that may log in: the users of secrets.toml, each server with its committed key if there is one.

    A user that is not in secrets.toml stays out: the operator has removed the user.
    """
    users = dict(verifiers)
    for server, key in keys.items():
        user = f"server-{server}"
        if user in users:
            users[user] = PublicKey(key.key)
    return users
