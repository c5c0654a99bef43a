"""Files that are named on the command line: what is wrong with one is a wrong argument, as a bad option is."""

from pathlib import Path

from gf_i2p.cli.errors import CommandError, Exit
from gf_i2p.node.clientfile import ClientFile
from gf_i2p.node.errors import ConfigError


def load_client_file(path: Path) -> ClientFile:
    """Read the file of a client or an administrator. Raises `CommandError`."""
    try:
        return ClientFile.load(path)
    except ConfigError as error:
        raise CommandError(str(error), code=Exit.USAGE if path.exists() else Exit.FAILED) from error
