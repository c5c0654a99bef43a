"""Checks of the sets below the first one: branches with this farm's leaves, and other farms' masters."""

from collections.abc import Callable
from pathlib import Path

from gf_i2p.cli.doctor.checks import CheckResult, Remedy, fail, ok, skip
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.local_client import request
from gf_i2p.farm.choice.tree import BRANCHES
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE
from gf_i2p.node.files.router_settings import is_b32_address
from gf_i2p.node.publish.branch_keys import NoBranchKeysError, branch_keys
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.storage import private_files
from gf_i2p.storage.errors import StorageError


class TreeCheck:
    """Checks whether this server has the branch keys, in a farm that makes branches."""

    def __init__(self, directory: Path, file: str, keys: Callable[[], PublishingKeys | None]) -> None:
        """`file`: name of the master's key file in the node's directory. `keys`: returns the keys of that file."""
        self._directory = directory
        self._file = file
        self._keys = keys

    async def look(self) -> CheckResult:
        """Check whether this server has the keys of all branches that the farm needs."""
        keys = self._keys()
        assert keys is not None
        if not keys.delegated:
            return ok("the branch keys follow from the master's own key")
        try:
            answer = await request(self._directory, "GET", "/v1/administration")
        except CommandError:
            return skip("not looked at: only a running node knows whether the farm needs the keys")
        if answer["parameters"]["tree"]["value"] != "tree":
            return ok("not needed: the best leaves are listed, in one set (tree = best)")
        branch_key = branch_keys(keys.keys, self._directory / self._file)
        try:
            for number in range(BRANCHES):
                branch_key(number)
        except NoBranchKeysError as error:
            fault = str(error).split(": ")[0]
            return fail(
                f"with more leaves than one set has room for, nothing can be published: {fault}",
                Remedy.either(
                    "gf-i2p keys delegate … --branches, where the master's own key is, writes branch-0.dat to "
                    f"branch-{BRANCHES - 1}.dat: put them beside {self._file}, mode 0600; or gf-i2p farm set tree=best"
                ),
            )
        return ok(f"branch-0.dat to branch-{BRANCHES - 1}.dat are there (tree = tree)")


async def look_at_leaf_farm(directory: Path, leaf_farm: str) -> CheckResult:
    """Check the farm whose master is this node's leaf. `leaf_farm`: `publish.leaf_farm`, an address or a directory."""
    if is_b32_address(leaf_farm):
        return ok(
            f"the leaf is the master {leaf_farm}; only the router says whether that master is up, and an i2pd cannot "
            "find it"
        )
    path = (directory / leaf_farm).resolve()
    command = f"gf-i2p run {directory} {path}"
    if not (path / CONFIG_FILE).exists():
        return fail(
            f"{path} is not a node's directory, and [publish] leaf_farm names that directory",
            Remedy.either(
                "[publish] leaf_farm = the directory of that farm's server, relative to this node's directory"
            ),
        )
    try:
        run, leaf_run = (private_files.holding_run(each / DATABASE_FILE) for each in (directory, path))
    except OSError as error:
        return skip(f"not looked at: {error.strerror}")
    except StorageError as error:
        return skip(f"not looked at: {error}")
    if run is None:
        return ok(f"the leaf is the master of the farm in {path}: run both in one process ({command})")
    if leaf_run != run:
        return fail(
            f"the server in {path} does not run in this node's process: nobody says whether the leaf is up",
            Remedy.either(f"run both in one process: {command}"),
        )
    return ok(f"the leaf is the master of the farm in {path}, which runs in the same process")
