"""Runs a part of ourselves in namespaces of its own: network, processes, users when we are not root.

Whatever it starts in there ends with it, because the kernel ends all processes of a process namespace with its first
one, and the network goes with the last. The first one itself gets SIGTERM when we end, however we end.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final

_NEEDED: Final = {"unshare": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "i2pd": "i2pd"}


class MissingError(Exception):
    """A program is missing; the text says how to get it."""


def check_programs() -> None:
    """Raise `MissingError` when this machine lacks what a network needs."""
    missing = [command for command in _NEEDED if shutil.which(command, path=_path()) is None]
    if missing:
        packages = " ".join(sorted({_NEEDED[command] for command in missing}))
        raise MissingError(f"{', '.join(missing)} not found. To have them: sudo apt-get install {packages}")


def inside(module: str, arguments: Sequence[str]) -> list[str]:
    """Give the command line that runs `python -m module` as the first process of fresh namespaces."""
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [
        "setpriv", "--pdeathsig", "KILL",  # for unshare, which then ends its child as it was told to
        "unshare", *users, "--net", "--pid", "--mount-proc", "--fork", "--kill-child=TERM",
        sys.executable, "-m", module, *arguments,
    ]  # fmt: skip


def environment() -> dict[str, str]:
    """Give the environment for it: Debian keeps some of the programs where only root looks."""
    return {**os.environ, "PATH": _path()}


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
