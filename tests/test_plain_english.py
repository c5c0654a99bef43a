"""The project keeps its English plain: few pronouns, short sentences, no sentence that begins as a riddle."""

from pathlib import Path

import pytest

from tests.plain_english import measure, prose

ROOT = Path(__file__).parent.parent
ROOMS = [
    *sorted(path.parent for path in ROOT.glob("gf_i2p/*/__init__.py")),
    ROOT / "bridges",
    ROOT / "integration",
    ROOT / "tests",
]
RIDDLE = "Wh" + "at"
"""In two parts, so that the tests below are no riddles themselves."""
MOST_PRONOUNS = 4.5
"""In 100 words. h11 0.16 has 4.3 on this measure, websockets 17.4 has 2.2."""
MOST_WORDS = 15.0
"""In a sentence, on average."""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_is_written_in_plain_english(room: Path) -> None:
    found = measure(room)
    hint = f"see python -m tests.plain_english {room.relative_to(ROOT)}"
    riddles = list(found.riddles())
    assert not riddles, f"{hint}\n" + "\n".join(riddles)
    assert found.pronouns_in_100_words <= MOST_PRONOUNS, hint
    assert found.words_in_a_sentence <= MOST_WORDS, hint


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
