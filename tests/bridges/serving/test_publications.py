"""Publications that nobody renews, and too many of them: bridges/serving/publications.py."""

import pytest

from bridges.errors import RouterRefusedError
from bridges.i2pcontrol.extension import PublicationPhase
from bridges.serving import publications
from bridges.serving.jsonrpc_server import CallError
from bridges.serving.publications import Publications
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.bridges.fake_bridge import FakeBridge
from tests.bridges.i2cp.test_publisher import publication
from tests.bridges.serving.harness import MASTER
from tests.netdb.strategies import NOW
from tests.transport.harness import until


async def test_what_is_not_renewed_is_ended() -> None:
    bridge = FakeBridge()
    served = Publications(bridge, renew_seconds=0.1)
    await served.publish(publication(), 10)
    await until(lambda: bridge.stopped == [MASTER])
    state = served.state(MASTER)
    assert (state.state, state.reason) == (
        PublicationPhase.LOST,
        "the publication was not renewed for 0 s, and has ended",
    )
    assert (await served.publish(publication(NOW + 1), 10)).state is PublicationPhase.SENT
    await served.close()


async def test_there_are_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "MAX_MASTERS", 2)
    bridge = FakeBridge()
    served = Publications(bridge)
    keys = [DestinationKeys.generate() for _ in range(4)]
    for each in keys[:2]:
        await served.publish(publication(keys=each), 10)
    with pytest.raises(CallError, match="2 masters have publications here"):
        await served.publish(publication(keys=keys[2]), 10)
    await served.publish(publication(NOW + 1, keys[0]), 10)
    bridge.troubles[keys[1].destination.hash] = "lost"
    await served.publish(publication(keys=keys[2]), 10)
    assert served.state(keys[1].destination.hash).state is PublicationPhase.IDLE, "a lost one makes room"
    await served.stop(keys[0].destination.hash)
    await served.publish(publication(keys=keys[3]), 10)
    await served.close()


async def test_a_renewal_that_fails_is_lost() -> None:
    bridge = FakeBridge()
    served = Publications(bridge)
    await served.publish(publication(), 10)
    bridge.error = RouterRefusedError("too old")
    with pytest.raises(RouterRefusedError):
        await served.publish(publication(NOW + 1), 10)
    state = served.state(MASTER)
    assert (state.state, state.reason, state.published) == (PublicationPhase.LOST, "too old", NOW)
    await served.close()


async def test_closing_gives_up_what_is_being_given() -> None:
    bridge = FakeBridge()
    bridge.go_on.clear()
    served = Publications(bridge)
    assert (await served.publish(publication(), 0)).state is PublicationPhase.OPENING
    await served.close()
    assert bridge.published == []
