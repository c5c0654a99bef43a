"""The program `gf-i2p` in a process of its own, for tests.

The process is a fork of one that has imported the commands: most commands take less time than their imports. The nodes
of a `LocalFarm`, and `tests.cli.test_main`, start the program as people do.
"""

import asyncio
import atexit
import functools
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from integration.harness.local_farm import LocalFarm
from tests.cli.command_server import MAX_REQUEST

PATIENCE = 120.0
"""Seconds for a command that takes less than one on an idle machine."""


async def gf(*arguments: str | Path, stdin: str | None = None) -> tuple[int, str, str]:
    """Run a command; return exit code, standard output and standard error."""
    return await asyncio.to_thread(_run, [str(argument) for argument in arguments], stdin)


def _run(words: list[str], stdin: str | None) -> tuple[int, str, str]:
    answer, answered = os.pipe()
    with (
        TemporaryFile() as given,
        TemporaryFile() as output,
        TemporaryFile() as error,
        os.fdopen(answer, encoding="ascii") as told,
    ):
        given.write((stdin or "").encode())
        given.seek(0)
        request = json.dumps({"words": words, "environment": dict(os.environ), "directory": str(Path.cwd())}).encode()
        assert len(request) <= MAX_REQUEST
        try:
            socket.send_fds(_server(), [request], [given.fileno(), output.fileno(), error.fileno(), answered])
        finally:
            os.close(answered)
        pid = int(told.readline())
        if not select.select([answer], [], [], PATIENCE)[0]:
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"within {PATIENCE:g} s no end of: gf-i2p {shlex.join(words)}")
        code = int(told.readline())
        output.seek(0)
        error.seek(0)
        return code, output.read().decode(), error.read().decode()


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


async def gf_json(*arguments: str | Path) -> tuple[int, Any]:
    code, output, _ = await gf(*arguments, "--json")
    return code, json.loads(output)


async def logged(farm: LocalFarm, server: int, text: str) -> bool:
    return text in farm.log(server).read_text()
