"""`gf-i2p set`: changes settings in a node's `gf-i2p.toml`, and has a running node take them over."""

import argparse
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomlkit

from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.disk_faults import all_or_nothing_on
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.local_client import ask, reload_node
from gf_i2p.cli.shared.router_setup import LOGINS, check_login, is_password_at_fault
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import SECRETS_FILE
from gf_i2p.node.files.settings_edit import change_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory of a node, which may run")
    parser.add_argument(
        "changes",
        nargs="+",
        metavar="KEY=VALUE",
        help="a setting as in publish.mode=failover; KEY= removes the setting's line, so that its default counts",
    )


def run(options: argparse.Namespace) -> Answer:
    """Change the settings, all together or none. Raises `ConfigError` and `CommandError`."""
    changes: dict[str, str | None] = {}
    for each in options.changes:
        key, equals, value = each.partition("=")
        key = key.strip()
        if not equals or not key:
            raise CommandError(f"{each!r} is no change of a setting: write KEY=VALUE", code=Exit.USAGE)
        if key in changes:
            raise CommandError(f"{key} stands there twice: give each setting one value", code=Exit.USAGE)
        changes[key] = value.strip() or None
    with all_or_nothing_on(options.directory):
        done = change_settings(
            options.directory, changes, check=lambda config: _check_logins(options.directory, changes, config)
        )
    clause, reloaded, pending = reload_node(options.directory, ask)
    width = max(len(change.key) for change in done)
    lines = [f"{change.key:<{width}}  {_shown(change.old)} -> {_shown(change.new)}" for change in done]
    data = {"changes": [asdict(change) for change in done], "reloaded": reloaded, "needs_restart": pending}
    return Answer(data, "\n".join((*lines, clause)))


def _check_logins(directory: Path, changed: Collection[str], config: Config) -> None:
    """Raise `ConfigError` when this change makes a login at the router that the node could not use at its next start.

    Only a login whose own setting is changed counts: the operator adds one login after the other.
    """
    names = [name for name in LOGINS if f"router.{name if name == 'i2pcontrol' else f'{name}_user'}" in changed]
    if not names or config.router is None:
        return
    secrets = Secrets.load(directory)
    for name in names:
        try:
            check_login(name, config.router, secrets)
        except ConfigError as error:
            text = f"nothing was changed: {str(error).rstrip('.')}"
            if is_password_at_fault(name, config.router, secrets):
                text += (
                    f'. Write {name}_password = "…" by an editor into {directory / SECRETS_FILE}, above its first '
                    "table; then repeat this command"
                )
            raise ConfigError(text) from error


def _shown(value: Any) -> str:
    return "(default)" if value is None else tomlkit.item(value).as_string()
