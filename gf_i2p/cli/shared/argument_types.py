"""Types of command-line arguments for argparse: whole numbers, seconds, servers, and files.

A fault in a file that the operator named counts as a wrong argument: the exit code is `Exit.USAGE`.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gf_i2p.admin.local_socket import MAX_TIMEOUT
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.meant import no_file
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.limits import MAX_ID

if TYPE_CHECKING:
    from gf_i2p.node.files.client_file import ClientFile


def server(text: str) -> tuple[int, Endpoint | None]:
    """Return the id and the endpoint from the text ID=i2p or ID=tcp://HOST:PORT.

    For ID=i2p the endpoint is None: the server gets a new address inside I2P. Raises `argparse.ArgumentTypeError`.
    """
    number, equals, endpoint = text.partition("=")
    if not equals or not number.isascii() or not number.isdigit() or not 0 <= int(number) < MAX_ID:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected ID=i2p or ID=tcp://HOST:PORT, the id a number below {MAX_ID}"
        )
    if endpoint == "i2p":
        return int(number), None
    try:
        place = Endpoint.parse(endpoint)
    except EndpointError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if _is_unspecified(place.host):
        raise argparse.ArgumentTypeError(
            f"{text!r}: no other server reaches {place.host}. Give the address or the name of the server's machine; "
            f"node.listen in the new directory may be {place}"
        )
    return int(number), place


def _is_unspecified(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def whole_number(high: int, *, low: int = 1) -> Callable[[str], int]:
    """Make a reader of whole numbers from `low` to `high`, both included."""

    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(high)) else -1
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {low} to {high}")
        return number

    return parse


def seconds(text: str) -> float:
    """Read the time limit of a command: above 0, and at most `MAX_TIMEOUT` seconds."""
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit <= MAX_TIMEOUT:
        raise argparse.ArgumentTypeError(f"{text!r}: expected seconds, up to {MAX_TIMEOUT:g}")
    return limit


NODE_METAVAR: Final = "DIR|FILE"
NODE_HELP: Final = "the directory of a running node; or, on any machine, the file admin-NAME.toml or viewer-NAME.toml"
"""How a command names the node that it asks, see `local_client`."""


@contextmanager
def as_command_error(path: Path) -> Iterator[None]:
    """Raise `CommandError` instead of `ConfigError` while a file that the operator named is read.

    The exit code is `Exit.FAILED` for a missing file, and `Exit.USAGE` for a file with a fault.
    """
    from gf_i2p.node.files.checked_read import ConfigError  # noqa: PLC0415 -- slow, and only for a file

    try:
        yield
    except ConfigError as error:
        raise CommandError(str(error), code=Exit.USAGE if path.exists() else Exit.FAILED) from error


def load_client_file(path: Path) -> "ClientFile":
    """Read the file of a client or an administrator. Raises `CommandError`."""
    from gf_i2p.node.files.client_file import ClientFile  # noqa: PLC0415 -- slow, and only for a file

    if not path.exists():
        raise CommandError(no_file(path, "gf-i2p init makes such a file, with --client NAME or --admin NAME."))
    if path.is_dir():
        raise CommandError(
            f"{path} is a directory: this command takes the file of a client, an administrator or a viewer",
            code=Exit.USAGE,
        )
    with as_command_error(path):
        return ClientFile.load(path)
