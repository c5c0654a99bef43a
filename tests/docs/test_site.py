"""The documentation as a site: it builds without a warning, and loads nothing from elsewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class Loads(HTMLParser):
    """The addresses that a browser loads by itself for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [value for name in ("src", "srcset", "poster", "data") if (value := given.get(name))]
        if tag == "link" and (address := given.get("href")):
            self.found.append(address)


def loads(file: Path) -> Iterator[str]:
    """Yield what a file of the site makes a browser load."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".html":
        parser = Loads()
        parser.feed(text)
        yield from parser.found
    if file.suffix in {".html", ".css"}:
        yield from re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")]+)", text)
    if file.suffix == ".js":
        yield from re.findall(r"(?:fetch|import|open)\(['\"`](\w+:[^'\"`]+)", text)


@pytest.mark.slow  # builds all pages
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    options = ["--quiet", "--fresh-env", "--fail-on-warning", "--keep-going", "--builder", "html"]
    trees, site = str(tmp_path / "trees"), str(tmp_path / "site")
    command = [sys.executable, "-m", "sphinx", *options, "--doctree-dir", trees, str(DOCS), site]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    files = [path for path in (tmp_path / "site").rglob("*") if path.suffix in {".html", ".css", ".js"}]
    assert len(files) > 20
    outside = {str(file.name): bad for file in files if (bad := [each for each in loads(file) if is_outside(each)])}
    assert not outside


def is_outside(address: str) -> bool:
    """Whether an address leads out of the site."""
    return bool(re.match(r"(?:\w+:)?//", address)) and not address.startswith("data:")


@pytest.mark.parametrize(
    ("name", "text", "outside"),
    [
        ("a.html", '<script src="https://example.org/a.js"></script>', True),
        ("a.html", '<link rel="stylesheet" href="//example.org/a.css">', True),
        ("a.html", '<a href="https://example.org/">a site</a><img src="a.svg">', False),
        ("a.css", "@import 'https://example.org/a.css';", True),
        ("a.css", "b { background: url(https://example.org/a.png) }", True),
        ("a.css", "b { background: url(data:image/png;base64,AAAA) }", False),
        ("a.js", 'fetch("https://example.org/a")', True),
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(tmp_path: Path, name: str, text: str, outside: bool) -> None:
    (tmp_path / name).write_text(text)
    assert any(map(is_outside, loads(tmp_path / name))) is outside
