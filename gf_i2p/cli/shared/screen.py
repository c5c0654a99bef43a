"""Shows a report on a terminal, by rich: colours, short addresses, and long lines that go on below their second column.

The colours only repeat what the words say. rich leaves the colours out when `NO_COLOR` is set, and on terminals that
have none.
"""

from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.text import Text
from rich.theme import Theme

from gf_i2p.cli.shared.fitting import second_column, with_short_addresses

_THEME: Final = Theme({"farm.bad": "red", "farm.good": "green", "farm.name": "bold", "farm.address": "cyan"})


class _Words(RegexHighlighter):
    base_style = "farm."
    highlights = [  # noqa: RUF012 -- rich's way
        r"(?P<name>^[a-z]+(?= {2,}\S))",
        r"(?P<name>^[a-z]+$)",
        r"(?P<address>\b[a-z2-7]{8}(?:…|[a-z2-7]{44})\.b32\.i2p\b)",
        r"(?P<good>(?<!not )\bconnected\b)",
        r"(?P<bad>\bnot connected\b.*|^trouble .*|^leader +none\b.*|^No leader .*|^Only \d+ of .*)",
    ]


def terminal() -> Console:
    """Return standard output as rich sees it."""
    return Console(theme=_THEME, highlight=False)


def fit(text: str, console: Console) -> Text:
    """Fit lines into a terminal: shorten I2P addresses, then break lines at spaces, and colour what matters.

    When a line is too long, all addresses of the text are shortened, so that columns stay in line. A broken line goes
    on below the text after its first column.
    """
    width = console.width
    if max(map(cell_len, text.split("\n"))) > width:
        text = with_short_addresses(text)
    highlight = _Words()
    return Text("\n").join(_broken(highlight(line), console, width) for line in text.split("\n"))


def _broken(line: Text, console: Console, width: int) -> Text:
    if line.cell_len <= width:
        return line
    indent = second_column(line.plain, width)
    if indent:
        start, rest = line.divide([indent])
    else:
        start, rest = Text(), line
        indent = len(line.plain) - len(line.plain.lstrip()) + 2
    first, *others = lines = rest.wrap(console, width - indent, overflow="fold")
    for each in lines:
        each.rstrip()
    return Text("\n").join([start + first, *(Text(" " * indent) + other for other in others)])


def show(text: str) -> None:
    """Print a report on the terminal."""
    console = terminal()
    console.print(fit(text, console), soft_wrap=True)
