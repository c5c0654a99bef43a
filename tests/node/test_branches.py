"""Sets below the first one, when there are more leaves than one has room for: what is given to the router, and when."""

from pathlib import Path

import pytest

from gf_i2p.farm.publisher import Branch, Choice, Entry
from gf_i2p.netdb.keys import DestinationKeys
from gf_i2p.netdb.meta_lease_set import LeaseType
from gf_i2p.node.branch_keys import NoBranchKeysError, derive
from gf_i2p.node.cadence import HURRIED_SECONDS
from integration.localfarm import becomes
from tests.netdb.strategies import KEYS
from tests.node.office import Office, office


def many(made: Office, monkeypatch: pytest.MonkeyPatch, *counts: int) -> None:
    """Have the log name so many leaves in each branch."""
    branches = tuple(
        Branch(number, tuple(Entry(bytes([number + 1, each]) * 16, 3, 7 + each, 1) for each in range(count)))
        for number, count in enumerate(counts)
        if count
    )
    monkeypatch.setattr(type(made.view), "choice", Choice(1, {}, mode="meta", branches=branches))


async def test_branches_are_published_before_the_set_that_leads_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(tmp_path, monkeypatch) as made:
        await becomes("a set is sent", lambda: len(made.bridge.sent) == 1)
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


async def test_who_has_no_keys_for_branches_says_so_and_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(tmp_path, monkeypatch, publishes=False) as made:
        await made.reported("ready", lambda record: record.leaves != ())

        def none(number: int) -> DestinationKeys:
            raise NoBranchKeysError(f"no keys for {number}")

        made.publisher._branches._keys = none
        many(made, monkeypatch, 16, 1)
        await made.publisher._step()
        assert made.publisher.trouble == "no keys for 0"
        assert made.bridge.sent == []
