"""`python -m integration.testnet up` and `down`: these tests need no network around this process."""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path
from typing import Final

import pytest

from integration.harness.local_farm import becomes

UP_SECONDS: Final = 300.0
"""Time for a network that needs half a minute on an idle machine."""
END_SECONDS: Final = 20.0
"""Time between the end of `up` and the end of its outputs, which is the same moment."""


async def run(command: str, directory: Path, *options: str) -> asyncio.subprocess.Process:
    """Start a command whose outputs are one pipe, as in `up 2>&1 | cat`."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "integration.testnet", command, "--directory", str(directory), *options),
        stdout=PIPE,
        stderr=STDOUT,
    )


@pytest.mark.timeout(900)
async def test_a_pipe_behind_up_ends_with_up_and_the_network_stays(tmp_path: Path) -> None:
    directory = tmp_path / "network"
    up = await run("up", directory, "--routers", "4")
    assert up.stdout is not None
    reading = asyncio.create_task(up.stdout.read())
    try:
        # `Process.wait` would wait for the end of the pipe, too.
        await becomes("the command has ended", lambda: up.returncode is not None, UP_SECONDS)
        async with asyncio.timeout(END_SECONDS):
            text = (await reading).decode()
        assert up.returncode == 0, text
        assert "\nready\nIt runs in " in text
        status = await run("status", directory, "--json")
        output, _ = await status.communicate()
        assert output.count(b'"running": true') == 4
    finally:
        reading.cancel()
        with contextlib.suppress(ProcessLookupError):
            up.kill()
        down = await run("down", directory)
        output, _ = await down.communicate()
    assert output == b"it is down, and nothing of it is left\n"


@pytest.mark.timeout(900)
async def test_the_reason_for_a_network_that_does_not_come_up_is_shown(tmp_path: Path) -> None:
    """The directory's parent is a file, so the keeper cannot make the directory."""
    (tmp_path / "file").touch()
    up = await run("up", tmp_path / "file" / "network", "--routers", "4")
    async with asyncio.timeout(UP_SECONDS):
        output, _ = await up.communicate()
    assert up.returncode == 1
    assert b"Not a directory" in output
    assert output.endswith(b"testnet: it did not come up; the reason stands above\n")
