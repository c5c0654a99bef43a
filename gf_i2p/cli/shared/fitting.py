"""Fits a text into the width of a terminal: shorter addresses, and lines that are broken at spaces.

Without rich, which takes 50 ms to import: an error need not wait for it.
"""

import os
import re
import sys
import textwrap
from contextlib import suppress
from shutil import get_terminal_size
from typing import Final, TextIO

_ADDRESS: Final = re.compile(r"\b([a-z2-7]{8})[a-z2-7]{44}\.b32\.i2p\b", re.ASCII)

_COLUMN: Final = re.compile(r"\s*\S+(?: \S+)*\s{2,}")
"""The first column of a line, with the space behind it."""
_QUOTED: Final = re.compile(r"`[^`]*`")
_SETTING: Final = re.compile(r"\s*[\w.]+ = ")
_GLUE: Final = "\0"


def with_short_addresses(text: str) -> str:
    """Shorten the addresses inside I2P in a text: "qjwctoz2….b32.i2p"."""
    return _ADDRESS.sub(r"\1….b32.i2p", text)


def second_column(line: str, columns: int) -> int:
    """Return where a line's text begins after its first column; 0 when there is none in the left half."""
    column = _COLUMN.match(line)
    return column.end() if column is not None and column.end() < columns // 2 else 0


def folded(text: str, stream: TextIO) -> str:
    """Break the long lines of a text at spaces if the stream is a terminal; elsewhere return the text as it is.

    A line goes on below its second column, or below its beginning. Settings and commands are there to be copied, so
    they stay in one line.
    """
    if not stream.isatty():
        return text
    columns = columns_of(stream)
    return "\n".join(_folded(line, columns) for line in text.split("\n"))


def columns_of(stream: TextIO) -> int:
    """Return the width of the terminal: of this stream's, which may not be that of standard output."""
    with suppress(OSError, ValueError):
        if "COLUMNS" not in os.environ:
            return os.get_terminal_size(stream.fileno()).columns or 80
    return get_terminal_size().columns


def cut(text: str, columns: int) -> str:
    """Shorten a text to a number of columns, at its end."""
    return text if len(text) <= columns else f"{text[: columns - 1]}…"


def _folded(line: str, columns: int) -> str:
    indent = second_column(line, columns)
    is_to_copy = _SETTING.match(line) or (line.startswith(" ") and not indent)  # an indented line is a command
    if len(line) <= columns or is_to_copy:
        return line
    whole = _QUOTED.sub(lambda found: found[0].replace(" ", _GLUE), line[indent:])
    lines = textwrap.wrap(whole, columns - indent, break_long_words=False, break_on_hyphens=False)
    end = line[len(line.rstrip()) :]  # a prompt ends with a space
    return (line[:indent] + f"\n{' ' * indent}".join(lines) + end).replace(_GLUE, " ")


def tell(text: str, *, end: str = "\n") -> None:
    """Print a text for people on standard error."""
    print(folded(text, sys.stderr), end=end, file=sys.stderr, flush=True)
