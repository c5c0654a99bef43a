"""Publishing through an endpoint with the extension, and the choice of that endpoint: the publishers of bridges/."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import pytest_asyncio

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol import extension_publisher
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.extension import CallParameters, Method, PublicationPhase, decode_publication_state
from bridges.i2pcontrol.extension_publisher import ExtensionPublisher
from bridges.i2pcontrol.router_status import I2pControl
from bridges.i2pcontrol.strict_json import Json
from bridges.publisher_choice import PublisherChoice
from tests.bridges.fake_bridge import FakeBridge
from tests.bridges.i2cp.test_publisher import publication
from tests.bridges.serving.harness import MASTER, PASSWORD, Served, serving
from tests.bridges.simulated_i2pcontrol import SimulatedRouter, error, result
from tests.netdb.strategies import DELEGATED, NOW
from tests.transport.harness import PATIENCE, Identity, soon, until


@asynccontextmanager
async def asking(url: str, identity: Identity, password: str = PASSWORD) -> AsyncIterator[I2pControl]:
    control = I2pControl(I2pControlAccess(url, password, fingerprint=identity.fingerprint))
    yield control
    await control.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension_publisher, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(extension_publisher, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(extension_publisher, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(extension_publisher, "CLOSE_SECONDS", PATIENCE)


@pytest_asyncio.fixture
async def served(tls: ssl.SSLContext) -> AsyncIterator[Served]:
    async with serving(tls=tls) as running:
        yield running


@pytest_asyncio.fixture
async def control(served: Served, identity: Identity) -> AsyncIterator[I2pControl]:
    async with asking(served.url, identity) as found:
        yield found


@pytest_asyncio.fixture
async def publisher(control: I2pControl) -> AsyncIterator[ExtensionPublisher]:
    made = ExtensionPublisher(control)
    yield made
    await soon(made.close())


@pytest_asyncio.fixture
async def choice(control: I2pControl) -> AsyncIterator[PublisherChoice]:
    made = PublisherChoice(control, FakeBridge())
    yield made
    await soon(made.close())


async def restart(served: Served, *, as_new: bool = True) -> None:
    """Restart the endpoint; `as_new`: like a new process, without publications and tokens."""
    if as_new:
        served.server.publications._slots.clear()
        served.server._access._tokens.clear()
    assert await served.server.start("127.0.0.1", served.port) == served.port


# The extension --------------------------------------------------------------------------------------------------------


async def test_an_endpoint_that_has_it(publisher: ExtensionPublisher) -> None:
    assert await publisher.available()


async def test_a_router_that_has_it_not(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with asking(i2pd.url, identity, "recorded") as control:
        i2pd.order(error(-32601), Method.PUBLISH)
        assert not await ExtensionPublisher(control).available()
        i2pd.order(result(), Method.PUBLISH)
        assert not await ExtensionPublisher(control).available(), "whoever takes no parameters is somebody else"
        i2pd.order(error(-32603), Method.PUBLISH)
        with pytest.raises(RouterRefusedError):
            await ExtensionPublisher(control).available()


async def test_both_session_configs_arrive(publisher: ExtensionPublisher, served: Served) -> None:
    both = replace(publication(keys=DELEGATED), signed_session=publication().session)
    assert both.session != both.signed_session
    await publisher.publish_meta_lease_set(both)
    assert served.bridge.published == [both]


async def test_publish_renew_stop(publisher: ExtensionPublisher, served: Served) -> None:
    assert publisher.publication_trouble(MASTER) == "nothing is published"
    await publisher.publish_meta_lease_set(publication())
    assert publisher.publication_trouble(MASTER) is None
    await publisher.publish_meta_lease_set(publication(NOW + 1))
    assert served.bridge.published == [publication(), publication(NOW + 1)]
    await publisher.stop_publishing_meta_lease_set(MASTER)
    assert publisher.publication_trouble(MASTER) == "nothing is published"
    assert served.bridge.stopped == [MASTER]
    await publisher.stop_publishing_meta_lease_set(MASTER)
    assert served.bridge.stopped == [MASTER]


async def test_it_does_not_take_the_set_before_for_the_fresh_one(
    publisher: ExtensionPublisher, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the fresh set is on its way, the endpoint says of the set before that it is sent."""
    monkeypatch.setattr(extension_publisher, "WATCH_SECONDS", PATIENCE)
    await publisher.publish_meta_lease_set(publication())
    answer, asked = served.server._methods[Method.PUBLICATION], asyncio.Event()

    def asked_again(params: CallParameters) -> Awaitable[dict[str, Json]]:
        asked.set()
        return answer(params)

    served.server._methods[Method.PUBLICATION] = asked_again
    served.bridge.go_on.clear()
    call = asyncio.create_task(publisher.publish_meta_lease_set(publication(NOW + 1)))
    await until(lambda: asked.is_set() or call.done())
    assert not call.done()
    served.bridge.go_on.set()
    await soon(call)
    assert served.bridge.published == [publication(), publication(NOW + 1)]


async def test_it_waits_while_tunnels_are_built(publisher: ExtensionPublisher, served: Served) -> None:
    served.bridge.go_on.clear()
    call = asyncio.create_task(publisher.publish_meta_lease_set(publication()))
    await until(lambda: served.server.publications.state(MASTER).state is PublicationPhase.OPENING)
    await asyncio.wait([call], timeout=0.2)
    assert not call.done()
    served.bridge.go_on.set()
    await soon(call)
    assert publisher.publication_trouble(MASTER) is None


async def test_it_does_not_wait_for_ever(
    publisher: ExtensionPublisher, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension_publisher, "OPENING_SECONDS", 0.1)
    served.bridge.go_on.clear()
    with pytest.raises(RouterUnreachableError, match=r"has not given the set to the router within 0\.1 s"):
        await soon(publisher.publish_meta_lease_set(publication()))


@pytest.mark.parametrize("late", [False, True])
async def test_a_set_that_the_router_refuses(publisher: ExtensionPublisher, served: Served, *, late: bool) -> None:
    served.bridge.error = RouterRefusedError("another client holds it")
    if late:
        served.bridge.go_on.clear()
    call = asyncio.create_task(publisher.publish_meta_lease_set(publication()))
    if late:
        await until(lambda: served.server.publications.state(MASTER).state is PublicationPhase.OPENING)
        await asyncio.wait([call], timeout=0.1)
        served.bridge.go_on.set()
    with pytest.raises(RouterError, match="another client holds it"):
        await soon(call)
    assert "another client holds it" in (publisher.publication_trouble(MASTER) or "")


async def test_stopping_ends_a_publish_that_waits(publisher: ExtensionPublisher, served: Served) -> None:
    served.bridge.go_on.clear()
    call = asyncio.create_task(publisher.publish_meta_lease_set(publication()))
    await until(lambda: served.server.publications.state(MASTER).state is PublicationPhase.OPENING)
    await publisher.stop_publishing_meta_lease_set(MASTER)
    with pytest.raises(RouterError, match="stopped meanwhile"):
        await soon(call)
    assert publisher.publication_trouble(MASTER) == "nothing is published"


async def test_what_is_lost_shows(publisher: ExtensionPublisher, served: Served) -> None:
    await publisher.publish_meta_lease_set(publication())
    served.bridge.troubles[MASTER] = "the router stopped"
    await until(lambda: "the router stopped" in (publisher.publication_trouble(MASTER) or ""))
    served.bridge.troubles.clear()
    await until(lambda: publisher.publication_trouble(MASTER) is None)


async def test_an_endpoint_that_is_restarted_has_lost_it(publisher: ExtensionPublisher, served: Served) -> None:
    await publisher.publish_meta_lease_set(publication())
    await served.server.stop()
    await until(lambda: publisher._misses)
    assert publisher.publication_trouble(MASTER) is None, "that may pass"
    await until(lambda: "does not answer" in (publisher.publication_trouble(MASTER) or ""))
    await restart(served)
    await until(lambda: "the endpoint stopped meanwhile, or restarted" in (publisher.publication_trouble(MASTER) or ""))
    await publisher.publish_meta_lease_set(publication(NOW + 1))
    assert publisher.publication_trouble(MASTER) is None


async def test_closing_stops_what_is_published(publisher: ExtensionPublisher, served: Served) -> None:
    await publisher.publish_meta_lease_set(publication())
    await publisher.close()
    assert served.bridge.stopped == [MASTER]


@pytest.mark.parametrize("state", [None, "sending", 1, ["sent"], {}])
def test_a_state_that_nobody_knows(state: object) -> None:
    with pytest.raises(RouterError, match="which is an unknown state"):
        decode_publication_state({"State": state})  # type: ignore[dict-item]


def test_a_state_with_odd_members() -> None:
    odd = decode_publication_state({"State": "lost", "Reason": "x\x1b" * 2000, "Published": -1, "Expires": "7", "X": 1})
    assert (odd.state, odd.published, odd.expires) == (PublicationPhase.LOST, None, None)
    assert odd.reason is not None
    assert len(odd.reason) < 6000
    assert odd.reason.isprintable()


# The choice -----------------------------------------------------------------------------------------------------------


def i2cp(choice: PublisherChoice) -> FakeBridge:
    fake = choice._i2cp
    assert isinstance(fake, FakeBridge)
    return fake


async def test_the_extension_comes_first(choice: PublisherChoice, served: Served) -> None:
    await choice.publish_meta_lease_set(publication())
    assert choice.publication_trouble(MASTER) is None
    assert len(served.bridge.published) == 1
    assert i2cp(choice).published == []
    await choice.stop_publishing_meta_lease_set(MASTER)
    assert served.bridge.stopped == [MASTER]
    assert i2cp(choice).stopped == []


async def test_a_router_without_it_gets_i2cp_and_is_asked_once(i2pd: SimulatedRouter, identity: Identity) -> None:
    async with asking(i2pd.url, identity, "recorded") as control:
        choice = PublisherChoice(control, FakeBridge())
        i2pd.order(error(-32601), Method.PUBLISH)
        await choice.publish_meta_lease_set(publication())
        await choice.publish_meta_lease_set(publication(NOW + 1))
        assert len(i2cp(choice).published) == 2
        assert i2pd.methods == ["Authenticate", Method.PUBLISH]
        i2cp(choice).troubles[MASTER] = "gone"
        assert choice.publication_trouble(MASTER) == "gone"
        # After an outage another router may answer.
        await i2pd.stop()
        with pytest.raises(RouterUnreachableError):
            await control.call("Echo", {"Echo": "gf"})
        await i2pd.start()
        i2pd.order(error(-32601), Method.PUBLISH)
        await choice.publish_meta_lease_set(publication(NOW + 2))
        await choice.publish_meta_lease_set(publication(NOW + 3))
        assert i2pd.methods.count(Method.PUBLISH) == 2
        assert i2cp(choice).stopped == []
        await choice.close()
        assert i2cp(choice).closed


async def test_an_endpoint_that_is_away_leaves_i2cp_until_it_is_back(
    choice: PublisherChoice, served: Served, control: I2pControl
) -> None:
    await choice.publish_meta_lease_set(publication())
    await served.server.stop()
    with pytest.raises(RouterUnreachableError):
        await choice.publish_meta_lease_set(publication(NOW + 1))
    await choice.publish_meta_lease_set(publication(NOW + 2))
    assert [each.lease_set.published for each in i2cp(choice).published] == [NOW + 2]
    assert choice.publication_trouble(MASTER) is None
    await restart(served)
    await choice.publish_meta_lease_set(publication(NOW + 3))
    assert served.bridge.published[-1].lease_set.published == NOW + 3
    assert i2cp(choice).stopped == [MASTER], "a router lets one client have a destination"


async def test_when_nothing_works_the_error_names_both(served: Served, identity: Identity) -> None:
    async with asking(served.url, identity, "a wrong password") as control:
        fake = FakeBridge()
        choice = PublisherChoice(control, fake)
        fake.error = RouterUnreachableError("I2CP does not answer")
        with pytest.raises(RouterUnreachableError, match=r"^I2CP does not answer\. .* refuses the password"):
            await choice.publish_meta_lease_set(publication())
        fake.error = None
        await choice.publish_meta_lease_set(publication())
        await choice.close()


async def test_an_endpoint_that_has_become_another_is_noticed(
    choice: PublisherChoice, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await choice.publish_meta_lease_set(publication())
    monkeypatch.delitem(served.server._methods, Method.PUBLISH)
    monkeypatch.delitem(served.server._methods, Method.STOP)
    with pytest.raises(RouterRefusedError, match="no such method"):
        await choice.publish_meta_lease_set(publication(NOW + 1))
    await choice.publish_meta_lease_set(publication(NOW + 2))
    assert [each.lease_set.published for each in i2cp(choice).published] == [NOW + 2]
