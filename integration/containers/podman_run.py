"""The first process in fresh namespaces: sets up podman, builds, runs the tests, leaves nothing behind.

`integration.containers` runs this; never run it by hand. Images are built on the machine's network and kept for the
next time. Containers run on a network of their own, with their files in a directory that is removed at the end.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from integration.containers import podman
from integration.containers.engine import ENGINE_VARIABLE, EngineError
from integration.containers.engine import podman as engine
from integration.containers.images import alone, build
from integration.testnet.namespace import SIGNALS

STOP_SECONDS: Final = 20.0
"""Time for the tests to end after the signal."""


class Child:
    """A command that runs while this process waits; other processes that end meanwhile are orphans to reap."""

    def __init__(self, lifeline: int) -> None:
        """Set up the end: SIGTERM, SIGHUP and a cut lifeline end the command. SIGINT ends only a build."""
        self._process: subprocess.Popen[bytes] | None = None
        self._told = threading.Event()
        for number in SIGNALS:
            # Never SIG_IGN: the command would inherit that.
            signal.signal(number, self._interrupted if number == signal.SIGINT else self._end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=self._watch, args=(lifeline,), daemon=True).start()

    def _watch(self, lifeline: int) -> None:
        os.read(lifeline, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._process is None:
            self._end(number, frame)  # with a command, Ctrl-C has reached the command, too

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        if self._told.is_set():
            return
        self._told.set()
        if self._process is None:
            raise KeyboardInterrupt
        self._process.terminate()
        timer = threading.Timer(STOP_SECONDS, self._process.kill)
        timer.daemon = True
        timer.start()

    def run(self, command: Sequence[str]) -> int:
        """Run a command; return its exit code."""
        self._process = subprocess.Popen(command)
        while True:
            pid, status = os.wait()
            if pid == self._process.pid:
                self._process.returncode = code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code


def run(cache: Path, lifeline: int, command: Sequence[str]) -> int:
    """Build, and run the command where the containers will run; return its exit code."""
    child = Child(lifeline)
    podman.mount()
    with alone(cache):
        images, running = cache / "images", cache / "running"
        try:
            shutil.rmtree(running, ignore_errors=True)  # left by a killed run
            running.mkdir(mode=0o700)
            # Podman's record of containers is empty, but has the paths of podman's first run: remove the record.
            shutil.rmtree(images / "libpod", ignore_errors=True)
            (images / "db.sql").unlink(missing_ok=True)
            podman.use(images)
            print(f"Images: {build(engine(), cache)}", flush=True)
            podman.use(running, images)
            os.environ[ENGINE_VARIABLE] = "podman"
            return child.run(["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command])
        finally:
            _end_all_others()
            for place in _mounts_below(cache):
                subprocess.run(["umount", "--lazy", place], check=False)
            shutil.rmtree(running, ignore_errors=True)


def _end_all_others() -> None:
    """End every process of these namespaces but this first one: containers and their keepers."""
    assert os.getpid() == 1
    with contextlib.suppress(ProcessLookupError):  # there are no others
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _mounts_below(directory: Path) -> list[str]:
    """Return the mounts below a directory, the deepest first."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((each for each in mounts if Path(each).is_relative_to(directory)), key=len, reverse=True)


def main() -> int:
    """Parse the arguments of `integration.containers`, and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    try:
        return run(options.cache, options.lifeline, options.command)
    except EngineError as error:
        print(f"containers: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGTERM


if __name__ == "__main__":
    sys.exit(main())
