"""The project's own commands, run as an operator runs them, on networks that may lose an answer."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared.errors import Exit
from integration.harness.local_farm import PROGRAM
from integration.harness.processes import said_within

COMMAND_SECONDS: Final = 240.0
"""A single command through I2P may take two minutes."""
ATTEMPTS: Final = 3


async def command(
    *words: str | Path,
    may_be: Sequence[Exit] = (Exit.OK,),
    seconds: float = COMMAND_SECONDS,
    where: Sequence[str] = (),
) -> dict[str, Any]:
    """Run a command that must succeed, or end with an allowed exit code; return the JSON. Raises `AssertionError`.

    `where`: the prefix that runs a command in another network namespace.

    The command runs again when the outcome is unknown because the answer got lost, or when the farm had no leader.
    So the command must be safe to run twice.
    """
    for _ in range(ATTEMPTS):
        status, said = await _run(words, seconds, where)
        assert said.startswith("{"), f"{' '.join(map(str, words))}: {status}, {said}"
        answer: dict[str, Any] = json.loads(said)
        if answer.get("ok", True) or (answer["outcome"] != "unknown" and status != Exit.DEGRADED):
            break
        print(f"{' '.join(map(str, words))}: {said}")
    assert status in may_be, said
    return answer


async def _run(words: Sequence[str | Path], seconds: float, where: Sequence[str]) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *where,
        sys.executable,
        *PROGRAM,
        *map(str, words),
        "--json",
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        said, _ = await said_within(process, seconds)
    except TimeoutError:
        raise AssertionError(f"{' '.join(map(str, words))}: not done within {seconds:g} s") from None
    return process.returncode, said.decode()
