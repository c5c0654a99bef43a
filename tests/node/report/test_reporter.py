"""The status records of one node, also while its router hangs, fails or changes."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest

from gf_i2p import __version__
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.farm.record.status_record import Leaf, ReportedConfig, StatusRecord
from gf_i2p.netdb.meta_lease_set import MetaLease, MetaLeaseSet
from gf_i2p.node.files.router_settings import LeafSettings
from gf_i2p.node.report import reporter as reporter_module
from gf_i2p.node.report.local_leaf import LocalLeaf
from gf_i2p.node.report.router_info_file import RouterInfoFile
from gf_i2p.node.report.service_watch import MISSED
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from integration.harness.local_farm import becomes
from integration.harness.processes import free_ports
from tests.netdb.strategies import KEYS
from tests.node.publish.single_server import PublishingServer, publishing_server
from tests.node.routers import DEFECT, DOWN
from tests.transport.harness import PATIENCE

LEAF = (1).to_bytes(32)


def lease_set(published: int) -> MetaLeaseSet:
    return MetaLeaseSet.build(KEYS, published=published, entries=[MetaLease(LEAF, published + 600)])


def listed(made: PublishingServer) -> tuple[Leaf, ...]:
    return () if made.record is None else made.record.leaves


async def test_the_record_says_what_the_router_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        record = await made.reported("leaf and router", lambda record: record.router_up and record.leaves != ())
        assert record.router == {"version": "2.45.1", "knownPeers": 8}
        assert record.leaves == (Leaf(LEAF, up=True),)
        assert record.meta is not None
        assert (record.meta.hash, record.meta.publish_config) == (KEYS.destination.hash, "auto")
        assert (record.meta.publishing, record.meta.last_published_ms) == (False, 0)
        assert abs(record.date_ms / 1000 - time.time()) < 30
        made.bridge.leaf_up = False
        await made.reported("the leaf is down", lambda record: record.leaves == (Leaf(LEAF, up=False),))
        assert made.reporter.trouble is None


async def test_the_record_has_the_router_info_while_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RouterInfoFile(tmp_path / "router.info")
    async with publishing_server(tmp_path / "farm", monkeypatch, publishes=False) as made:
        made.reporter._router_info = file
        record = await made.reported("a record", lambda record: record.router_up)
        assert "lastPublishedRI" not in record.router
        file.base64 = "AAAA"
        record = await made.reported("known", lambda record: "lastPublishedRI" in record.router)
        assert record.router["lastPublishedRI"] == "AAAA"
        file.base64 = None
        await made.reported("known no more", lambda record: "lastPublishedRI" not in record.router)


def is_up(record: StatusRecord, *, up: bool) -> bool:
    return [(leaf.hash, leaf.up, leaf.uptime_ms is not None) for leaf in record.leaves] == [(LEAF, up, up)]


async def test_a_leaf_is_down_while_the_service_behind_it_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    local = LocalLeaf(LeafSettings(leaf_service=f"127.0.0.1:{port}"))
    watch = local.service
    assert watch is not None
    async with publishing_server(
        tmp_path, monkeypatch, publishes=False, local_leaves=[local], interval=PATIENCE
    ) as made:
        await made.reported("the leaf is up", lambda record: is_up(record, up=True))
        for _ in range(MISSED):
            await watch.check()
        await made.reported("the leaf is down, at once", lambda record: is_up(record, up=False))
        assert f"the service at 127.0.0.1:{port} does not answer" in (made.reporter.trouble or "")
        assert "correct leaf_service in [publish]" in (made.reporter.trouble or "")
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port):
            await watch.check()
            await made.reported("the leaf is up again", lambda record: is_up(record, up=True))
        assert made.reporter.trouble is None


@pytest.mark.parametrize("error", [DOWN, DEFECT])
async def test_a_router_that_does_not_say_how_it_does_is_down_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        made.bridge.errors["status"] = error
        record = await made.reported("down", lambda record: not record.router_up)
        assert record.router == {}
        assert str(error) in (made.reporter.trouble or "")
        del made.bridge.errors["status"]
        await made.reported("up again", lambda record: record.router_up and record.router != {})
        await becomes("no trouble", lambda: made.reporter.trouble is None)


@pytest.mark.parametrize("call", ["hash", "leaf"])
@pytest.mark.parametrize("error", [DOWN, DEFECT])
async def test_who_cannot_say_how_the_leaf_does_lists_none_but_its_router_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: Exception
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.reported("a leaf", lambda record: record.leaves != ())
        made.bridge.errors[call] = error
        record = await made.reported("no leaf", lambda record: record.leaves == ())
        assert record.router_up
        assert str(error) in (made.reporter.trouble or "")


async def test_a_question_that_hangs_keeps_no_record_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """i2pd takes half a minute for a leaf that nobody finds; by then the others would take the node for dead."""
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        before = await made.reported("a leaf", lambda record: record.leaves != ())
        answer = made.bridge.hang("leaf")
        await becomes("asked", lambda: made.bridge.under_way == ["leaf"])
        await made.records(3)
        assert made.record is not None
        assert made.record.date_ms > before.date_ms
        assert listed(made) == before.leaves, "what was known before"
        assert made.record.router_up
        assert made.bridge.under_way == ["leaf"], "asked once"
        made.bridge.leaf_up = False
        answer.set()
        await made.reported("the late answer", lambda record: record.leaves == (Leaf(LEAF, up=False),))


@pytest.mark.parametrize(("call", "limit"), [("status", "ROUTER_SECONDS"), ("leaf", "LEAF_SECONDS")])
async def test_who_does_not_answer_in_time_has_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, limit: str
) -> None:
    monkeypatch.setattr(reporter_module, limit, 0.2)
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.reported("all well", lambda record: record.router_up and record.leaves != ())
        made.bridge.hang(call)
        record = await made.reported("given up", lambda record: not record.router_up or record.leaves == ())
        assert record.router_up is (call == "leaf")
        assert made.reporter.trouble == "it has not answered within 0.2 s"
        made.bridge.hung.pop(call).set()
        await made.reported("all well again", lambda record: record.router_up and record.leaves != ())


async def test_a_router_that_is_down_at_the_start_is_found_when_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False, reports=False) as made:
        made.bridge.errors = {"status": DOWN, "hash": DOWN}
        task = asyncio.create_task(made.reporter.run())
        await made.reported("a record all the same", lambda record: not record.router_up)
        made.bridge.errors.clear()
        await made.reported("up", lambda record: record.router_up and record.leaves != ())
        task.cancel()
        await asyncio.wait([task])


async def test_an_announcement_is_in_the_log_when_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False, reports=False) as made:
        made.bridge.hang("status")
        index = await made.reporter.announce(lease_set(1_790_000_000))
        assert made.driver.core.commit >= index, "and the router was not waited for"
        await made.view.reaches(index)
        assert made.record is not None
        assert made.record.meta is not None
        assert made.record.meta.publishing
        assert made.record.meta.last_published_ms == 1_790_000_000_000
        assert made.reporter.lease.newest_post_at(index) == made.committed_at == made.now
        assert made.reporter.lease.newest_post_at(index - 1) == float("-inf")
        made.now += 5
        later = await made.reporter.announce(lease_set(1_790_000_001))
        assert (made.reporter.lease.newest_post_at(index), made.reporter.lease.newest_post_at(later)) == (
            made.now - 5,
            made.now,
        )


@pytest.mark.parametrize("error", [NotCommittedError("no leader"), OutcomeUnknownError("it broke")])
async def test_what_the_log_does_not_take_is_posted_anew_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.records()
        real, tries = made.driver.post, []

        async def failing(values: list[bytes], *, seconds: float) -> int:
            tries.append(values)
            raise error

        monkeypatch.setattr(made.driver, "post", failing)
        await becomes("tried", lambda: tries != [])  # so no post under way is committed from now on
        made.now += 7
        tries.clear()
        await becomes("tried several times", lambda: len(tries) > 2)
        assert made.committed_at == made.now - 7, "nothing was committed"
        with pytest.raises(type(error)):
            await made.reporter.announce(lease_set(1_790_000_000))
        monkeypatch.setattr(made.driver, "post", real)
        await becomes("committed again", lambda: made.committed_at == made.now)


# At once, or with the next one -------------------------------------------------------------------------------------


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the router often and post seldom, so that an early record can only come from a change."""
    monkeypatch.setattr(reporter_module, "ASK_SECONDS", 0.02)
    monkeypatch.setattr(reporter_module, "LEAST_SECONDS", 0.1)


async def test_the_record_says_how_this_server_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False, interval=0.05, dry_run=True) as made:
        record = await made.reported("a record", lambda _: True)
        assert record.config == ReportedConfig("dry-run", 50, __version__)


async def test_what_others_decide_by_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    async with publishing_server(tmp_path, monkeypatch, publishes=False, interval=3000) as made:
        await made.ready()
        made.bridge.leaf_up = False
        await made.reported("the leaf is down", lambda record: not record.leaves[0].up)
        made.bridge.leaf = 2
        await made.reported("another leaf", lambda record: record.leaves[0].hash == (2).to_bytes(32))
        made.bridge.errors["status"] = DOWN
        await made.reported("the router is down", lambda record: not record.router_up)
        del made.bridge.errors["status"]
        await made.reported("and up", lambda record: record.router_up)
        made.reporter.publish_config = "off"
        made.reporter.changed()
        await made.reported("off", lambda record: record.meta is not None and record.meta.publish_config == "off")
        made.reporter.remote_routers = (RemoteRouter(2, reachable=False),)
        made.reporter.changed()
        await made.reported("not heard", lambda record: record.remote_routers == (RemoteRouter(2, reachable=False),))
        made.reporter.publishing = True
        made.reporter.changed()
        await made.reported("publishing", lambda record: record.meta is not None and record.meta.publishing)


async def test_numbers_wait_for_the_next_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    async with publishing_server(tmp_path, monkeypatch, publishes=False, interval=3000) as made:
        await made.ready()
        posted = len(made.reporter.lease._posts)
        made.bridge.known_peers += 1
        asked = made.bridge.calls.count("status")
        await becomes("asked again and again", lambda: made.bridge.calls.count("status") > asked + 10)
        assert len(made.reporter.lease._posts) == posted
        made.bridge.leaf_up = False
        await made.reported("and come along", lambda record: record.router["knownPeers"] == 9)


async def test_a_short_lease_makes_records_more_frequent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    async with publishing_server(tmp_path, monkeypatch, publishes=False, interval=3000) as made:
        await made.ready()
        made.reporter._parameters = lambda: Parameters(fresh_ms=300)
        await made.records(3)


async def test_however_much_changes_records_have_their_distance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    monkeypatch.setattr(reporter_module, "LEAST_SECONDS", 1.0)
    times: list[float] = []
    async with publishing_server(tmp_path, monkeypatch, publishes=False, reports=False, interval=3000) as made:
        real = made.driver.post

        async def watched(values: list[bytes], *, seconds: float) -> int:
            times.append(made.reporter._posted_at)
            return await real(values, seconds=seconds)

        monkeypatch.setattr(made.driver, "post", watched)
        task = asyncio.create_task(made.reporter.run())
        await becomes("the first", lambda: times != [])
        changes = 0

        def change() -> bool:
            nonlocal changes
            changes += 1
            made.reporter.publish_config = "on" if changes % 2 else "auto"
            made.reporter.changed()
            return len(times) >= 3 and changes > 10

        await becomes("three", change, 60)
        monkeypatch.setattr(reporter_module, "LEAST_SECONDS", 3600.0)
        assert min(later - earlier for earlier, later in pairwise(times)) > 0.95
        before = len(times)
        await made.reporter.announce(lease_set(1_790_000_000))
        assert len(times) == before + 1, "a set waits for nothing"
        task.cancel()
        await asyncio.wait([task])


async def test_the_words_for_a_set_are_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    async with publishing_server(tmp_path, monkeypatch, publishes=False, interval=3000) as made:
        await made.ready()
        await made.reporter.announce(lease_set(1_790_000_000))
        # The announcement's own record, or a later one: here nobody tells the reporter about the publishing.
        record = await made.reported(
            "announced", lambda record: record.meta is not None and record.meta.last_published_ms > 0
        )
        assert record.meta is not None
        assert (record.meta.attempted_ms, record.meta.sent_ms, record.meta.confirmed_ms) == (0, 0, 0)
        made.reporter.progress.attempted(5)
        await made.reported("attempted", lambda record: record.meta is not None and record.meta.attempted_ms == 5)
        made.reporter.progress.sent(6)
        await made.reported("sent", lambda record: record.meta is not None and record.meta.sent_ms == 6)
        made.reporter.progress.confirmed(7, by=2)
        record = await made.reported(
            "confirmed", lambda record: record.meta is not None and record.meta.confirmed_ms > 0
        )
        assert record.meta is not None
        assert (record.meta.attempted_ms, record.meta.sent_ms, record.meta.confirmed_ms) == (5, 6, 7)


async def test_a_change_that_the_log_did_not_take_is_told_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    async with publishing_server(tmp_path, monkeypatch, publishes=False, interval=3000) as made:
        await made.ready()
        real, tries = made.driver.post, []

        async def failing(values: list[bytes], *, seconds: float) -> int:
            tries.append(values)
            raise NotCommittedError("no leader")

        monkeypatch.setattr(made.driver, "post", failing)
        made.bridge.leaf_up = False
        await becomes("tried several times", lambda: len(tries) > 2)
        monkeypatch.setattr(made.driver, "post", real)
        await made.reported("told", lambda record: not record.leaves[0].up)


async def test_what_is_posted_renews_from_when_it_was_posted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a record may wait for any time while this process stands still."""
    async with publishing_server(tmp_path, monkeypatch, publishes=False, reports=False) as made:
        real, posted_at = made.driver.post, made.now

        async def slow(values: list[bytes], *, seconds: float) -> int:
            index = await real(values, seconds=seconds)
            made.now += 1000
            return index

        monkeypatch.setattr(made.driver, "post", slow)
        index = await made.reporter.announce(lease_set(1_790_000_000))
        assert made.reporter.lease.newest_post_at(index) == posted_at
        assert made.committed_at == posted_at + 1000


async def test_who_has_no_master_reports_its_leaf_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        made.reporter._master = None
        record = await made.reported("a leaf", lambda record: record.meta is None and record.leaves != ())
        assert record.leaves == (Leaf(LEAF, up=True),)


async def test_who_resigns_publishes_no_more_whatever_else_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False, interval=3600.0) as made:
        made.reporter.publishing = True
        await made.reported("it may publish", lambda record: record.meta is not None)
        monkeypatch.setattr(reporter_module, "LEAST_SECONDS", 3600.0)
        async with asyncio.timeout(20):  # the reporter is told at once
            await made.reporter.resign()
        await made.view.reaches(made.driver.core.commit)
        assert made.record is not None
        assert made.record.meta is not None
        assert (made.record.meta.publish_config, made.record.meta.publishing) == ("off", False)
        assert made.record.leaves == (Leaf(LEAF, up=True),)
        made.reporter.able(keys=True)
        await made.reporter.announce(lease_set(5))
        await made.view.reaches(made.driver.core.commit)
        assert made.record.meta.publish_config == "off"
