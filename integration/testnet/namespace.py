"""Runs a part of ourselves in namespaces of its own: network, processes, users when we are not root.

Whatever it starts in there ends with it, because the kernel ends all processes of a process namespace with its first
one, and the network goes with the last. The first one itself gets SIGTERM when we end, and its lifeline ends with us.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

_NEEDED: Final = {"unshare": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "i2pd": "i2pd"}


class MissingError(Exception):
    """A network cannot be had on this machine; the text says what is missing, and how to get it."""


def check_programs() -> None:
    """Raise `MissingError` when this machine lacks what a network needs: programs, or namespaces."""
    missing = [command for command in _NEEDED if shutil.which(command, path=_path()) is None]
    if missing:
        packages = " ".join(sorted({_NEEDED[command] for command in missing}))
        raise MissingError(f"{', '.join(missing)} not found. To have them: sudo apt-get install {packages}")
    trial = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, check=False, env=environment())
    if trial.returncode != 0:
        raise MissingError(
            f"this system gives us no namespaces ({trial.stderr.strip()}): run as root, or allow users to have them "
            "(sysctl kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)"
        )


def inside(module: str, arguments: Sequence[str]) -> list[str]:
    """Give the command line that runs `python -m module` as the first process of fresh namespaces."""
    guard = ["setpriv", "--pdeathsig", "KILL"]  # for unshare, which then ends its child as it was told to
    return [*guard, *_unshare(), sys.executable, "-m", module, *arguments]


def _unshare() -> list[str]:
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *users, "--net", "--pid", "--mount-proc", "--fork", "--kill-child=TERM"]


@contextlib.contextmanager
def lifeline() -> Iterator[int]:
    """Give the reading end of a pipe that ends when we do, however that is, or when the block is left.

    The first process inside listens to it: signals do not reach it before it has said what to do with them.
    """
    read, write = os.pipe()
    try:
        yield read
    finally:
        os.close(write)
        os.close(read)


def environment() -> dict[str, str]:
    """Give the environment for it: Debian keeps some of the programs where only root looks."""
    return {**os.environ, "PATH": _path()}


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
