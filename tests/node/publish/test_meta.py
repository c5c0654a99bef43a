"""The sets that a publisher gives to the router: announced first, and only while the farm wants the publisher."""

import asyncio
import time
from pathlib import Path

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing import announcement, meta
from gf_i2p.farm.publishing.cadence import HURRIED_SECONDS, HURRIED_SETS, hurried_pause
from gf_i2p.farm.publishing.lease import LEASE_SECONDS
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.publish import meta as driving
from gf_i2p.node.publish.publishing_keys import HANDOVER_SECONDS, PublishingKeys
from gf_i2p.wire.errors import NotCommittedError
from integration.harness.local_farm import becomes
from tests.farm.strategies import leaf, record
from tests.netdb.strategies import KEYS
from tests.node.publish.single_server import PublishingServer, deaf, now_ms, publishing_server, sends
from tests.node.routers import DEFECT, DOWN

PARAMETERS = Parameters()
LEAST_SECONDS, OLD_SECONDS = PARAMETERS.republish_min_ms / 1000, PARAMETERS.republish_max_ms / 1000
OFF = "off"


# Given sets ---------------------------------------------------------------------------------------------------------


async def test_nothing_is_sent_before_its_announcement_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        announced = []

        def look(lease_set: MetaLeaseSet) -> None:
            log = made.driver.core.log
            committed = log.slice(1, made.driver.core.applicable, max_entries=10_000, max_bytes=1 << 30)
            announced.append(any(to_base64(lease_set.data).encode() in entry.value for entry in committed))
            assert made.view.state.last_published_ms == lease_set.published * 1000

        made.bridge.on_publish = look
        await sends(made, 1)
        assert announced == [True]
        assert made.publisher.lease_set == made.bridge.holds is not None
        assert [entry.hash for entry in made.bridge.sent[0].entries] == [leaf(1).hash]
        record = await made.reported("publishing", lambda record: record.meta is not None and record.meta.publishing)
        assert record.meta is not None
        assert record.meta.last_published_set == to_base64(made.bridge.sent[0].data)


async def test_a_set_whose_announcement_is_not_committed_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:

        async def refused(lease_set: MetaLeaseSet) -> int:
            raise NotCommittedError("no server leads")

        monkeypatch.setattr(made.reporter, "announce", refused)
        await becomes("it says so", lambda: made.publisher.trouble == "no server leads")
        await made.polls()
        assert made.bridge.sent == []


async def test_the_first_sets_are_hurried_and_then_all_is_calm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        for sent in range(2, HURRIED_SETS + 1):
            made.now += hurried_pause(sent - 1) - 1
            await made.polls()
            assert len(made.bridge.sent) == sent - 1
            made.now += 1
            await sends(made, sent)
        await made.elapses(OLD_SECONDS - 1)
        assert len(made.bridge.sent) == HURRIED_SETS
        made.now += 1
        await sends(made, HURRIED_SETS + 1)
        assert made.published == sorted(set(made.published)), "each later than the one before"
        assert made.publisher.trouble is None


async def test_other_leaves_make_another_set_but_not_sooner_than_i2pd_takes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        for sent in range(1, HURRIED_SETS + 1):
            await sends(made, sent)
            made.now += HURRIED_SECONDS
        made.now -= 1
        made.bridge.leaf = 2
        await made.reported("another leaf", lambda record: [one.hash for one in record.leaves] == [leaf(2).hash])
        await made.polls()
        assert len(made.bridge.sent) == HURRIED_SETS
        made.now += 1
        await sends(made, HURRIED_SETS + 1)
        assert [entry.hash for entry in made.bridge.sent[-1].entries] == [leaf(2).hash]


async def test_what_the_router_has_lost_is_published_anew_and_hurried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        for sent in range(1, HURRIED_SETS + 1):
            await sends(made, sent)
            made.now += HURRIED_SECONDS
        before = made.bridge.sent[-1]
        made.bridge.errors["publish"] = DOWN
        made.bridge.trouble = "the router has restarted"
        await becomes("tried, in vain", lambda: made.publisher.trouble == str(DOWN))
        del made.bridge.errors["publish"]
        await sends(made, HURRIED_SETS + 1)
        assert made.bridge.sent[-1].published > before.published
        assert made.publisher.trouble is None
        for sent in range(HURRIED_SETS + 2, 2 * HURRIED_SETS + 1):
            made.now += HURRIED_SECONDS
            await sends(made, sent)
        made.now += HURRIED_SECONDS
        await sends(made, 2 * HURRIED_SETS)


@pytest.mark.parametrize("error", [DOWN, DEFECT, TimeoutError()])
@pytest.mark.parametrize("call", ["publish", "trouble"])
async def test_whatever_the_bridge_raises_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: Exception
) -> None:
    monkeypatch.setattr("gf_i2p.node.farm_tasks._AGAIN_SECONDS", 0.01)
    async with publishing_server(tmp_path, monkeypatch) as made:
        made.bridge.errors[call] = error
        await becomes("it says so", lambda: made.publisher.trouble is not None)
        del made.bridge.errors[call]
        made.now += HURRIED_SECONDS
        count = len(made.bridge.sent)
        await becomes("sent all the same", lambda: len(made.bridge.sent) > count)
        await becomes("no trouble", lambda: made.publisher.trouble is None)


async def test_a_router_that_does_not_take_the_set_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "PUBLISH_SECONDS", 0.2)
    async with publishing_server(tmp_path, monkeypatch) as made:
        made.bridge.hang("publish")
        await becomes("it says so", lambda: "has not taken the set" in (made.publisher.trouble or ""))
        made.bridge.hung.pop("publish").set()
        await sends(made, 1)
        assert made.published != []


async def test_published_is_later_than_all_that_was_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.ready()
        ahead = now_ms() + 20_000
        await made.post(record(1, leaf(1), date=now_ms(), published=ahead))
        await made.tries()
        assert made.published[0] * 1000 > ahead - 1000
        assert made.published[0] == ahead // 1000 + 1


async def test_no_leaf_no_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        made.bridge.leaf_up = False
        await becomes("it says so", lambda: "no leaf is up" in (made.publisher.trouble or ""))
        assert made.bridge.calls.count("publish") == 0
        made.bridge.leaf_up = True
        await sends(made, 1)
        made.bridge.leaf = int.from_bytes(KEYS.destination.hash)
        await becomes("the master is no leaf", lambda: made.bridge.holds is None)
        made.bridge.leaf = 3
        await becomes("published again", lambda: made.bridge.holds is not None)


# Servers that stop --------------------------------------------------------------------------------------------------


async def stopped(made: PublishingServer) -> None:
    await becomes("the router forgets the set", lambda: made.bridge.calls.count("stop") > 0)
    await becomes("nothing is published", lambda: made.publisher.lease_set is None and made.bridge.holds is None)
    assert not made.reporter.publishing


async def test_who_cannot_commit_stops_within_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        await deaf(made, monkeypatch)
        committed_at = made.committed_at
        made.now = committed_at + LEASE_SECONDS
        looked = made.polled
        await becomes("it has looked", lambda: made.polled > looked + 2)
        assert made.bridge.holds is not None, "not before"
        made.now += 0.1
        await stopped(made)
        assert "no own record was committed for 90 s" in (made.publisher.trouble or "")
        monkeypatch.undo()


@pytest.mark.parametrize("phase", ["announcing", "waiting for the log", "sending", "opening"])
async def test_the_lease_ends_in_whatever_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    """Quorum is lost between announcing and sending: log and router may keep the server waiting for minutes."""
    async with publishing_server(tmp_path, monkeypatch) as made:
        for_ever = asyncio.Event()

        async def hangs(*_: object, **__: object) -> None:
            entered.append(phase)
            await for_ever.wait()

        entered: list[str] = []
        if phase == "opening":
            made.bridge.hang("publish")
            await becomes("it opens", lambda: made.bridge.under_way == ["publish"])
            await deaf(made, monkeypatch)
        else:
            await sends(made, 1)
            if phase == "announcing":
                monkeypatch.setattr(made.driver, "post", hangs)
            elif phase == "waiting for the log":
                monkeypatch.setattr(made.driver.core.log, "slice", lambda *_, **__: ())
            else:
                made.bridge.hang("publish")
            await made.passes(HURRIED_SECONDS)
            if phase == "sending":
                await becomes("it sends", lambda: made.bridge.under_way == ["publish"])
            elif phase == "announcing":  # the reporter posts, too
                await becomes("entered", lambda: len(entered) == 2)
            else:
                await becomes("committed", lambda: made.publisher.machine._index is not None)
                assert (made.publisher.machine._index or 0) > made.view.applied
            if phase != "announcing":
                await deaf(made, monkeypatch)
        made.now += LEASE_SECONDS + 1
        await stopped(made)
        assert made.bridge.under_way == []


async def test_the_lease_is_renewed_by_what_the_log_has_shown_us_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pause, a server's own record may be committed before the server has applied others' newer records."""
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        page = made.driver.core.log.slice

        def stuck(*_: object, **__: object) -> tuple[()]:
            return ()

        monkeypatch.setattr(made.driver.core.log, "slice", stuck)
        applied = made.view.applied
        for _ in range(3):
            made.now += LEASE_SECONDS / 2
            await becomes("committed, and not seen", lambda: made.committed_at == made.now)
        await stopped(made)
        assert made.view.applied == applied
        monkeypatch.setattr(made.driver.core.log, "slice", page)
        await becomes("published again", lambda: made.bridge.holds is not None)


async def test_a_set_is_not_sent_when_another_one_was_announced_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.ready()
        announce = made.reporter.announce

        async def overtaken(lease_set: MetaLeaseSet) -> int:
            await announce(lease_set)
            later = (lease_set.published + 5) * 1000
            return await made.driver.post([record(1, leaf(1), date=now_ms(), published=later).encode()], seconds=10)

        monkeypatch.setattr(made.reporter, "announce", overtaken)
        await made.tries()
        assert made.bridge.calls.count("publish") == 0
        assert made.publisher.lease_set is None
        monkeypatch.setattr(made.reporter, "announce", announce)
        await made.tries()
        assert made.bridge.calls.count("publish") == 1


async def test_a_set_is_not_sent_when_the_farm_chose_another_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.ready()
        announce = made.reporter.announce

        async def deposed(lease_set: MetaLeaseSet) -> int:
            index = await announce(lease_set)
            made.reporter.publish_config = OFF
            await made.reported("off", lambda record: record.meta is not None and record.meta.publish_config == OFF)
            return index

        monkeypatch.setattr(made.reporter, "announce", deposed)
        await made.tries()
        assert made.bridge.calls.count("publish") == 0


async def test_a_set_is_not_sent_when_the_farm_chose_another_while_the_branches_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The publisher asks once more, because an endpoint for publishing does not ask."""
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.ready()

        async def deposed(*args: object, **kwargs: object) -> None:
            made.reporter.publish_config = OFF
            made.reporter.changed()
            await made.reported("off", lambda record: record.meta is not None and record.meta.publish_config == OFF)

        monkeypatch.setattr(made.publisher._branches, "publish", deposed)
        await made.tries()
        assert made.bridge.calls.count("publish") == 0
        assert "the set was not given" in (made.publisher.trouble or "")


async def test_a_set_is_not_sent_when_one_of_its_leaves_was_excluded_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.ready()
        state, announce = made.view.state, made.reporter.announce
        state.configure((1, 2))
        state.apply(record(2, leaf(2), date=now_ms(), mode="meta").encode(), made.view.applied)

        async def excluded(lease_set: MetaLeaseSet) -> int:
            index = await announce(lease_set)
            state.apply(AdminEntry("farm", 1, "admin-a", "exclude", hash=leaf(2).hash).encode(), made.view.applied)
            return index

        monkeypatch.setattr(made.reporter, "announce", excluded)
        await made.tries()
        assert made.bridge.calls.count("publish") == 0
        monkeypatch.setattr(made.reporter, "announce", announce)
        await made.tries()
        assert [entry.hash for entry in made.bridge.sent[0].entries] == [leaf(1).hash]


async def test_a_set_that_the_farm_takes_for_one_of_the_future_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.ready()
        monkeypatch.setattr(announcement, "next_version", lambda state, now_ms: now_ms // 1000 + 300)
        monkeypatch.setattr(meta, "untimely", lambda published, situation: None)
        monkeypatch.setattr(MetaLeaseSet, "objection", lambda self, now: None)
        await made.tries()
        assert made.bridge.calls.count("publish") == 0
        assert "check this machine's clock" in (made.publisher.trouble or "")


async def test_who_is_not_chosen_any_more_has_the_router_forget_and_shows_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        made.bridge.trouble = "it was lost"
        made.bridge.errors["publish"] = DOWN
        await becomes("trouble", lambda: made.publisher.trouble is not None)
        made.bridge.errors["status"] = DOWN
        await stopped(made)
        assert made.publisher.trouble is None, "publishing is another one's business now"


@pytest.mark.parametrize("error", [DOWN, DEFECT])
async def test_a_router_that_cannot_be_told_to_stop_is_told_until_it_hears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        made.bridge.errors |= {"stop": error, "status": DOWN}
        await becomes("told several times", lambda: made.bridge.calls.count("stop") > 2)
        assert made.bridge.holds is not None
        del made.bridge.errors["stop"]
        await stopped(made)
        told = made.bridge.calls.count("stop")
        await made.polls()
        assert made.bridge.calls.count("stop") == told, "once is enough"


async def test_a_router_that_hangs_when_told_to_stop_keeps_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "STOP_SECONDS", 0.1)
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        made.bridge.hang("stop")
        made.bridge.errors["status"] = DOWN
        await becomes("told several times", lambda: made.bridge.calls.count("stop") > 1)
        del made.bridge.errors["status"]
        await sends(made, 2)


async def test_a_session_that_was_only_half_opened_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        made.bridge.errors["publish"] = DOWN
        await becomes("tried", lambda: made.bridge.calls.count("publish") > 0)
        made.bridge.errors["status"] = DOWN
        await stopped(made)


async def test_a_router_that_was_given_nothing_is_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        made.bridge.errors["status"] = DOWN
        await made.polls()
        assert "stop" not in made.bridge.calls


async def test_delegated_keys_that_have_expired_publish_nothing_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = DestinationKeys.generate()
    now = int(time.time())
    async with publishing_server(
        tmp_path, monkeypatch, keys=PublishingKeys.delegate(master, now + HANDOVER_SECONDS, now)
    ) as made:
        await becomes("it says so", lambda: "end of their life" in (made.publisher.trouble or ""))
        await made.reported(
            "no candidate", lambda record: record.meta is not None and record.meta.publish_config == OFF
        )
        assert made.bridge.sent == []
        made.keys.keys = PublishingKeys.delegate(master, now + HANDOVER_SECONDS + 900, now)
        await sends(made, 1)
        assert made.bridge.sent[0].expires_at == made.keys.keys.ends, "no entry outlives the key"
        assert made.publisher.trouble is None
        await made.reported("a candidate", lambda record: record.meta is not None and record.meta.publish_config != OFF)
