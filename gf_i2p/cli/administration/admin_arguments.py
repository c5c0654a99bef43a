"""Arguments of `gf-i2p leaves`, `publisher` and `farm`, by which administrators change a farm."""

import argparse
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from gf_i2p.farm.admin_entries import MAX_REASON
from gf_i2p.farm.strict_json import RecordError, a_hash
from gf_i2p.netdb.encoding import from_b32_address
from gf_i2p.netdb.errors import StructureError
from gf_i2p.wire.limits import MAX_ID

_BEGINNING: Final = re.compile(r"([a-z2-7]{8,52})(?:…)?(?:\.b32\.i2p)?")
"""The beginning of a b32 address."""


class Action(NamedTuple):
    """One command of a group."""

    group: str
    name: str
    changes: bool = True
    takes: str = ""
    """Kind of the further argument: "leaf", "server", "cost", "changes" or "names"; empty when there is none."""


def add(action: Action, command: argparse.ArgumentParser) -> None:
    """Add the arguments of one action to its parser."""
    directory_help = "the directory of a running server"
    if action.changes:
        directory_help += "; or, on any machine, the file admin-NAME.toml"
    command.set_defaults(action=action)
    command.add_argument("directory", type=Path, metavar="DIR|FILE" if action.changes else "DIR", help=directory_help)
    if action.takes in {"leaf", "cost"}:
        command.add_argument(
            "leaf",
            type=leaf,
            metavar="LEAF",
            help="the leaf's b32 address, or its beginning as tables show it; or its hash in base64 (write -- before a "
            "hash that begins with -)",
        )
    if action.takes == "cost":
        command.add_argument(
            "cost",
            type=_cost,
            metavar="COST",
            help="0 to 255, clients prefer a lower cost; or auto: the farm computes the cost",
        )
    if action.takes == "server":
        command.add_argument("id", type=_server, metavar="ID", help="the id of a server")
    if action.takes == "changes":
        command.add_argument("changes", type=_change, nargs="+", metavar="NAME=VALUE", help="see `gf-i2p farm show`")
    if action.takes == "names":
        command.add_argument("changes", type=_default, nargs="+", metavar="NAME", help="see `gf-i2p farm show`")
    if action.changes:
        command.add_argument("--reason", type=_reason, metavar="TEXT", help="the reason, for readers of the farm's log")


def leaf(text: str) -> bytes | str:
    """Read a leaf's hash, by its b32 address or in base64; or the beginning of its address: "qjwctoz2….b32.i2p".

    Raises `argparse.ArgumentTypeError`.
    """
    try:
        return from_b32_address(text.lower())
    except StructureError:
        pass
    try:
        return a_hash(text, "the hash")
    except RecordError as error:
        if (beginning := _BEGINNING.fullmatch(text.lower())) is not None:
            return beginning[1]
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r}: expected an address that ends in .b32.i2p, its first 8 letters or more, or a hash of 32 "
            "bytes in I2P's base64"
        ) from error


def _server(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ID)) else MAX_ID
    if number >= MAX_ID:
        raise argparse.ArgumentTypeError(f"{text!r}: expected the id of a server, a whole number below {MAX_ID}")
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
