"""A node's sentences in another language: which form fits, and which text nobody translates."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gf_i2p.cli.page.sentences import FULL_STOP, MAX_CHARACTERS, Form, Sentences
from gf_i2p.cli.page.words import LANGUAGES, words_in

MESSAGES = {
    "its router is down": "SU ROUTER",
    "its router is down ({0})": "SU ROUTER {0}",
    "server {0} publishes: {1}": "{1} PUBLICA {0}",
    "server {0} is as good, and its id is lower": "IGUAL {0}",
    "of server {0}, {1}": "DE {0} {1}",
    "attempted {0}": "INTENTADO {0}",
    "sent {0}": "ENVIADO {0}",
    "the last: {0}": "ÚLTIMO: {0}",
    "{by} has excluded it: {reason}": "EXCLUIDA {by}: {reason}",
    "The history is {0} behind.": "Historia {0}.",
    FULL_STOP: "{0}।",
}
SENTENCES = Sentences(MESSAGES)


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        ("its router is down", "SU ROUTER"),
        ("Its router is down.", "SU ROUTER।"),
        ("its router is down (3)", "SU ROUTER 3"),
        ("server 2 publishes: of server 1, its router is down", "DE 1 SU ROUTER PUBLICA 2"),
        ("server 2 publishes: server 3 is as good, and its id is lower", "IGUAL 3 PUBLICA 2"),
        ("the last: attempted 12:00, sent 12:01, lost", "ÚLTIMO: INTENTADO 12:00, ENVIADO 12:01, lost"),
        ("127.0.0.1:7: its router is down", "127.0.0.1:7: SU ROUTER"),
        ("The history is 7 behind.", "Historia 7."),
        ("Sent 7.", "ENVIADO 7।"),
        ("sent {0} and {reason}", "ENVIADO {0} and {reason}"),
        ("nobody has said this before", "nobody has said this before"),
        ("sent ", "sent "),
        ("", ""),
    ],
)
def test_the_form_that_says_most_gives_the_translation(text: str, translation: str) -> None:
    assert SENTENCES.translated(text) == translation


def test_the_words_of_a_person_stay_as_they_are() -> None:
    reason = "its router is down, sent 7; server 2 publishes: its router is down"
    assert SENTENCES.translated(f"admin-x has excluded it: {reason}") == f"EXCLUIDA admin-x: {reason}"


def test_a_long_text_is_left_alone() -> None:
    text = "sent " + "x" * MAX_CHARACTERS
    assert SENTENCES.translated(text) == text


def test_english_needs_no_forms() -> None:
    assert Sentences({}).translated("its router is down") == "its router is down"


def test_places_side_by_side_are_refused() -> None:
    with pytest.raises(ValueError, match="side by side"):
        Form.of("the server {0}{1}")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([*MESSAGES, "server 1", "; ", ": ", ", ", ".", "{", "}", "%s", "<b>"]), max_size=20))
def test_no_text_breaks_the_translation(parts: list[str]) -> None:
    text = "".join(parts)
    for language in LANGUAGES:
        assert isinstance(words_in(language).of_node(text), str)
    assert isinstance(SENTENCES.translated(text), str)


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2))
def test_a_form_finds_the_values_that_were_filled_in(values: list[str]) -> None:
    form = Form.of("from {0} to {1} now")
    found = form.values(f"from {values[0]} to {values[1]} now")
    assert found is not None
    assert f"from {found['0']} to {found['1']} now" == f"from {values[0]} to {values[1]} now"


def test_a_form_fits_the_whole_text_only() -> None:
    form = Form.of("from {0} to {1} now")
    for text in (
        "from a to b now!",
        "so from a to b now",
        "from a now",
        "from  to b now",
        "from a to  now",
        "from now",
    ):
        assert form.values(text) is None, text
