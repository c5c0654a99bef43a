"""A command that is silent for long, and the lines beside it (integration/harness/say_while.sh)."""

import os
import subprocess
from pathlib import Path

from integration.harness import processes

SCRIPT = Path(processes.__file__).with_name("say_while.sh")


def run(*command: str, seconds: str = "10") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SAY_SECONDS": seconds}
    return subprocess.run(
        ["sh", SCRIPT, "installing", *command], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_long_command_is_told_and_its_exit_code_kept() -> None:
    done = run("sh", "-c", "sleep 0.5; exit 7", seconds="0.1")
    assert done.returncode == 7
    assert done.stdout.startswith("  ... installing, ")
    assert done.stdout.endswith(" s so far\n")


def test_a_short_command_says_only_its_own_words() -> None:
    done = run("echo", "two  words")
    assert (done.returncode, done.stdout, done.stderr) == (0, "two  words\n", "")
