"""Refusals in the log: a user cannot flood it."""

import pytest

from gf_i2p.node.access import refusals
from gf_i2p.node.access.refusals import LINES, Refusal, Refusals
from integration.harness.local_farm import becomes


async def test_the_log_has_a_few_refusals_of_each_user_and_then_their_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(refusals, "LOG_SECONDS", 0.2)
    noted = Refusals(1)
    for number in range(LINES + 1000):
        noted.note(Refusal.RIGHTS, "client-web", f"client-web posted the record {number}")
    noted.note(Refusal.RIGHTS, "client-other", "client-other posted a record")
    lines = capsys.readouterr().out
    assert lines.count("client-web posted") == LINES
    assert lines.count("client-other posted") == 1
    assert noted.counts == {Refusal.RIGHTS: LINES + 1001}
    printed = ""

    def told() -> bool:
        nonlocal printed
        printed += capsys.readouterr().out
        return "refused more" in printed

    await becomes("one line for the others", told)
    assert "1000" in printed
    noted.note(Refusal.RIGHTS, "client-web", "client-web posted again")
    assert "client-web posted again" in capsys.readouterr().out
