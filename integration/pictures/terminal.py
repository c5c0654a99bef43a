"""A picture of a terminal: a command, and all that the command has printed."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from rich.console import Console
from rich.text import Text

COLUMNS: Final = 100
_REDRAWN: Final = re.compile(r"^ *[\d.]+ s  \.\.\. .*\n", re.MULTILINE)
"""The awaited event, which a terminal overwrites."""
_FONTS: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def recorded(module: str, environment: Mapping[str, str]) -> str:
    """Return what a module of this project prints to the end. Raises `CalledProcessError`."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return _REDRAWN.sub("", done.stdout)


def picture(command: str, printed: str) -> str:
    """Return an SVG, which loads no font from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text(printed.rstrip()))
    svg = _FONTS.sub("", console.export_svg(title=command))
    return svg.replace("Fira Code, monospace", "monospace")
