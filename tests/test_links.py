"""Every link between the pages leads to a file or a heading that is there, on GitHub and on the site alike."""

import posixpath
import re
from collections import Counter
from functools import cache
from pathlib import PurePosixPath
from urllib.parse import unquote

import pytest

from tests.test_repository import contents, texts

_FENCED = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^]]+\]:\s*(\S+)|(?:href|src)=\"([^\"]+)\"", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_NAMED = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"|^\(([\w-]+)\)=$", re.MULTILINE)


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it: words in lower case, with hyphens between."""
    plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return the anchors of a page. The second heading of a name gets a number."""
    seen: Counter[str] = Counter()
    found = {name for pair in _NAMED.findall(text) for name in pair if name}
    for heading in _HEADING.findall(_FENCED.sub("", text)):
        name = slug(heading)
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


@cache
def anchors_of(page: str) -> set[str]:
    return anchors(texts()[page])


@cache
def everything() -> frozenset[str]:
    """Every file under version control, pictures too, and every folder of one."""
    folders = (str(folder) for path in contents() for folder in PurePosixPath(path).parents)
    return frozenset((*contents(), *folders))


def dead_links(page: str, text: str) -> list[str]:
    """Return the links of a page's text that lead nowhere. Links to other hosts are not followed."""
    dead = []
    for match in _LINK.finditer(_CODE.sub("", _FENCED.sub("", text))):
        link = next(filter(None, match.groups()))
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        known = anchors(text) if not path else anchors_of(target) if target in texts() else set[str]()
        if (path and target not in everything()) or (anchor and anchor not in known):
            dead.append(link)
    return dead


def test_every_link_between_the_pages_is_alive() -> None:
    pages = [path for path in texts() if path.endswith(".md")]
    assert len(pages) > 20
    assert not {page: dead for page in pages if (dead := dead_links(page, texts()[page]))}


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("The guard", "the-guard"),
        ("`gf-i2p run`, and --stale", "gf-i2p-run-and---stale"),
        ("A [link](page.md) & more", "a-link--more"),
        ("Wer's weiß: 2.0", "wers-weiß-20"),
    ],
)
def test_a_heading_has_the_anchor_of_github(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("[a](../README.md) [b](..) ![c](../LICENSE) [d](https://example.org/x.md)", []),
        ("[a](../READYOU.md), [b](../READYOU.md#x)", ["../READYOU.md", "../READYOU.md#x"]),
        ("# One\n\n# One\n\n[a](#one) [b](#one-1) [c](#one-2)", ["#one-2"]),
        ("[a](../CONTRIBUTING.md#habits) [b](../CONTRIBUTING.md#habit)", ["../CONTRIBUTING.md#habit"]),
        ("[a]: ../nowhere.md\n", ["../nowhere.md"]),
        ('<img src="nowhere.svg"> <a id="x"></a> [a](#x)', ["nowhere.svg"]),
        ("`[a](nowhere.md)`\n\n```\n[a](nowhere.md)\n# One\n```\n\n[a](#one)", ["#one"]),
    ],
)
def test_dead_links_are_found(text: str, dead: list[str]) -> None:
    assert dead_links("docs/page.md", text) == dead
