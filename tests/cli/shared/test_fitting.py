"""Texts for people on a terminal are broken at spaces; a pipe gets the lines as they are."""

import io
import sys
from importlib import resources

import pytest

from gf_i2p.cli.main import main
from gf_i2p.cli.shared.fitting import folded, tell


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short", ["short"]),
        ("only the leader, server 3, can promise that", ["only the leader, server 3, can", "promise that"]),
        (
            "  failover  runs the service's one address on one server",
            ["  failover  runs the service's", "            one address on one", "            server"],
        ),
        ("  scp -p server-2/master.dat HOST:DIR/new", ["  scp -p server-2/master.dat HOST:DIR/new"]),
        ("first line\n\nthird", ["first line", "", "third"]),
        ("run `gf-i2p status server-1` at once, please", ["run `gf-i2p status server-1`", "at once, please"]),
        ("  gf-i2p set server-2 publish.mode=failover", ["  gf-i2p set server-2 publish.mode=failover"]),
        ('endpoint = "tcp://qjwctoz2.b32.i2p:80"', ['endpoint = "tcp://qjwctoz2.b32.i2p:80"']),
        ("aUL0JAADZ2YxAARmYXJtAHwBAAAAAgAAAaIi9aNGuA8o", ["aUL0JAADZ2YxAARmYXJtAHwBAAAAAgAAAaIi9aNGuA8o"]),
    ],
)
def test_long_lines_are_broken_on_a_terminal_only(text: str, lines: list[str]) -> None:
    assert folded(text, Terminal()).split("\n") == lines
    assert folded(text, io.StringIO()) == text


def test_a_file_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(["monitoring", "alerts"]) == 0
    rules = resources.files("gf_i2p.admin.monitoring").joinpath("alerts.yaml").read_text("utf-8")
    assert max(map(len, rules.splitlines())) > 30
    assert screen.getvalue() == rules


def test_errors_of_commands_and_of_arguments_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert main(["status", "/there/is/none"]) == 1
    with pytest.raises(SystemExit):
        main(["status", "one", "two", "three"])
    tell("a prompt that is a little longer: ", end="")
    text = screen.getvalue()
    assert text.endswith("a prompt that is a little\nlonger: ")
    assert "error: unrecognized" in text
    assert all(len(line) <= 30 for line in text.splitlines() if "/there/is/none" not in line)
