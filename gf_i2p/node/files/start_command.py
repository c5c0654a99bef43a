"""The command that starts a server: by systemd where the Debian package has put a unit, by `gf-i2p run` elsewhere."""

import shlex
from pathlib import Path
from typing import Final

STATE: Final = Path("/var/lib/gf-i2p")
"""The unit runs the directories directly below this one."""
UNIT: Final = Path("/lib/systemd/system/gf-i2p@.service")


def start_command(directory: Path, *, state: Path = STATE, unit: Path = UNIT) -> str:
    """Return the command for the server of this directory. `state` and `unit`: where the package has these."""
    if directory.absolute().parent == state and unit.exists():
        return f"sudo systemctl enable --now gf-i2p@{directory.name}"
    return f"gf-i2p run {shlex.quote(str(directory))}"
