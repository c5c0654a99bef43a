"""Renders the templates in the language of the browser, and serves style and script."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from aiohttp import web

from gf_i2p.cli.page.actions import Action
from gf_i2p.cli.page.words import Words, language_for, words_in
from gf_i2p.cli.shared.fitting import with_short_addresses

_HERE: Final = Path(__file__).parent
_STATIC: Final = {"style.css": "text/css", "live.js": "text/javascript"}


class Pages:
    """The templates in one language."""

    def __init__(self, words: Words) -> None:
        """`words`: the words of that language."""
        self.words = words
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            extensions=["jinja2.ext.i18n"],
        )
        self._templates.install_gettext_translations(words.catalogue, newstyle=True)  # type: ignore[attr-defined]
        self._templates.globals["language"] = words.language
        self._templates.filters |= {"short": with_short_addresses, "confirm_link": _confirm_link}

    def render(self, template: str, **values: Any) -> str:
        """Fill in a template."""
        return self._templates.get_template(template).render(**values)

    def html(self, template: str, *, status: int = 200, **values: Any) -> web.Response:
        """Answer with a filled template."""
        headers = {"Content-Language": self.words.language}
        text = self.render(template, **values)
        return web.Response(text=text, content_type="text/html", status=status, headers=headers)

    def message(self, title: str, text: str, *, back: str = "", status: int) -> web.Response:
        """Answer with a page of one sentence."""
        return self.html("message.html", title=title, text=text, back=back, status=status)


class Languages:
    """The templates in all languages."""

    def __init__(self, language: str | None = None) -> None:
        """`language`: for every browser; None: each browser says which."""
        self._language = language
        self._pages: dict[str, Pages] = {}

    def of(self, request: web.Request) -> Pages:
        """Return the templates in the language of the browser that asks."""
        return self.in_language(self._language or language_for(request.headers.get("Accept-Language", "")))

    def in_language(self, language: str) -> Pages:
        """Return the templates in one of `LANGUAGES`."""
        if language not in self._pages:
            self._pages[language] = Pages(words_in(language))
        return self._pages[language]


async def get_static(request: web.Request) -> web.Response:
    """Answer with the style or the script."""
    name = request.match_info["name"]
    if name not in _STATIC:
        return web.Response(status=404)
    return web.Response(text=(_HERE / "static" / name).read_text("utf-8"), content_type=_STATIC[name])


def comparable(text: str) -> bytes:
    """Return a text as bytes, to be compared. A request may hold characters that UTF-8 does not have."""
    return text.encode("utf-8", "surrogateescape")


def _confirm_link(action: Action) -> str:
    return "confirm?" + urlencode({"action": action.name, "subject": action.subject})
