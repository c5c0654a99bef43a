"""HostLookup, byte for byte as i2pd and Java I2P answered: bridges/i2cp/host_lookup.py and the fake router."""

import pytest

from bridges.i2cp.host_lookup import LOOKUP_SECONDS, find_destination
from bridges.i2cp.messages import Decoder, HostReply, host_lookup
from bridges.i2cp.settings import RouterKind
from tests.bridges.i2cp.fake_router import FakeRouter
from tests.bridges.i2cp.recorded_host_lookup import FOUND, KINDS, LIVING, NOT_FOUND, RecordedLookup
from tests.netdb.strategies import KEYS
from tests.transport.harness import soon

kinds = pytest.mark.parametrize("kind", KINDS)
recordings = pytest.mark.parametrize("recording", [FOUND, NOT_FOUND], ids=["found", "not found"])
Recordings = dict[RouterKind, RecordedLookup]


@kinds
@recordings
def test_the_request_is_the_recorded_one(kind: RouterKind, recording: Recordings) -> None:
    request = recording[kind].request
    assert host_lookup(1, request[-32:], milliseconds=int(LOOKUP_SECONDS * 1000)) == request


@kinds
def test_the_recorded_answers_are_read(kind: RouterKind) -> None:
    decoder = Decoder()
    decoder.feed(FOUND[kind].reply + NOT_FOUND[kind].reply)
    assert decoder.next() == HostReply(1, 0, LIVING.data)
    assert decoder.next() == HostReply(1, 1, None)
    assert (decoder.next(), decoder.buffered) == (None, 0)


@kinds
@recordings
def test_an_answer_comes_within_the_limit(kind: RouterKind, recording: Recordings) -> None:
    assert recording[kind].seconds < LOOKUP_SECONDS


@kinds
async def test_the_fake_router_gives_the_recorded_answers(kind: RouterKind) -> None:
    async with FakeRouter(kind) as router:
        router.netdb[LIVING.hash] = LIVING
        router.netdb[KEYS.destination.hash] = KEYS.destination
        for destination in (LIVING, KEYS.destination):
            assert await soon(find_destination(router.settings(), destination.hash)) == destination.data
        assert await soon(find_destination(router.settings(), NOT_FOUND[kind].request[-32:])) is None
