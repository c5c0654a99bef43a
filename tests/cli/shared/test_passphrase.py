"""The passphrase of sealed secrets: typed unseen, or read from a private file; a weak one seals nothing."""

import argparse
import getpass
import os
import pty
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gf_i2p.cli.shared import passphrase
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.passphrase import LEAST, MAX_BYTES, check_options
from gf_i2p.node.files.farm_file import FarmFile
from gf_i2p.node.files.sealed import MIN_N, SealedTable
from gf_i2p.node.recovery.farm_secrets import FarmSecrets

NOW = datetime(2026, 11, 27, tzinfo=UTC)
GOOD = "correct horse batteries"
Type = Callable[..., list[str]]


def options(path: Path | None = None, *, secrets: bool = True, json: bool = False) -> argparse.Namespace:
    return argparse.Namespace(passphrase_file=path, secrets=secrets, json=json)


def written(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.touch(mode=mode)
    path.write_bytes(data)
    return path


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    """Return a function that prepares what a person types; the returned list gets the questions."""
    questions: list[str] = []

    def prepare(*words: str) -> list[str]:
        answers: Iterator[str] = iter(words)

        def answer(question: str) -> str:
            questions.append(question)
            try:
                return next(answers)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr(getpass, "getpass", answer)
        return questions

    return prepare


def fails(**arguments: bool) -> CommandError:
    with pytest.raises(CommandError) as caught:
        passphrase.passphrase(options(), **arguments)
    assert caught.value.code == Exit.USAGE
    return caught.value


def test_a_new_passphrase_is_typed_twice_and_a_known_one_once(typed: Type) -> None:
    assert len(typed(GOOD, GOOD)) == 0
    assert passphrase.passphrase(options(), new=True) == GOOD
    questions = typed(GOOD)
    assert passphrase.passphrase(options()) == GOOD
    assert questions == ["Passphrase: ", "The same passphrase again: ", "Passphrase: "]
    typed(GOOD, GOOD + " ")
    assert "not the same" in str(fails(new=True))
    typed()
    assert "no passphrase was typed" in str(fails())


@pytest.mark.parametrize("weak", ["", "x", "abcdefghijk", "aaaaaaaaaaaaaaaaaaaaaa", "ababababababababab"])
def test_a_weak_passphrase_seals_nothing_and_may_open(typed: Type, weak: str) -> None:
    assert len(weak) < LEAST or len(set(weak)) < 6
    typed(weak, weak)
    text = str(fails(new=True))
    assert ("is empty" if not weak else "too weak") in text
    assert not weak or len(weak) == 1 or weak not in text
    typed(weak)
    if weak:
        assert passphrase.passphrase(options()) == weak
    else:
        assert "is empty" in str(fails())


def test_a_private_file_holds_one_line(tmp_path: Path) -> None:
    for number, end in enumerate((b"", b"\n", b"\r\n")):
        path = written(tmp_path / str(number), GOOD.encode() + end)
        assert passphrase.passphrase(options(path), new=True) == GOOD
    assert passphrase.passphrase(options(written(tmp_path / "spaces", b" a \n"))) == " a "
    for data, why in (
        (b"", "is empty"),
        (b"\n", "is empty"),
        (GOOD.encode() + b"\n\n", "more than one line"),
        (b"hidden one\nhidden two\n", "more than one line"),
        (b"hidden " * MAX_BYTES, "more than one line"),
        (b"hidden \xff", "is not UTF-8 text"),
    ):
        path = tmp_path / "bad"
        path.unlink(missing_ok=True)
        with pytest.raises(CommandError, match=why) as caught:
            passphrase.passphrase(options(written(path, data)))
        assert (caught.value.code, "hidden" in str(caught.value)) == (Exit.USAGE, False)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_file_that_others_could_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "passphrase", GOOD.encode())
    path.chmod(mode)
    with pytest.raises(CommandError, match="chmod 600"):
        passphrase.passphrase(options(path))


def test_a_pipe_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("pipe", "missing"):
        with pytest.raises(CommandError, match="cannot be read"):
            passphrase.passphrase(options(tmp_path / name))


def test_nobody_is_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_options(options(secrets=False))
    check_options(options(tmp_path))
    for terminal, json in ((False, False), (True, True)):
        monkeypatch.setattr("sys.stdin.isatty", lambda terminal=terminal: terminal)
        with pytest.raises(CommandError, match="give --passphrase-file FILE"):
            check_options(options(json=json))
    check_options(options())
    with pytest.raises(CommandError, match="add --secrets"):
        check_options(options(tmp_path, secrets=False))


def test_a_terminal_that_would_show_the_passphrase_gets_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    def shows(_: str) -> str:
        warnings.warn("Can not control echo on the terminal.", getpass.GetPassWarning, stacklevel=2)
        return GOOD

    monkeypatch.setattr(getpass, "getpass", shows)
    assert "would show the passphrase" in str(fails())


def test_a_terminal_does_not_show_what_is_typed(tmp_path: Path) -> None:
    table = SealedTable.seal(FarmSecrets(server=1).encode(), GOOD, "farm", n=MIN_N)
    sealed = tmp_path / "farm.toml"
    sealed.write_text(
        FarmFile.model_validate({"format": 1, "cluster": "farm"}).model_copy(update={"sealed": table}).encode(1, NOW)
    )
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gf_i2p.cli.main", "config", "check", str(sealed), "--secrets"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    with process:
        while b"Passphrase: " not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, GOOD.encode() + b"\n")
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux reports the end of the other side so
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    assert process.returncode == 0
    assert b"sealed: users: 0" in shown
    assert GOOD.encode() not in shown
