"""The project keeps its English plain: few pronouns, short sentences, no sentence that begins as a riddle."""

import re
from pathlib import Path

import pytest

from tests.plain_english import markdown, measure, prose

ROOT = Path(__file__).parent.parent
ROOMS = [
    *sorted(path.parent for path in ROOT.glob("gf_i2p/*/__init__.py")),
    ROOT / "bridges",
    ROOT / "integration",
    ROOT / "tests",
]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]
RIDDLE = "Wh" + "at"
"""In two parts, so that the tests below are no riddles themselves."""
MOST_PRONOUNS = 2.5
"""Most pronouns in 100 words."""
MOST_WORDS = 15.0
"""Most words in a sentence of the code, on average."""
MOST_WORDS_OF_A_PAGE = 20.0
"""Most words in a sentence of a Markdown file, on average."""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_is_written_in_plain_english(room: Path) -> None:
    found = measure(room)
    hint = f"see python -m tests.plain_english {room.relative_to(ROOT)}"
    riddles = list(found.riddles())
    assert not riddles, f"{hint}\n" + "\n".join(riddles)
    assert found.pronouns_in_100_words <= MOST_PRONOUNS, hint
    assert found.words_in_a_sentence <= MOST_WORDS, hint


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_riddles_and_short_sentences(page: Path) -> None:
    found = measure(page)
    hint = f"see python -m tests.plain_english {page.relative_to(ROOT)}"
    riddles = list(found.riddles())
    assert not riddles, f"{hint}\n" + "\n".join(riddles)
    assert found.words_in_a_sentence <= MOST_WORDS_OF_A_PAGE, hint


def test_the_measure_reads_docstrings_comments_and_messages() -> None:
    source = '''"""The task is told here."""

# The comment stands on
# two lines.
NUMBER = 3
"""How it is counted."""
raise ValueError(f"the server {NUMBER} does not answer: start it")
'''
    assert [text for _, text in prose(source)] == [
        "",
        "The comment stands on two lines.",
        "The task is told here.",
        "How it is counted.",
        "the server X does not answer: start it",
    ]


def test_a_question_is_no_riddle_and_a_free_relative_clause_is_one(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    riddle = f"{RIDDLE} the log says is true."
    file.write_text(f'"""Who publishes now? {riddle} Server 1 publishes what the log says."""\n')
    assert [found.partition(": ")[2] for found in measure(file).riddles()] == [riddle]


def test_the_measure_reads_the_prose_of_a_markdown_file() -> None:
    page = """# How a page is read

A [link](docs/page.md) and `code` stand
in **one** paragraph.

    code
    more code

| name | does |
|---|---|
| `run` | runs a node |

```
a fence
```

- The first item.
2. The second item.
"""
    assert [(line, text) for line, text in markdown(page) if re.search("[a-z]", text)] == [
        (3, "A link and X stand in one paragraph."),
        (9, "name"),
        (9, "does"),
        (11, "runs a node"),
        (17, "The first item."),
        (18, "The second item."),
    ]
