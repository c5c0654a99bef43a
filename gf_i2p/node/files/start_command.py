"""The command that starts a node: by systemd where the Debian package has put a unit, by `gf-i2p run` elsewhere."""

import shlex
from pathlib import Path
from typing import Final

STATE: Final = Path("/var/lib/gf-i2p")
"""The units run the directories directly below this one."""
UNITS: Final = Path("/lib/systemd/system")


def start_command(directory: Path, *, state: Path = STATE, units: Path = UNITS) -> str:
    """Return the command for the server of this directory. `state` and `units`: where the package has these."""
    return _by_unit("gf-i2p", directory, state, units) or f"gf-i2p run {shlex.quote(str(directory))}"


def leaf_start_command(directory: Path, *, state: Path = STATE, units: Path = UNITS) -> str:
    """Return the command for the leaf member of this directory."""
    return _by_unit("gf-i2p-leaf", directory, state, units) or f"gf-i2p leaf run {shlex.quote(str(directory))}"


def _by_unit(kind: str, directory: Path, state: Path, units: Path) -> str | None:
    if directory.absolute().parent == state and (units / f"{kind}@.service").exists():
        return f"sudo systemctl enable --now {kind}@{directory.name}"
    return None
