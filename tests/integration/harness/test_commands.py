"""Our commands in scenarios: repeated when nobody knows the outcome of the first try, and only then."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gf_i2p.cli.shared.errors import Exit
from integration.harness import commands

Answer = tuple[int, dict[str, object]]

DONE: Answer = (0, {"ok": True, "index": 7})
UNKNOWN: Answer = (1, {"ok": False, "error": "no answer", "outcome": "unknown"})
NO_LEADER: Answer = (3, {"ok": False, "error": "no leader", "outcome": "no"})
REFUSED: Answer = (1, {"ok": False, "error": "never", "outcome": "no"})
DEGRADED: Answer = (3, {"ok": True, "healthy": False})


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """The command's answers, one after the other."""
    left: list[Answer] = []

    async def run(_words: Sequence[str | Path], _seconds: float, _where: Sequence[str]) -> tuple[int, str]:
        status, said = left.pop(0)
        return status, json.dumps(said)

    monkeypatch.setattr(commands, "_run", run)
    return left


@pytest.mark.parametrize("first", [UNKNOWN, NO_LEADER])
async def test_what_nobody_knows_is_said_once_more(answers: list[Answer], first: Answer) -> None:
    answers += [first, DONE]
    assert await commands.command("publisher", "move") == DONE[1]
    assert answers == []


async def test_a_refusal_is_final(answers: list[Answer]) -> None:
    answers += [REFUSED, DONE]
    with pytest.raises(AssertionError, match="never"):
        await commands.command("publisher", "move")
    assert answers == [DONE]


async def test_it_is_not_said_for_ever(answers: list[Answer]) -> None:
    answers += [UNKNOWN] * (commands.ATTEMPTS + 1)
    with pytest.raises(AssertionError, match="no answer"):
        await commands.command("publisher", "move")
    assert answers == [UNKNOWN]


async def test_an_end_that_may_be(answers: list[Answer]) -> None:
    answers += [DEGRADED, DEGRADED]
    assert await commands.command("leaf", "status", may_be=(Exit.OK, Exit.DEGRADED)) == DEGRADED[1]
    with pytest.raises(AssertionError, match="healthy"):
        await commands.command("leaf", "status")


async def test_what_is_not_done_in_time_says_so() -> None:
    with pytest.raises(AssertionError, match="version: not done within 0 s"):
        await commands.command("version", seconds=0)
