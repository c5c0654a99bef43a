"""Runs a part of ourselves in namespaces of its own: network, processes, users when we are not root.

Whatever it starts in there ends with it, because the kernel ends all processes of a process namespace with its first
one, and the network goes with the last. The first one itself gets SIGTERM when we end, and its lifeline ends with us.
What ends us while it still loads is kept for it: signals are held until it has said what to do with them.
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
"""They end us."""
KEEP: Final = b"k"
"""On the lifeline: go on without whoever started us."""
NEEDED: Final = {"unshare": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "i2pd": "i2pd"}
"""Programs of a private I2P network, and Debian's packages that have them."""


class MissingError(Exception):
    """A network cannot be had on this machine; the text says what is missing, and how to get it."""


def check_programs(needed: Mapping[str, str] = NEEDED) -> None:
    """Raise `MissingError` when this machine lacks what a network needs: programs, or namespaces."""
    missing = [command for command in needed if shutil.which(command, path=_path()) is None]
    if missing:
        packages = " ".join(sorted({needed[command] for command in missing}))
        raise MissingError(f"{', '.join(missing)} not found. To have them: sudo apt-get install {packages}")
    trial = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, check=False, env=environment())
    if trial.returncode != 0:
        raise MissingError(
            f"this system gives us no namespaces ({trial.stderr.strip()}): run as root, or allow users to have them "
            "(sysctl kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)"
        )


def inside(module: str, arguments: Sequence[str], *, network: bool = True) -> list[str]:
    """Give the command line that runs `python -m module` as the first process of fresh namespaces.

    Without `network` it has this machine's network, and the rest is its own: processes and mounts.
    """
    guard = ["setpriv", "--pdeathsig", "KILL"]  # for unshare, which then ends its child as it was told to
    return [*guard, *_unshare(network=network), sys.executable, "-m", module, *arguments]


def _unshare(*, network: bool = True) -> list[str]:
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    net = ["--net"] if network else []
    return ["unshare", *users, *net, "--pid", "--mount-proc", "--fork", "--kill-child=TERM"]


def run_inside(module: str, arguments: Sequence[str], *, interrupt: bool, network: bool = True) -> int:
    """Run a module there, which gets `--lifeline N` besides the arguments; return its exit code when it has ended.

    SIGTERM and SIGHUP, and SIGINT with `interrupt`, cut its lifeline: it takes itself down, and then we return.
    `network` as for `inside`.
    """
    read, write = os.pipe()
    ends = [write]

    def cut(_number: int, _frame: FrameType | None) -> None:
        while ends:
            os.close(ends.pop())

    with held():
        process = subprocess.Popen(
            inside(module, ["--lifeline", str(read), *arguments], network=network),
            env=environment(),
            pass_fds=[read],
        )
        os.close(read)
        for number in SIGNALS:
            # Without `interrupt` it is left to those inside, whom the terminal has told, too.
            signal.signal(number, cut if interrupt or number != signal.SIGINT else signal.SIG_IGN)
    return process.wait()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Hold the signals that end us: those that come wait. A process started meanwhile holds them, too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Ending:
    """For the first process inside: cancels its task, once, at a signal or when the lifeline is cut.

    Once only, since what the task does then is to clean up.
    """

    def __init__(self, task: "asyncio.Task[Any]", lifeline: int) -> None:
        """Takes effect at once, also for what has been held so far."""
        self._task = task
        self._lifeline = lifeline
        self._ended = False
        self.interruptible = True
        """Whether SIGINT counts."""
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
        """Cancel the task, unless that was done."""
        if not self._ended:
            self._ended = True
            self._task.cancel()
            with contextlib.suppress(OSError):  # nobody may be left to read it
                print("\nStopping; the routers need some seconds for it.", flush=True)


def environment() -> dict[str, str]:
    """Give the environment for it: Debian keeps some of the programs where only root looks."""
    return {**os.environ, "PATH": _path()}


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
