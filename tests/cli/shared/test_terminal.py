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
