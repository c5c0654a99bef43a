"""Runs one of the project's modules in fresh namespaces: network, processes, and users when the caller is not root.

The module is the first process of the process namespace. When the first process ends, the kernel ends all other
processes there, and the network goes with the last process. When the caller ends, the first process gets SIGTERM, and
the lifeline, a pipe from the caller, ends too. Signals that arrive while the module loads are held until the module
handles signals.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Final

SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
"""The signals that end the caller."""
KEEP: Final = b"k"
"""The byte on the lifeline that says: go on when the caller ends."""
NEEDED: Final = {"unshare": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "i2pd": "i2pd"}
"""Programs of a private I2P network, and the Debian packages with these programs."""


class MissingError(Exception):
    """No network can run on this machine. The text names the missing program or right, and the remedy."""


def check_programs(needed: Mapping[str, str] = NEEDED) -> None:
    """Raise `MissingError` when this machine lacks programs or namespaces for a network."""
    missing = [command for command in needed if shutil.which(command, path=_path()) is None]
    if missing:
        packages = " ".join(sorted({needed[command] for command in missing}))
        raise MissingError(f"{', '.join(missing)} not found. To have them: sudo apt-get install {packages}")
    trial = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, check=False, env=environment())
    if trial.returncode != 0:
        raise MissingError(
            f"this system gives no namespaces ({trial.stderr.strip()}): run as root, or allow users to have them "
            "(sysctl kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)"
        )


def inside(module: str, arguments: Sequence[str], *, network: bool = True) -> list[str]:
    """Give the command line that runs `python -m module` as the first process of fresh namespaces.

    Without `network` the module shares this machine's network. Processes and mounts are still separate.
    """
    guard = ["setpriv", "--pdeathsig", "KILL"]  # kills unshare when the caller ends; unshare then ends the child
    return [*guard, *_unshare(network=network), sys.executable, "-m", module, *arguments]


def _unshare(*, network: bool = True) -> list[str]:
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    net = ["--net"] if network else []
    return ["unshare", *users, *net, "--pid", "--mount-proc", "--fork", "--kill-child=TERM"]


def run_inside(module: str, arguments: Sequence[str], *, interrupt: bool, network: bool = True) -> int:
    """Run a module in namespaces, with `--lifeline N` before the arguments; return the exit code at the end.

    SIGTERM and SIGHUP, and SIGINT with `interrupt`, cut the lifeline. The module then takes itself down and ends.
    `network` as for `inside`.
    """
    read, write = os.pipe()
    ends = [write]

    def cut(_number: int, _frame: FrameType | None) -> None:
        while ends:
            os.close(ends.pop())

    with signals_held():
        process = subprocess.Popen(
            inside(module, ["--lifeline", str(read), *arguments], network=network),
            env=environment(),
            pass_fds=[read],
        )
        os.close(read)
        for number in SIGNALS:
            # Without `interrupt` the processes inside handle SIGINT: the terminal signals them, too.
            signal.signal(number, cut if interrupt or number != signal.SIGINT else signal.SIG_IGN)
    return process.wait()


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Hold `SIGNALS`: a signal that comes meanwhile waits. A process started meanwhile holds these signals, too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Ending:
    """Cancels the task of the first process inside, at a signal or when the lifeline is cut.

    The task is cancelled only once, because the cancelled task cleans up.
    """

    def __init__(self, task: "asyncio.Task[Any]", lifeline: int) -> None:
        """Handle the signals from now on; a signal that `held` has kept back is handled at once."""
        self._task = task
        self._lifeline = lifeline
        self._ended = False
        self.interruptible = True
        """Whether SIGINT ends the work, too."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        for number in SIGNALS - {signal.SIGINT}:
            loop.add_signal_handler(number, self.end)
        loop.add_reader(lifeline, self._pulled)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _interrupted(self) -> None:
        if self.interruptible:
            self.end()

    def _pulled(self) -> None:
        said = os.read(self._lifeline, 1)
        asyncio.get_running_loop().remove_reader(self._lifeline)
        if said != KEEP:
            self.end()

    def end(self) -> None:
        """Cancel the task, unless the task is already cancelled."""
        if not self._ended:
            self._ended = True
            self._task.cancel()
            with contextlib.suppress(OSError):  # standard output may be closed
                print("\nStopping; the routers need some seconds for it.", flush=True)


def environment() -> dict[str, str]:
    """Give the environment of the programs. Debian keeps some programs in folders that only root's PATH has."""
    return {**os.environ, "PATH": _path()}


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
