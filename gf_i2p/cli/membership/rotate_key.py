"""`gf-i2p members rotate-key`: replaces a server's login key, on the server's own machine.

The steps: a new key beside the present one, in the file and in the running node; the public half in the farm's log;
then the new key in the place of the present one. The command may stop anywhere, and does the rest when it is run again.
"""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from gf_i2p.cli.administration.administer import POST_SECONDS, administrators_file, post, wait_until_applied
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.local_client import Ask, reload_node
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files import key_rotation
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.file_names import DATABASE_FILE, SECRETS_FILE
from gf_i2p.storage.private_files import holder
from gf_i2p.wire.key_proof import PublicKey


def rotate(options: argparse.Namespace, ask: Ask) -> Answer:
    """Replace the key. Raises `CommandError` and `ConfigError`; then the server still logs in."""
    directory: Path = options.directory
    config = Config.load(directory)
    runs = holder(directory / DATABASE_FILE) is not None
    if not runs and options.admin is None:
        raise CommandError(
            f"nothing was changed: no node runs in {directory}, and the farm must learn the new key. Start the node, "
            "or give an administrator's file: --admin admin-NAME.toml"
        )
    new = key_rotation.begin(directory)
    if runs:
        _check_reloaded(directory, ask)
    index = None
    if not runs or not _is_known(directory, ask, config.node.id, new.public):
        index = _post(options, config, new.public, ask)
        if runs:
            _check_applied(wait_until_applied(directory, ask, index), config.node.id, new.public, index)
    key_rotation.finish(directory, new)
    note = reload_node(directory, ask)[0]
    return Answer(
        {"server": config.node.id, "key": str(new.public), "index": index},
        f"server {config.node.id} logs in by its new key now, {new.public}; {note}.\nServers that have the newest "
        "entries refuse the old key. It stays in former_keys, for servers that were away.",
    )


def _check_reloaded(directory: Path, ask: Ask) -> None:
    """Make the running node load the new key, which other servers will soon want. Raises `CommandError`."""
    note, reloaded, _ = reload_node(directory, ask)
    if not reloaded:
        raise CommandError(
            f"the node has not loaded the new key, so the farm was not told: {note}. Then run the command again: it "
            f"goes on with the new key in {SECRETS_FILE}"
        )


def _post(options: argparse.Namespace, config: Config, public: PublicKey, ask: Ask) -> int:
    """Have the farm commit the public half; return the index of the entry. Raises `CommandError`."""
    server = config.node.id
    admin = None if options.admin is None else administrators_file(options.admin)
    if admin is not None and admin.cluster != config.node.cluster:
        raise CommandError(
            f"{options.admin} is for the farm {admin.cluster!r}, and this server belongs to {config.node.cluster!r}",
            code=Exit.USAGE,
        )
    by = f"server-{server}" if admin is None else admin.user
    entry = AdminEntry(config.node.cluster, now_ms(), by, "serverKey", server=server, key=public.raw)
    if admin is not None:
        return asyncio.run(post(admin, [entry], lambda _: None))[0]
    body = {"values": [entry.encode().decode()]}
    path = f"/v1/entries?timeout={POST_SECONDS}"
    answer = ask(options.directory, "POST", path, seconds=POST_SECONDS + 5, body=body)
    return int(answer["index"])


def _is_known(directory: Path, ask: Ask, server: int, public: PublicKey) -> bool:
    """Whether the applied part of the node's log has this key as the server's. Raises `CommandError`."""
    answer: dict[str, Any] = ask(directory, "GET", "/v1/administration")
    if "server_keys" not in answer:
        raise CommandError("the running node is of an older version: restart the node, then run the command again")
    return _has_key(answer, server, public)


def _has_key(answer: dict[str, Any], server: int, public: PublicKey) -> bool:
    return bool(answer["server_keys"].get(str(server)) == str(public))


def _check_applied(answer: Any, server: int, public: PublicKey, index: int) -> None:
    """Check that the node has the committed key. `answer`: see `wait_until_applied`. Raises `CommandError`."""
    if answer is None:
        raise CommandError(
            f"the new key is committed at index {index}, and this node has not applied the entry yet. The server logs "
            "in by both keys; run the command again in a moment",
            code=Exit.DEGRADED,
            outcome="unknown",
        )
    if not _has_key(answer, server, public):
        raise CommandError(
            f"the new key was committed at index {index}, and another key has replaced it since. The server logs in by "
            "both of its keys; find out who else replaces keys, then run the command again",
        )
