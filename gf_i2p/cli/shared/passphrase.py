"""The passphrase of a farm's sealed secrets: from the terminal without an echo, or from a private file.

A passphrase is never an argument or an environment variable: other programs of the machine could read those.
"""

import argparse
import getpass
import sys
import warnings
from pathlib import Path
from typing import Final

from gf_i2p.cli.shared.argument_types import as_command_error
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.node.files.checked_read import ConfigError, check_mode, read_regular

LEAST: Final = 12
"""Least characters of a new passphrase."""
LEAST_DIFFERENT: Final = 6
"""Least different characters of a new passphrase."""
MAX_BYTES: Final = 1024
"""Most bytes of a passphrase."""


def add_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--secrets` and `--passphrase-file`. `what`: what the command does with secrets, for the help."""
    parser.add_argument("--secrets", action="store_true", help=f"{what}; asks for a passphrase")
    parser.add_argument(
        "--passphrase-file",
        type=Path,
        metavar="FILE",
        help="with --secrets: read the passphrase, one line, from a file that only its owner can read",
    )


def check_options(options: argparse.Namespace) -> None:
    """Raise `CommandError` when the options do not fit together, or when nobody can be asked."""
    if options.passphrase_file is not None and not options.secrets:
        raise CommandError("--passphrase-file: add --secrets", code=Exit.USAGE)
    if options.secrets and options.passphrase_file is None and (options.json or not sys.stdin.isatty()):
        raise CommandError("nobody can be asked for a passphrase here: give --passphrase-file FILE", code=Exit.USAGE)


def passphrase(options: argparse.Namespace, *, new: bool = False) -> str:
    """Return the passphrase. Raises `CommandError`.

    `new`: the passphrase is for a new seal. So a person types the passphrase twice, and a weak passphrase is refused.
    """
    path: Path | None = options.passphrase_file
    if path is not None:
        with as_command_error(path):
            text = _of_file(path)
    else:
        text = _asked("Passphrase: ")
    _check(text, new=new)
    if new and path is None and _asked("The same passphrase again: ") != text:
        raise CommandError("the two passphrases are not the same: nothing was written", code=Exit.USAGE)
    return text


def _check(text: str, *, new: bool) -> None:
    if not text:
        raise CommandError("the passphrase is empty", code=Exit.USAGE)
    if len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES:
        raise CommandError(f"a passphrase has up to {MAX_BYTES} bytes", code=Exit.USAGE)
    if new and (len(text) < LEAST or len(set(text)) < LEAST_DIFFERENT):
        raise CommandError(
            f"the passphrase is too weak: a new one has {LEAST} characters at least, and {LEAST_DIFFERENT} different "
            "ones. Six random words make a good passphrase",
            code=Exit.USAGE,
        )


def _of_file(path: Path) -> str:
    """Read the one line of a private file. Raises `ConfigError`, which does not show the text."""
    data, status = read_regular(path, MAX_BYTES + 3)
    check_mode(path, status)
    line = data.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) > MAX_BYTES or b"\n" in line or b"\r" in line:
        raise ConfigError(f"{path} has more than one line of up to {MAX_BYTES} bytes: write the passphrase alone")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None  # that error's own text would show the passphrase


def _asked(question: str) -> str:
    """Ask on the terminal. Raises `CommandError` without an answer, and where a typed passphrase would be seen."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(question)
    except EOFError as error:
        raise CommandError("no passphrase was typed: nothing was done", code=Exit.USAGE) from error
    except getpass.GetPassWarning as error:
        raise CommandError(
            "this terminal would show the passphrase: give --passphrase-file FILE", code=Exit.USAGE
        ) from error
