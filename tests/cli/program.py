"""The program `gf-i2p` in a process of its own, for tests.

The process is a fork of one that has imported the commands: most commands take less time than their imports. The nodes
of a `LocalFarm`, and `tests.cli.test_main`, start the program as people do.
"""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

import pytest

from integration.harness.local_farm import LocalFarm
from tests.cli.command_server import MAX_REQUEST

PATIENCE = 120.0
"""Seconds for a command that takes less than one on an idle machine."""


WAITING = "gf-i2p: waiting for an answer of the farm's servers.\n"
"""A command says so on a busy machine."""


async def gf(*arguments: str | Path, stdin: str | None = None) -> tuple[int, str, str]:
    """Run a command; return exit code, standard output, and standard error without `WAITING`."""
    code, output, error = await asyncio.to_thread(_run, [str(argument) for argument in arguments], stdin)
    return code, output, error.replace(WAITING, "")


def _run(words: list[str], stdin: str | None) -> tuple[int, str, str]:
    with TemporaryFile() as output, Program(words, output.fileno(), stdin) as program:
        code = program.end()
        output.seek(0)
        return code, output.read().decode(), program.error()


class Program:
    """A command that runs. The end of the block kills a command that still runs."""

    def __init__(self, words: Sequence[str | Path], output: int, stdin: str | None = None) -> None:
        """`output`: descriptor of the command's standard output. `stdin`: what the command reads."""
        self._words = [str(word) for word in words]
        self._error = TemporaryFile()  # noqa: SIM115 -- closed at the end of the block
        answer, answered = os.pipe()
        self._told = os.fdopen(answer, encoding="ascii")
        request = {"words": self._words, "environment": dict(os.environ), "directory": str(Path.cwd())}
        message = json.dumps(request).encode()
        assert len(message) <= MAX_REQUEST
        with TemporaryFile() as given:
            given.write((stdin or "").encode())
            given.seek(0)
            try:
                socket.send_fds(_server(), [message], [given.fileno(), output, self._error.fileno(), answered])
            finally:
                os.close(answered)
        self._pid = int(self._told.readline())
        self._code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self.end()
        self._told.close()
        self._error.close()

    def end(self, number: signal.Signals | None = None) -> int:
        """Send a signal, if one is given; wait for the end of the command, and return its exit code."""
        if number is not None:
            os.kill(self._pid, number)
        if not select.select([self._told], [], [], PATIENCE)[0]:
            pytest.fail(f"within {PATIENCE:g} s no end of: gf-i2p {shlex.join(self._words)}")
        self._code = int(self._told.readline())
        return self._code

    def error(self) -> str:
        """Return what the command has written to its standard error."""
        self._error.seek(0)
        return self._error.read().decode()


@functools.cache
def _server() -> socket.socket:
    """Start the process that forks for each command. That process ends when this process ends."""
    requests, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with other:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.command_server"],
            cwd=Path(__file__).parents[2],
            stdin=other.fileno(),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        requests.close()
        process.wait()

    atexit.register(end)
    return requests


async def gf_json(*arguments: str | Path, stdin: str | None = None) -> tuple[int, Any]:
    code, output, _ = await gf(*arguments, "--json", stdin=stdin)
    return code, json.loads(output)


async def logged(farm: LocalFarm, server: int, text: str) -> bool:
    return text in farm.log(server).read_text()
