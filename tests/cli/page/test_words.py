"""The language of a browser, and the words in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.cli.page.words import LANGUAGES, language_for, words_in


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("es", "es"),
        ("es-MX,es;q=0.9,en;q=0.8", "es"),
        ("KO-kr", "ko"),
        ("de-DE,de;q=0.9,fr;q=0.8,en;q=0.7", "fr"),
        ("en;q=0.4, hi ; q=0.5", "hi"),
        ("en,ko", "en"),
        ("es;q=0,fr;q=0.1", "fr"),
        ("de,ja", "en"),
        ("*", "en"),
        ("es;q=nan,fr;q=inf,ko;q=-1,hi;q=2", "en"),
        ("es;q=,;;;,=,fr;level=1", "en"),
        ("español", "en"),
        ("x" * 100_000 + ",es", "en"),
    ],
)
def test_the_browser_gets_the_known_language_that_it_likes_best(accepted: str, language: str) -> None:
    assert language_for(accepted) == language


@given(st.text())
def test_no_header_breaks_the_choice(accepted: str) -> None:
    assert language_for(accepted) in LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_message_has_its_values_in_every_language(language: str) -> None:
    words = words_in(language)
    assert words.language == language
    told = words.translated("server %(server)s, in term %(term)s", server=7, term=12)
    assert "7" in told
    assert "12" in told
    assert "%" not in told
    for number in (0, 1, 2, 1_000_000):
        assert str(number) in words.counted("%(number)s entry behind", "%(number)s entries behind", number, str(number))


def test_a_number_has_the_right_plural() -> None:
    found = [
        words_in(language).counted("%(number)s entry behind", "%(number)s entries behind", number, str(number))
        for language in ("en", "es", "fr")
        for number in (1, 2)
    ]
    assert found == [
        "1 entry behind",
        "2 entries behind",
        "1 entrada de retraso",
        "2 entradas de retraso",
        "1 entrée de retard",
        "2 entrées de retard",
    ]


def test_a_clause_becomes_a_sentence() -> None:
    assert words_in("en").sentence("its router is down") == "Its router is down."
    assert words_in("es").sentence("its router is down") == "Su router está caído."
    assert words_in("hi").sentence("its router is down").endswith("।")
    assert words_in("ko").sentence("") == ""
