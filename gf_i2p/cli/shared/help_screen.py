"""Shows a page of the documentation on a terminal, by rich, in its width and through the operator's pager."""

import os
import shutil
from contextlib import nullcontext
from typing import ClassVar, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown, MarkdownElement
from rich.text import Text
from rich.theme import Theme

_THEME: Final = Theme({"markdown.code": "bold"})  # rich's own has a black background, on a light terminal too
_LESS: Final = "FRX"
"""Options of less, unless the operator has others: colours, and no pager for a page that the screen has room for."""


class _Code(CodeBlock):
    """Code whose lines stay whole: a command that is broken into lines cannot be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = str(self.text).rstrip().split("\n")
        yield Text("\n".join(f"    {line}" for line in lines), no_wrap=True, overflow="ignore")


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "fence": _Code, "code_block": _Code}


def show_page(text: str) -> None:
    """Show a text in Markdown. Without the pager, where there is none of the name that PAGER has."""
    os.environ.setdefault("LESS", _LESS)
    console = Console(theme=_THEME)
    pager = (os.environ.get("MANPAGER") or os.environ.get("PAGER") or "").split()
    is_there = not pager or shutil.which(pager[0]) is not None
    with console.pager(styles=True) if is_there else nullcontext():
        console.print(_Page(text, hyperlinks=False), crop=False)
