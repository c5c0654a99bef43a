"""`make farm`: three farm nodes beside real I2P routers, in namespaces of their own, until Ctrl-C.

`make lab` gives a shell among them.

The module `integration.runs.farm_screen` runs inside the namespaces. This module imports nothing slow, so that a Ctrl-C
is handled from the first moment on.
"""

import argparse
import os
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path

signal.signal(signal.SIGINT, signal.SIG_DFL)

from integration.testnet.namespace import MissingError, check_programs, run_inside  # noqa: E402


def main() -> int:
    """Run the farm; return 0 on success, or when Ctrl-C ended a run that would go on forever."""
    argparse.ArgumentParser(description="Use `make farm`, or `make farm ONESHOT=1`.").parse_args()
    try:
        check_programs()
    except MissingError as error:
        print(f"make farm: {error}", file=sys.stderr)
        return 1
    lab = _is_set("LAB")
    wishes = [f"--{name.lower()}" for name in ("ONESHOT", "LAB") if _is_set(name)]
    # The process inside makes this directory and removes it, even if this process dies.
    directory = Path(tempfile.gettempdir()) / f"gf-i2p-farm-{secrets.token_hex(4)}"
    try:
        arguments = ["--directory", str(directory), *wishes]
        return run_inside("integration.runs.farm_screen", arguments, interrupt=not lab)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _is_set(name: str) -> bool:
    return os.environ.get(name, "") not in {"", "0"}


if __name__ == "__main__":
    sys.exit(main())
