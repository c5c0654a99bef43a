"""Keys of the sets below the first one: each branch of a tree is a destination of its own, the same on every server.

Where the master's own key is, they follow from it (HKDF, RFC 5869). A server with delegated keys cannot make them:
there each stands in a file, `branch-N.dat` beside the master's, in the routers' format, mode 0600. They are made where
the master's own key is, by `gf-i2p keys delegate --branches`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gf_i2p.farm.choice.tree import BRANCHES
from gf_i2p.netdb.destination import FILLER_BYTES
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.signing import PRIVATE_KEY_BYTES
from gf_i2p.node.files.checked_read import ConfigError, check_mode, read_regular

BranchKeys = Callable[[int], DestinationKeys]
"""Gives the keys of the branch of this number, 0 to 15. Raises `NetDbError` where there are none."""

_MAX_FILE_BYTES: Final = 16 * 1024
_PURPOSE: Final = b"gf-i2p: a branch of a tree of Meta lease sets, "


class NoBranchKeysError(NetDbError):
    """No keys for a branch are here; the message says what to do."""


def derive(master: DestinationKeys, number: int) -> DestinationKeys:
    """Return the keys of a branch, always the same. Raises `NoBranchKeysError` when the master's are delegated."""
    if not 0 <= number < BRANCHES:
        raise NoBranchKeysError(f"a tree has the branches 0 to {BRANCHES - 1}, not {number}")
    if master.offline is not None:
        raise NoBranchKeysError(
            "the keys of branches follow from the master's own key, and here is a delegated one: make them where that "
            "is (gf-i2p keys delegate --branches), and bring them here"
        )
    made = HKDF(SHA256(), PRIVATE_KEY_BYTES + FILLER_BYTES, salt=None, info=_PURPOSE + bytes([number])).derive(
        master.key.private
    )
    pieces = iter((made[:PRIVATE_KEY_BYTES], made[PRIVATE_KEY_BYTES:]))
    return DestinationKeys.generate(lambda _: next(pieces))


def branch_file(master: Path, number: int) -> Path:
    """Return where the keys of a branch stand, when the master's are in this file."""
    return master.with_name(f"branch-{number}.dat")


def branch_keys(master: DestinationKeys, path: Path) -> BranchKeys:
    """Say how this server comes by the keys of branches, each when it is needed first. `path`: of the master's keys.

    A file takes the place of what follows from the master's key.
    """
    known: dict[int, DestinationKeys] = {}

    def keys(number: int) -> DestinationKeys:
        if number not in known:
            file = branch_file(path, number)
            if master.offline is not None and not file.exists():
                raise NoBranchKeysError(
                    f"the farm has more leaves than one set has room for, and {file} is missing, the keys of a set "
                    "below the first one: make them where the master's own key is (gf-i2p keys delegate --branches), "
                    "the same for all servers, and put them there; or gf-i2p farm set tree=best"
                )
            known[number] = _read(file) if file.exists() else derive(master, number)
        return known[number]

    return keys


def _read(file: Path) -> DestinationKeys:
    try:
        data, status = read_regular(file, _MAX_FILE_BYTES)
        keys = DestinationKeys.parse(data)
        check_mode(file, status)
    except ConfigError as error:
        raise NoBranchKeysError(str(error)) from error
    except NetDbError as error:
        raise NoBranchKeysError(f"{file} is no private key file of an I2P destination: {error}") from error
    return keys
