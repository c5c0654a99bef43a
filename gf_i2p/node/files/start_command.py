"""The command that starts a node: by systemd where the Debian package has put a unit, by `gf-i2p run` elsewhere."""

import re
import shlex
from pathlib import Path
from typing import Final

STATE: Final = Path("/var/lib/gf-i2p")
"""The units run the directories directly below this one."""
UNITS: Final = Path("/lib/systemd/system")
_UNIT_NAME: Final = re.compile(r"[A-Za-z0-9:_.-]+")
"""Names that systemd and a shell take as they are. The units do not undo systemd's escapes."""


def start_command(directory: Path, *, state: Path = STATE, units: Path = UNITS) -> str:
    """Return the command for the server of this directory. `state` and `units`: where the package has these."""
    return _by_unit("gf-i2p", directory, state, units) or f"gf-i2p run {shlex.quote(str(directory))}"


def leaf_start_command(directory: Path, *, state: Path = STATE, units: Path = UNITS) -> str:
    """Return the command for the leaf member of this directory."""
    return _by_unit("gf-i2p-leaf", directory, state, units) or f"gf-i2p leaf run {shlex.quote(str(directory))}"


def _by_unit(kind: str, directory: Path, state: Path, units: Path) -> str | None:
    place = directory.absolute()
    if place.parent != state or not _UNIT_NAME.fullmatch(place.name) or place.is_file():
        return None
    return f"sudo systemctl enable --now {kind}@{place.name}" if (units / f"{kind}@.service").exists() else None
