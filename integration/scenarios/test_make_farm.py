"""`make farm` starts a network, so these tests need no network around this process."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from gf_i2p.admin.local_socket import ADDRESS_BYTES
from integration.harness.local_farm import becomes

LEFT_SECONDS: Final = 240.0
"""Time for a step that takes seconds on an idle machine."""
POLL_SECONDS: Final = 0.1
"""Not shorter, because each look reads all processes."""


@contextlib.asynccontextmanager
async def make_farm(temporary: Path, *, oneshot: bool) -> AsyncIterator[Process]:
    """Run `make farm`. All files are below `temporary`, and the process leads a process group, as on a terminal."""
    environment = {**os.environ, "TMPDIR": str(temporary), "ONESHOT": "1" if oneshot else ""}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "integration.runs.farm",
        stdout=PIPE,
        stderr=STDOUT,
        env=environment,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def read(process: Process) -> str:
    """Return the whole output of the process."""
    assert process.stdout is not None
    text = ""
    async for line in process.stdout:
        text += line.decode()
        print(line.decode(), end="", flush=True)
    return text


async def nothing_is_left(temporary: Path) -> None:
    def nothing() -> bool:
        return not _has_files(temporary) and not any(str(temporary) in command for command in _commands())

    await becomes(f"no file below {temporary} is left, and no process", nothing, LEFT_SECONDS, poll=POLL_SECONDS)


def _has_files(directory: Path) -> bool:
    return any(directory.iterdir())


def _commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.timeout(3000)
async def test_a_set_on_three_floodfills_and_a_newer_one_of_another_server(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * ADDRESS_BYTES)  # the folder of temporary files may have a long name
    deep.mkdir()
    async with make_farm(deep, oneshot=True) as process:
        text = await read(process)
        assert await process.wait() == 0
    assert len(re.findall(r"^floodfill .*: store type 7, expires", text, re.MULTILINE)) >= 3
    assert re.search(r"^from nothing to 3 floodfills: +\d+\.\d s$", text, re.MULTILINE)
    killed = re.search(r"server (\d), the publisher, killed with -9", text)
    new = re.search(r"server (\d) publishes a set that is (\d+) s newer; floodfills (\d, )+\d hold it", text)
    assert killed is not None
    assert new is not None
    assert new[1] != killed[1]
    assert int(new[2]) > 0
    assert re.search(r"^from kill -9 to a newer set there: +\d+\.\d s$", text, re.MULTILINE)
    await nothing_is_left(deep)


@pytest.mark.slow  # a network of its own for each case
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["ctrl-c", "sigterm", "kill -9"]
)
@pytest.mark.parametrize("when", ["at once", "with routers"])
@pytest.mark.timeout(900)
async def test_nothing_is_left_of_what_was_stopped(tmp_path: Path, number: signal.Signals, when: str) -> None:
    async with make_farm(tmp_path, oneshot=False) as process:
        if when == "at once":
            # Not any file: `tempfile` tries a directory with a file before the clean-up is set up.
            await becomes("its directory is there", lambda: any(tmp_path.glob("gf-i2p-farm-*")), LEFT_SECONDS)
        else:
            routers = f"--datadir={tmp_path}"
            await becomes(
                "a router runs",
                lambda: any(routers in command for command in _commands()),
                LEFT_SECONDS,
                poll=POLL_SECONDS,
            )
        began = time.monotonic()
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        text = await read(process)
        print(f"{time.monotonic() - began:.1f} s until it had ended")
        assert "Traceback" not in text
        assert "Stopped; nothing is left of it." in text
        assert await process.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    await nothing_is_left(tmp_path)
