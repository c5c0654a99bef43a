"""A report on a terminal: what fits, what is broken where, and what has a colour."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from gf_i2p.cli.shared import screen

ADDRESS = "qjwctoz2" + "a" * 44 + ".b32.i2p"


def shown(text: str, width: int, *, colours: bool = False) -> str:
    """Print a text on a terminal of this width."""
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=colours, color_system="standard" if colours else None, highlight=False
    )
    console.push_theme(screen._THEME)
    console.print(screen.fit(text, console), soft_wrap=True)
    return file.getvalue().removesuffix("\n")


def test_what_fits_stays_as_it_is() -> None:
    text = f"leader   1 ({ADDRESS})\n\nservers"
    assert shown(text, 80) == text


def test_addresses_are_shortened_in_all_lines_so_that_columns_stay_in_line() -> None:
    text = f"    1  tcp://{ADDRESS}:80  this server\n    2  tcp://{ADDRESS}:80  connected, leader"
    assert shown(text, 80).splitlines() == [
        "    1  tcp://qjwctoz2….b32.i2p:80  this server",
        "    2  tcp://qjwctoz2….b32.i2p:80  connected, leader",
    ]


def test_a_long_line_goes_on_below_its_second_column() -> None:
    text = "trouble  the router does not answer: start the router, or look at its settings"
    assert shown(text, 40).splitlines() == [
        "trouble  the router does not answer:",
        "         start the router, or look at",
        "         its settings",
    ]


def test_a_sentence_without_columns_goes_on_two_columns_to_the_right() -> None:
    assert shown("No leader is known: nothing can be committed.", 30).splitlines() == [
        "No leader is known: nothing",
        "  can be committed.",
    ]


def test_wide_characters_count_as_two_columns() -> None:
    lines = shown("reason  " + "회원이 나갔다 " * 6, 40).splitlines()
    assert len(lines) == 3
    assert all(cell_len(line) <= 40 for line in lines)


def test_a_word_that_is_too_long_goes_on_in_the_next_line() -> None:
    assert shown("x" * 50, 40).splitlines() == ["x" * 38, "  " + "x" * 12]


@pytest.mark.parametrize(
    ("line", "colour"),
    [
        ("  1  tcp://a.i2p:1  connected, leader", "32"),
        ("  1  tcp://a.i2p:1  not connected: it is off", "31"),
        ("trouble  the disk is full", "31"),
        (f"leader   {ADDRESS}", "36"),
        ("log      3 entries", "1"),
    ],
)
def test_colours_repeat_what_the_words_say(line: str, colour: str) -> None:
    assert f"\x1b[{colour}m" in shown(line, 120, colours=True)


def test_no_colours_are_shown_when_the_operator_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown("trouble  the disk is full", 80, colours=True)
