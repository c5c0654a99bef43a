"""The progress line of a command on a terminal."""

import sys

import pytest

from gf_i2p.cli.shared.terminal import ProgressLine


def test_what_is_over_at_once_is_not_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressLine() as progress:
        progress("looking")
    assert not capsys.readouterr().err


def test_what_surely_takes_long_is_told_at_once_and_goes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressLine() as progress:
        progress("starting", at_once=True)
        assert capsys.readouterr().err == "\r\x1b[Kstarting\r"  # the next text takes the place of this one
        progress("a moment later")
    assert capsys.readouterr().err == "\r\x1b[K"


def test_a_log_is_not_filled_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine() as progress:
        progress("starting", at_once=True)
    assert not capsys.readouterr().err


def test_a_count_tells_the_time_that_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("gf_i2p.cli.shared.terminal.time.monotonic", lambda: now[0])
    with ProgressLine() as progress:
        told = []
        for text in (
            "file 2 of 10",
            "file 3 of 10",
            "file 4 of 10",
            "row 5 of 10",
            "row 3 of 10",
            "10 of 10",
            "2 of 4: row 3 of 10",
        ):
            progress(text, at_once=True)
            told.append(capsys.readouterr().err.strip("\r\x1b[K"))
            now[0] += 2.0
    assert told == [
        "file 2 of 10",
        "file 3 of 10, about 0:00:14 left",
        "file 4 of 10, about 0:00:12 left",
        "row 5 of 10",
        "row 3 of 10",
        "10 of 10",
        "2 of 4: row 3 of 10",
    ]


def test_a_long_text_stays_in_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    with ProgressLine() as progress:
        progress("reading 60406 entries from 14 files", at_once=True)
        assert capsys.readouterr().err == "\r\x1b[Kreading 60406 entr…\r"
