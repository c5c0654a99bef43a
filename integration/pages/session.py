"""A terminal for the commands of a page: runs one after the other, and compares what each prints.

One shell runs the commands, so a directory, a variable and a job of one command are there for the next. A command that
goes on for ever runs beside the shell until the page's end, as in a second terminal. A command that only looks is
repeated until it prints what the page shows, for a farm needs a moment.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from integration.pages.page import Command, Page
from integration.pages.place import HERE, Place
from integration.pages.terminal import Terminal

PATIENCE: Final = 60.0
"""Seconds for a command to print what the page shows."""
_POLL_SECONDS: Final = 0.02
_STAYS: Final = re.compile(
    r"gf-i2p (run|leaf run|bridge serve|console|top)\b|--follow\b|pipeline stream\b|http\.server\b"
)
_BESIDE: Final = re.compile(r"(?<![&>])&(?![&>\d])")
"""The page itself lets a command run beside the next one."""
_LOOKS: Final = re.compile(
    r"gf-i2p (status|explain|events|entries|doctor|find|leaf status|keys status|history verify|router-config"
    r"|members list|leaves list|publisher show|farm (show|log))\b|^(curl|ls|cat|sqlite3|stat) "
)


class WrongPageError(AssertionError):
    """A command does not do what the page says."""


class Session:
    """Runs commands in a directory. A context manager: all that runs at the end is stopped."""

    def __init__(
        self,
        directory: Path,
        environment: dict[str, str] | None = None,
        *,
        patience: float = PATIENCE,
        place: Place = HERE,
    ) -> None:
        """`directory`: where the shell begins, by its path in the place.

        `environment`: variables in addition to this process's own; the shell reads the file that BASH_ENV names.
        """
        self._place = place
        self._directory = str(directory)
        self._environment = {**os.environ, "COLUMNS": "100", "LC_ALL": "C.UTF-8", **(environment or {})}
        self._patience = patience
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._kept: dict[str, str] = {}
        self._files = place.new_directory()
        self._shell = subprocess.Popen(
            [*place.enter, "bash"],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,  # a session of its own would end with the first terminal that the shell opens
        )
        self._say(f"cd -- {shlex.quote(self._directory)} || exit; trap : TERM\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, each in self._running:
            self._stop(each)
        self._stop_shell()
        shutil.rmtree(self._files)

    def run(self, page: Page) -> None:
        """Run all commands of the page.

        Raises:
            WrongPageError: A command printed or returned something else than the page shows.
        """
        for each in page.commands:
            command = replace(
                each,
                text=self._filled_in(each.text),
                types=tuple(map(self._filled_in, each.types)),
                answers=tuple(map(self._filled_in, each.answers)),
            )
            where = f"{page.path.name}:{command.line}: $ {command.text}"
            if command.ends:
                self._end(where, command)
            elif _STAYS.search(command.text) and not _BESIDE.search(command.text):
                self._start(where, command)
            else:
                self._once(where, command)

    def _filled_in(self, text: str) -> str:
        for name, value in self._kept.items():
            text = re.sub(rf"\b{name}\b", value.replace("\\", r"\\"), text)
        return text

    def _once(self, where: str, command: Command) -> None:
        looks = bool(_LOOKS.search(command.text))
        deadline = time.monotonic() + self._patience
        while True:
            code, printed = self._execute(where, command)
            if code == command.exit_code and command.matches(printed):
                self._keep(where, command, printed)
                return
            if not looks or time.monotonic() > deadline:
                said = f"\nthe page shows\n{command.prints}" if command.prints else ""
                raise WrongPageError(f"{where}\nreturned {code}, not {command.exit_code}, and printed\n{printed}{said}")
            time.sleep(0.5)

    def _keep(self, where: str, command: Command, printed: str) -> None:
        for name, pattern in command.keeps:
            found = re.search(pattern, printed)
            if found is None:
                raise WrongPageError(f"{where}\nprinted nothing like {pattern}, for {name}:\n{printed}")
            self._kept[name] = found[1]

    def _execute(self, where: str, command: Command) -> tuple[int, str]:
        """Let the shell run the command; return the exit code and what was printed."""
        names = ("script", "typed", "printed", "code", "directory")
        script, typed, printed, code, directory = (self._files / name for name in names)
        script.write_text(f"{command.text}\n")
        typed.write_text("".join(f"{line}\n" for line in command.types))
        printed.write_bytes(b"")
        self._place.give(printed)
        code.unlink(missing_ok=True)
        with Terminal(command.answers, self._place) as terminal:
            files = self._place.there(self._files)
            ends = f"<{terminal.path} >{terminal.path}" if command.answers else f"<{files}/typed >{files}/printed"
            self._say(
                f". {files}/script {ends} 2>&1; echo $? >{files}/code.new; pwd >{files}/directory; "
                f"mv {files}/code.new {files}/code\n"
            )
            deadline = time.monotonic() + 10 * self._patience
            ended = False
            while not ended:
                ended = code.exists()
                terminal.step()
                text = terminal.text if command.answers else printed.read_text(errors="replace")
                if self._shell.poll() is not None or time.monotonic() > deadline:
                    raise WrongPageError(f"{where}\nhas not come to its end, and printed\n{text}")
                time.sleep(0 if ended else _POLL_SECONDS)
        self._directory = directory.read_text().removesuffix("\n")
        return int(code.read_text()), text

    def _say(self, line: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(line.encode())
        self._shell.stdin.flush()

    def _start(self, where: str, command: Command) -> None:
        printed = self._files / f"{len(self._running)}"
        interrupted = command.prints.partition("^C")
        with printed.open("wb") as file:
            process = subprocess.Popen(
                [*self._place.enter, "bash", "-c", f"cd -- {shlex.quote(self._directory)} && exec {command.text}"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append((command.text, process))
        expected = Command(command.line, command.text, f"…{interrupted[0].strip()}…" if interrupted[0] else "")
        deadline = time.monotonic() + self._patience
        while not expected.matches(printed.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise WrongPageError(
                    f"{where}\nprinted\n{printed.read_text(errors='replace')}\nthe page shows\n{command.prints}"
                )
            time.sleep(0.1)
        self._keep(where, command, printed.read_text(errors="replace"))
        if interrupted[1]:
            self._stop(process, signal.SIGINT)

    def _stop_shell(self) -> None:
        """End the shell after the jobs that the page has left in the background."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGTERM)
        with contextlib.suppress(BrokenPipeError):
            self._say("wait; exit\n")
        try:
            self._shell.communicate(timeout=self._patience)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()

    def _end(self, where: str, command: Command) -> None:
        running = [process for text, process in self._running if text == command.text and process.poll() is None]
        if not running:
            raise WrongPageError(f"{where}\ndoes not run, so the page cannot {command.ends} it")
        self._stop(running[-1], signal.SIGKILL if command.ends == "kill" else signal.SIGTERM)

    def _stop(self, process: subprocess.Popen[bytes], by: signal.Signals = signal.SIGTERM) -> None:
        if process.poll() is None:
            os.killpg(process.pid, by)
            try:
                process.wait(self._patience)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
