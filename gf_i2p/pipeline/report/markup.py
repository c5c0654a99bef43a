"""HTML and SVG as text that cannot be broken out of: what is not `Markup` is escaped, whoever wrote it.

Names of farms, reasons and parameters come from logs that anybody in a farm can write to.
"""

from html import escape
from typing import Final, TypeAlias

MAX_TEXT: Final = 240
"""Characters of one text from the data."""
_VOID: Final = frozenset({"meta", "br"})
_NO_SIGN: Final = "\ufffd"


class Markup(str):
    """Text that is HTML already. Only `element`, `joined` and the page's own constants make it."""

    __slots__ = ()


Attribute: TypeAlias = str | float | None


def clean(text: str, most: int = MAX_TEXT) -> str:
    """Cut a text, and take out what is no sign: control characters, and those that turn the direction of writing."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(each if each.isprintable() else _NO_SIGN for each in cut)


def element(name: str, /, *children: str, **attributes: Attribute) -> Markup:
    """Make an element. An attribute's name may end in _, and other _ are -; one that is None is left out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            shown = value if isinstance(value, str) else number(value)
            words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(clean(shown, 4096))}"')
    if name in _VOID:
        return Markup(f"<{' '.join(words)}>")
    return Markup(f"<{' '.join(words)}>{joined(*children)}</{name}>")


def path(d: str, class_: str, *children: str) -> Markup:
    """Make an SVG path, which may be long. `d`: of numbers of ours."""
    return Markup(f'<path class="{escape(class_)}" d="{escape(d)}">{joined(*children)}</path>')


def joined(*children: str) -> Markup:
    """Put pieces one after another."""
    return Markup("".join(each if isinstance(each, Markup) else escape(clean(each)) for each in children))


def number(value: float) -> str:
    """Give a coordinate, as short as it is exact to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
