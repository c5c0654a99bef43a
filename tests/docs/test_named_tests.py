"""A page of docs/explanation names, in HTML comments beside its claims, the tests that show the claims."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "explanation").glob("*.md"))
COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
NAME = re.compile(r"\b(?P<file>[\w/-]+\.py)|\b(?P<test>test_\w+)")


@cache
def source(file: str) -> str:
    path = ROOT / file
    return path.read_text("utf-8") if path.is_file() else ""


def missing(comment: str) -> list[str]:
    """Return the files and tests of a comment that do not exist. A test is looked for in the file named before it."""
    found, file = [], ""
    for match in NAME.finditer(comment):
        file = match["file"] or file
        if not source(file):
            found.append(file)
        elif match["test"] is not None and f"def {match['test']}(" not in source(file):
            found.append(f"{file}::{match['test']}")
    return found


def test_every_named_test_exists() -> None:
    comments = [(page.name, comment) for page in PAGES for comment in COMMENT.findall(page.read_text("utf-8"))]
    assert len(comments) > 20
    assert not [f"{page}: {each}" for page, comment in comments for each in missing(comment)]


def test_a_missing_file_and_a_missing_test_are_found() -> None:
    here = "tests/docs/test_named_tests.py"
    assert missing(f"{here}::test_every_named_test_exists, test_a_missing_file_and_a_missing_test_are_found") == []
    assert missing(f"{here}::test_nothing; tests/docs/test_nowhere.py") == [
        f"{here}::test_nothing",
        "tests/docs/test_nowhere.py",
    ]
