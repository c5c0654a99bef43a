"""What the commands `leaves`, `publisher` and `farm` take: what administrators say of a farm."""

import argparse
from pathlib import Path
from typing import Any, Final, NamedTuple

from gf_i2p.farm.admin_entries import MAX_REASON
from gf_i2p.farm.strict_json import RecordError, a_hash
from gf_i2p.netdb.encoding import from_b32_address
from gf_i2p.netdb.errors import StructureError
from gf_i2p.wire.limits import MAX_ID


class Action(NamedTuple):
    """One command of a group."""

    group: str
    name: str
    changes: bool = True
    takes: str = ""
    """"leaf", "server", "cost", "changes" or "names"."""


COMMANDS: Final = (
    (
        "leaves",
        "which leaves the farm publishes, and at what cost",
        (
            (Action("leaves", "list", changes=False), "show all leaves that somebody names, and why one is not listed"),
            (Action("leaves", "exclude", takes="leaf"), "have a leaf left out, whatever its router says"),
            (Action("leaves", "include", takes="leaf"), "take that back"),
            (Action("leaves", "cost", takes="cost"), "have a leaf listed at this cost"),
        ),
    ),
    (
        "publisher",
        "who publishes, or serves; drain a server before it is stopped for a while",
        (
            (Action("publisher", "show", changes=False), "show who publishes, and why the others do not"),
            (Action("publisher", "move", takes="server"), "have a server publish as long as it can"),
            (Action("publisher", "release"), "take that back: the farm chooses"),
            (Action("publisher", "drain", takes="server"), "have a server publish only when no other one can"),
            (Action("publisher", "undrain", takes="server"), "take that back"),
        ),
    ),
    (
        "farm",
        "what is set for the whole farm, and who has changed it",
        (
            (Action("farm", "show", changes=False), "show the parameters, their ranges, and who changed them"),
            (Action("farm", "set", takes="changes"), "change parameters"),
            (Action("farm", "unset", takes="names"), "have parameters as they are by default"),
            (Action("farm", "log", changes=False), "show who changed what, and when"),
        ),
    ),
)


def add(action: Action, command: argparse.ArgumentParser) -> None:
    """Say what an action takes."""
    where = "of a server that runs; or admin-NAME.toml, anywhere" if action.changes else "of a server that runs"
    command.set_defaults(action=action)
    command.add_argument("directory", type=Path, metavar="DIR|FILE" if action.changes else "DIR", help=where)
    if action.takes in {"leaf", "cost"}:
        command.add_argument(
            "leaf",
            type=leaf,
            metavar="LEAF",
            help="its b32 address, or its hash in base64 (one that begins with - behind --)",
        )
    if action.takes == "cost":
        command.add_argument(
            "cost", type=_cost, metavar="COST", help="0 to 255, clients prefer less; or auto: as the farm reckons it"
        )
    if action.takes == "server":
        command.add_argument("id", type=_server, metavar="ID", help="of a server")
    if action.takes == "changes":
        command.add_argument("changes", type=_change, nargs="+", metavar="NAME=VALUE", help="see `gf-i2p farm show`")
    if action.takes == "names":
        command.add_argument("changes", type=_default, nargs="+", metavar="NAME", help="see `gf-i2p farm show`")
    if action.changes:
        command.add_argument("--reason", type=_reason, metavar="TEXT", help="why, for those who read the farm's log")


def leaf(text: str) -> bytes:
    """Read a leaf's hash. Raises `argparse.ArgumentTypeError`."""
    try:
        return from_b32_address(text.lower())
    except StructureError:
        pass
    try:
        return a_hash(text, "the hash")
    except RecordError as error:
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r}: expected an address that ends in .b32.i2p, or a hash of 32 bytes in I2P's base64"
        ) from error


def _server(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ID)) else MAX_ID
    if number >= MAX_ID:
        raise argparse.ArgumentTypeError(f"{text!r}: expected the id of a server")
    return number


def _cost(text: str) -> int | None:
    if text == "auto":
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len("255") else 256
    if number > 255:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 0 to 255, or auto")
    return number


def _change(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE, as in margin=100")
    return name, int(value) if value.isascii() and value.isdigit() and len(value) < 20 else value


def _default(text: str) -> tuple[str, Any]:
    return text, None


def _reason(text: str) -> str:
    if len(text) > MAX_REASON:
        raise argparse.ArgumentTypeError(f"a reason has up to {MAX_REASON} characters, not {len(text)}")
    return text
