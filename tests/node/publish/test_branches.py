"""Sets below the first one: the sets for the router, their order, and the case without keys."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bridges.errors import RouterUnreachableError
from gf_i2p.farm.choice.publisher import Branch, Choice, SetEntry
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing.cadence import HURRIED_SECONDS, HURRIED_SETS
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.publish.branch_keys import NoBranchKeysError, derive
from gf_i2p.node.publish.branches import AT_ONCE
from integration.harness.local_farm import becomes
from tests.netdb.strategies import KEYS
from tests.node.publish.single_server import PublishingServer, publishing_server, sends

LEAST_SECONDS = Parameters().republish_min_ms / 1000
OFF = "off"


def many(made: PublishingServer, monkeypatch: pytest.MonkeyPatch, *counts: int) -> None:
    """Have the log list this many leaves in each branch."""
    branches = tuple(
        Branch(number, tuple(SetEntry(bytes([number + 1, each]) * 16, 3, 7 + each, 1) for each in range(count)))
        for number, count in enumerate(counts)
        if count
    )
    monkeypatch.setattr(type(made.view), "choice", Choice(1, {}, mode="meta", branches=branches))


async def test_branches_are_published_before_the_set_that_leads_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        many(made, monkeypatch, 16, 4)
        made.now += HURRIED_SECONDS
        await becomes("all are sent", lambda: len(made.bridge.sent) == 4)
        *below, top = made.bridge.sent[1:]
        assert [each.destination for each in below] == [derive(KEYS, number).destination for number in (0, 1)]
        assert [len(each.entries) for each in below] == [16, 4]
        assert [(entry.hash, entry.type, entry.cost) for entry in top.entries] == [
            (each.destination.hash, LeaseType.META, 7) for each in below
        ]
        assert {each.published for each in below} == {top.published}
        shown = made.publisher.shown()
        assert shown is not None
        assert shown["branches"] == 2
        many(made, monkeypatch, 16, 5)
        made.now += HURRIED_SECONDS
        await becomes("another leaf in a branch is another version", lambda: len(made.bridge.sent) == 7)
        assert [len(each.entries) for each in made.bridge.sent[4:]] == [16, 5, 2]
        many(made, monkeypatch, 16, 0)
        made.now += HURRIED_SECONDS
        await becomes("one branch is left", lambda: len(made.bridge.sent) == 9)
        assert made.bridge.calls.count("stop") == 1
        monkeypatch.setattr(type(made.view), "choice", Choice(2, {}))
        await becomes("all are stopped", lambda: made.bridge.calls.count("stop") == 3)


async def test_a_new_branch_is_hurried_as_a_new_session_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        many(made, monkeypatch, 16)
        await sends(made, 1 + 1)
        for number in range(2, HURRIED_SETS + 1):
            made.now += HURRIED_SECONDS
            await sends(made, 2 * number)
        many(made, monkeypatch, 16, 1)
        made.now += HURRIED_SECONDS
        await becomes("two branches and the set above", lambda: len(made.bridge.sent) == 2 * HURRIED_SETS + 3)
        for number in range(2, HURRIED_SETS + 1):
            made.now += HURRIED_SECONDS
            await becomes("again", lambda number=number: len(made.bridge.sent) == 2 * HURRIED_SETS + 3 * number)  # type: ignore[misc]
        assert made.publisher.machine.last_set is not None
        assert made.publisher.machine.last_set.sent_count == HURRIED_SETS
        many(made, monkeypatch, 16, 2)
        await made.elapses(LEAST_SECONDS)
        await becomes("a leaf more", lambda: len(made.bridge.sent) == 2 * HURRIED_SETS + 3 * (HURRIED_SETS + 1))
        assert made.publisher.machine.last_set.sent_count == HURRIED_SETS + 1, "no branch is new"


async def test_branches_are_opened_side_by_side_but_not_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.ready()
        many(made, monkeypatch, *([1] * 16))
        given = made.bridge.hang("publish")
        step = asyncio.create_task(made.tries())
        await becomes("four are being opened", lambda: made.bridge.under_way == ["publish"] * AT_ONCE)
        given.set()
        await step
        assert len(made.bridge.sent) == 17
        top = made.bridge.sent[-1]
        assert {entry.hash for entry in top.entries} == {each.destination.hash for each in made.bridge.sent[:-1]}


async def test_one_branch_that_is_refused_keeps_back_the_set_above_and_no_other_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch, publishes=False) as made:
        await made.ready()
        many(made, monkeypatch, 1, 1, 1)
        refused = derive(KEYS, 0).destination

        def refuse(lease_set: MetaLeaseSet) -> None:
            if lease_set.destination == refused:
                raise RouterUnreachableError("no tunnels")

        made.bridge.on_publish = refuse
        await made.tries()
        assert made.publisher.trouble == "no tunnels"
        assert [each.destination for each in made.bridge.sent] == [derive(KEYS, n).destination for n in (1, 2)]
        made.bridge.on_publish = None
        await made.tries()
        assert made.publisher.trouble is None
        assert len(made.bridge.sent) == 2 + 4


async def test_who_has_no_keys_for_branches_says_so_to_the_farm_whoever_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with publishing_server(tmp_path, monkeypatch) as made:
        await sends(made, 1)
        keys = made.publisher._branches._keys

        def none(number: int) -> DestinationKeys:
            raise NoBranchKeysError(f"no keys for {number}")

        made.publisher._branches._keys = none
        many(made, monkeypatch, 16, 1)
        record = await made.reported(
            "it cannot", lambda record: record.meta is not None and record.meta.publish_config == OFF
        )
        assert made.publisher.trouble == "no keys for 0"
        await made.reported(
            "it publishes no more", lambda record: record.meta is not None and not record.meta.publishing
        )
        assert len(made.bridge.sent) == 1
        monkeypatch.setattr(type(made.view), "choice", replace(made.view.choice, publisher=2))
        await made.polls()
        assert record.meta is not None
        assert made.record is not None
        assert made.record.meta is not None
        assert made.record.meta.publish_config == OFF, "or it would be chosen again"
        made.publisher._branches._keys = keys
        await made.reported("it can", lambda record: record.meta is not None and record.meta.publish_config == "auto")
        assert made.publisher.trouble is None
