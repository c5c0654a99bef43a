"""`make farm` on machines where the command cannot run."""

import os
import subprocess
import sys


def test_what_is_missing_is_named_with_the_command_that_brings_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "integration.runs.farm"],
        env={**os.environ, "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "unshare" in done.stderr
    assert "sudo apt-get install" in done.stderr
    assert "Traceback" not in done.stderr
