"""The count of instructions is read from what `perf` prints, and its absence is no fault."""

import sys
from pathlib import Path

import pytest

from integration.bench import instructions


def perf(directory: Path, script: str) -> None:
    """Make a `perf` that runs the command behind `--`, and prints to standard error what the real one prints."""
    program = directory / "perf"
    program.write_text(f'#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; "$@" || exit 1\n{script}\n')
    program.chmod(0o755)


def test_the_difference_of_two_runs_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instructions, "DECODES", 10)
    perf(tmp_path, 'for last; do :; done; echo "$((5000 + 700 * last)),,instructions:u,1,100.00,," >&2')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert instructions.per_decode() == 700


@pytest.mark.parametrize("printed", ["echo '<not supported>,,instructions:u,0,100.00,,' >&2", "exit 255", ""])
def test_a_perf_that_cannot_count_gives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str) -> None:
    perf(tmp_path, printed)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert instructions.per_decode() is None


def test_without_perf_nothing_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert instructions.per_decode() is None


def test_the_process_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    monkeypatch.setattr(instructions, "decode_request", decoded.append)
    monkeypatch.setattr(sys, "argv", ["", "3"])
    instructions.main()
    assert len(decoded) == 3
    assert len(decoded[0]) > 100 * 1024
