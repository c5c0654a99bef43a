"""The languages of the page: the choice for a browser, and the words in a language.

The page's own words are the catalogue `page`, the sentences of nodes the catalogue `node` (`sentences`). Both stand in
`languages/`, made by `tests/cli/page/catalogues.py`. English is the language of the code, and has no catalogue.
"""

import gettext
import re
from functools import cache
from pathlib import Path
from typing import Final

from gf_i2p.cli.page.sentences import Sentences

ENGLISH: Final = "en"
LANGUAGES: Final = (ENGLISH, "es", "fr", "hi", "ko")
DIRECTORY: Final = Path(__file__).parent / "languages"
PAGE: Final = "page"
NODE: Final = "node"
_MAX_HEADER: Final = 1000
"""Characters of the header `Accept-Language` that are read."""
_QUALITY: Final = re.compile(r"q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)", re.ASCII)


def language_for(accepted: str) -> str:
    """Return the language for a browser. `accepted`: the header `Accept-Language` (RFC 9110, 12.5.4), or any text.

    A dialect such as `es-MX` stands for its language. Without a known language, the page is in English.
    """
    best, most = ENGLISH, 0.0
    for each in accepted[:_MAX_HEADER].split(","):
        tag, *parameters = (part.strip().lower() for part in each.split(";"))
        language = tag.partition("-")[0]
        quality = _quality(parameters)
        if language in LANGUAGES and quality > most:
            best, most = language, quality
    return best


def _quality(parameters: list[str]) -> float:
    if not parameters:
        return 1.0
    found = _QUALITY.fullmatch(parameters[0].replace(" ", ""))
    return 0.0 if found is None else float(found[1])


def marked(text: str) -> str:
    """Return the text as it is: a message that `Words.translated` translates later, elsewhere."""
    return text


class _Catalogue(gettext.GNUTranslations):
    """A catalogue that tells all of its messages, for which the standard library has no public way."""

    _catalog: dict[str, str]

    def messages(self) -> dict[str, str]:
        return {message: translation for message, translation in self._catalog.items() if message}


class Words:
    """The words of the page in one language."""

    def __init__(self, language: str) -> None:
        """`language`: one of `LANGUAGES`."""
        self.language = language
        self.catalogue: gettext.NullTranslations = gettext.NullTranslations()
        """The page's own words."""
        messages: dict[str, str] = {}
        if language != ENGLISH:
            self.catalogue = gettext.translation(PAGE, DIRECTORY, [language])
            messages = gettext.translation(NODE, DIRECTORY, [language], _Catalogue).messages()
        self._sentences = Sentences(messages)

    def translated(self, message: str, **values: object) -> str:
        """Return a message of the page, with the values in its places: `%(name)s`."""
        translation = self.catalogue.gettext(message)
        return translation % values if values else translation

    def counted(self, one: str, many: str, number: int, shown: str) -> str:
        """Return a message about a number, which stands at the place `%(number)s` as `shown`."""
        return self.catalogue.ngettext(one, many, number) % {"number": shown}

    def of_node(self, text: str) -> str:
        """Return a sentence of a node in this language, or in English when nobody has translated the sentence."""
        return self._sentences.translated(text)

    def sentence(self, text: str) -> str:
        """Return a clause of a node as a sentence, with a capital letter and a full stop."""
        return self.of_node(f"{text[0].upper()}{text[1:].rstrip('.')}.") if text else ""


@cache
def words_in(language: str) -> Words:
    """Return the words in one of `LANGUAGES`."""
    return Words(language)
