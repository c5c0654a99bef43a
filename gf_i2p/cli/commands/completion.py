"""`gf-i2p completion`: prints a script by which a shell completes the commands and options of this program."""

import argparse
from typing import Final

import shtab

from gf_i2p.cli.shared.command import Answer

_PLACES: Final = {
    "bash": "~/.local/share/bash-completion/completions/gf-i2p",
    "zsh": "a directory of $fpath, as _gf-i2p",
    "tcsh": "~/.tcshrc",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    places = "; ".join(f"{shell}: {place}" for shell, place in _PLACES.items())
    parser.add_argument("shell", choices=tuple(_PLACES), help=f"the shell. Keep the script in its place. {places}")


def run(options: argparse.Namespace) -> Answer:
    """Print the script. `options.all_commands` makes the parser of all commands."""
    script = shtab.complete(options.all_commands(), shell=options.shell)
    return Answer({"shell": options.shell, "script": script}, script, is_file=True)
