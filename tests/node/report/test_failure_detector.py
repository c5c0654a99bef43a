"""Servers that a leader does not hear: said at once, taken back at once, and never because of the leader itself."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.node.report.failure_detector import CHECK_SECONDS, FailureDetector, patience
from gf_i2p.raft.settings import I2P, LAN, Timing
from integration.harness.local_farm import becomes
from tests.netdb.strategies import KEYS
from tests.node.farm import NodeFarm
from tests.node.routers import FakeBridge


class Observer:
    """A leader of servers 2 to 5; the test decides which servers the leader hears."""

    def __init__(self, timing: Timing = LAN, servers: int = 5) -> None:
        self.now = 100.0
        self.heard = dict.fromkeys(range(2, servers + 1), self.now)
        self.core: Any = SimpleNamespace(id=1, timing=timing, is_leader=True, heard=self.heard)
        self.records: dict[int, Any] = {}
        reporter: Any = SimpleNamespace(remote_routers=(), changed=self.changed)
        self.reporter = reporter
        self.told: list[tuple[RemoteRouter, ...]] = []
        view: Any = SimpleNamespace(state=SimpleNamespace(records=self.records))
        driver: Any = SimpleNamespace(core=self.core)
        self.detector = FailureDetector(driver, view, reporter, clock=lambda: self.now)

    def changed(self) -> None:
        self.told.append(self.reporter.remote_routers)

    def passes(self, seconds: float, *silent: int) -> None:
        """Look, as often as `run` does, while all others are heard."""
        for _ in range(round(seconds / CHECK_SECONDS)):
            self.now += CHECK_SECONDS
            self.heard.update({server: self.now for server in self.heard if server not in silent})
            self.detector.check()

    def posts(self, server: int) -> None:
        self.records[server] = SimpleNamespace(date_ms=int(self.now * 1000))

    @property
    def said(self) -> dict[int, bool]:
        return {router.id: router.reachable for router in self.reporter.remote_routers}


def test_patience_follows_the_time_outs_and_is_two_seconds_at_least() -> None:
    assert patience(LAN) == 2.0
    assert patience(I2P) == I2P.election_min
    assert patience(Timing(heartbeat=2.0, election_min=4.0, election_max=8.0)) == 6.0


def test_who_is_silent_is_told_of_once_and_taken_back_when_heard() -> None:
    observer = Observer()
    observer.passes(30)
    assert observer.told == []
    observer.passes(patience(LAN), 3)
    assert observer.told == []
    observer.passes(10, 3)
    assert observer.told == [(RemoteRouter(3, reachable=False),)]
    observer.passes(10)
    assert observer.said == {3: True}
    assert len(observer.told) == 2
    observer.passes(10, 3, 5)
    assert observer.said == {3: False, 5: False}


def test_a_leader_that_hears_no_majority_accuses_nobody() -> None:
    observer = Observer()
    observer.passes(5)
    observer.passes(30, 2, 3, 4)
    assert observer.told == []
    observer.passes(5, 2, 3)
    assert observer.said == {2: False, 3: False}


def test_a_leader_that_stood_still_hears_first() -> None:
    observer = Observer()
    observer.passes(5)
    observer.now += 60
    observer.heard.update({2: observer.now, 3: observer.now})  # their answers were the first to be read
    observer.detector.check()
    assert observer.told == []
    observer.passes(1)
    assert observer.told == []
    observer.now += 60
    observer.passes(patience(LAN) + 2 * CHECK_SECONDS, 4)
    assert observer.said == {4: False}, "but not for ever"


def test_who_posts_is_heard_whatever_keeps_its_answers_back() -> None:
    observer = Observer()
    observer.posts(4)
    for _ in range(20):
        observer.passes(1.5, 4)
        observer.posts(4)
    assert observer.told == []
    observer.passes(5, 4)
    assert observer.said == {4: False}


def test_a_record_that_we_see_first_may_be_old_and_makes_nobody_heard() -> None:
    observer = Observer()
    observer.passes(patience(LAN), 4)
    observer.posts(4)
    observer.passes(2 * CHECK_SECONDS, 4)
    assert observer.said == {4: False}


def test_who_leads_no_more_says_nothing_of_others_any_more() -> None:
    observer = Observer()
    observer.passes(10, 3)
    observer.core.is_leader, observer.core.heard = False, {}
    observer.passes(1)
    assert observer.said == {}
    assert len(observer.told) == 1, "the new leader tells what there is to be told"


def test_who_is_out_of_the_farm_is_missed_by_nobody() -> None:
    observer = Observer()
    observer.passes(10, 3)
    del observer.heard[3]
    observer.passes(1)
    assert observer.said == {}


@pytest.mark.parametrize("victim", ["a follower", "the leader"])
async def test_a_server_that_dies_is_in_the_log_within_seconds(tmp_path: Path, victim: str) -> None:
    """The entry comes long before the dead server's newest record is old; the next leader reports a dead leader."""
    bridges = {server: FakeBridge(server, leaf=server) for server in (1, 2, 3)}
    async with NodeFarm(tmp_path, 3, bridges=bridges, keys=KEYS) as farm:
        leader = await farm.leader()
        dead = (await farm.follower() if victim == "a follower" else leader).driver.core.id
        await becomes("all have posted", lambda: len(leader.farm_tasks.view.state.records) == 3)
        began = asyncio.get_running_loop().time()
        await farm.stop(dead)

        def accused() -> bool:
            return any(
                RemoteRouter(dead, reachable=False) in record.remote_routers
                for node in farm.nodes.values()
                for record in node.farm_tasks.view.state.records.values()
            )

        await becomes("accused", accused, 60)
        assert asyncio.get_running_loop().time() - began < Parameters().fresh_ms / 1000 / 2
        await farm.start(dead)
        await becomes("heard again", lambda: not accused(), 60)
