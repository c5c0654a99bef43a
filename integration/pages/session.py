"""A terminal for the commands of a page: runs one after the other, and compares what each prints.

A command that goes on for ever runs in the background until the page's end, as in a second terminal. A command that
only looks is repeated until it prints what the page shows, for a farm needs a moment.
"""

import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from integration.pages.page import Command, Page

PATIENCE: Final = 60.0
"""Seconds for a command to print what the page shows."""
_STAYS: Final = re.compile(
    r"gf-i2p (run|leaf run|bridge serve|console|top)\b|--follow\b|pipeline stream\b|http\.server\b"
)
_LOOKS: Final = re.compile(
    r"gf-i2p (status|explain|events|entries|doctor|find|leaf status|keys status|history verify|router-config"
    r"|members list|leaves list|publisher show|farm (show|log))\b|^(curl|ls|cat|sqlite3|stat) "
)


class WrongPageError(AssertionError):
    """A command does not do what the page says."""


class Session:
    """Runs commands in a directory. A context manager: all that runs at the end is stopped."""

    def __init__(
        self, directory: Path, environment: dict[str, str] | None = None, *, patience: float = PATIENCE
    ) -> None:
        """`environment`: variables in addition to this process's own."""
        self._directory = directory
        self._environment = {**os.environ, "COLUMNS": "100", "LC_ALL": "C.UTF-8", **(environment or {})}
        self._patience = patience
        self._running: list[subprocess.Popen[bytes]] = []
        self._printed = Path(tempfile.mkdtemp(prefix="gf-pages-"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._running:
            self._stop(each)
        for file in self._printed.iterdir():
            file.unlink()
        self._printed.rmdir()

    def run(self, page: Page) -> None:
        """Run all commands of the page.

        Raises:
            WrongPageError: A command printed or returned something else than the page shows.
        """
        for command in page.commands:
            where = f"{page.path.name}:{command.line}: $ {command.text}"
            if _STAYS.search(command.text):
                self._start(where, command)
            else:
                self._once(where, command)

    def _once(self, where: str, command: Command) -> None:
        looks = bool(_LOOKS.search(command.text))
        deadline = time.monotonic() + self._patience
        while True:
            code, printed = self._execute(command)
            if code == command.exit_code and command.matches(printed):
                return
            if not looks or time.monotonic() > deadline:
                said = f"\nthe page shows\n{command.prints}" if command.prints else ""
                raise WrongPageError(f"{where}\nreturned {code}, not {command.exit_code}, and printed\n{printed}{said}")
            time.sleep(0.5)

    def _execute(self, command: Command) -> tuple[int, str]:
        place = self._printed / "place"
        script = f"{command.text}\ncode=$?\npwd >{shlex.quote(str(place))}\nexit $code"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._directory,
            env=self._environment,
            input="".join(f"{line}\n" for line in command.types).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=10 * self._patience,
            check=False,
        )
        if place.exists():
            self._directory = Path(place.read_text().strip())
        return done.returncode, done.stdout.decode(errors="replace")

    def _start(self, where: str, command: Command) -> None:
        printed = self._printed / f"{len(self._running)}"
        interrupted = command.prints.partition("^C")
        with printed.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command.text}"],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)
        expected = Command(command.line, command.text, f"…{interrupted[0].strip()}…" if interrupted[0] else "")
        deadline = time.monotonic() + self._patience
        while not expected.matches(printed.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise WrongPageError(
                    f"{where}\nprinted\n{printed.read_text(errors='replace')}\nthe page shows\n{command.prints}"
                )
            time.sleep(0.1)
        if interrupted[1]:
            self._stop(process, signal.SIGINT)

    def _stop(self, process: subprocess.Popen[bytes], by: signal.Signals = signal.SIGTERM) -> None:
        if process.poll() is None:
            os.killpg(process.pid, by)
            try:
                process.wait(self._patience)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
