"""Translates the sentences of a node by their forms.

A node tells reasons, events and faults in English, and the answers of its API stay English. A *form* is such a sentence
with places, as in "its router is down ({0})". The catalogue `node` has the forms, which `tests/cli/page/catalogues.py`
reads from the code that makes the sentences. A sentence that has no form is shown as it is.

A place `{0}` may hold a sentence that has a form, too. A named place, as `{reason}`, holds the text of a person, which
nobody translates. Texts of strangers may stand in any place: so the work for one text is bounded, without regular
expressions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Final

MAX_CHARACTERS: Final = 4000
"""A longer text is shown as it is."""
MAX_DEPTH: Final = 4
"""How deep sentences within sentences are translated."""
FULL_STOP: Final = "{0}."
"""The message that ends a sentence: some scripts have another full stop."""
_KEPT: Final = 2048
"""Texts whose translations are kept."""
_SEPARATORS: Final = ("; ", ": ", ", ")
_MOST_PARTS: Final = 64
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
    def weight(self) -> tuple[int, int]:
        """How much the form says by itself; the heaviest form that fits a text is the right one."""
        return sum(map(len, self.pieces)), -len(self.places)

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
        self._whole = {message: messages[message] for message, form in forms.items() if not form.places}
        self._forms = sorted(
            ((form, messages[message]) for message, form in forms.items() if form.places),
            key=lambda each: each[0].weight,
            reverse=True,
        )
        self._stop = messages.get(FULL_STOP, FULL_STOP)
        self._kept = lru_cache(maxsize=_KEPT)(self._translate)

    def translated(self, text: str) -> str:
        """Return a node's sentence in this language, or as it is when no form fits. The result is plain text."""
        if not self._whole or len(text) > MAX_CHARACTERS:
            return text
        return self._kept(text)

    def _translate(self, text: str) -> str:
        return self._value("0", text, MAX_DEPTH)

    def _found(self, text: str, depth: int) -> str | None:
        """Return the translation; None: no form fits."""
        if not depth or not text or text.isdigit():
            return None
        found = self._as_form(text, depth)
        if found is None and text.endswith("."):
            clause = self._as_form(text[:-1], depth)
            found = None if clause is None else self._stop.format(clause)
        if found is None and text[0].isupper():  # a clause that begins a sentence
            found = self._found(text[0].lower() + text[1:], depth - 1)
            found = None if found is None else found[0].upper() + found[1:]
        return found

    def _as_form(self, text: str, depth: int) -> str | None:
        if text in self._whole:
            return self._whole[text]
        for form, translation in self._forms:
            values = form.values(text)
            if values is not None:
                filled = {name: self._value(name, value, depth - 1) for name, value in values.items()}
                numbered = [filled.get(str(number), "") for number in range(len(filled))]
                return translation.format(*numbered, **{name: filled[name] for name in filled if not name.isdigit()})
        return None

    def _value(self, name: str, value: str, depth: int) -> str:
        """Return a place's value: translated if the value is a sentence, or has known sentences as its parts."""
        if not name.isdigit():
            return value
        found = self._found(value, depth)
        if found is not None:
            return found
        for separator in _SEPARATORS:
            if separator in value:
                parts = value.split(separator, _MOST_PARTS)
                return separator.join(self._found(part, depth - 1) or part for part in parts)
        return value
