"""Fits a report into the width of a terminal."""

import re
import textwrap
from typing import Final

_ADDRESS: Final = re.compile(r"\b([a-z2-7]{8})[a-z2-7]{44}\.b32\.i2p\b", re.ASCII)
_COLUMN: Final = re.compile(r"\s*\S+(?: \S+)*\s{2,}")
"""The first column of a line, with the space behind it."""


def with_short_addresses(text: str) -> str:
    """Shorten the addresses inside I2P in a text: "qjwctoz2….b32.i2p"."""
    return _ADDRESS.sub(r"\1….b32.i2p", text)


def fit(text: str, width: int) -> str:
    """Fit lines into a terminal of `width` columns: shorten I2P addresses, then break lines at spaces.

    When a line is too long, all addresses of the text are shortened, so that columns stay in line. A broken line goes
    on below the text after its first column.
    """
    lines = text.split("\n")
    if max(map(len, lines)) > width:
        lines = with_short_addresses(text).split("\n")
    return "\n".join(_broken(line, width) for line in lines)


def _broken(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    column = _COLUMN.match(line)
    indent = column.end() if column is not None and column.end() < width // 2 else len(line) - len(line.lstrip()) + 2
    return textwrap.fill(
        line,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
