"""PublishMetaLS with plain entries, which the endpoint signs: bridges/serving/bridge_server.py."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bridges.errors import RouterRefusedError
from bridges.i2pcontrol.extension import Method, PublicationState
from bridges.router_protocol import Publication
from bridges.serving.entry_signer import AnotherPublishesError
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.meta_lease_set import MetaLease, MetaLeaseSet
from gf_i2p.netdb.session_config import session_config
from tests.bridges.serving.harness import MASTER, about, published, serving
from tests.netdb.strategies import KEYS, NOW
from tests.transport.harness import soon, until

ENTRIES = [
    {"Hash": to_base64(bytes([leaf]) * 32), "Type": kind, "Cost": leaf, "Expires": NOW + 3600}
    for leaf, kind in ((1, 3), (2, 7))
]


class Signer:
    """Signs with `KEYS` at once, and counts the sets from `NOW` on."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, Sequence[MetaLease], int | None]] = []
        self.error: Exception | None = None
        self.may = asyncio.Event()
        """Set: the signer signs. Clear: the signer waits."""
        self.may.set()

    async def sign(self, master: bytes, entries: Sequence[MetaLease], newest: int | None) -> Publication:
        self.asked.append((master, entries, newest))
        if self.error is not None:
            raise self.error
        if not self.may.is_set():
            await self.may.wait()
        made = MetaLeaseSet.build(KEYS, published=NOW + len(self.asked), entries=entries)
        return Publication(made, session_config(KEYS, NOW * 1000))


def plain(**more: Any) -> dict[str, Any]:
    return {**about(), "Entries": ENTRIES, **more}


async def test_the_endpoint_signs_and_publishes() -> None:
    signer = Signer()
    async with serving(signer=signer) as served:
        sent = {"State": "sent", "Reason": None, "Published": NOW + 1, "Expires": NOW + 3600}
        assert (await served.call(Method.PUBLISH, **plain()))["result"] == sent
        assert (await served.call(Method.PUBLICATION, **about()))["result"] == sent
        assert (await served.call(Method.PUBLISH, **plain()))["result"]["Published"] == NOW + 2
        given = [each.lease_set for each in served.bridge.published]
        assert [lease.hash for lease in given[0].entries] == [bytes([1]) * 32, bytes([2]) * 32]
        assert [(lease.type, lease.cost, lease.end) for lease in given[1].entries] == [
            (3, 1, NOW + 3600),
            (7, 2, NOW + 3600),
        ]
        assert [(master, newest) for master, _, newest in signer.asked] == [(MASTER, None), (MASTER, NOW + 1)]


async def test_the_signer_hears_of_sets_that_the_caller_has_signed() -> None:
    signer = Signer()
    async with serving(signer=signer) as served:
        await served.call(Method.PUBLISH, **published(NOW))
        await served.call(Method.PUBLISH, **plain())
    assert signer.asked[0][2] == NOW


async def test_the_session_ends_when_a_node_publishes() -> None:
    signer = Signer()
    async with serving(signer=signer) as served:
        await served.call(Method.PUBLISH, **plain())
        signer.error = RouterRefusedError("the keys are those of another master")
        assert (await served.call(Method.PUBLISH, **plain()))["error"]["code"] == -32010
        assert (await served.call(Method.PUBLICATION, **about()))["result"]["State"] == "sent"
        signer.error = AnotherPublishesError("the node beside it runs in mode 'meta'")
        assert (await served.call(Method.PUBLISH, **plain()))["error"]["code"] == -32010
        assert (await served.call(Method.PUBLICATION, **about()))["result"]["State"] == "idle"
        assert served.bridge.stopped == [MASTER]


async def test_the_operator_must_allow_it() -> None:
    async with serving() as served:
        error = (await served.call(Method.PUBLISH, **plain()))["error"]
        assert error["code"] == -32010
        assert "ask the operator for sign_entries = true in [bridge]" in error["message"]
        assert served.bridge.published == []
        assert (await served.call(Method.PUBLICATION, **about()))["result"]["State"] == "idle"


async def test_a_signer_that_refuses() -> None:
    signer = Signer()
    async with serving(signer=signer) as served:
        signer.error = RouterRefusedError("no keys")
        assert (await served.call(Method.PUBLISH, **plain()))["error"] == {"code": -32010, "message": "no keys"}
        assert (await served.call(Method.PUBLICATION, **about()))["result"]["State"] == "idle"


@pytest.mark.parametrize(
    "wrong",
    [
        {"Entries": None},
        {"Entries": ENTRIES * 9},
        {"Entries": [1] * 5000},
        {"Entries": [{**ENTRIES[0], "Cost": 256}]},
        {"Entries": [{**ENTRIES[0], "Expires": True}]},
        {"Entries": [ENTRIES[0], ENTRIES[0]]},
        {"Entries": [{**ENTRIES[0], "Hash": to_base64(MASTER)}]},
        {"Entries": [{**ENTRIES[0], "Expires": NOW}]},
        {"Entries": [{**ENTRIES[0], "Expires": NOW + 65_537}]},
        {"LeaseSet": published()["LeaseSet"]},
        {"MasterHash": None},
        {"Timeout": -1},
        {"Another": 1},
    ],
)
async def test_wrong_parameters_publish_nothing(wrong: dict[str, Any]) -> None:
    async with serving(signer=Signer()) as served:
        answer = await served.call(Method.PUBLISH, **plain(**wrong))
        assert answer["error"]["code"] == -32602
        assert answer["error"]["message"].startswith((f"{next(iter(wrong))}: ", f"'{next(iter(wrong))}': "))
        assert served.bridge.published == []


async def test_nothing_is_signed_while_a_set_is_on_its_way() -> None:
    """A caller that calls again and again uses up no version."""
    signer = Signer()
    async with serving(signer=signer) as served:
        served.bridge.go_on.clear()
        await served.call(Method.PUBLICATION, **about())
        first = asyncio.create_task(served.call(Method.PUBLISH, **plain()))
        await until(lambda: served.server.publications.state(MASTER).state == "opening")
        assert await served.code(Method.PUBLISH, **plain()) == -32014
        assert len(signer.asked) == 1
        served.bridge.go_on.set()
        assert (await soon(first))["result"]["State"] == "sent"


async def test_the_time_limit_counts_the_signing() -> None:
    signer = Signer()
    async with serving(signer=signer) as served:
        signer.may.clear()
        assert await served.code(Method.PUBLISH, **plain(Timeout=0.05)) == -32013
        assert served.bridge.published == []


async def test_a_call_without_patience_publishes_all_the_same() -> None:
    async with serving(signer=Signer()) as served:
        served.bridge.go_on.clear()
        assert (await served.call(Method.PUBLISH, **plain(Timeout=0)))["result"]["State"] == "opening"
        served.bridge.go_on.set()
        await until(lambda: served.server.publications.state(MASTER).state == "sent")


async def test_the_sending_gets_the_time_that_the_signing_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, took = asyncio.get_running_loop(), 0.0

    class Slow(Signer):
        async def sign(self, master: bytes, entries: Sequence[MetaLease], newest: int | None) -> Publication:
            nonlocal took
            began = loop.time()
            await until(lambda: loop.time() > began)
            took = loop.time() - began
            return await super().sign(master, entries, newest)

    async with serving(signer=Slow()) as served:
        left: list[float] = []
        publish = served.server.publications.publish

        async def noted(publication: Publication, seconds: float) -> PublicationState:
            left.append(seconds)
            return await publish(publication, seconds)

        monkeypatch.setattr(served.server.publications, "publish", noted)
        assert (await served.call(Method.PUBLISH, **plain(Timeout=60)))["result"]["State"] == "sent"
        assert 0 < left[0] <= 60 - took < 60


async def test_the_time_limit_of_a_call_covers_the_end_of_a_publication(monkeypatch: pytest.MonkeyPatch) -> None:
    signer = Signer()
    signer.error = AnotherPublishesError("the node beside it runs in mode 'meta'")
    go_on = asyncio.Event()
    async with serving(signer=signer) as served:
        stop = served.bridge.stop_publishing_meta_lease_set

        async def slow(master: bytes) -> None:
            await go_on.wait()
            await stop(master)

        monkeypatch.setattr(served.bridge, "stop_publishing_meta_lease_set", slow)
        assert await served.code(Method.PUBLISH, **plain(Timeout=0.05)) == -32013
        go_on.set()
        await until(lambda: served.bridge.stopped == [MASTER])
