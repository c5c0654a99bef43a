"""Keys of the branches of a tree of Meta lease sets: each branch has a destination, the same on every server.

A server with the master's own key derives the branch keys from that key (HKDF, RFC 5869). A server with delegated keys
cannot derive branch keys. There each branch key stands in a file, `branch-N.dat` beside the master's, in the routers'
format, mode 0600. `gf-i2p keys delegate --branches` makes these files where the master's own key is.
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
"""Returns the keys of the branch of this number, 0 to 15. Raises `NetDbError` when the keys are missing."""

_MAX_FILE_BYTES: Final = 16 * 1024
_PURPOSE: Final = b"gf-i2p: a branch of a tree of Meta lease sets, "


class NoBranchKeysError(NetDbError):
    """The keys of a branch are missing here; the message says what to do."""


def derive(master: DestinationKeys, number: int) -> DestinationKeys:
    """Return the keys of the branch `number`, always the same.

    Raises `NoBranchKeysError` when the master's key is delegated, and for a number outside 0 to 15.
    """
    if not 0 <= number < BRANCHES:
        raise NoBranchKeysError(f"a tree has the branches 0 to {BRANCHES - 1}, not {number}")
    if master.offline is not None:
        raise NoBranchKeysError(
            "branch keys are derived from the master's own key, and the key here is delegated: make the branch keys "
            "where the master's own key is (gf-i2p keys delegate --branches), and copy them to this server"
        )
    key_material = HKDF(SHA256(), PRIVATE_KEY_BYTES + FILLER_BYTES, salt=None, info=_PURPOSE + bytes([number])).derive(
        master.key.private
    )
    pieces = iter((key_material[:PRIVATE_KEY_BYTES], key_material[PRIVATE_KEY_BYTES:]))
    return DestinationKeys.generate(lambda _: next(pieces))


def branch_file(master: Path, number: int) -> Path:
    """Return the path of a branch's key file; `master` is the path of the master's key file."""
    return master.with_name(f"branch-{number}.dat")


def branch_keys(master: DestinationKeys, path: Path) -> BranchKeys:
    """Return a function that returns the keys of a branch; each key is read or derived when first needed.

    `path`: file of the master's keys. A branch's own file wins over keys derived from the master's key.
    """
    loaded: dict[int, DestinationKeys] = {}

    def keys(number: int) -> DestinationKeys:
        if number not in loaded:
            file = branch_file(path, number)
            if master.offline is not None and not file.exists():
                raise NoBranchKeysError(
                    f"the farm has more leaves than one set has room for, and {file} is missing, with the keys of a "
                    "branch: make the branch keys once, where the master's own key is (gf-i2p keys delegate "
                    "--branches), and copy them to every server; or run gf-i2p farm set tree=best"
                )
            loaded[number] = _read(file) if file.exists() else derive(master, number)
        return loaded[number]

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
