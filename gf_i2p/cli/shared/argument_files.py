"""Files that are named on the command line: what is wrong with one is a wrong argument, as a bad option is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.errors import ConfigError


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Read a file that the operator has named in this context. Raises `CommandError` in the place of `ConfigError`."""
    try:
        yield
    except ConfigError as error:
        raise CommandError(str(error), code=Exit.USAGE if path.exists() else Exit.FAILED) from error


def load_client_file(path: Path) -> ClientFile:
    """Read the file of a client or an administrator. Raises `CommandError`."""
    if not path.exists():
        raise CommandError(f"There is no file {path}: gf-i2p init makes one, with --client NAME or --admin NAME.")
    with named(path):
        return ClientFile.load(path)
