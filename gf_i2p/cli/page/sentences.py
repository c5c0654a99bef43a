"""Translates the sentences of a node by their forms.

A node tells reasons, events and faults in English, and the answers of its API stay English. A *form* is such a sentence
with places, as in "its router is down ({0})". The catalogue `node` has the forms, which `tests/cli/page/catalogues.py`
reads from the code that makes the sentences. A sentence that has no form is shown as it is.

A place `{0}` may hold a sentence that has a form, too. A named place, as `{reason}`, holds the text of a person, which
nobody translates. Texts of strangers may stand in any place: so the work for one text is bounded, without regular
expressions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Final, NamedTuple

MAX_CHARACTERS: Final = 1000
"""A longer text is shown as it is."""
MAX_DEPTH: Final = 4
"""How deep sentences within sentences are translated."""
FULL_STOP: Final = "{0}."
"""The message that ends a sentence: some scripts have another full stop."""
MAX_READINGS: Final = 40
"""Most clauses that are compared with the forms for one text. The rest of the text stays as it is."""
_KEPT: Final = 1 << 14
"""Texts whose translations are kept."""
_SEPARATORS: Final = ("; ", ": ", ", ")
_MOST_PARTS: Final = 16
"""Most parts of a list that is translated part by part."""


@dataclass(frozen=True, slots=True)
class Form:
    """A message, taken apart at its places."""

    pieces: tuple[str, ...]
    """The fixed texts: before the first place, between two places, and after the last place."""
    places: tuple[str, ...]
    """Names of the places, in order: numbers for sentences or values, words for the texts of people."""

    @classmethod
    def of(cls, message: str) -> "Form":
        """Take a message apart. Raises `ValueError` for a message with places side by side, or a broken place."""
        pieces, places = [""], []
        for fixed, name, _, _ in Formatter().parse(message):
            pieces[-1] += fixed
            if name is not None:
                places.append(name)
                pieces.append("")
        if "" in pieces[1:-1]:
            raise ValueError(f"two places stand side by side in {message!r}")
        return cls(tuple(pieces), tuple(places))

    @property
    def weight(self) -> int:
        """How many characters the form has by itself."""
        return sum(map(len, self.pieces))

    def values(self, text: str) -> dict[str, str] | None:
        """Return the values of the places if the whole text has this form; None: it has not. No place is empty."""
        first, *inner, last = self.pieces
        end = len(text) - len(last)
        if not text.startswith(first) or not text.endswith(last):
            return None
        found, at = [], len(first)
        for piece in inner:
            begin = text.find(piece, at + 1, end)
            if begin < 0:
                return None
            found.append(text[at:begin])
            at = begin + len(piece)
        if at >= end:
            return None
        return dict(zip(self.places, (*found, text[at:end]), strict=True))


class Sentences:
    """The sentences of nodes in one language."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        """`messages`: the translation of each form; empty for English."""
        forms = {message: Form.of(message) for message in messages if message != FULL_STOP}
        self.whole = {message: messages[message] for message, form in forms.items() if not form.places}
        """The translations of messages without places."""
        self.forms = [(form, messages[message]) for message, form in forms.items() if form.places]
        """The other messages, with their translations."""
        self.ended_forms = [each for each in self.forms if each[0].pieces[-1].endswith(".")]
        """Those with a full stop of their own."""
        self.stop = messages.get(FULL_STOP, FULL_STOP)
        self._kept = lru_cache(maxsize=_KEPT)(self._translate)

    def translated(self, text: str) -> str:
        """Return a node's sentence in this language, or as it is when no form fits. The result is plain text."""
        if not self.whole or len(text) > MAX_CHARACTERS:
            return text
        return self._kept(text)

    def _translate(self, text: str) -> str:
        found = _Reader(self).best(text, MAX_DEPTH)
        return text if found is None else found.text


class _Found(NamedTuple):
    """A translation."""

    known: int
    """Characters of the English text that are fixed texts of forms. Of two readings, the one with more is right."""
    text: str


class _Reader:
    """Reads one text."""

    def __init__(self, sentences: Sentences) -> None:
        self._sentences = sentences
        self._left = MAX_READINGS

    def best(self, text: str, depth: int) -> _Found | None:
        """Return the translation of a sentence, or of a list of sentences; None: nothing of the text is known."""
        return _fullest(self._sentence(text, depth), *(self._list(text, separator, depth) for separator in _SEPARATORS))

    def _list(self, text: str, separator: str, depth: int) -> _Found | None:
        parts = text.split(separator, _MOST_PARTS)
        found = [self._sentence(part, depth - 1) for part in parts] if len(parts) > 1 else []
        if not any(found):
            return None
        texts = (part if each is None else each.text for each, part in zip(found, parts, strict=True))
        return _Found(sum(each.known for each in found if each is not None), separator.join(texts))

    def _sentence(self, text: str, depth: int) -> _Found | None:
        if depth <= 0 or not text or text.isdigit():
            return None
        found = self._clause(text, depth)
        if not text[0].isupper():
            return found
        clause = self._clause(text[0].lower() + text[1:], depth)  # a clause that begins a sentence
        if clause is not None:
            clause = _Found(clause.known, clause.text[0].upper() + clause.text[1:])
        return _fullest(found, clause)

    def _clause(self, text: str, depth: int) -> _Found | None:
        self._left -= 1
        if self._left < 0:
            return None
        ended = f"{text.removesuffix('.')}."
        sentence, clause = self._exactly(ended, depth), self._exactly(ended.removesuffix("."), depth)
        stop = self._sentences.stop
        if text == ended:
            return _fullest(sentence, None if clause is None else _Found(clause.known, stop.format(clause.text)))
        if sentence is not None:
            sentence = _Found(sentence.known, sentence.text.removesuffix(stop.format("")))
        return _fullest(sentence, clause)

    def _exactly(self, text: str, depth: int) -> _Found | None:
        whole = self._sentences.whole.get(text)
        if whole is not None:
            return _Found(len(text), whole)
        # A full stop at the end is no part of a value.
        return self._of_form(self._sentences.ended_forms if text.endswith(".") else self._sentences.forms, text, depth)

    def _of_form(self, forms: Sequence[tuple[Form, str]], text: str, depth: int) -> _Found | None:
        fitting = ((form, translation, form.values(text)) for form, translation in forms)
        return _fullest(
            *(self._filled(form, translation, values, depth) for form, translation, values in fitting if values)
        )

    def _filled(self, form: Form, translation: str, values: Mapping[str, str], depth: int) -> _Found:
        known, numbered, personal = form.weight, [], {}
        for name, value in values.items():
            if not name.isdigit():
                personal[name] = value
                known += len(value)  # so no part of the value is taken for a sentence
                continue
            found = self.best(value, depth - 1)
            known += 0 if found is None else found.known
            numbered.append(value if found is None else found.text)
        return _Found(known, translation.format(*numbered, **personal))


def _fullest(*readings: _Found | None) -> _Found | None:
    return max((each for each in readings if each is not None), key=lambda each: each.known, default=None)
