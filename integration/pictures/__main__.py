"""`make pictures`: both pictures of the README, in docs/pictures/. Takes four minutes.

The terminal is the output of a whole `make farm ONESHOT=1`. The console's page is that of a farm beside real routers.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

from integration.pictures.terminal import picture, recorded

FOLDER: Final = Path("docs/pictures")
COMMAND: Final = "make farm ONESHOT=1"


def main() -> int:
    """Make both pictures; return 0 when both are there."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "make-farm.svg").write_text(picture(COMMAND, recorded("integration.runs.farm", {"ONESHOT": "1"})))
    inside = [sys.executable, "-m", "integration.pictures.console", str(FOLDER / "console.png")]
    return subprocess.run([sys.executable, "-m", "integration.testnet", "run", "--", *inside], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
