"""Tables and cells of Markdown."""

import re
from collections.abc import Iterable, Sequence


def code(text: object) -> str:
    """Return a text as code in a cell; empty stays empty."""
    return f"`{text}`".replace("|", "\\|") if str(text) else ""


def cell(text: str) -> str:
    """Return prose for a cell: one line, and nothing in it that Markdown would take for a mark of its own."""
    parts = re.split(r"(`+[^`]*`+)", " ".join(text.split()))
    prose = (re.sub(r"([<>*_\[\]$])", r"\\\1", part) if number % 2 == 0 else part for number, part in enumerate(parts))
    return "".join(prose).replace("|", "\\|")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, with a line break behind. The cells are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float) -> str:
    """Return a number as people write it, with its thousands apart."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
