"""The manual page: `make man` makes it of the command line's own help."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gf_i2p import __version__
from gf_i2p.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]


def test_the_manual_has_every_command_and_no_mistake(tmp_path: Path) -> None:
    page, venv = tmp_path / "gf-i2p.1", Path(sys.executable).parents[1]
    command = ["make", "--silent", f"--old-file={venv}/.test", "man", f"VENV={venv}", f"MAN={page}"]
    made = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    text = page.read_text().replace("\\-", "-")
    assert [name for name in COMMANDS if f"gf-i2p {name}" not in text] == []
    assert f'"gf-i2p {__version__}"' in text.partition("\n")[0], "the version stands in the page's foot"
    if (groff := shutil.which("groff")) is None:
        pytest.skip("groff, which reads the page for mistakes, is not installed")
    command = [groff, "-K", "utf8", "-man", "-Tutf8", "-ww", "-z", str(page)]
    read = subprocess.run(command, check=True, capture_output=True, text=True)
    assert read.stderr == ""
