"""`gf-i2p top`: a node that is looked at again and again."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from gf_i2p.cli.commands import top
from gf_i2p.cli.shared.errors import CommandError, Exit
from tests.cli.shared.test_answer_text import status


class Looks:
    """Answers of a node, one for each look. After the last answer the operator presses Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: Sequence[Any]) -> None:
        self._answers = list(answers)
        self._now = 0.0
        monkeypatch.setattr(top, "ask", self._ask)
        monkeypatch.setattr(time, "sleep", self._sleep)
        monkeypatch.setattr(time, "monotonic", lambda: self._now)

    def _ask(self, *_: object) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _sleep(self, seconds: float) -> None:
        self._now += seconds
        if not self._answers:
            raise KeyboardInterrupt


def options(*, as_json: bool = False) -> argparse.Namespace:
    return argparse.Namespace(directory=Path("server-1"), interval=2.0, json=as_json)


def commit(index: int) -> dict[str, Any]:
    return status(log={"first_index": 1, "last_index": index, "stored": index, "commit": index, "applied": index})


def test_each_look_tells_the_rate_since_the_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Looks(monkeypatch, [commit(10), commit(40)])
    assert top.run(options()) is Exit.OK
    out = capsys.readouterr().out
    assert out.count("farm     farm, server 1, leader in term 7") == 2
    assert out.count("entries were committed in a second") == 1
    assert "15.0 entries were committed in a second" in out
    assert "\x1b" not in out, "this is no terminal"


def test_a_node_that_restarts_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Looks(monkeypatch, [commit(10), CommandError("no node answers"), commit(40)])
    assert top.run(options(as_json=True)) is Exit.OK
    looks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [look["ok"] for look in looks] == [True, False, True]
    assert looks[1]["error"] == "no node answers"
    assert [look.get("entries_per_second") for look in looks] == [None, None, None], "the rate begins anew"


def test_a_node_that_does_not_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    Looks(monkeypatch, [CommandError("no node answers")])
    with pytest.raises(CommandError, match="no node answers"):
        top.run(options())


def test_a_terminal_gets_a_second_screen_and_its_own_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "5")
    Looks(monkeypatch, [commit(10)])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert top.run(options()) is Exit.OK
    out = capsys.readouterr().out
    assert out.startswith(top._ENTER + top._HOME)
    assert out.endswith(top._LEAVE)
    lines = out.removeprefix(top._ENTER + top._HOME).split(top._END_OF_LINE)[:-1]
    assert len(lines) == 4
    assert all(Text.from_ansi(line).cell_len <= 40 for line in lines)
