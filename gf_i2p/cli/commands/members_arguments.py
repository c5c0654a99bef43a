"""Arguments of `gf-i2p members`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gf_i2p.cli.commands.keys_arguments import Add
from gf_i2p.cli.shared.argument_types import server, whole
from gf_i2p.farm.record.status_record import FIRST_MEMBER_ID
from gf_i2p.wire.limits import MAX_ID


def add_members(commands: Any, add: Add, run: Callable[[argparse.Namespace], object]) -> None:
    """Add the commands to argparse's `commands`. `add` makes one command."""
    members = commands.add_parser("members", help="show, take in and remove the servers of a farm while it runs")
    actions = members.add_subparsers(required=True, metavar="COMMAND")
    for name, text in [
        ("list", "show the servers of a farm, as a running node knows them"),
        ("invite", "make the directory of a new server, and the file by which the other servers know it"),
        ("accept", "let the server of a directory know an invited one"),
        ("add", "have the leader take in a server that does not ask the leader"),
        ("remove", "remove a server from the farm; on the leader's machine, or on the server's own"),
        ("stepdown", "have the leader hand over to another server"),
        ("invite-leaf", "make the directory of a leaf-only member, and the file by which the servers know it"),
        ("remove-leaf", "have the server of a directory refuse a leaf-only member"),
    ]:
        command = add(actions, name, text, run)
        command.set_defaults(action=name)
        if name in {"invite", "accept", "invite-leaf", "remove-leaf"}:
            command.add_argument("directory", type=Path, metavar="DIR", help="of a server")
        else:
            command.add_argument(
                "directory",
                type=Path,
                metavar="DIR|FILE",
                help="of a running server; or admin-NAME.toml, on any machine",
            )
        if name in {"invite", "add"}:
            command.add_argument("server", type=server, metavar="ID=ENDPOINT")
        if name == "invite-leaf":
            command.add_argument(
                "--id",
                type=whole(MAX_ID - 1, low=FIRST_MEMBER_ID),
                metavar="ID",
                help=f"the member's id, from {FIRST_MEMBER_ID} on (default: the next one)",
            )
        if name in {"invite", "invite-leaf"}:
            command.add_argument("--into", type=Path, required=True, metavar="DIR", help="where both are written")
        if name == "accept":
            command.add_argument(
                "file", type=Path, metavar="FILE", help="the file from `members invite` or `invite-leaf`"
            )
        if name == "remove-leaf":
            command.add_argument("id", type=whole(MAX_ID - 1, low=FIRST_MEMBER_ID), metavar="ID")
        if name == "remove":
            command.add_argument("id", type=whole(MAX_ID - 1, low=0), metavar="ID")
            command.add_argument(
                "--force", action="store_true", help="also a dead server, or a server that the farm may need"
            )
