"""The progress of a set, dry runs, servers that stood still, and replaced keys."""

import asyncio
import time
from pathlib import Path

import pytest

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing.cadence import HURRIED_SECONDS, HURRIED_SETS
from gf_i2p.farm.publishing.confirmation import GRACE_MS
from gf_i2p.farm.publishing.lease import LEASE_SECONDS
from gf_i2p.farm.record.remote_sensing import MetaSensing
from gf_i2p.farm.record.status_record import Meta
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Purpose
from integration.harness.local_farm import becomes
from tests.farm.strategies import leaf, record
from tests.node.publish.single_server import PublishingServer, now_ms, publishing_server, sends
from tests.node.routers import DOWN

PARAMETERS = Parameters()
LEAST_SECONDS, OLD_SECONDS = PARAMETERS.republish_min_ms / 1000, PARAMETERS.republish_max_ms / 1000
OFF = "off"


def told(made: PublishingServer) -> Meta:
    assert made.record is not None
    assert made.record.meta is not None
    return made.record.meta


async def test_a_set_is_announced_attempted_and_sent_and_the_record_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        made.bridge.hang("publish")
        began = now_ms()
        await becomes("attempted", lambda: made.record is not None and told(made).attempted_ms >= began)
        assert made.bridge.under_way == ["publish"]
        assert told(made).sent_ms == 0
        assert made.publisher.shown() is None, "the router has nothing yet"
        made.bridge.hung.pop("publish").set()
        await becomes("sent", lambda: told(made).sent_ms >= told(made).attempted_ms)
        shown = made.publisher.shown()
        assert shown is not None
        assert shown["progress"]["word"] == "sent"
        assert shown["progress"]["confirmed"] is None
        assert told(made).confirmed_ms == 0


async def finds(made: PublishingServer, published: int | None, *, seconds: float | None, later_ms: int = 1) -> None:
    """Have server 2 report the set that it found `later_ms` after the newest set was sent."""
    current = made.reporter.progress.current
    assert current is not None
    sensing = MetaSensing(published, None if seconds is None else int(seconds * 1000), current.sent_ms + later_ms)
    if 2 not in made.view.state.servers:
        made.view.state.configure((1, 2))
    made.view.state.apply(record(2, date=now_ms(), mode="meta", meta_sensing=sensing).encode(), made.view.applied)
    await made.polls()


async def test_who_finds_the_set_confirms_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        published = made.published[0] * 1000
        assert made.reporter.progress.current is not None
        await becomes("why not", lambda: made.reporter.progress.current.unconfirmed is not None)  # type: ignore[union-attr]
        await finds(made, published, seconds=2, later_ms=-1)
        assert made.reporter.progress.current.stage == "sent", "it looked before"
        await finds(made, published - 1, seconds=2)
        assert made.reporter.progress.current.stage == "sent", "it has found an older one"
        await finds(made, None, seconds=2)
        await becomes("the record says that some set was found", lambda: told(made).found_ms > told(made).sent_ms)
        assert (made.reporter.progress.current.stage, made.reporter.progress.current.found_by) == ("found", 2)
        assert told(made).confirmed_ms == 0
        await finds(made, published, seconds=2)
        await becomes("the record says so", lambda: told(made).confirmed_ms > told(made).sent_ms)
        assert made.reporter.progress.current.confirmed_by == 2


async def test_a_set_that_is_not_found_is_sent_again_with_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, least_ms=PARAMETERS.republish_min_ms) as made:
        for sent in range(1, HURRIED_SETS + 1):
            await sends(made, sent)
            made.now += HURRIED_SECONDS
        for retry in range(3):
            await finds(made, None, seconds=None, later_ms=GRACE_MS + 1)
            pause = min(LEAST_SECONDS * 2**retry, OLD_SECONDS)
            shown = made.publisher.shown()
            assert shown is not None
            assert shown["next"]["why"] == "the last set was not found"
            assert shown["progress"]["retries"] == retry
            assert "server 2 does not find the set" in shown["progress"]["unconfirmed"]
            assert made.publisher.machine.last_set is not None
            await made.elapses(made.publisher.machine.last_set.at + pause - 1 - made.now)
            assert len(made.bridge.sent) == HURRIED_SETS + retry
            made.now += 1
            await sends(made, HURRIED_SETS + retry + 1)
        await finds(made, None, seconds=3)
        shown = made.publisher.shown()
        assert shown is not None
        assert (shown["progress"]["word"], shown["progress"]["retries"]) == ("found", 0)
        assert shown["next"]["why"] == "a set must not grow old"


async def test_a_dry_run_tells_the_router_nothing_and_the_farm_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, dry_run=True) as made:
        await becomes("a set that would be published", lambda: made.publisher.lease_set is not None)
        first = made.publisher.lease_set
        assert first is not None
        assert [entry.hash for entry in first.entries] == [leaf(1).hash]
        assert MetaLeaseSet.parse(first.data) == first
        made.bridge.leaf = 2
        await made.elapses(LEAST_SECONDS)
        await becomes("another one", lambda: made.publisher.lease_set is not first)
        shown = made.publisher.shown()
        assert shown is not None
        assert (shown["dry_run"], shown["sent"], shown["progress"]) == (True, 0, None)
        assert not told(made).publishing
        assert told(made).last_published_ms == made.view.state.last_published_ms == 0
        made.bridge.errors["status"] = DOWN
        await becomes("it ends", lambda: made.publisher.lease_set is None)
        assert {"publish", "stop"} & set(made.bridge.calls) == set()


async def test_who_stood_still_sends_nothing_before_it_has_committed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The announcement was committed, and the answer waited during the sleep: another server may publish now."""
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        assert made.bridge.holds is not None
        real, awake = made.driver.post, asyncio.Event()
        asleep: list[int] = []

        async def sleeps(values: list[bytes], *, seconds: float) -> int:
            if asleep:
                await awake.wait()  # nothing is committed anew before the test says so
            index = await real(values, seconds=seconds)
            if not asleep and b'"publishing":true' in values[0]:
                asleep.append(index)
                made.now += LEASE_SECONDS + 1
                assert not made.bridge.wanted(), "nor does the bridge give again what it has"
            return index

        monkeypatch.setattr(made.driver, "post", sleeps)
        made.now += HURRIED_SECONDS
        await becomes("it slept", lambda: asleep != [])
        looked = made.polled
        await becomes("it has seen its commit", lambda: made.polled > looked + 3)
        assert made.view.applied >= asleep[0]
        assert len(made.bridge.sent) == 1
        awake.set()
        await becomes("committed anew, and sent", lambda: len(made.bridge.sent) == 2)
        assert made.bridge.wanted()


async def test_new_keys_of_the_same_master_are_published_by_at_once_and_in_a_session_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = DestinationKeys.generate()
    now = int(time.time())
    old, new = (PublishingKeys.delegate(master, now + days * 86_400, now - days) for days in (30, 60))
    async with publishing_server(tmp_path, monkeypatch, keys=old) as made:
        await sends(made, 1)
        assert "stop" not in made.bridge.calls
        made.bridge.errors["stop"] = DOWN
        made.keys.keys = new
        await becomes("it says so", lambda: made.publisher.trouble == str(DOWN))
        await made.polls()
        assert len(made.bridge.sent) == 1, "not in the session of the old ones"
        made.bridge.calls.clear()
        del made.bridge.errors["stop"]
        await sends(made, 2)
        assert [lease_set.offline for lease_set in made.bridge.sent] == [old.keys.offline, new.keys.offline]
        assert [call for call in made.bridge.calls if call in {"publish", "stop"}] == ["stop", "publish"]
        first, second = made.bridge.publications
        assert second.signed_session == new.signed_session(Purpose.META) != first.signed_session
