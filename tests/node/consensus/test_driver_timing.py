"""The driver gives its measurements to `Timeouts` at the right moments, and gives the new time-outs to the core."""

import asyncio
from pathlib import Path

import pytest

from gf_i2p.node.consensus.timing import RANGE_OUTSIDE_I2P, Timeouts, TimingPlan
from gf_i2p.raft.effects import Send
from gf_i2p.raft.settings import Timing
from gf_i2p.wire.messages import MessageType, Request
from integration.harness.local_farm import becomes
from tests.node.consensus.test_driver import EAGER, PATIENT, append, rig

LATER = Timing(heartbeat=0.1, election_min=400, election_max=800)
SOONER = Timing(heartbeat=0.01, election_min=200, election_max=250)


class Script(Timeouts):
    """Stands in for `Timeouts`: keeps the calls, and changes the time-outs when the test wants a change."""

    def __init__(self, timing: Timing) -> None:
        super().__init__(TimingPlan("fixed", RANGE_OUTSIDE_I2P, fixed=timing), servers=3)
        self.told: list[tuple[str, object]] = []
        self.then: dict[str, Timing] = {}

    def _note(self, what: str, which: object) -> None:
        self.told.append((what, which))
        self.timing = self.then.get(what, self.timing)

    def incoming(self, request: Request, now: float) -> None:
        self._note("incoming", request.type)

    def sent(self, send: Send, now: float) -> None:
        self._note("sent", send.tag)

    def answered(self, tag: int, now: float) -> None:
        self._note("answered", tag)

    def failed(self, tag: int) -> None:
        self._note("failed", tag)

    def reachable(self, peer: int, round_trip: float | None, now: float) -> None:
        self._note("reachable", (peer, round_trip))


async def test_what_a_message_has_shown_counts_for_the_wait_that_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(PATIENT)
    changes: list[Timing] = []
    script.then = {"incoming": LATER}
    async with rig(tmp_path, monkeypatch, timeouts=script, on_timing=changes.append) as r:
        now = asyncio.get_running_loop().time()
        r.ask(append(0, "a"))
        assert r.driver.core.deadline >= now + LATER.election_min
        r.ask(append(0, "a"))
        assert changes == [LATER], "told once"
        assert script.told == [("incoming", MessageType.APPEND_ENTRIES_REQUEST)] * 2


async def test_a_connection_and_its_handshake_count_for_a_server_that_has_heard_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(PATIENT)
    script.then = {"reachable": SOONER}
    async with rig(tmp_path, monkeypatch, timeouts=script) as r:
        now = asyncio.get_running_loop().time()
        r.driver.reachable(2, 0.25)
        assert script.told == [("reachable", (2, 0.25)), ("sent", 1)], "the peer is asked for the leader"
        assert now + SOONER.election_min <= r.driver.core._timeout.at <= now + SOONER.election_max + 1


async def test_every_request_is_told_when_it_leaves_and_when_it_is_answered_or_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(EAGER)
    async with rig(tmp_path, monkeypatch, timeouts=script) as r:
        await r.lead()
        await becomes("answered", lambda: ("answered", 6) in script.told)
        assert script.told[:2] == [("sent", 1), ("sent", 2)], "questions for the leader"
        assert {("answered", 1), ("answered", 2), ("sent", 3), ("sent", 4)} <= set(script.told), "votes"
        peer = r.peers[3]
        peer.answer = lambda request: None
        before = len(peer.requests)
        await becomes("a heartbeat", lambda: len(peer.requests) > before)
        peer.requests[-1][1](None)
        what, tag = script.told[-1]
        assert what == "failed"
        assert ("sent", tag) in script.told


async def test_a_heartbeat_that_becomes_shorter_does_not_wait_for_the_longer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = (Timing(heartbeat=each, election_min=200.0, election_max=400.0) for each in (100.0, 0.01))
    script = Script(EAGER)
    async with rig(tmp_path, monkeypatch, timeouts=script) as r:
        peer = r.peers[2]

        async def becomes_silent() -> None:
            now = asyncio.get_running_loop().time
            await becomes("the timer rings much later", lambda: r.driver._timer_at > now() + 50)

        async def speaks() -> None:
            before = len(peer.requests)
            await becomes("heartbeats", lambda: len(peer.requests) > before + 5)

        script.then = {"answered": slow}
        await r.lead()
        await becomes_silent()
        script.then = {"reachable": quick}
        r.driver.reachable(3)
        await speaks()
        script.timing = slow
        await becomes_silent()
        r.driver.change_plan(TimingPlan("fixed", RANGE_OUTSIDE_I2P, fixed=quick))
        await speaks()


async def test_a_leader_that_is_lost_is_told_to_the_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(tmp_path, monkeypatch) as r:
        r.ask(append(0))
        before = r.driver.core.deadline
        r.driver.unreachable(3, refused=False)
        assert r.driver.core.deadline == before
        r.driver.unreachable(2, refused=False)
        assert r.driver.core.deadline == pytest.approx(before - PATIENT.election_min / 2)
        r.driver.unreachable(2, refused=True)
        assert r.driver.core.deadline == pytest.approx(before - PATIENT.election_min * 3 / 4)
        await r.driver.stop(0.0)
        r.driver.unreachable(2, refused=False)
