"""The posts of a leaf member, and their times."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gf_i2p.farm.posters import MAX_LEAF_MEMBER_BYTES
from gf_i2p.farm.record.router_facts import Reachability, RouterStatus
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf, ReportedConfig, StatusRecord, router_numbers
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.limits import MAX_DESTINATION_BYTES
from gf_i2p.node.files.leaf_file import MAX_LEAVES
from gf_i2p.node.files.router_settings import LeafSettings
from gf_i2p.node.membership import leaf_member
from gf_i2p.node.membership.leaf_member import INTERVAL_SECONDS, LeafMember, LeafMemberReport, patient
from gf_i2p.node.report import service_watch
from gf_i2p.node.report.local_leaf import LocalLeaf
from gf_i2p.transport.backoff import Backoff
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from integration.harness.local_farm import becomes
from integration.harness.processes import free_ports
from tests.node.routers import DEFECT, DOWN, FakeBridge

LEAF = (1).to_bytes(32)


@dataclass
class Log:
    """Takes posts in the way of a farm."""

    records: list[StatusRecord] = field(default_factory=list)
    error: Exception | None = None
    refused: int = 0
    leader: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the farm has a leader; a post waits for this event."""

    def __post_init__(self) -> None:
        self.leader.set()

    async def post(self, values: Sequence[bytes], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        del timeout
        await self.leader.wait()
        if self.error is not None:
            self.refused += 1
            raise self.error
        self.records += [StatusRecord.parse(value) for value in values]
        return len(self.records)


@dataclass
class Made:
    member: LeafMember
    log: Log
    bridge: FakeBridge
    reports: list[LeafMemberReport]

    @property
    def newest(self) -> StatusRecord:
        return self.log.records[-1]


@asynccontextmanager
async def member(
    bridge: FakeBridge, *, interval: float = 1000.0, log: Log | None = None, local_leaves: Sequence[LocalLeaf] = ()
) -> AsyncIterator[Made]:
    log, reports = log or Log(), list[LeafMemberReport]()
    made = LeafMember(
        FIRST_LEAF_MEMBER_ID,
        "farm",
        log,
        bridge,
        look_seconds=0.01,
        tell=reports.append,
        local_leaves=local_leaves,
        interval=interval,
        pause=Backoff(floor=0.001, ceiling=0.01),
        why=lambda: None if log.leader.is_set() else "server 1 knows no leader",
    )
    task = asyncio.ensure_future(made.run())
    try:
        yield Made(made, log, bridge, reports)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_record_says_what_the_router_says() -> None:
    async with member(FakeBridge(leaf=1)) as made:
        await becomes("a leaf", lambda: bool(made.log.records) and made.newest.leaves != ())
        record = made.newest
        assert (record.id, record.cluster, record.router_up) == (FIRST_LEAF_MEMBER_ID, "farm", True)
        assert record.leaves == (Leaf(LEAF, up=True),)
        assert record.router == {"version": "2.45.1", "knownPeers": 8}
        assert record.meta is None, "it publishes nothing"
        await becomes("told", lambda: made.reports != [] and made.reports[-1].index == len(made.log.records))


async def test_nothing_is_posted_before_its_time_when_nothing_changes() -> None:
    async with member(FakeBridge(leaf=1)) as made:
        await becomes("a leaf", lambda: bool(made.log.records) and made.newest.leaves != ())
        before, looks = len(made.log.records), len(made.bridge.calls)
        await becomes("looked again", lambda: len(made.bridge.calls) > looks + 20)
        assert len(made.log.records) == before


async def test_a_record_is_posted_at_intervals() -> None:
    async with member(FakeBridge(leaf=1), interval=0.05) as made:
        await becomes("five records", lambda: len(made.log.records) >= 5)
        dates = [record.date_ms for record in made.log.records]
        assert dates[-1] - dates[1] >= 100


async def test_what_decides_who_is_listed_is_told_at_once() -> None:
    async with member(FakeBridge(leaf=1)) as made:
        await becomes("up", lambda: bool(made.log.records) and made.newest.leaves == (Leaf(LEAF, up=True),))
        made.bridge.leaf_up = False
        await becomes("down", lambda: made.newest.leaves == (Leaf(LEAF, up=False),))
        made.bridge.errors["status"] = DOWN
        await becomes("router down", lambda: not made.newest.router_up)
        assert made.member.report.router == str(DOWN)
        del made.bridge.errors["status"]
        await becomes("router up", lambda: made.newest.router_up)
        assert made.member.report.router == "up"


def is_up(record: StatusRecord, *, up: bool) -> bool:
    return [(leaf.hash, leaf.up, leaf.uptime_ms is not None) for leaf in record.leaves] == [(LEAF, up, up)]


async def test_a_leaf_is_down_while_the_service_behind_it_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_watch, "CHECK_SECONDS", 0.01)
    (port,) = free_ports(1)
    async with (
        await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port) as service,
        member(FakeBridge(leaf=1), local_leaves=[LocalLeaf(LeafSettings(leaf_service=f"127.0.0.1:{port}"))]) as made,
    ):
        await becomes("up", lambda: bool(made.log.records) and is_up(made.newest, up=True))
        service.close()
        await becomes("down", lambda: is_up(made.newest, up=False))
        assert f"the service at 127.0.0.1:{port} does not answer" in made.member.report.troubles[0]
        assert made.member.report.leaves[0][1:] == (False, "its service does not answer")


@pytest.mark.parametrize("error", [DOWN, DEFECT])
async def test_who_cannot_say_how_the_leaf_does_lists_none(error: Exception) -> None:
    async with member(FakeBridge(leaf=1)) as made:
        await becomes("a leaf", lambda: bool(made.log.records) and made.newest.leaves != ())
        made.bridge.errors["leaf"] = error
        await becomes("no leaf", lambda: made.newest.leaves == ())
        assert made.newest.router_up
        assert str(error) in made.member.report.troubles[0]


@pytest.mark.parametrize("error", [NotCommittedError("nobody leads"), OutcomeUnknownError("the connection ended")])
async def test_a_post_that_fails_is_tried_again_and_told(error: Exception) -> None:
    async with member(FakeBridge(leaf=1), log=Log(error=error)) as made:
        await becomes("tried", lambda: made.log.refused >= 3)
        assert made.reports[-1].error == str(error)
        assert made.reports[-1].failed is not None
        assert made.log.records == []
        made.log.error = None
        await becomes("there", lambda: bool(made.log.records))
        await becomes("no error", lambda: made.member.report.error is None)
        assert made.member.report.committed is not None


async def test_what_a_post_waits_for_is_told_meanwhile_and_how_the_router_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leaf_member, "WAIT_SECONDS", 0.02)
    log, bridge = Log(), FakeBridge(leaf=1)
    log.leader.clear()
    answers = bridge.hang("status")
    async with member(bridge, log=log) as made:
        report = made.member.report
        await becomes("told", lambda: report.error == "Not committed yet: server 1 knows no leader.")
        assert report.router is None, "nobody knows"
        assert made.reports != []
        answers.set()
        await becomes("the router has answered", lambda: report.router == "up")
        assert log.records == []
        log.leader.set()
        await becomes("there", lambda: report.committed is not None)
        assert report.error is None


async def test_a_member_reports_several_leaves_and_names_the_one_in_trouble() -> None:
    bridge = FakeBridge(leaf=1, more=1)
    local = [LocalLeaf(LeafSettings(leaf=name)) for name in ("one", "two")]
    async with member(bridge, local_leaves=local) as made:
        await becomes("two leaves", lambda: bool(made.log.records) and len(made.newest.leaves) == 2)
        await becomes("told", lambda: len(made.member.report.leaves) == 2)
        made.bridge.errors["leaf 2"] = DOWN
        await becomes("one leaf", lambda: [leaf.hash for leaf in made.newest.leaves] == [LEAF])
        assert made.member.report.troubles == (f"leaf two: {DOWN}",)


def test_the_longest_record_of_a_member_is_one_that_farms_take() -> None:
    """A farm ignores a member's record of more bytes, and would list none of the leaves."""
    numbers = 2**31
    leaves = tuple(
        Leaf(
            bytes([number] * 32),
            up=False,
            destination=to_base64(bytes(MAX_DESTINATION_BYTES)),
            uptime_ms=10**11,
            configured_bandwidth=numbers,
            current_bandwidth=numbers,
            configured_connections=65_536,
            current_connections=65_536,
        )
        for number in range(MAX_LEAVES)
    )
    status = RouterStatus(
        uptime_ms=10**11,
        version="2.45.1-0-abcdef01",
        reachability=Reachability.FIREWALLED,
        participating_tunnels=100_000,
        job_lag_ms=100_000,
        configured_inbound=numbers,
        configured_outbound=numbers,
        current_inbound=numbers + 1 / 7,
        current_outbound=numbers + 1 / 7,
        known_peers=100_000,
        active_peers=100_000,
    )
    record = StatusRecord(
        "c" * 64,
        10**13,
        2**32 - 2,
        router_up=False,
        router=router_numbers(status),
        leaves=leaves,
        config=ReportedConfig(interval_ms=30_000, version="0.10.10"),
    )
    assert len(record.encode()) <= MAX_LEAF_MEMBER_BYTES


def test_members_that_lose_their_leader_do_not_all_come_again_at_once() -> None:
    """No member comes so late that its record is too old: 105 s at most, unless a farm says otherwise."""
    backoff = patient()
    delays = [backoff.next() for _ in range(10)]
    assert min(delays) >= 1
    assert max(delays) <= INTERVAL_SECONDS
    assert len(set(delays)) > 1
