"""The pages of the documentation, as the package carries them: found, named, and described by their first sentences."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import gf_i2p

KINDS: Final = {
    "tutorials": "Tutorials: learn by doing",
    "how-to": "How-to: one task a page",
    "reference": "Reference: all that there is",
    "explanation": "Explanation: how and why",
}
"""The folders of pages, and their headings."""

_COMMENT: Final = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^]]*)\]\(([^)\s]*)\)")
_NO_SENTENCE: Final = ("#", "|", "```", "    ", "- ", "* ", ":::", "<", "![", "(")
"""How a paragraph begins that is a heading, a table, code, a list, an image or an anchor."""
_END: Final = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`*\[])")


@dataclass(frozen=True, slots=True)
class HelpPage:
    """One page."""

    topic: str
    """The name by which the page is asked for: unlike that of every other page."""
    kind: str
    """One of `KINDS`."""
    path: Path

    @property
    def text(self) -> str:
        """The page in Markdown, without comments."""
        return _COMMENT.sub("", self.path.read_text(encoding="utf-8"))

    @property
    def title(self) -> str:
        """The heading of the page."""
        found = _TITLE.search(self.text)
        return found[1].replace("`", "") if found is not None else self.topic

    @property
    def first_sentence(self) -> str:
        """The first sentence of the page's first paragraph, without links and marks; empty for a page without one."""
        for paragraph in re.split(r"\n\s*\n", self.text):
            if paragraph.strip() and not paragraph.startswith(_NO_SENTENCE):
                sentence = _END.split(" ".join(paragraph.split()), maxsplit=1)[0]
                return _LINK.sub(r"\1", sentence).replace("*", "").replace("`", "")
        return ""


def directory() -> Path:
    """Return the directory of the pages: inside the installed package, or beside the package in a repository."""
    package = Path(gf_i2p.__file__).parent
    inside = package / "docs"
    return inside if inside.is_dir() else package.parent / "docs"


def pages(root: Path | None = None) -> Mapping[str, HelpPage]:
    """Return all pages by topic, in the order of `KINDS` and of their names.

    The topic is the name of the file. If pages of two kinds have one name, the second has its folder before its name.
    """
    found: dict[str, HelpPage] = {}
    for kind in KINDS:
        for path in sorted(((root or directory()) / kind).glob("*.md"), key=lambda each: each.stem):
            topic = path.stem if path.stem not in found else f"{kind}/{path.stem}"
            found[topic] = HelpPage(topic, kind, path)
    return found


def find(topic: str, among: Mapping[str, HelpPage]) -> HelpPage:
    """Return the page of a topic, which may have its folder before its name, and ".md" behind.

    Raises `LookupError`, which names the nearest topics.
    """
    name = topic.strip().lower().removesuffix(".md").removeprefix("docs/").replace("_", "-").replace(" ", "-")
    if name in among:
        return among[name]
    for page in among.values():
        if name == f"{page.kind}/{page.path.stem}":
            return page
    near = difflib.get_close_matches(name, among, n=3) or [each for each in among if name and name in each][:3]
    hint = " or ".join(f"`gf-i2p help {each}`" for each in near)
    raise LookupError(
        f"there is no topic {topic[:80]!r}: " + (f"did you mean {hint}?" if near else "`gf-i2p help` lists the topics")
    )


def with_topics(page: HelpPage, among: Mapping[str, HelpPage]) -> str:
    """Return the page's text with a command in the place of each link to another page.

    A link to any other file of the repository keeps only its words: the file may not be on this machine.
    """
    topics = {each.path.resolve(): each.topic for each in among.values()}

    def words(link: re.Match[str]) -> str:
        text, target = link[1], link[2]
        if re.match(r"\w+:", target):
            return link[0]
        path = target.partition("#")[0]
        topic = topics.get((page.path.parent / path).resolve()) if path else None
        return text if topic is None else f"{text} (`gf-i2p help {topic}`)"

    return _LINK.sub(words, page.text)
