"""HTML and SVG as text that no data can break out of: all text that is not `Markup` is escaped.

Names of farms, reasons and parameters come from logs to which anybody in a farm can write.
"""

from html import escape
from typing import Final, TypeAlias

MAX_TEXT: Final = 240
"""Characters of one text from the data."""
_VOID: Final = frozenset({"meta", "br"})
_NO_SIGN: Final = "\ufffd"


class Markup(str):
    """Text that is HTML already. Only `element`, `joined` and the page's own constants make `Markup`."""

    __slots__ = ()


Attribute: TypeAlias = str | float | None


def clean(text: str, most: int = MAX_TEXT) -> str:
    """Cut a text to `most` characters, and replace unprintable characters.

    Control characters are unprintable, and so are characters that turn the writing direction.
    """
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(each if each.isprintable() else _NO_SIGN for each in cut)


def element(name: str, /, *children: str, **attributes: Attribute) -> Markup:
    """Make an element. An attribute with the value None is left out.

    An attribute's name loses a last _, which avoids a keyword of Python. Every other _ of the name becomes -.
    """
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            shown = value if isinstance(value, str) else number(value)
            words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(clean(shown, 4096))}"')
    if name in _VOID:
        return Markup(f"<{' '.join(words)}>")
    return Markup(f"<{' '.join(words)}>{joined(*children)}</{name}>")


def path(d: str, class_: str, *children: str) -> Markup:
    """Make an SVG path. `d`: the path's commands, which are not cut, so they must not contain text from the data."""
    return Markup(f'<path class="{escape(class_)}" d="{escape(d)}">{joined(*children)}</path>')


def joined(*children: str) -> Markup:
    """Join pieces. A piece that is not `Markup` is cut and escaped."""
    return Markup("".join(each if isinstance(each, Markup) else escape(clean(each)) for each in children))


def number(value: float) -> str:
    """Write a coordinate, rounded to a tenth, without a superfluous ".0"."""
    return f"{value:.1f}".removesuffix(".0")
