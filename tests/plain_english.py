"""Measures how plain the English of docstrings, comments, messages and Markdown files is.

    python -m tests.plain_english [PATH ...]

prints, for each path, the pronouns in 100 words and the words in a sentence, and then the sentences to rewrite first.
A path is a folder, a module or a Markdown file. A reader has to look back for what a pronoun stands for. On
this measure the whole package h11 0.16 has 4.3 pronouns in 100 words, and the whole package websockets 17.4 has 2.2.
"""

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PRONOUNS: Final = """
i me my we our ours us you your yours he his him she her hers it its itself they them their theirs themselves
who whom whose what
"""
PRONOUNS: Final = frozenset(_PRONOUNS.split())
LONGEST: Final = 30
"""Words of a sentence above which `worst` counts the sentence as long."""
_RIDDLE: Final = re.compile(r"(?:Who|Whom|Whose|What|Those who|That of|Those of|Of which|Of whom)\b(?![^.?!]*\?)")
"""How no sentence begins, unless the sentence is a question."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9'-]*")
_NO_PROSE: Final = re.compile(r"``?[^`]*``?|\"[^\"\n]{0,40}\"|https?://\S+|\w+(?:[./_]\w+)+")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n\s*[-*] |\n {4,}")
_FENCED: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_INDENTED: Final = re.compile(r"(?<=\n\n) {4}.*(?:\n(?: {4}.*)?)*(?=\n|$)")
_HEADING: Final = re.compile(r"^#.*$", re.MULTILINE)
_CODE: Final = re.compile(r"`[^`]*`")
_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")
_LEAST_WORDS: Final = 4
"""A string of fewer words is a name or a format, and no sentence."""


@dataclass(slots=True)
class Measure:
    """Words, pronouns and sentences of some files."""

    words: int = 0
    pronouns: int = 0
    sentences: list[tuple[str, int, str]] = field(default_factory=list)
    """File, line and text."""

    def add(self, path: str, line: int, text: str) -> None:
        """Count one docstring, comment or message."""
        for sentence in _SENTENCE.split(_NO_PROSE.sub("X", text)):
            words = _WORD.findall(sentence)
            if len(words) >= _LEAST_WORDS:
                self.words += len(words)
                self.pronouns += sum(word.lower() in PRONOUNS for word in words)
                self.sentences.append((path, line, " ".join(sentence.split())))

    @property
    def pronouns_in_100_words(self) -> float:
        """The share of pronouns."""
        return 100 * self.pronouns / max(self.words, 1)

    @property
    def words_in_a_sentence(self) -> float:
        """The mean number of words."""
        return self.words / max(len(self.sentences), 1)

    def riddles(self) -> Iterator[str]:
        """Give the sentences that begin with a free "Who", "Whom" or "What", with their places."""
        for path, line, sentence in self.sentences:
            if _RIDDLE.match(sentence):
                yield f"{path}:{line}: {sentence}"

    def worst(self, most: int) -> Iterator[str]:
        """Give the sentences with the most pronouns, and the longest ones, with their places."""

        def badness(found: tuple[str, int, str]) -> float:
            words = _WORD.findall(found[2])
            return sum(word.lower() in PRONOUNS for word in words) * 3 + max(len(words) - LONGEST, 0)

        for path, line, sentence in sorted(self.sentences, key=badness, reverse=True)[:most]:
            yield f"{path}:{line}: {sentence}"


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Give each docstring, comment and message of a module, with its line."""
    yield from _comments(source)
    nodes = list(ast.walk(ast.parse(source)))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, inspect.cleandoc(node.value)


def markdown(text: str) -> Iterator[tuple[int, str]]:
    """Give each paragraph, list item and table cell of a Markdown file, with its line; no code and no headings."""
    for part in (_FENCED, _INDENTED, _HEADING):
        text = part.sub(lambda found: "\n" * found[0].count("\n"), text)
    text = _LINK.sub(r"\1", _CODE.sub(lambda found: "X" + "\n" * found[0].count("\n"), text)).replace("*", "")
    lines: list[str] = []
    start = 1
    for number, line in enumerate(text.splitlines(), 1):
        item = re.match(r" *(?:- |\d+\. )", line)
        if not line.strip() or item or "|" in line:
            yield start, " ".join(lines)
            start, lines = number + (not line.strip()), []
        for cell in line.split("|")[:-1]:
            yield number, cell.strip()
        if line.strip() and "|" not in line:
            lines.append(line[item.end() if item else 0 :].strip())
    yield start, " ".join(lines)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Give the comments; lines that follow each other are one comment."""
    start, lines, last = 0, [""], -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(r"# ?(?:type:|noqa|!)", token.string):
            continue
        text = token.string.lstrip("#").strip().rstrip("-").strip()
        if token.start[0] == last + 1:
            lines.append(text)
        else:
            yield start, " ".join(lines)
            start, lines = token.start[0], [text]
        last = token.start[0]
    yield start, " ".join(lines)


def measure(*paths: Path) -> Measure:
    """Measure these files, and all modules and Markdown files below these folders."""
    made = Measure()
    for path in paths:
        files = sorted(file for ending in ("py", "md") for file in path.rglob(f"*.{ending}"))
        for file in files if path.is_dir() else [path]:
            read = markdown if file.suffix == ".md" else prose
            for line, text in read(file.read_text()):
                made.add(str(file), line, text)
    return made


def main(arguments: list[str]) -> None:
    """Print the figures of these paths."""
    paths = [Path(argument) for argument in arguments] or [Path("gf_i2p"), Path("bridges")]
    for path in paths:
        found = measure(path)
        print(f"{found.pronouns_in_100_words:5.1f} pronouns  {found.words_in_a_sentence:5.1f} words a sentence  {path}")
    found = measure(*paths)
    for sentence in found.riddles():
        print(f"begins as a riddle: {sentence}")
    for sentence in found.worst(30):
        print(f"rewrite: {sentence}")


if __name__ == "__main__":
    main(sys.argv[1:])
