"""The arguments of `gf-i2p keys`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared.argument_types import whole
from gf_i2p.farm.record.status_record import FIRST_MEMBER_ID
from gf_i2p.node.files.layout import MASTER_FILE
from gf_i2p.node.files.router_config import check_options

DEFAULT_DAYS: Final = 90
MAX_DAYS: Final = 365
"""A stolen key is good to its end: nobody can call the key back."""

_FIXED: Final = ("i2cp.leaseSetType", "i2cp.leaseSetEncType")
"""Options that an operator cannot set: the program decides the kind of its lease sets."""

Add = Callable[[Any, str, str, Callable[[argparse.Namespace], object]], argparse.ArgumentParser]


def add_keys(commands: Any, add: Add, run: Callable[[argparse.Namespace], object]) -> None:
    """Add the commands to argparse's `commands`. `add` makes one command."""
    keys = commands.add_parser("keys", help="the master's key, kept off the nodes, and the keys that nodes publish by")
    actions = keys.add_subparsers(required=True, metavar="COMMAND")
    master = actions.add_parser("master", help="the master's own key")
    of_master = master.add_subparsers(required=True, metavar="COMMAND")

    new = add(of_master, "new", "make a new master destination", run)
    new.add_argument("file", type=Path, metavar="FILE", help="written with mode 0600; nothing is overwritten")

    import_ = add(of_master, "import", "take over the private keys of a destination that a router has run", run)
    import_.add_argument(
        "source", metavar="SOURCE", help="a router's private key file, or its base64 (SAM's PRIV); - is standard input"
    )
    import_.add_argument(
        "--out",
        dest="file",
        type=Path,
        default=Path(MASTER_FILE),
        metavar="FILE",
        help=f"written with mode 0600; nothing is overwritten (default: {MASTER_FILE})",
    )

    show = add(of_master, "show", "show the public parts of a key file", run)
    show.add_argument("file", type=Path, metavar="FILE", help="a master's, or a node's")

    delegate = add(actions, "delegate", "let one server publish for the master until a date, by a key of its own", run)
    delegate.add_argument("master", type=Path, metavar="MASTERFILE")
    delegate.add_argument("--server", type=whole(FIRST_MEMBER_ID - 1, low=0), required=True, metavar="ID")
    delegate.add_argument(
        "--days",
        type=whole(MAX_DAYS),
        default=DEFAULT_DAYS,
        metavar="D",
        help=f"days until the key ends (default: {DEFAULT_DAYS}, up to {MAX_DAYS})",
    )
    delegate.add_argument(
        "--out", type=Path, metavar="FILE", help="written with mode 0600 (default: publish-server-ID.keys)"
    )

    delegate.add_argument(
        "--option",
        dest="options",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of the tunnels by which the server serves in mode failover beside an i2pd, as inbound.length=2: "
        "the "
        "master signs it; repeatable. A Java router follows [publish.service.session] in the server's settings",
    )
    delegate.add_argument(
        "--branches",
        action="store_true",
        help="also write branch-0.dat to branch-15.dat beside the key, for more leaves than one set has room for "
        "(farm set "
        "tree=tree); all servers share these keys, and these keys do not end",
    )

    status = add(actions, "status", "say by which keys a node publishes, and until when", run)
    status.add_argument("directory", type=Path, metavar="DIR", help="of a node")
    for name, command in (
        ("new", new),
        ("import", import_),
        ("show", show),
        ("delegate", delegate),
        ("status", status),
    ):
        command.set_defaults(action=name)


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    try:
        check_options({name: value})
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not equals or name in _FIXED:
        raise argparse.ArgumentTypeError(f"{name} cannot be chosen" if equals else f"{text[:80]!r} is no NAME=VALUE")
    return name, value
