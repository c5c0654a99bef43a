"""The manual page: `make man` makes it of the command line's own help."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gf_i2p.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]


def test_the_manual_has_every_command_and_no_mistake(tmp_path: Path) -> None:
    tool = Path(sys.executable).with_name("argparse-manpage")
    page = tmp_path / "gf-i2p.1"
    recipe = (ROOT / "Makefile").read_text().partition("\nman: ")[2].partition("\n\n")[0]
    assert "--module gf_i2p.cli.main --function all_commands" in recipe
    what = ("--module", "gf_i2p.cli.main", "--function", "all_commands", "--format", "single-commands-section")
    subprocess.run([tool, *what, "--output", page], check=True, cwd=ROOT, env={"COLUMNS": "80"})
    text = page.read_text().replace("\\-", "-")
    assert [name for name in COMMANDS if f"gf-i2p {name}" not in text] == []
    if (groff := shutil.which("groff")) is None:
        pytest.skip("groff, which reads the page for mistakes, is not installed")
    read = subprocess.run(
        [groff, "-K", "utf8", "-man", "-Tutf8", "-ww", "-z", page], check=True, capture_output=True, text=True
    )
    assert read.stderr == ""
