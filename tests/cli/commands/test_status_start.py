"""`gf-i2p status` starts soon: the command imports nothing that only other commands need."""

import subprocess
import sys

SLOW = ("aiohttp", "cryptography", "pydantic", "structlog", "rich", "zstandard", "jinja2")


def test_status_imports_no_slow_library() -> None:
    code = f"import sys, gf_i2p.cli.main, gf_i2p.cli.commands.status; print([n for n in {SLOW} if n in sys.modules])"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert imported.stdout.strip() == "[]"
