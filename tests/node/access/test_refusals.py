"""Refusals in the log: a user cannot flood it."""

from pathlib import Path

import pytest

from gf_i2p.node.access import refusals
from gf_i2p.node.access.refusals import LINES, Refusal, Refusals
from gf_i2p.wire.messages import MessageType, Request
from integration.harness.local_farm import becomes
from tests.node.farm import NodeFarm


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


async def test_a_server_that_breaks_the_protocol_again_and_again_does_not_flood_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with NodeFarm(tmp_path, 1) as farm:
        node = await farm.calm()
        capsys.readouterr()
        for _ in range(LINES + 1000):  # two leaders of one term
            request = Request(MessageType.APPEND_ENTRIES_REQUEST, 2, 1, node.driver.core.term, 0, 0, 0)
            node.driver.incoming(request, lambda _: None)
        assert node.driver.core.is_leader
        assert capsys.readouterr().out.count("broke the protocol") == LINES
        assert node.refusals.counts[Refusal.PROTOCOL] == LINES + 1000
