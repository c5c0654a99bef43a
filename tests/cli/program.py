"""The program `gf-i2p` in a process of its own, for tests."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from integration.harness.local_farm import LocalFarm

PATIENCE = 120.0
"""Seconds for a command that takes less than one on an idle machine."""


async def gf(*arguments: str | Path, stdin: str | None = None) -> tuple[int, str, str]:
    """Run a command; return exit code, standard output and standard error."""
    result = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "gf_i2p.cli.main", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return result.returncode, result.stdout, result.stderr


async def gf_json(*arguments: str | Path) -> tuple[int, Any]:
    code, output, _ = await gf(*arguments, "--json")
    return code, json.loads(output)


async def logged(farm: LocalFarm, server: int, text: str) -> bool:
    return text in farm.log(server).read_text()
